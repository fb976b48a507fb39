use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::bugs::Bug;
use crate::dice::Dice;

/// What a run is about: everything that is decided before it begins.
///
/// All of it is drawn from the seed, how many faults there are of which kind included: most runs leave most kinds out, so
/// that those which are left meet each other often (swarm testing). What happens is a list, so a failing run is made
/// shorter by leaving things out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it all comes from.
    pub seed: u64,
    /// What runs.
    pub shape: Shape,
    /// How much of it.
    pub size: Size,
    /// How often calls fail on their own.
    pub rates: Rates,
    /// How far the clocks of processes are apart.
    pub skew_max: Duration,
    /// How long an access token is good.
    pub token_life: Duration,
    /// How long things happen, before everything is repaired and has to come right.
    pub lasts: Duration,
    /// What clients do, in order.
    pub actions: Vec<Timed<Action>>,
    /// What fails, in order.
    pub faults: Vec<Timed<Fault>>,
    /// The known bug that is put in, to see that it is found.
    pub bug: Option<Bug>,
}

/// Something at a time.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// Since the run began.
    pub at: Duration,
    /// What.
    pub what: T,
}

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// One process on a disk.
    Node,
    /// Processes of every role on a store, a log and shared memory.
    Fleet,
}

impl Shape {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Node, Self::Fleet];
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Fleet => "fleet",
        })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|shape| shape.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no shape; there are `node` and `fleet`"))
    }
}

/// How many there are of everything.
#[derive(Clone, Debug)]
pub struct Size {
    /// Processes of each role in a fleet.
    pub gateways: usize,
    /// Processes that commit.
    pub ingests: usize,
    /// Processes that push.
    pub fanouts: usize,
    /// Processes that answer REST.
    pub apis: usize,
    /// How many devices each user has.
    pub devices: Vec<usize>,
    /// The members of each chat at first, as indices of users; the first one owns it. Two make a direct chat if it says so.
    pub chats: Vec<ChatPlan>,
}

/// One chat of a run.
#[derive(Clone, Debug)]
pub struct ChatPlan {
    /// Whether it is a direct chat of two.
    pub is_direct: bool,
    /// Users; the first one opens it.
    pub members: Vec<usize>,
}

/// How often a call meets a misfortune of its own; each is a probability.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// A call of the store fails and does nothing.
    pub store_fails: f64,
    /// A write succeeds and is answered with an error.
    pub store_unknown: f64,
    /// A call of the store takes seconds.
    pub store_slow: f64,
    /// A call of shared memory fails.
    pub shared_fails: f64,
    /// The log does not take what is published, or takes it and says that it did not.
    pub log_fails: f64,
    /// A call between processes is lost, on its way or on its way back.
    pub calls_lost: f64,
    /// A push is lost.
    pub pushes_lost: f64,
    /// A push comes twice.
    pub pushes_doubled: f64,
    /// A push comes late, after others.
    pub pushes_late: f64,
}

/// What a client does. Clients and chats are indices.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends a message of this many bytes, which may expire.
    Send { client: usize, chat: usize, name: u32, bytes: usize, ttl: Option<u64> },
    /// Sends the same again over REST, as an application does that is not sure.
    Repeat { client: usize, chat: usize, name: u32, bytes: usize, ttl: Option<u64> },
    /// Marks everything as read that the client has.
    Read { client: usize, chat: usize },
    /// Begins or ends typing.
    Type { client: usize, chat: usize, is_typing: bool },
    /// Watches whether a user is there.
    Watch { client: usize, user: usize },
    /// Lists its chats.
    OpenInbox { client: usize },
    /// Adds somebody to a group.
    Add { client: usize, chat: usize, user: usize },
    /// Removes somebody from a group.
    Remove { client: usize, chat: usize, user: usize },
    /// Leaves a group.
    Leave { client: usize, chat: usize },
    /// Opens the direct chat with somebody.
    OpenDirect { client: usize, user: usize },
    /// Says who may see whether its user is there: everyone, contacts, nobody.
    Show { client: usize, visibility: usize },
    /// Lists a user as a contact, or no more.
    Befriend { client: usize, user: usize, is_contact: bool },
    /// Has no network for a while.
    GoOffline { client: usize, lasts: Duration },
    /// Is killed and starts again with what it has stored.
    Restart { client: usize },
    /// Reads its socket slowly for a while.
    Dawdle { client: usize, lasts: Duration },
    /// Is connected a second time by the same device.
    Twin { client: usize },
}

