//! Composes processes as the server does: the same planes, each with the ports that it may use.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use auth::{Auth, FixedSender, KeyRing};
use axum::Router;
use axum::extract::connect_info::MockConnectInfo;
use domain::{PushDevice, PushTarget};
use fanout::{Fallback, Fanout, Receipts};
use gateway::{Gateway, Hub};
use ingest::{Grouping, Ingester, Relay};
use keyfile::MasterSecret;
use memory::MemoryOutbox;
use ports::{
    Clock, Delivery, EventLog, GatewayId, Ids, Ingest, MemberCache, Notification, Notifier, NotifyError, PeerProcess,
    PeerRegistry, PresenceNotifier, PresenceReader, ProcessRole, RecipientLookup, Routes, SignalSender, UnusableTarget,
};
use presence::{PendingRechecks, Presence};
use protocol::Timing;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::calls::{CheckedPresences, Local, Remote, SharedPushes, SimRemoteIngest};
use crate::checks::EXPIRY;
use crate::directory::{ProcessServices, RunningProcess};
use crate::log::SimLog;
use crate::plan::{FleetSize, RunShape};
use crate::process::{SimProcess, SkewedClock};
use crate::shared::{Memory, SharedStateClient};
use crate::store::{SimOutbox, SimProducer, SimStore};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

const BEAT: Duration = Duration::from_secs(5);
/// The one-time code of all sign-ins.
pub(crate) const CODE: &str = "000000";
/// Interval of the purge of expired messages, and its delay after their expiry.
const PURGE_INTERVAL: Duration = Duration::from_secs(3);
const PURGE_LAG: Duration = Duration::from_secs(10);

/// The role of a slot in the plan of a fleet.
fn role(size: &FleetSize, slot: usize) -> (ProcessRole, usize) {
    let mut slot = slot;
    let counts = [
        (ProcessRole::Gateway, size.gateways),
        (ProcessRole::Ingest, size.ingests),
        (ProcessRole::Fanout, size.fanouts),
        (ProcessRole::Api, size.apis),
    ];
    for (role, count) in counts {
        if slot < count {
            return (role, slot);
        }
        slot -= count;
    }
    unreachable!("no plan has so many processes")
}

/// Starts the process of a slot, for the `epoch`th time.
pub(crate) fn start(world: &Arc<World>, slot: usize, epoch: u32, fleet: &Arc<Memory>) {
    if world.journal().is_refused() {
        world.note(TraceActor::Process("node".to_owned()), TraceEvent::Fault("does not start".to_owned()));
        return;
    }
    let max = world.plan.skew_max.as_millis() as i64;
    let skew_ms = world.streams.nemesis.below(0, 2 * max as u64 + 1) as i64 - max;
    let clock = Arc::new(SkewedClock::new(world.began, skew_ms));
    let running = match world.plan.shape {
        RunShape::Node => {
            let process = Arc::new(SimProcess::new(slot, format!("node.{epoch}"), clock));
            // A restart loses the memory of the process.
            fleet.wipe();
            node(world, process, fleet.clone())
        }
        RunShape::Fleet => {
            let (role, n) = role(&world.plan.size, slot);
            let process = Arc::new(SimProcess::new(slot, format!("{role}-{n}.{epoch}"), clock));
            member(world, process, role, fleet.clone())
        }
    };
    world.note(TraceActor::Process(running.process.name.clone()), TraceEvent::Started);
    world.directory.put(slot, Some(Arc::new(running)));
}

/// Ports that every role of a process uses.
struct ProcessPorts {
    world: Arc<World>,
    process: Arc<SimProcess>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    shared: Arc<SharedStateClient>,
    store: Arc<SimStore>,
}

impl ProcessPorts {
    fn new(world: &Arc<World>, process: &Arc<SimProcess>, memory: &Arc<Memory>, may_write: bool) -> Self {
        Self {
            world: world.clone(),
            process: process.clone(),
            clock: process.clock.clone(),
            ids: world.ids.clone(),
            shared: Arc::new(SharedStateClient {
                world: world.clone(),
                process: process.clone(),
                memory: memory.clone(),
            }),
            store: Arc::new(SimStore {
                world: world.clone(),
                process: process.clone(),
                store: world.store.process(),
                may_write,
            }),
        }
    }

