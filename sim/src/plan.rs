use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use protocol::OutboxBounds;

use crate::bugs::Bug;
use crate::dice::Dice;

/// The plan of a run: everything that is decided before it begins.
///
/// All of it is derived from the seed, including the number and the kinds of faults. Most runs leave out most kinds, so
/// that the remaining ones interact often (swarm testing). Actions and faults are lists, so a failing run can be shrunk
/// by removing items.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The seed that everything is derived from.
    pub seed: u64,
    /// The processes to run.
    pub shape: RunShape,
    /// The number of processes, users and chats.
    pub size: FleetSize,
    /// The queues between a gateway and its clients.
    pub buffers: BufferSizes,
    /// Failure rates of calls.
    pub rates: Rates,
    /// Maximum clock skew between processes.
    pub skew_max: Duration,
    /// Lifetime of an access token.
    pub token_life: Duration,
    /// The longest time by which an index of the store lags behind its table.
    pub index_lag_max: Duration,
    /// Processes that run the earlier version at first: the rest of a rolling update.
    pub earlier: Vec<usize>,
    /// Duration of actions and faults. After that everything is repaired and must recover.
    pub lasts: Duration,
    /// Actions of clients, in order.
    pub actions: Vec<Scheduled<ClientAction>>,
    /// Faults, in order.
    pub faults: Vec<Scheduled<PlannedFault>>,
    /// The known bug to inject, if any.
    pub bug: Option<Bug>,
}

/// An item with its time.
#[derive(Clone, Debug)]
pub struct Scheduled<T> {
    /// Time since the start of the run.
    pub at: Duration,
    /// The item.
    pub what: T,
}

/// The kind of deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunShape {
    /// One process on a disk.
    Node,
    /// Processes of every role, with a store, a log and shared state.
    Fleet,
}

impl RunShape {
    /// Both shapes.
    pub const ALL: [Self; 2] = [Self::Node, Self::Fleet];
}

impl fmt::Display for RunShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Fleet => "fleet",
        })
    }
}

impl FromStr for RunShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|shape| shape.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no shape; there are `node` and `fleet`"))
    }
}

/// Numbers of processes, devices and chats.
#[derive(Clone, Debug)]
pub struct FleetSize {
    /// Gateway processes of a fleet.
    pub gateways: usize,
    /// Ingest processes.
    pub ingests: usize,
    /// Fanout processes.
    pub fanouts: usize,
    /// REST API processes.
    pub apis: usize,
    /// Number of devices per user.
    pub devices: Vec<usize>,
    /// The chats with their initial members, as indices of users; the first member is the owner.
    pub chats: Vec<ChatPlan>,
}

/// One chat of a run.
#[derive(Clone, Debug)]
pub struct ChatPlan {
    /// Whether it is a direct chat.
    pub is_direct: bool,
    /// Users; the first one creates it.
    pub members: Vec<usize>,
}

/// Sizes of the queues between a gateway and its clients.
#[derive(Clone, Copy, Debug)]
pub struct BufferSizes {
    /// Bounds of the mailbox of a connection.
    pub mailbox: OutboxBounds,
    /// Bytes in flight to a client before its gateway has to wait.
    pub window_bytes: usize,
}

/// Failure rates of calls; each is a probability.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// A call of the store fails without effect.
    pub store_fails: f64,
    /// A write succeeds but returns an error.
    pub store_unknown: f64,
    /// A call of the store takes seconds.
    pub store_slow: f64,
    /// A call of the shared state fails.
    pub shared_fails: f64,
    /// Publishing fails, or succeeds but returns an error.
    pub log_fails: f64,
    /// A call between processes is lost, or its answer is.
    pub calls_lost: f64,
    /// A push is lost.
    pub pushes_lost: f64,
    /// A push is duplicated.
    pub pushes_doubled: f64,
    /// A push is delayed and overtaken by others.
    pub pushes_late: f64,
    /// The application's server or a push service refuses, fails, sleeps, or loses its answer.
    pub receiver_fails: f64,
}