/// What fails. Processes are indices into all of them.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A process dies at whatever it is doing, and is started again later.
    Kill { process: usize, back_after: Duration },
    /// A process goes in good order, and is started again, as in a rolling upgrade.
    Roll { process: usize },
    /// A process stands still, as if stopped.
    Pause { process: usize, lasts: Duration },
    /// Two processes do not reach each other.
    Part { one: usize, other: usize, lasts: Duration },
    /// The store does not answer.
    StoreAway { lasts: Duration },
    /// The store refuses what comes too fast.
    Throttle { lasts: Duration },
    /// The disk is full, or its writes fail.
    DiskFails { lasts: Duration },
    /// The log does not answer.
    LogAway { lasts: Duration },
    /// Shared memory does not answer.
    SharedAway { lasts: Duration },
    /// Shared memory loses everything.
    Wipe,
    /// The clock of a process jumps, forward or back.
    Step { process: usize, forward: bool, by: Duration },
    /// All sockets of a process are cut.
    Cut { process: usize },
}

const SECOND: Duration = Duration::from_secs(1);
/// How long a flood lasts.
const FLOOD: Duration = Duration::from_secs(30);

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, shape: Shape) -> Self {
        let dice = Dice::of(seed, "plan");
        let size = Size::drawn(&dice, shape);
        let rates = Rates::drawn(&dice, shape);
        let lasts = dice.time(20 * SECOND, 60 * SECOND);
        let mut plan = Self {
            seed,
            shape,
            rates,
            skew_max: if dice.chance(0.5) { Duration::ZERO } else { dice.time(SECOND / 10, 2 * SECOND) },
            token_life: if dice.chance(0.7) { Duration::from_secs(3600) } else { dice.time(20 * SECOND, 60 * SECOND) },
            lasts,
            actions: vec![],
            faults: vec![],
            bug: None,
            size,
        };
        plan.actions = plan.drawn_actions(&Dice::of(seed, "actions"));
        plan.faults = plan.drawn_faults(&Dice::of(seed, "faults"));
        plan
    }

    /// The same with a known bug in it.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    /// How far the clocks of two processes are apart at the most, after all jumps.
    pub fn skew_bound(&self) -> Duration {
        let jumps = self.faults.iter().filter_map(|fault| match fault.what {
            Fault::Step { by, .. } => Some(by),
            _ => None,
        });
        2 * self.skew_max + jumps.sum::<Duration>() + SECOND
    }

    /// Whether no send is ever refused for a failure. One that is, and whose answer is lost, is tried again after others that
    /// were sent behind it: order is kept among those that were taken.
    pub fn refuses_nobody(&self) -> bool {
        let Rates { store_fails, store_unknown, store_slow, calls_lost, .. } = self.rates;
        let rates = [store_fails, store_unknown, store_slow, calls_lost];
        let is_harmless = |fault: &Timed<Fault>| match fault.what {
            Fault::Kill { .. } | Fault::Roll { .. } => self.shape == Shape::Node,
            Fault::Cut { .. } | Fault::Wipe | Fault::LogAway { .. } | Fault::Step { .. } => true,
            _ => false,
        };
        rates.iter().all(|rate| *rate == 0.0) && self.faults.iter().all(is_harmless)
    }

    /// Who each client is: a user and the number of their device.
    pub fn clients(&self) -> Vec<(usize, usize)> {
        let of_user = |(user, devices): (usize, &usize)| (0..*devices).map(move |device| (user, device));
        self.size.devices.iter().enumerate().flat_map(of_user).collect()
    }

    fn drawn_actions(&self, dice: &Dice) -> Vec<Timed<Action>> {
        let clients = self.clients();
        let (users, chats) = (self.size.devices.len(), self.size.chats.len());
        // How often each kind of action comes up; many kinds do not come up at all.
        let mut weights = [30, 4, 8, 2, 8, 3, 4, 3, 1, 2, 5, 5, 3, 2, 1, 1];
        for weight in weights.iter_mut().skip(1) {
            *weight *= [0, 1, 1, 3][dice.index(4)];
        }
        // Now and then a chat is flooded by all but the owner, one of whose devices reads slowly and so misses pushes.
        let floods = dice.chance(0.06);
        let ChatPlan { members, .. } = &self.size.chats[0];
        let of = |member: &usize| clients.iter().position(|(user, _)| user == member).expect("everybody has a device");
        let (slow, flooding): (usize, Vec<usize>) = (of(&members[0]), members[1..].iter().map(of).collect());
        let total: u64 = weights.iter().sum();
        let count = if floods { 420 } else { dice.below(20, 120) };
        let mut sends: Vec<Action> = vec![];
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
                    let send = Action::Send { client, chat, name: name as u32, bytes, ttl };
                    sends.push(send.clone());
                    send
                }
                1 => match sends.get(dice.index(sends.len().max(1))) {
                    Some(Action::Send { client, chat, name, bytes, ttl }) => {
                        // Another user's client with the same name is another send (C4).
                        let client = if dice.chance(0.3) { dice.index(clients.len()) } else { *client };
                        Action::Repeat { client, chat: *chat, name: *name, bytes: *bytes, ttl: *ttl }
                    }
                    _ => Action::OpenInbox { client },
                },
                2 => Action::Read { client, chat },
                3 => Action::Type { client, chat, is_typing: dice.chance(0.7) },
                4 => Action::Watch { client, user },
                5 => Action::OpenInbox { client },
                6 => Action::Add { client, chat, user },
                7 => Action::Remove { client, chat, user },
                8 => Action::Leave { client, chat },
                9 => Action::OpenDirect { client, user },
                10 => Action::Show { client, visibility: dice.index(3) },
                11 => Action::Befriend { client, user, is_contact: dice.chance(0.8) },
                12 => Action::GoOffline { client, lasts: away() },
                13 => Action::Restart { client },
                14 => Action::Dawdle { client, lasts: away() },
                _ => Action::Twin { client },
            };
            actions.push(Timed { at, what });
        }
        if floods {
            actions.push(Timed { at: SECOND, what: Action::Dawdle { client: slow, lasts: 2 * FLOOD } });
        }
        actions.sort_by_key(|action| action.at);
        actions
    }

    fn drawn_faults(&self, dice: &Dice) -> Vec<Timed<Fault>> {
        let processes = match self.shape {
            Shape::Node => 1,
            Shape::Fleet => self.size.processes(),
        };
        let mut kinds: Vec<usize> = match self.shape {
            Shape::Node => vec![0, 1, 2, 6, 10, 11],
            Shape::Fleet => vec![0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11],
        };
        kinds.retain(|_| dice.chance(0.5));
        if kinds.is_empty() {
            return vec![];
        }
        let count = dice.below(0, 12);
        let mut faults: Vec<Timed<Fault>> = (0..count)
            .map(|_| {
                let at = dice.time(Duration::ZERO, self.lasts);
                let process = dice.index(processes);
                let lasts = dice.time(SECOND / 5, if dice.chance(0.8) { 6 * SECOND } else { 25 * SECOND });
                let what = match kinds[dice.index(kinds.len())] {
                    0 => Fault::Kill { process, back_after: lasts / 2 },
                    1 => Fault::Roll { process },
                    2 => Fault::Pause { process, lasts },
                    3 => Fault::Part { one: process, other: dice.index(processes), lasts },
                    4 => Fault::StoreAway { lasts },
                    5 => Fault::Throttle { lasts },
                    6 => Fault::DiskFails { lasts },
                    7 => Fault::LogAway { lasts },
                    8 => Fault::SharedAway { lasts },
                    9 => Fault::Wipe,
                    10 => Fault::Step { process, forward: dice.chance(0.5), by: dice.time(SECOND / 10, 2 * SECOND) },
                    _ => Fault::Cut { process },
                };
                Timed { at, what }
            })
            .collect();
        faults.sort_by_key(|fault| fault.at);
        faults
    }
}

impl Size {
    fn drawn(dice: &Dice, shape: Shape) -> Self {
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
        let one = shape == Shape::Node;
        let of = |role: usize| if one { 1 } else { role };
        Self { gateways: of(some()), ingests: of(some()), fanouts: of(some()), apis: of(some()), devices, chats }
    }

    /// How many processes a fleet has.
    pub fn processes(&self) -> usize {
        self.gateways + self.ingests + self.fanouts + self.apis
    }
}

impl Rates {
    fn drawn(dice: &Dice, shape: Shape) -> Self {
        // Nothing at all in a third of the runs: what goes wrong there has no excuse.
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
        };
        match shape {
            Shape::Fleet => rates,
            // Everything is in one process; only its disk may fail it.
            Shape::Node => {
                Self { store_fails: rates.store_fails, store_unknown: rates.store_unknown, ..Self::default() }
            }
        }
    }
}