    fn ingester(&self, grouping: Grouping, signals: Arc<dyn SignalSender>) -> Arc<dyn Ingest> {
        let config = ingest::Config { grouping, ..ingest::Config::default() };
        let ports = ingest::Ports {
            writer: self.store.clone(),
            messages: self.store.clone(),
            chats: self.store.clone(),
            watermarks: self.store.clone(),
            signals,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        };
        let ingester = Arc::new(Ingester::start(config, ports, &mut self.process.tasks()));
        let (store, process) = (self.store.clone(), self.process.clone());
        self.process.spawn(async move {
            loop {
                sleep(PURGE_INTERVAL).await;
                process.runs().await;
                store.purge(PURGE_LAG).await;
            }
        });
        ingester
    }

    fn fanout(
        &self,
        cache: Arc<dyn MemberCache>,
        recipients: Arc<dyn RecipientLookup>,
        routes: Arc<dyn Routes>,
        delivery: Arc<dyn Delivery>,
        log: Arc<dyn EventLog>,
    ) -> Arc<Fanout> {
        let log = Arc::new(SimLog {
            world: self.world.clone(),
            process: self.process.clone(),
            memory: self.shared.memory.clone(),
            log,
        });
        let fanout = Arc::new(Fanout {
            chats: self.store.clone(),
            cache,
            recipients,
            routes,
            delivery,
            clock: self.clock.clone(),
            // All chats of a simulation are small. In every second run, chats of three or more members count as large.
            small_members_max: if self.world.plan.seed.is_multiple_of(2) { Fanout::SMALL_MEMBERS_MAX } else { 2 },
            receipts: Receipts::default(),
        });
        let (consuming, telling) = (fanout.clone(), fanout.clone());
        self.process.spawn(async move { consuming.run(log).await });
        self.process.spawn(async move { telling.tell_receipts().await });
        fanout
    }

    fn api(
        &self,
        ingest: Arc<dyn Ingest>,
        members: Arc<dyn MemberCache>,
        delivery: Arc<dyn Delivery>,
        watchers: Arc<dyn PresenceNotifier>,
    ) -> ApiPlanes {
        let auth_config = auth_config(self.world.plan.token_life);
        let plain = Arc::new(self.world.store.clone());
        let auth = Auth::new(
            auth::Ports {
                users: self.store.clone(),
                user_reader: self.store.clone(),
                sessions: plain.clone(),
                restrictions: plain.clone(),
                passkeys: plain.clone(),
                codes: plain.clone(),
                tickets: self.shared.clone(),
                limits: self.shared.clone(),
                otp: Arc::new(FixedSender),
                delivery,
                security: Arc::new(ports::NoSecurityEvents),
                clock: self.clock.clone(),
                ids: self.ids.clone(),
            },
            keys(),
            auth_config,
        )
        .expect("no other system is asked");
        let presence = Arc::new(Presence {
            routes: self.shared.clone(),
            transitions: self.shared.clone(),
            watchers,
            users: self.store.clone(),
            last_seen: self.store.clone(),
            contacts: self.store.clone(),
            blocks: self.store.clone(),
            chats: self.store.clone(),
            messages: self.store.clone(),
            clock: self.clock.clone(),
            doubts: PendingRechecks::default(),
        });
        let announcing = presence.clone();
        self.process.spawn(async move { announcing.run().await });
        // No client of the simulator deletes an account, so no worker completes deletions.
        let accounts = chats::Accounts {
            auth: auth.clone(),
            store: plain.clone(),
            expirer: plain.clone(),
            users: self.store.clone(),
            chats: self.store.clone(),
            chat_writer: self.store.clone(),
            members: members.clone(),
            messages: self.store.clone(),
            watermarks: self.store.clone(),
            contacts: self.store.clone(),
            blocks: self.store.clone(),
            invitations: plain.clone(),
            reports: plain.clone(),
            passkeys: plain.clone(),
            push_devices: plain.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: self.clock.clone(),
            begun: tokio::sync::Notify::new(),
        };
        let api = chats::Api {
            auth: auth.clone(),
            ingest,
            messages: self.store.clone(),
            chats: self.store.clone(),
            chat_writer: self.store.clone(),
            members,
            users: self.store.clone(),
            user_writer: self.store.clone(),
            contacts: self.store.clone(),
            blocks: self.store.clone(),
            invitations: plain.clone(),
            reports: plain.clone(),
            accounts: Arc::new(accounts),
            presence: presence.clone(),
            watermarks: self.store.clone(),
            push_devices: plain.clone(),
            notifier: Arc::new(NoSms),
            web_push_public_key: None,
            requests: plain,
            limiter: self.shared.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            limits: chats::Limits {
                rest_read: None,
                rest_write: None,
                lookup_numbers: None,
                send_per_chat: None,
                send_per_user: None,
                exports: None,
                groups_created: None,
                members_added: None,
                message_kib: None,
                message_kib_total: None,
                chats_per_user: None,
            },
        };
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 4711));
        let app = chats::router(api, Router::new()).layer(MockConnectInfo(address));
        ApiPlanes { auth, presence, app }
    }

    fn gateway(&self, hub: Arc<Hub>, others: GatewayPlanes) -> Arc<Gateway> {
        let GatewayPlanes { identity, presences, ingest, signals, displacement } = others;
        let presences = Arc::new(CheckedPresences { world: self.world.clone(), presences });
        let gateway = Arc::new(Gateway {
            config: gateway::Config {
                heartbeat_interval: BEAT,
                unhealthy_after: 2 * BEAT,
                expiry: EXPIRY,
                timing: Timing::default(),
                limits: gateway::Limits::default(),
                origins: gateway::Origins::default(),
            },
            hub,
            displacement,
            identity,
            ingest,
            signals,
            limiter: self.shared.clone(),
            presences,
            routes: self.shared.clone(),
            route_writer: self.shared.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        });
        let (keeping, showing) = (gateway.clone(), gateway.clone());
        self.process.spawn(async move { keeping.keep_routes().await });
        self.process.spawn(async move { showing.watch_presence().await });
        gateway
    }

    fn hub(&self) -> Arc<Hub> {
        Arc::new(Hub::new(GatewayId(self.process.name.as_str().into()), 10_000))
    }
}