/// The version that a process runs. A fleet has both during a rolling update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessVersion {
    /// The version before event numbers and message locations: it does not write them, and does not know them.
    Earlier,
    /// This version.
    #[default]
    Current,
}

/// An action of a client. Clients and chats are indices.
#[derive(Clone, Debug)]
pub enum ClientAction {
    /// Sends a message of this many bytes, which may expire.
    Send { client: usize, chat: usize, name: u32, bytes: usize, ttl: Option<u64> },
    /// Sends the same message again over REST, as an application does after an unknown outcome.
    Repeat { client: usize, chat: usize, name: u32, bytes: usize, ttl: Option<u64> },
    /// Updates a message that the device has shown.
    Update { client: usize, chat: usize, name: u32, kind: PlannedUpdate, pick: usize },
    /// Sends the last update again under the same client message id, as an application does after an unknown outcome.
    RepeatUpdate { client: usize },
    /// Marks all received messages as read.
    Read { client: usize, chat: usize },
    /// Starts or stops typing.
    Type { client: usize, chat: usize, is_typing: bool },
    /// Subscribes to the presence of a user.
    Watch { client: usize, user: usize },
    /// Lists its chats.
    OpenInbox { client: usize },
    /// Adds a user to a group.
    Add { client: usize, chat: usize, user: usize },
    /// Removes a user from a group.
    Remove { client: usize, chat: usize, user: usize },
    /// Leaves a group.
    Leave { client: usize, chat: usize },
    /// Opens the direct chat with a user.
    OpenDirect { client: usize, user: usize },
    /// Sets the presence visibility of its user: everyone, contacts, nobody.
    Show { client: usize, visibility: usize },
    /// Adds a user to the contacts, or removes them.
    Befriend { client: usize, user: usize, is_contact: bool },
    /// Blocks a user, or ends the block.
    Block { client: usize, user: usize, is_blocked: bool },
    /// Loses the network for a while.
    GoOffline { client: usize, lasts: Duration },
    /// Crashes and restarts with its stored messages.
    Restart { client: usize },
    /// Reads its socket slowly for a while: it takes `pace` for each frame.
    Dawdle { client: usize, lasts: Duration, pace: Duration },
    /// Opens a second connection of the same device.
    Twin { client: usize },
    /// Gets the last acknowledged message of a chat by its id.
    LookUp { client: usize, chat: usize },
    /// Deletes the account of its user, with their messages or without.
    Delete { client: usize, erases: bool },
}

/// The kind of an update. Its message is chosen from those that the device has shown at that time.
#[derive(Clone, Copy, Debug)]
pub enum PlannedUpdate {
    /// Replaces the content, mostly of a message of its user.
    Edit,
    /// Deletes a message for everyone, mostly one of its user.
    Delete,
    /// Adds a reaction, the one with this number.
    React(usize),
    /// Removes a reaction.
    Unreact(usize),
}

/// A fault. Processes are indices into all of them.
#[derive(Clone, Debug)]
pub enum PlannedFault {
    /// A process crashes, and is restarted later.
    Kill { process: usize, back_after: Duration },
    /// A process drains and restarts with a version, as in a rolling update.
    Roll { process: usize, to: ProcessVersion },
    /// A process is suspended.
    Pause { process: usize, lasts: Duration },
    /// A network partition between two processes.
    Part { one: usize, other: usize, lasts: Duration },
    /// The store is unavailable.
    StoreAway { lasts: Duration },
    /// The store throttles requests.
    Throttle { lasts: Duration },
    /// Some reads find a record that does not decode, as one of a newer version.
    Unreadable { lasts: Duration },
    /// The disk is full, or its writes fail.
    DiskFails { lasts: Duration },
    /// The log is unavailable.
    LogAway { lasts: Duration },
    /// The shared state is unavailable.
    SharedAway { lasts: Duration },
    /// The application's server and the push service do not answer.
    ReceiverAway { lasts: Duration },
    /// The shared state is wiped.
    Wipe,
    /// The clock of a process steps forward or back.
    Step { process: usize, forward: bool, by: Duration },
    /// All sockets of a process are cut.
    Cut { process: usize },
}

