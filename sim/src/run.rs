mod actions;
mod ending;
mod faults;

use std::sync::Arc;
use std::time::Duration;

use audit::Findings;
use audit::history::{Client, Entry, HistoryOp};
use contract::Violations;
use domain::{ChatId, DeviceId, Invariant, UserId};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use crate::checks::LOOK_INTERVAL;
use crate::client::{self, DeviceCommand, DeviceIdentity};
use crate::compose::{self, CODE};
use crate::plan::{ClientAction, PlannedFault, ProcessVersion, RunPlan, RunShape, Scheduled};
use crate::process::SimProcess;
use crate::rest::RestCall;
use crate::shared::Memory;
use crate::trace::{RunTrace, TraceActor, TraceEvent};
use crate::world::{Dependency, World};

/// Time after the last fault within which everything must recover.
pub const SETTLE: Duration = Duration::from_secs(90);
/// Result of a run.
pub struct RunOutcome {
    /// Its plan.
    pub plan: RunPlan,
    /// Its trace.
    pub trace: RunTrace,
    /// Performed checks and their violations.
    pub findings: Findings,
    /// Its duration in virtual time.
    pub lasted: Duration,
    /// Number of killed processes.
    pub kills: u64,
    /// Number of committed messages.
    pub messages: u64,
    /// How often a connection of a process that runs at the end has become busy.
    pub busy: u64,
    /// The panic of a plane, if any.
    pub panic: Option<String>,
}

impl RunOutcome {
    /// Whether no invariant was violated and no plane panicked.
    pub fn is_clean(&self) -> bool {
        self.findings.is_clean() && self.panic.is_none()
    }
}

/// Runs a plan. The same plan gives the same outcome, including every entry of its trace.
pub fn run(plan: &RunPlan) -> RunOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads can be made");
    let asserted = Violations::default();
    let _watched = asserted.watch();
    runtime.block_on(async {
        let world = Arc::new(World::new(plan.clone()));
        let mut stage = RunState::set(world).await;
        stage.play().await;
        stage.settle().await;
        stage.end(&asserted).await
    })
}

/// A run in progress.
struct RunState {
    world: Arc<World>,
    /// The shared state of the processes.
    memory: Arc<Memory>,
    clients: Vec<mpsc::UnboundedSender<DeviceCommand>>,
    users: Vec<UserId>,
    chats: Vec<ChatId>,
    epochs: Vec<u32>,
    /// The version of each process: a restart keeps it.
    versions: Vec<ProcessVersion>,
    /// The draining process of a node. Its successor starts only after it has released its directory.
    leaving: Option<Arc<SimProcess>>,
    /// A kill that waits for the next disk write of a node, or for events of the log in a fleet.
    armed: Option<PlannedFault>,
    kills: u64,
    panic: Option<String>,
}

impl RunState {
    /// Starts all processes, signs all users in and creates the chats, before any fault.
    async fn set(world: Arc<World>) -> Self {
        world.repair();
        let plan = world.plan.clone();
        let processes = if plan.shape == RunShape::Node { 1 } else { plan.size.processes() };
        let memory = Arc::new(Memory::new(&world));
        let version = |slot| match plan.earlier.contains(&slot) {
            true => ProcessVersion::Earlier,
            false => ProcessVersion::Current,
        };
        let versions: Vec<_> = (0..processes).map(version).collect();
        for (slot, version) in versions.iter().enumerate() {
            compose::start(&world, (slot, 0, *version), &memory);
        }
        sleep(Duration::from_secs(1)).await;
        let mut stage = Self {
            world,
            memory,
            clients: vec![],
            users: vec![],
            chats: vec![],
            epochs: vec![0; processes],
            versions,
            leaving: None,
            armed: None,
            kills: 0,
            panic: None,
        };
        let identities = stage.sign_in(&plan).await;
        stage.open_chats(&plan, &identities).await;
        for identity in identities {
            let (commands, obeyed) = mpsc::unbounded_channel();
            tokio::spawn(client::run(stage.world.clone(), identity, obeyed));
            stage.clients.push(commands);
        }
        sleep(Duration::from_secs(2)).await;
        stage
    }