/// The planes that serve the REST API.
struct ApiPlanes {
    auth: Auth,
    presence: Arc<Presence>,
    app: Router,
}

/// The other planes that a gateway calls.
struct GatewayPlanes {
    identity: Arc<dyn ports::Identity>,
    presences: Arc<dyn PresenceReader>,
    ingest: Arc<dyn Ingest>,
    signals: Arc<dyn SignalSender>,
    displacement: Arc<dyn ports::ConnectionDisplacer>,
}

/// All planes in one process.
fn node(world: &Arc<World>, process: Arc<SimProcess>, memory: Arc<Memory>) -> RunningProcess {
    let commons = ProcessPorts::new(world, &process, &memory, true);
    // Fanout gets a store without write access, and its calls are checked here too.
    let reading = ProcessPorts::new(world, &process, &memory, false);
    let hub = commons.hub();
    let delivery = Arc::new(Local { world: world.clone(), name: process.name.clone(), hub: hub.clone() });
    let log = Arc::new(world.store.clone());
    let fanout =
        reading.fanout(commons.shared.clone(), commons.shared.clone(), commons.shared.clone(), delivery.clone(), log);
    let ingest = commons.ingester(Grouping::AllChats, fanout.clone());
    let ApiPlanes { auth, presence, app } = commons.api(ingest.clone(), commons.shared.clone(), delivery, hub.clone());
    let others = GatewayPlanes {
        identity: Arc::new(auth.clone()),
        presences: presence.clone(),
        ingest: ingest.clone(),
        signals: fanout.clone(),
        displacement: hub.clone(),
    };
    let gateway = commons.gateway(hub, others);
    let services = ProcessServices {
        gateway: Some(gateway),
        ingest: Some(ingest),
        fanout: Some(fanout),
        identity: Some(Arc::new(auth)),
        presences: Some(presence),
        app: Some(app),
    };
    RunningProcess::new(process, services, None)
}