const SECOND: Duration = Duration::from_secs(1);
/// The pace of the slowest reader.
const PACE_MAX: Duration = Duration::from_millis(400);
/// The reactions of updates.
pub(crate) const REACTIONS: [&str; 3] = ["👍", "❤️", "party"];
/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(30);

impl RunPlan {
    /// Derives the plan from a seed.
    pub fn of(seed: u64, shape: RunShape) -> Self {
        let dice = Dice::of(seed, "plan");
        let size = FleetSize::drawn(&dice, shape);
        let buffers = BufferSizes::drawn(&Dice::of(seed, "buffers"));
        let rates = Rates::drawn(&dice, shape);
        let lasts = dice.time(20 * SECOND, 60 * SECOND);
        let mut plan = Self {
            seed,
            shape,
            buffers,
            rates,
            skew_max: if dice.chance(0.5) { Duration::ZERO } else { dice.time(SECOND / 10, 2 * SECOND) },
            index_lag_max: Duration::ZERO,
            earlier: vec![],
            token_life: if dice.chance(0.7) { Duration::from_secs(3600) } else { dice.time(20 * SECOND, 60 * SECOND) },
            lasts,
            actions: vec![],
            faults: vec![],
            bug: None,
            size,
        };
        plan.actions = plan.drawn_actions(&Dice::of(seed, "actions"));
        let updates = plan.drawn_updates(&Dice::of(seed, "updates"));
        plan.actions.extend(updates);
        plan.quieten(&Dice::of(seed, "quiet"));
        let bursts = plan.drawn_bursts(&Dice::of(seed, "bursts"));
        plan.actions.extend(bursts);
        let rest = plan.drawn_rest(&Dice::of(seed, "rest"));
        plan.actions.extend(rest);
        plan.actions.sort_by_key(|action| action.at);
        plan.faults = plan.drawn_faults(&Dice::of(seed, "faults"));
        if shape == RunShape::Fleet {
            plan.index_lag_max = drawn_lag(&Dice::of(seed, "index"));
            plan.update(&Dice::of(seed, "versions"));
        }
        plan
    }

    /// The same plan with a known bug.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    /// Maximum clock skew between two processes, after all steps.
    pub fn skew_bound(&self) -> Duration {
        let jumps = self.faults.iter().filter_map(|fault| match fault.what {
            PlannedFault::Step { by, .. } => Some(by),
            _ => None,
        });
        2 * self.skew_max + jumps.sum::<Duration>() + SECOND
    }

    /// Whether no failure can refuse a send. If a send is refused and the answer is lost, its retry comes after later
    /// sends. Order is guaranteed among accepted sends only.
    pub fn refuses_no_send(&self) -> bool {
        let Rates { store_fails, store_unknown, store_slow, calls_lost, .. } = self.rates;
        let rates = [store_fails, store_unknown, store_slow, calls_lost];
        let is_harmless = |fault: &Scheduled<PlannedFault>| match fault.what {
            PlannedFault::Kill { .. } | PlannedFault::Roll { .. } => self.shape == RunShape::Node,
            PlannedFault::Cut { .. }
            | PlannedFault::ReceiverAway { .. }
            | PlannedFault::Wipe
            | PlannedFault::LogAway { .. }
            | PlannedFault::Step { .. } => true,
            _ => false,
        };
        rates.iter().all(|rate| *rate == 0.0) && self.faults.iter().all(is_harmless)
    }

    /// The user of each client, and the number of their device.
    pub fn clients(&self) -> Vec<(usize, usize)> {
        let of_user = |(user, devices): (usize, &usize)| (0..*devices).map(move |device| (user, device));
        self.size.devices.iter().enumerate().flat_map(of_user).collect()
    }