    async fn sign_in(&mut self, plan: &RunPlan) -> Vec<DeviceIdentity> {
        let mut identities: Vec<DeviceIdentity> = vec![];
        for (n, (user, _)) in plan.clients().into_iter().enumerate() {
            let phone = format!("+14155550{user:03}");
            let device_id = DeviceId::from(Uuid::from_u128(0x4000_8000_0000_0000_0000 + n as u128 + 1));
            let asked = RestCall::open("/auth/request-otp", json!({ "phone_number": phone }));
            self.world.rest(asked).await.expect("nothing fails yet");
            let display_name = NAMES[user % NAMES.len()];
            let verify =
                json!({ "phone_number": phone, "otp": CODE, "device_id": device_id, "display_name": display_name });
            let (_, body) =
                self.world.rest(RestCall::open("/auth/verify-otp", verify)).await.expect("nothing fails yet");
            let text = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let user_id: UserId = text("/data/user/user_id").parse().expect("the code is right");
            if !self.users.contains(&user_id) {
                self.users.push(user_id);
                self.world.trace().names.name_user(user_id, display_name);
            }
            let device = json!({ "provider": "webhook", "token": device_id.to_string() });
            let path = format!("/devices/{device_id}/push");
            let call = RestCall::with(Method::PUT, &text("/data/tokens/access_token"), path, Some(device));
            self.world.rest(call).await.expect("nothing fails yet");
            let restarts = |action: &Scheduled<ClientAction>| matches!(action.what, ClientAction::Restart { client } | ClientAction::Twin { client } if client == n);
            let is_alone = !plan.actions.iter().any(restarts);
            identities.push(DeviceIdentity {
                name: name(plan, n),
                user_id,
                device_id,
                access_token: text("/data/tokens/access_token"),
                refresh_token: text("/data/tokens/refresh_token"),
                keeps_order: plan.refuses_no_send() && is_alone,
                is_alone,
            });
        }
        self.world.checks.know_users(self.users.clone());
        self.world.checks.privacy_changed(&self.world);
        identities
    }

    async fn open_chats(&mut self, plan: &RunPlan, identities: &[DeviceIdentity]) {
        let clients = plan.clients();
        for (n, chat) in plan.size.chats.iter().enumerate() {
            let opener = clients.iter().position(|(user, _)| *user == chat.members[0]).expect("everybody has a device");
            let members: Vec<UserId> = chat.members.iter().map(|user| self.users[*user]).collect();
            let body = match chat.is_direct {
                true => json!({ "type": "direct", "member_ids": [members[1]] }),
                false => json!({ "type": "group", "name": format!("group {n}"), "member_ids": members }),
            };
            let call = RestCall::with(Method::POST, &identities[opener].access_token, "/chats", Some(body));
            let (_, body) = self.world.rest(call).await.expect("nothing fails yet");
            let chat_id = body.pointer("/data/chat_id").and_then(Value::as_str).and_then(|text| text.parse().ok());
            let chat_id: ChatId = chat_id.expect("a chat can be opened");
            let name = if chat.is_direct { format!("direct {n}") } else { format!("group {n}") };
            self.world.trace().names.name_chat(chat_id, name);
            self.chats.push(chat_id);
            let client = of(&identities[opener]);
            for user_id in members {
                for op in [HistoryOp::Joining { chat_id, user_id }, HistoryOp::Joined { chat_id, user_id }] {
                    self.world.observe(&Entry { at: self.world.milliseconds(), client, op });
                }
            }
        }
    }