/// A process of a fleet, in one role.
fn member(world: &Arc<World>, process: Arc<SimProcess>, role: ProcessRole, memory: Arc<Memory>) -> RunningProcess {
    let may_write = matches!(role, ProcessRole::Ingest | ProcessRole::Api);
    let commons = ProcessPorts::new(world, &process, &memory, may_write);
    let remote = Arc::new(Remote { world: world.clone(), process: process.clone() });
    let published = Arc::new(SharedPushes((*remote).clone()));
    let mut services = ProcessServices::default();
    let mut stop_relay = None;
    match role {
        ProcessRole::Gateway => {
            let others = GatewayPlanes {
                identity: remote.clone(),
                presences: remote.clone(),
                ingest: Arc::new(SimRemoteIngest::new((*remote).clone())),
                signals: remote,
                displacement: published,
            };
            services.gateway = Some(commons.gateway(commons.hub(), others));
        }
        ProcessRole::Ingest => {
            services.ingest = Some(commons.ingester(Grouping::ByChat { commits_max: 4 }, remote));
            stop_relay = Some(relay(&commons));
        }
        ProcessRole::Fanout => {
            let fallback = fallback(&commons, published, remote);
            let log = Arc::new(world.log.read_by(commons.clock.clone()));
            services.fanout = Some(commons.fanout(fallback.clone(), fallback.clone(), fallback.clone(), fallback, log));
        }
        ProcessRole::Api => {
            let fallback = fallback(&commons, published.clone(), remote.clone());
            let ingest = Arc::new(SimRemoteIngest::new((*remote).clone()));
            let ApiPlanes { auth, presence, app } = commons.api(ingest, fallback.clone(), fallback, published);
            stop_relay = Some(relay(&commons));
            services = ProcessServices {
                identity: Some(Arc::new(auth)),
                presences: Some(presence),
                app: Some(app),
                ..ProcessServices::default()
            };
        }
    }
    let (peers, peer) =
        (commons.shared.clone(), PeerProcess { id: process.name.as_str().into(), address: "sim".into() });
    let gateway = services.gateway.clone();
    process.spawn(async move {
        loop {
            // A failed announcement is repeated at the next interval.
            if peers.announce(&peer, &[role]).await.is_ok()
                && let Some(gateway) = &gateway
            {
                gateway.handle_announced().await;
            }
            sleep(BEAT).await;
        }
    });
    RunningProcess::new(process, services, stop_relay)
}

fn relay(commons: &ProcessPorts) -> oneshot::Sender<()> {
    let outbox = Arc::new(MemoryOutbox::new(commons.store.store.clone(), commons.clock.clone()));
    let relay = Relay {
        outbox: Arc::new(SimOutbox { store: (*commons.store).clone(), outbox }),
        producer: Arc::new(SimProducer { world: commons.world.clone(), process: commons.process.clone() }),
        clock: commons.clock.clone(),
    };
    let (stop, stopped) = oneshot::channel();
    commons.process.spawn(async move {
        // If the sender is dropped, no stop was requested and the relay continues.
        relay
            .run(async move {
                if stopped.await.is_err() {
                    std::future::pending().await
                }
            })
            .await;
    });
    stop
}

fn fallback(commons: &ProcessPorts, delivery: Arc<dyn Delivery>, direct: Arc<dyn Delivery>) -> Arc<Fallback> {
    let shared = fanout::Shared {
        routes: commons.shared.clone(),
        recipients: commons.shared.clone(),
        cache: commons.shared.clone(),
        delivery,
        peers: commons.shared.clone(),
    };
    let fallback = Arc::new(Fallback::new(shared, direct));
    let watching = fallback.clone();
    commons.process.spawn(async move { watching.run().await });
    fallback
}

fn auth_config(access_ttl: Duration) -> auth::Config {
    auth::Config { access_ttl, limits: auth::Limits::OFF, fixed_code: Some(CODE.to_owned()), ..auth::Config::default() }
}

/// The keys of all runs. They are created once, and no observable result depends on them.
fn keys() -> Arc<KeyRing> {
    static KEYS: OnceLock<Arc<KeyRing>> = OnceLock::new();
    let ring = || {
        let directory = tempfile::tempdir().expect("there is a place for temporary files");
        let path = directory.path().join("secret");
        std::fs::write(&path, [b's'; 32]).expect("a temporary file can be written");
        let secret = MasterSecret::read(&path).expect("the secret is long enough");
        let epoch = domain::Timestamp::from_millis(1_769_783_400_000);
        Arc::new(KeyRing::derived(secret, &auth_config(Duration::from_secs(3600)), epoch))
    };
    KEYS.get_or_init(ring).clone()
}

/// SMS delivery is not simulated.
struct NoSms;

#[async_trait]
impl Notifier for NoSms {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        Ok(())
    }

    async fn notify(&self, _: &PushDevice, _: &Notification) -> Result<(), NotifyError> {
        Ok(())
    }
}