    fn drawn_actions(&self, dice: &Dice) -> Vec<Scheduled<ClientAction>> {
        let clients = self.clients();
        let (users, chats) = (self.size.devices.len(), self.size.chats.len());
        // Weights of the kinds of actions; many kinds are left out.
        let mut weights = [30, 4, 8, 2, 8, 3, 4, 3, 1, 2, 5, 5, 3, 2, 1, 1, 4];
        for weight in weights.iter_mut().skip(1) {
            *weight *= [0, 1, 1, 3][dice.index(4)];
        }
        // Some runs flood a chat: all members except the owner send, and one of the owner's devices reads slowly and
        // misses pushes.
        let floods = !self.buffers.are_small() && dice.chance(0.06);
        let ChatPlan { members, .. } = &self.size.chats[0];
        let of = |member: &usize| clients.iter().position(|(user, _)| user == member).expect("everybody has a device");
        let (slow, flooding): (usize, Vec<usize>) = (of(&members[0]), members[1..].iter().map(of).collect());
        let total: u64 = weights.iter().sum();
        let count = if floods { 420 } else { dice.below(20, 120) };
        let mut sends: Vec<ClientAction> = vec![];
        let mut actions = vec![];
        for name in 0..count {
            let at = dice.time(Duration::ZERO, self.lasts);
            let at = if floods { FLOOD.mul_f64(at.div_duration_f64(self.lasts)) } else { at };
            let client = dice.index(clients.len());
            let user = dice.index(users);
            let chat = if floods { 0 } else { dice.index(chats) };
            let away = || dice.time(SECOND / 2, 30 * SECOND);
            let mut roll = dice.below(0, total);
            let kind = weights.iter().position(|weight| {
                let hit = roll < *weight;
                roll = roll.saturating_sub(*weight);
                hit
            });
            let kind = if floods && dice.chance(0.9) { Some(0) } else { kind };
            let what = match kind.unwrap_or(0) {
                0 => {
                    let bytes = if floods { 4096 } else { dice.below(1, 300) as usize };
                    let ttl = dice.chance(0.1).then(|| dice.below(1, 30));
                    let client = if floods { flooding[client % flooding.len()] } else { client };
                    let send = ClientAction::Send { client, chat, name: name as u32, bytes, ttl };
                    sends.push(send.clone());
                    send
                }
                1 => match sends.get(dice.index(sends.len().max(1))) {
                    Some(ClientAction::Send { client, chat, name, bytes, ttl }) => {
                        // The same client message id from another user is another send (C4).
                        let client = if dice.chance(0.3) { dice.index(clients.len()) } else { *client };
                        ClientAction::Repeat { client, chat: *chat, name: *name, bytes: *bytes, ttl: *ttl }
                    }
                    _ => ClientAction::OpenInbox { client },
                },
                2 => ClientAction::Read { client, chat },
                3 => ClientAction::Type { client, chat, is_typing: dice.chance(0.7) },
                4 => ClientAction::Watch { client, user },
                5 => ClientAction::OpenInbox { client },
                6 => ClientAction::Add { client, chat, user },
                7 => ClientAction::Remove { client, chat, user },
                8 => ClientAction::Leave { client, chat },
                9 => ClientAction::OpenDirect { client, user },
                10 => ClientAction::Show { client, visibility: dice.index(3) },
                11 => ClientAction::Befriend { client, user, is_contact: dice.chance(0.8) },
                12 => ClientAction::GoOffline { client, lasts: away() },
                13 => ClientAction::Restart { client },
                14 => ClientAction::Dawdle { client, lasts: away(), pace: pace(dice) },
                15 => ClientAction::Twin { client },
                _ => ClientAction::Block { client, user, is_blocked: dice.chance(0.6) },
            };
            actions.push(Scheduled { at, what });
        }
        if floods {
            let what = ClientAction::Dawdle { client: slow, lasts: 2 * FLOOD, pace: PACE_MAX };
            actions.push(Scheduled { at: SECOND, what });
        }
        actions
    }

