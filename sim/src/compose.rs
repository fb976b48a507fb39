//! Composes processes as the server does: the same planes, each with the ports that it may use.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::{Auth, FixedSender, KeyRing};
use axum::Router;
use axum::extract::connect_info::MockConnectInfo;
use domain::Backoff;
use fanout::{Fallback, Fanout, Receipts};
use gateway::{Gateway, Hub};
use ingest::{Grouping, Ingester, Relay};
use keyfile::MasterSecret;
use memory::MemoryOutbox;
use notify::{
    EventWebhook, EventWebhookConfig, EventWebhookPorts, NotificationPorts, Notifications, NotificationsConfig,
};
use ports::{
    Clock, Delivery, EventLog, GatewayId, Ids, Ingest, MemberCache, PeerProcess, PeerRegistry, PresenceNotifier,
    PresenceReader, ProcessRole, RecipientLookup, Routes, SignalSender, Stores,
};
use presence::{PendingRechecks, Presence};
use protocol::Timing;
use tokio::sync::oneshot;
use tokio::time::sleep;
use webhook::Webhook;

use crate::bugs::Bug;
use crate::calls::{CheckedFanout, CheckedPresences, Local, Remote, SharedPushes, SimRemoteIngest};
use crate::checks::EXPIRY;
use crate::directory::{ProcessServices, RunningProcess};
use crate::log::SimLog;
use crate::plan::{FleetSize, ProcessVersion, RunShape};
use crate::process::{SimProcess, SkewedClock};
use crate::receiver::SimReceiver;
use crate::shared::{Memory, SharedStateClient};
use crate::store::{SimOutbox, SimProducer, SimStore};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// The pauses between attempts to deliver events and notifications, short enough for the time after the last fault.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(5) };
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
pub(crate) fn start(world: &Arc<World>, (slot, epoch, version): (usize, u32, ProcessVersion), fleet: &Arc<Memory>) {
    if world.journal().is_refused() {
        world.note(TraceActor::Process("node".to_owned()), TraceEvent::Fault("does not start".to_owned()));
        return;
    }
    let max = world.plan.skew_max.as_millis() as i64;
    let skew_ms = world.streams.nemesis.below(0, 2 * max as u64 + 1) as i64 - max;
    let clock = Arc::new(SkewedClock::new(world.began, skew_ms));
    let running = match world.plan.shape {
        RunShape::Node => {
            let process = Arc::new(SimProcess::new(slot, format!("node.{epoch}"), clock, version));
            // A restart loses the memory of the process.
            fleet.wipe();
            node(world, process, fleet.clone())
        }
        RunShape::Fleet => {
            let (role, n) = role(&world.plan.size, slot);
            let process = Arc::new(SimProcess::new(slot, format!("{role}-{n}.{epoch}"), clock, version));
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
    /// All durable ports of the process: of its store, and of one without faults for the rest.
    stores: Stores,
}

impl ProcessPorts {
    fn new(world: &Arc<World>, process: &Arc<SimProcess>, memory: &Arc<Memory>, may_write: bool) -> Self {
        let store = Arc::new(SimStore {
            world: world.clone(),
            process: process.clone(),
            store: match process.version {
                ProcessVersion::Current => world.store.process(),
                ProcessVersion::Earlier => world.store.process().without_numbers(),
            },
            may_write,
        });
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
            stores: Stores {
                message_writer: store.clone(),
                message_reader: store.clone(),
                expirer: store.clone(),
                chat_writer: store.clone(),
                chat_reader: store.clone(),
                watermarks: store.clone(),
                user_writer: store.clone(),
                user_reader: store.clone(),
                contacts: store.clone(),
                blocks: store.clone(),
                last_seen: store.clone(),
                accounts: store.clone(),
                notices: store.clone(),
                ..Stores::on(&Arc::new(world.store.clone()))
            },
            store,
        }
    }

    fn ingester(&self, grouping: Grouping, signals: Arc<dyn SignalSender>) -> Arc<dyn Ingest> {
        let config = ingest::Config { grouping, ..ingest::Config::default() };
        let stores = &self.stores;
        let ports = ingest::Ports {
            writer: stores.message_writer.clone(),
            messages: stores.message_reader.clone(),
            chats: stores.chat_reader.clone(),
            watermarks: stores.watermarks.clone(),
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
            store: self.store.clone(),
            log,
        });
        let checked =
            Arc::new(CheckedFanout { world: self.world.clone(), name: self.process.name.clone(), delivery, routes });
        let fanout = Arc::new(Fanout {
            chats: self.stores.chat_reader.clone(),
            cache,
            recipients,
            routes: checked.clone(),
            delivery: checked,
            clock: self.clock.clone(),
            // All chats of a simulation are small. In every second run, chats of three or more members count as large.
            small_members_max: if self.world.plan.seed.is_multiple_of(2) { Fanout::SMALL_MEMBERS_MAX } else { 2 },
            receipts: Receipts::default(),
        });
        let (consuming, telling) = (fanout.clone(), fanout.clone());
        self.process.spawn(async move { consuming.run(log).await });
        self.process.spawn(async move { telling.push_receipts().await });
        fanout
    }

    fn api(
        &self,
        ingest: Arc<dyn Ingest>,
        members: Arc<dyn MemberCache>,
        delivery: Arc<dyn Delivery>,
        notifier: Arc<dyn PresenceNotifier>,
    ) -> ApiPlanes {
        let auth_config = auth_config(self.world.plan.token_life);
        let stores = &self.stores;
        let auth = Auth::new(
            auth::Ports {
                users: stores.user_writer.clone(),
                user_reader: stores.user_reader.clone(),
                sessions: stores.sessions.clone(),
                restrictions: stores.restrictions.clone(),
                passkeys: stores.passkeys.clone(),
                codes: stores.codes.clone(),
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
            notifier,
            users: stores.user_reader.clone(),
            last_seen: stores.last_seen.clone(),
            contacts: stores.contacts.clone(),
            blocks: stores.blocks.clone(),
            chats: stores.chat_reader.clone(),
            messages: stores.message_reader.clone(),
            clock: self.clock.clone(),
            rechecks: PendingRechecks::default(),
        });
        let announcing = presence.clone();
        self.process.spawn(async move { announcing.run().await });
        let accounts = Arc::new(chats::Accounts {
            auth: auth.clone(),
            store: stores.accounts.clone(),
            expirer: stores.expirer.clone(),
            users: stores.user_reader.clone(),
            chats: stores.chat_reader.clone(),
            chat_writer: stores.chat_writer.clone(),
            members: members.clone(),
            messages: stores.message_reader.clone(),
            watermarks: stores.watermarks.clone(),
            contacts: stores.contacts.clone(),
            blocks: stores.blocks.clone(),
            invitations: stores.invitations.clone(),
            reports: stores.reports.clone(),
            passkeys: stores.passkeys.clone(),
            push_devices: stores.push_devices.clone(),
            security: Arc::new(ports::NoSecurityEvents),
            clock: self.clock.clone(),
            begun: tokio::sync::Notify::new(),
        });
        if !self.world.has(Bug::DeletionForgotten) {
            let finishing = accounts.clone();
            self.process.spawn(async move { finishing.run().await });
        }
        let api = chats::Api {
            auth: auth.clone(),
            ingest,
            messages: stores.message_reader.clone(),
            chats: stores.chat_reader.clone(),
            chat_writer: stores.chat_writer.clone(),
            members,
            users: stores.user_reader.clone(),
            user_writer: stores.user_writer.clone(),
            contacts: stores.contacts.clone(),
            blocks: stores.blocks.clone(),
            invitations: stores.invitations.clone(),
            reports: stores.reports.clone(),
            accounts,
            presence: presence.clone(),
            watermarks: stores.watermarks.clone(),
            push_devices: stores.push_devices.clone(),
            notifier: Arc::new(SimReceiver { world: self.world.clone(), process: self.process.clone() }),
            web_push_public_key: None,
            update_window: None,
            requests: stores.requests.clone(),
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

    /// Posts events to the application, and notifies the devices of offline members.
    fn outward(&self, log: Arc<dyn EventLog>, members: Arc<dyn MemberCache>, routes: Arc<dyn Routes>) {
        let log = Arc::new(SimLog {
            world: self.world.clone(),
            process: self.process.clone(),
            memory: self.shared.memory.clone(),
            store: self.store.clone(),
            log,
        });
        let receiver = Arc::new(SimReceiver { world: self.world.clone(), process: self.process.clone() });
        let stores = &self.stores;
        let ports = EventWebhookPorts {
            log: log.clone(),
            messages: stores.message_reader.clone(),
            dead_letters: stores.dead_letters.clone(),
            peers: None,
            clock: self.clock.clone(),
        };
        let webhook = Webhook::over(receiver.clone(), b"secret", self.clock.clone());
        let config = EventWebhookConfig { backoff: BACKOFF, ..EventWebhookConfig::default() };
        let webhook = EventWebhook::new(ports, webhook, config);
        let ports = NotificationPorts {
            chats: stores.chat_reader.clone(),
            members,
            messages: stores.message_reader.clone(),
            watermarks: stores.watermarks.clone(),
            users: stores.user_reader.clone(),
            routes,
            devices: stores.push_devices.clone(),
            notices: stores.notices.clone(),
            dead_letters: stores.dead_letters.clone(),
            notifier: receiver,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        };
        let config = NotificationsConfig { backoff: BACKOFF, ..NotificationsConfig::default() };
        let notifications = Notifications::new(ports, config);
        self.process.spawn(async move { webhook.run().await });
        self.process.spawn(async move { notifications.run(log).await });
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
                outbox: crate::broken::mailbox(&self.world),
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
        let (keeping, checking, showing) = (gateway.clone(), gateway.clone(), gateway.clone());
        self.process.spawn(async move { keeping.keep_routes().await });
        self.process.spawn(async move { checking.recheck_connections().await });
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
    let fanout = reading.fanout(
        commons.shared.clone(),
        commons.shared.clone(),
        commons.shared.clone(),
        delivery.clone(),
        log.clone(),
    );
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
    commons.outward(log, commons.shared.clone(), commons.shared.clone());
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
            let log = Arc::new(world.log.read_by(commons.clock.clone()));
            // Not the routes of the fallback: while Redis is unavailable, it reports every user at every gateway.
            commons.outward(log, fallback.clone(), commons.shared.clone());
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