    /// Executes all planned actions and faults.
    async fn play(&mut self) {
        let plan = self.world.plan.clone();
        self.world.begin();
        let began = Instant::now();
        let actions = plan.actions.iter().map(|timed| (timed.at, Happening::Action(&timed.what)));
        let faults = plan.faults.iter().map(|timed| (timed.at, Happening::Fault(&timed.what)));
        let mut happenings: Vec<_> = actions.chain(faults).collect();
        happenings.sort_by_key(|(at, _)| *at);
        for (at, happening) in happenings {
            self.watch_until(began + at).await;
            match happening {
                Happening::Action(action) => self.act(&plan, action),
                Happening::Fault(fault) => self.fail(fault).await,
            }
        }
        self.watch_until(began + plan.lasts).await;
        // A kill that met no commit strikes now.
        self.strike();
        sleep(Duration::from_millis(1)).await;
    }

    /// Waits, and checks periodically meanwhile.
    async fn watch_until(&mut self, until: Instant) {
        loop {
            self.world.checks.look_around(&self.memory.routes);
            let next = Instant::now() + LOOK_INTERVAL;
            if next >= until {
                break;
            }
            self.wait_until(next).await;
            self.world.look_at_routes(&self.memory.routes, &self.users);
            for running in self.world.directory.all() {
                self.note_panic(&running.process);
                if let Some(gateway) = &running.services.gateway {
                    let (messages, bytes) = gateway.hub.fullest();
                    let bounds = self.world.plan.buffers.mailbox;
                    let holds = messages <= bounds.messages && bytes <= bounds.bytes;
                    self.world.check(Invariant::BoundedBuffers, holds, || {
                        format!("{messages} pushes of {bytes} bytes wait for one connection")
                    });
                }
            }
        }
        self.wait_until(until).await;
    }

    /// Waits, and lets a pending kill strike during a disk write or while events are processed.
    async fn wait_until(&mut self, until: Instant) {
        if self.armed.is_some() {
            let world = self.world.clone();
            let is_at_work = tokio::select! {
                biased;
                () = world.writing.notified() => true,
                () = world.consuming.notified(), if world.plan.shape == RunShape::Fleet => true,
                () = sleep_until(until) => false,
            };
            if is_at_work {
                // The maximum duration of a commit, and about that of the lookups for an event.
                sleep(Duration::from_micros(world.streams.disk.below(0, 12_000))).await;
                self.strike();
            }
        }
        sleep_until(until).await;
    }

    fn note_panic(&mut self, process: &SimProcess) {
        if let Some(panic) = process.take_panic() {
            self.panic.get_or_insert(panic);
        }
    }

    /// Repairs everything, and waits for recovery.
    async fn settle(&mut self) {
        let was_away = self.world.is_unavailable(Dependency::Shared);
        self.world.repair();
        self.world.note(TraceActor::Nemesis, TraceEvent::Fault("everything is repaired".to_owned()));
        if was_away {
            self.world.lose_links();
        }
        gone(self.leaving.take()).await;
        for (slot, epoch) in self.epochs.iter_mut().enumerate() {
            match self.world.directory.at(slot) {
                Some(running) => {
                    running.process.pause(false);
                    running.process.clock.set_right();
                }
                None => {
                    *epoch += 1;
                    compose::start(&self.world, (slot, *epoch, self.versions[slot]), &self.memory);
                    if let Some(running) = self.world.directory.at(slot) {
                        running.process.clock.set_right();
                    }
                }
            }
        }
        self.watch_until(Instant::now() + SETTLE).await;
    }
}

/// Waits until a draining process has stopped.
async fn gone(leaving: Option<Arc<SimProcess>>) {
    if let Some(process) = leaving {
        process.died().await;
    }
}

/// Names of the users in every run.
const NAMES: [&str; 6] = ["ann", "bob", "cleo", "dan", "eve", "fay"];

/// Name of a client: its user, and the number of the device.
fn name(plan: &RunPlan, client: usize) -> String {
    let (user, device) = plan.clients()[client];
    format!("{}/{device}", NAMES[user % NAMES.len()])
}

enum Happening<'a> {
    Action(&'a ClientAction),
    Fault(&'a PlannedFault),
}

fn of(identity: &DeviceIdentity) -> Client {
    Client { user_id: identity.user_id, device_id: identity.device_id }
}