    /// Updates of messages, in most of the runs.
    fn drawn_updates(&self, dice: &Dice) -> Vec<Scheduled<ClientAction>> {
        if dice.chance(0.2) {
            return vec![];
        }
        let (clients, chats) = (self.clients().len(), self.size.chats.len());
        // Names of sends are unique in a run.
        let names = 1 << 21;
        let weights = [4, dice.below(0, 3), 5, 3, 1];
        let total = weights.iter().sum();
        let count = dice.below(10, 60) as u32;
        let update = |n| {
            let (client, chat, pick) = (dice.index(clients), dice.index(chats), dice.index(1 << 16));
            let reaction = dice.index(REACTIONS.len());
            let mut roll = dice.below(0, total);
            let kind = weights.iter().position(|weight| {
                let hit = roll < *weight;
                roll = roll.saturating_sub(*weight);
                hit
            });
            let kind = match kind {
                Some(0) => PlannedUpdate::Edit,
                Some(1) => PlannedUpdate::Delete,
                Some(2) => PlannedUpdate::React(reaction),
                Some(3) => PlannedUpdate::Unreact(reaction),
                _ => return ClientAction::RepeatUpdate { client },
            };
            ClientAction::Update { client, chat, name: names + n, kind, pick }
        };
        (0..count).map(|n| Scheduled { at: dice.time(Duration::ZERO, self.lasts), what: update(n) }).collect()
    }

    /// Makes half of the chats quiet from some time on: their sends come earlier. Nothing that happens after it is healed
    /// by a later message.
    fn quieten(&mut self, dice: &Dice) {
        let parts: Vec<f64> = self.size.chats.iter().map(|_| dice.part(0.2)).collect();
        let is_quiet: Vec<bool> = self.size.chats.iter().map(|_| dice.chance(0.5)).collect();
        for Scheduled { at, what } in &mut self.actions {
            if let ClientAction::Send { chat, .. }
            | ClientAction::Repeat { chat, .. }
            | ClientAction::Update { chat, .. } = what
                && is_quiet[*chat]
            {
                *at = at.mul_f64(parts[*chat]);
            }
        }
    }

    /// Bursts of messages to a chat of which one member reads slowly: more than the mailbox of a connection holds. Most of
    /// these chats are quiet afterwards.
    fn drawn_bursts(&mut self, dice: &Dice) -> Vec<Scheduled<ClientAction>> {
        let mut bursts = vec![];
        if !self.buffers.are_small() || dice.chance(0.3) {
            return bursts;
        }
        let clients = self.clients();
        // Names of sends are unique in a run.
        let mut name = 1 << 20;
        for _ in 0..dice.below(1, 3) {
            let chat = dice.index(self.size.chats.len());
            let members = &self.size.chats[chat].members;
            let devices: Vec<usize> =
                (0..clients.len()).filter(|client| members.contains(&clients[*client].0)).collect();
            let slow = devices[dice.index(devices.len())];
            let others: Vec<usize> = devices.into_iter().filter(|client| *client != slow).collect();
            let at = self.lasts.mul_f64(dice.part(0.0));
            let dawdle = ClientAction::Dawdle { client: slow, lasts: dice.time(SECOND, 15 * SECOND), pace: pace(dice) };
            bursts.push(Scheduled { at, what: dawdle });
            let count = self.buffers.mailbox.messages as u64 * dice.below(10, 25) / 10;
            let bytes_max = if dice.chance(0.3) { 4000 } else { 300 };
            for _ in 0..count {
                let at = at + dice.time(Duration::ZERO, SECOND / 2);
                let (client, bytes) = (others[dice.index(others.len())], dice.below(1, bytes_max) as usize);
                bursts.push(Scheduled { at, what: ClientAction::Send { client, chat, name, bytes, ttl: None } });
                name += 1;
            }
            if dice.chance(0.7) {
                let sends_to = |action: &ClientAction| match action {
                    ClientAction::Send { chat: to, .. }
                    | ClientAction::Repeat { chat: to, .. }
                    | ClientAction::Update { chat: to, .. } => *to == chat,
                    // It may be one of this chat.
                    ClientAction::RepeatUpdate { .. } => true,
                    _ => false,
                };
                self.actions.retain(|action| action.at <= at || !sends_to(&action.what));
            }
        }
        bursts
    }

    /// Lookups of messages by id, and deletions of accounts.
    fn drawn_rest(&self, dice: &Dice) -> Vec<Scheduled<ClientAction>> {
        let (clients, chats) = (self.clients().len(), self.size.chats.len());
        let mut rest = vec![];
        if dice.chance(0.6) {
            for _ in 0..dice.below(3, 15) {
                let what = ClientAction::LookUp { client: dice.index(clients), chat: dice.index(chats) };
                rest.push(Scheduled { at: dice.time(Duration::ZERO, self.lasts), what });
            }
        }
        if dice.chance(0.25) {
            for _ in 0..dice.below(1, 3) {
                let what = ClientAction::Delete { client: dice.index(clients), erases: dice.chance(0.5) };
                rest.push(Scheduled { at: self.lasts.mul_f64(dice.part(0.3)), what });
            }
        }
        rest
    }

    /// Makes a third of the fleets be updated, one process after the other. Some updates stop halfway, and some are
    /// rolled back.
    fn update(&mut self, dice: &Dice) {
        if !dice.chance(0.33) {
            return;
        }
        let processes = self.size.processes();
        self.earlier = (0..processes).collect();
        let mut order = self.earlier.clone();
        for place in (1..processes).rev() {
            order.swap(place, dice.index(place + 1));
        }
        let mut at = self.lasts.mul_f64(dice.part(0.0) / 2.0);
        let mut roll = |process, to| {
            self.faults.push(Scheduled { at, what: PlannedFault::Roll { process, to } });
            at += dice.time(SECOND / 2, 4 * SECOND);
        };
        let updated = if dice.chance(0.6) { processes } else { dice.index(processes) };
        order[..updated].iter().for_each(|process| roll(*process, ProcessVersion::Current));
        if dice.chance(0.2) {
            order[..updated].iter().for_each(|process| roll(*process, ProcessVersion::Earlier));
        }
        let until = if updated < processes { self.lasts } else { at.min(self.lasts) };
        self.faults.retain(|fault| fault.at < self.lasts);
        self.faults.sort_by_key(|fault| fault.at);
        // Both versions number changes of members differently.
        let clients = self.clients();
        for _ in 0..dice.below(4, 24) {
            let chat = dice.index(self.size.chats.len());
            let owner = self.size.chats[chat].members[0];
            let client = clients.iter().position(|(user, _)| *user == owner).expect("everybody has a device");
            let user = dice.index(self.size.devices.len());
            let what = match dice.chance(0.5) {
                true => ClientAction::Add { client, chat, user },
                false => ClientAction::Remove { client, chat, user },
            };
            self.actions.push(Scheduled { at: dice.time(Duration::ZERO, until), what });
        }
        self.actions.sort_by_key(|action| action.at);
    }

    fn drawn_faults(&self, dice: &Dice) -> Vec<Scheduled<PlannedFault>> {
        let processes = match self.shape {
            RunShape::Node => 1,
            RunShape::Fleet => self.size.processes(),
        };
        let mut kinds: Vec<usize> = match self.shape {
            RunShape::Node => vec![0, 1, 2, 6, 10, 11, 12, 13],
            RunShape::Fleet => vec![0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13],
        };
        kinds.retain(|_| dice.chance(0.5));
        if kinds.is_empty() {
            return vec![];
        }
        let count = dice.below(0, 12);
        let mut faults: Vec<Scheduled<PlannedFault>> = (0..count)
            .map(|_| {
                let at = dice.time(Duration::ZERO, self.lasts);
                let process = dice.index(processes);
                let lasts = dice.time(SECOND / 5, if dice.chance(0.8) { 6 * SECOND } else { 25 * SECOND });
                let what = match kinds[dice.index(kinds.len())] {
                    0 => PlannedFault::Kill { process, back_after: lasts / 2 },
                    1 => PlannedFault::Roll { process, to: ProcessVersion::Current },
                    2 => PlannedFault::Pause { process, lasts },
                    3 => PlannedFault::Part { one: process, other: dice.index(processes), lasts },
                    4 => PlannedFault::StoreAway { lasts },
                    5 => PlannedFault::Throttle { lasts },
                    6 => PlannedFault::DiskFails { lasts },
                    7 => PlannedFault::LogAway { lasts },
                    8 => PlannedFault::SharedAway { lasts },
                    9 => PlannedFault::Wipe,
                    10 => PlannedFault::Step {
                        process,
                        forward: dice.chance(0.5),
                        by: dice.time(SECOND / 10, 2 * SECOND),
                    },
                    11 => PlannedFault::Cut { process },
                    12 => PlannedFault::Unreadable { lasts },
                    _ => PlannedFault::ReceiverAway { lasts },
                };
                Scheduled { at, what }
            })
            .collect();
        faults.sort_by_key(|fault| fault.at);
        faults
    }
}

impl FleetSize {
    fn drawn(dice: &Dice, shape: RunShape) -> Self {
        let some = || dice.below(1, 3) as usize;
        let users = dice.below(2, 6) as usize;
        let devices = (0..users).map(|_| if dice.chance(0.6) { 1 } else { 2 }).collect();
        let mut chats = vec![];
        for _ in 0..dice.below(1, 4) {
            let mut members: Vec<usize> = (0..users).collect();
            for place in (1..users).rev() {
                members.swap(place, dice.index(place + 1));
            }
            members.truncate(dice.below(2, users as u64 + 1) as usize);
            chats.push(ChatPlan { is_direct: false, members });
        }
        if dice.chance(0.6) {
            chats.push(ChatPlan { is_direct: true, members: vec![0, 1] });
        }
        let one = shape == RunShape::Node;
        let of = |role: usize| if one { 1 } else { role };
        Self { gateways: of(some()), ingests: of(some()), fanouts: of(some()), apis: of(some()), devices, chats }
    }

    /// Number of processes in a fleet.
    pub fn processes(&self) -> usize {
        self.gateways + self.ingests + self.fanouts + self.apis
    }
}

impl BufferSizes {
    /// In half of the runs so small that a slow reader misses pushes soon.
    fn drawn(dice: &Dice) -> Self {
        if dice.chance(0.5) {
            return Self { mailbox: OutboxBounds::default(), window_bytes: 64 * 1024 };
        }
        let messages = dice.below(4, 17) as usize;
        let bytes = if dice.chance(0.7) { 1 << 20 } else { dice.below(2, 16) as usize * 1024 };
        Self { mailbox: OutboxBounds { messages, bytes }, window_bytes: dice.below(1, 2048) as usize }
    }

    fn are_small(&self) -> bool {
        self.mailbox != OutboxBounds::default()
    }
}

/// In half of the runs indexes are up to date.
fn drawn_lag(dice: &Dice) -> Duration {
    if dice.chance(0.5) { Duration::ZERO } else { dice.time(SECOND / 10, 5 * SECOND) }
}

/// How long a slow reader takes for each frame.
fn pace(dice: &Dice) -> Duration {
    dice.time(SECOND / 50, PACE_MAX)
}

impl Rates {
    fn drawn(dice: &Dice, shape: RunShape) -> Self {
        // A third of the runs have no failing calls, so no violation there can be blamed on one.
        if dice.chance(0.33) {
            return Self::default();
        }
        let rate = |max: f64| if dice.chance(0.5) { 0.0 } else { max * dice.below(1, 101) as f64 / 100.0 };
        let rates = Self {
            store_fails: rate(0.1),
            store_unknown: rate(0.1),
            store_slow: rate(0.03),
            shared_fails: rate(0.05),
            log_fails: rate(0.1),
            calls_lost: rate(0.05),
            pushes_lost: rate(0.3),
            pushes_doubled: rate(0.2),
            pushes_late: rate(0.2),
            receiver_fails: rate(0.4),
        };
        match shape {
            RunShape::Fleet => rates,
            // Everything is in one process; only its disk and the servers of others may fail.
            RunShape::Node => {
                let Self { store_fails, store_unknown, receiver_fails, .. } = rates;
                Self { store_fails, store_unknown, receiver_fails, ..Self::default() }
            }
        }
    }
}
