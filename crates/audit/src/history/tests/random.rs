//! Random valid histories, and the effect of corrupting one entry.

use std::collections::{BTreeMap, VecDeque};

use domain::{ConnectionId, Sequence};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::{Checker, Client, Entry, HistoryOp, Page, Seen, fingerprint};
use super::script::{chat, client, message_id, send_id};
use crate::Findings;

/// Two devices each of the members Ann and Bob, and one of Eve, a temporary member.
const CLIENTS: [&str; 5] = ["ann1", "ann2", "bob1", "bob2", "eve1"];
/// The clients of permanent members.
const MEMBERS: usize = 4;
const EVE: usize = 4;

/// One step of a random history.
#[derive(Clone, Debug)]
enum HistoryStep {
    Send {
        client: usize,
        ttl_seconds: Option<u64>,
    },
    /// The oldest pending send is committed, or is lost with its connection.
    Commit {
        is_lost: bool,
    },
    /// The oldest pending acknowledgement arrives.
    Ack,
    /// A client renders the next message.
    Show {
        client: usize,
    },
    Drop {
        client: usize,
    },
    Sync {
        client: usize,
    },
    Ask {
        client: usize,
    },
    /// Eve joins or leaves.
    Change,
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = HistoryStep> {
    let someone = 0..MEMBERS;
    prop_oneof![
        6 => (someone.clone(), prop_oneof![4 => Just(None), 1 => (1_u64..3).prop_map(Some)])
            .prop_map(|(client, ttl_seconds)| HistoryStep::Send { client, ttl_seconds }),
        6 => prop::bool::weighted(0.1).prop_map(|is_lost| HistoryStep::Commit { is_lost }),
        5 => Just(HistoryStep::Ack),
        12 => (0..CLIENTS.len()).prop_map(|client| HistoryStep::Show { client }),
        2 => someone.clone().prop_map(|client| HistoryStep::Drop { client }),
        2 => someone.clone().prop_map(|client| HistoryStep::Sync { client }),
        2 => someone.prop_map(|client| HistoryStep::Ask { client }),
        1 => Just(HistoryStep::Change),
        2 => (0_u64..1500).prop_map(|millis| HistoryStep::Wait { millis }),
    ]
}

/// A model of a correct service.
#[derive(Default)]
struct World {
    at: u64,
    entries: Vec<Entry>,
    sends: u64,
    under_way: VecDeque<GeneratedSend>,
    log: Vec<GeneratedMessage>,
    acks: VecDeque<GeneratedMessage>,
    /// The last sequence that each client has rendered or skipped.
    shown: BTreeMap<usize, u64>,
    connections: u64,
    eve_is_in: bool,
}

#[derive(Clone)]
struct GeneratedSend {
    client: Client,
    name: String,
    ttl_seconds: Option<u64>,
}

#[derive(Clone)]
struct GeneratedMessage {
    sent: GeneratedSend,
    sequence: Sequence,
    gone_at: Option<u64>,
}

impl World {
    fn run(steps: &[HistoryStep]) -> Self {
        let mut world = Self::default();
        let (founder, chat_id) = (client(CLIENTS[0]), chat());
        for name in ["ann1", "bob1"] {
            let user_id = client(name).user_id;
            world.note(founder, HistoryOp::Joining { chat_id, user_id });
            world.note(founder, HistoryOp::Joined { chat_id, user_id });
        }
        for (of, name) in CLIENTS.iter().enumerate().take(MEMBERS) {
            world.note(client(name), HistoryOp::Restarted { positions: vec![(chat_id, Sequence::ZERO)] });
            world.connect(of);
        }
        for step in steps {
            world.step(step);
        }
        world.end();
        world
    }

    fn note(&mut self, client: Client, op: HistoryOp) {
        self.entries.push(Entry { at: self.at, client, op });
    }

    fn connect(&mut self, of: usize) {
        self.connections += 1;
        let connection = ConnectionId::from_bytes(u128::from(self.connections).to_be_bytes());
        self.note(client(CLIENTS[of]), HistoryOp::Connected { connection });
    }

    fn step(&mut self, step: &HistoryStep) {
        let chat_id = chat();
        match *step {
            HistoryStep::Send { client: of, ttl_seconds } => {
                self.sends += 1;
                let sent =
                    GeneratedSend { client: client(CLIENTS[of]), name: format!("send {}", self.sends), ttl_seconds };
                let op = HistoryOp::SendBegan {
                    chat_id,
                    client_message_id: send_id(&sent.name),
                    content: fingerprint(&sent.name),
                    ttl_seconds,
                    ordered: true,
                };
                self.note(sent.client, op);
                self.under_way.push_back(sent);
            }
            HistoryStep::Commit { is_lost } => {
                let Some(sent) = self.under_way.pop_front() else { return };
                if is_lost {
                    let (client_message_id, code) = (send_id(&sent.name), "SERVICE_UNAVAILABLE".to_owned());
                    return self.note(sent.client, HistoryOp::SendFailed { chat_id, client_message_id, code });
                }
                let sequence = Sequence(self.log.len() as u64 + 1);
                let gone_at = sent.ttl_seconds.map(|ttl| self.at + ttl * 1000);
                let stored = GeneratedMessage { sent, sequence, gone_at };
                self.log.push(stored.clone());
                self.acks.push_back(stored);
            }
            HistoryStep::Ack => {
                let Some(GeneratedMessage { sent, sequence, .. }) = self.acks.pop_front() else { return };
                let (client_message_id, message_id) = (send_id(&sent.name), message_id(&sent.name));
                self.note(sent.client, HistoryOp::SendAcked { chat_id, client_message_id, message_id, sequence });
            }
            HistoryStep::Show { client } => drop(self.show(client)),
            HistoryStep::Drop { client: of } => {
                self.note(client(CLIENTS[of]), HistoryOp::Disconnected);
                self.connect(of);
            }
            HistoryStep::Sync { client: of } => {
                let after = Sequence(self.shown.get(&of).copied().unwrap_or(0));
                self.note(client(CLIENTS[of]), HistoryOp::SyncBegan { chat_id, after });
                let page = self.page(client(CLIENTS[of]), after);
                self.note(client(CLIENTS[of]), HistoryOp::SyncDone { chat_id, page });
            }
            HistoryStep::Ask { client: of } => {
                let client = client(CLIENTS[of]);
                self.note(client, HistoryOp::Asked { chat_id });
                let others = self.log.iter().filter(|stored| stored.sent.client.user_id != client.user_id);
                let unread = others.filter(|stored| self.is_there(stored)).count() as u64;
                let head = Sequence(self.log.len() as u64);
                let (delivered, read) = (Sequence::ZERO, Sequence::ZERO);
                self.note(client, HistoryOp::Shown { chat_id, head, delivered, read, unread });
            }
            HistoryStep::Change => {
                let (by, user_id) = (client(CLIENTS[0]), client(CLIENTS[EVE]).user_id);
                self.eve_is_in = !self.eve_is_in;
                if self.eve_is_in {
                    self.note(by, HistoryOp::Joining { chat_id, user_id });
                    self.note(by, HistoryOp::Joined { chat_id, user_id });
                    self.shown.insert(EVE, self.log.len() as u64);
                } else {
                    self.note(by, HistoryOp::Leaving { chat_id, user_id });
                    self.note(by, HistoryOp::Left { chat_id, user_id });
                }
            }
            HistoryStep::Wait { millis } => self.at += millis,
        }
    }

    /// Renders the next message of a client. Returns `false` if there is none.
    fn show(&mut self, of: usize) -> bool {
        if of == EVE && !self.eve_is_in {
            return false;
        }
        let last = self.shown.entry(of).or_insert(0);
        while let Some(stored) = self.log.get(usize::try_from(*last).unwrap()).cloned() {
            *last += 1;
            if stored.gone_at.is_none_or(|gone_at| self.at < gone_at) {
                let client = client(CLIENTS[of]);
                self.note(client, HistoryOp::Rendered { chat_id: chat(), message: stored.seen_by(client) });
                return true;
            }
        }
        false
    }

    fn page(&self, reader: Client, after: Sequence) -> Page {
        let above = self.log.iter().filter(|stored| stored.sequence > after && self.is_there(stored));
        let messages = above.map(|stored| stored.seen_by(reader)).collect();
        Page { after, through: Sequence(self.log.len() as u64), is_last: true, messages }
    }

    fn is_there(&self, stored: &GeneratedMessage) -> bool {
        stored.gone_at.is_none_or(|gone_at| self.at < gone_at)
    }

    /// Completes all pending operations.
    fn end(&mut self) {
        while !self.under_way.is_empty() {
            self.step(&HistoryStep::Commit { is_lost: false });
        }
        while !self.acks.is_empty() {
            self.step(&HistoryStep::Ack);
        }
        for of in 0..CLIENTS.len() {
            while self.show(of) {}
        }
        self.at += 1;
        let reader = client("reader");
        let page = self.page(reader, Sequence::ZERO);
        self.note(reader, HistoryOp::Stored { chat_id: chat(), began_at: self.at, page });
        self.note(reader, HistoryOp::Settled);
    }
}

impl GeneratedMessage {
    fn seen_by(&self, reader: Client) -> Seen {
        let GeneratedSend { client, name, .. } = &self.sent;
        Seen {
            sequence: self.sequence,
            message_id: message_id(name),
            sender_id: client.user_id,
            client_message_id: (reader.user_id == client.user_id).then(|| send_id(name)),
            content: fingerprint(name),
        }
    }
}

/// A corruption of one suitable entry.
#[derive(Clone, Copy, Debug)]
enum Corruption {
    AckMoved,
    AckOfAnother,
    RenderDoubled,
    RenderDropped,
    RendersSwapped,
    ContentChanged,
    SenderChanged,
    SequenceZero,
    StoredDropped,
    SyncDropped,
    HeadMovedBack,
    UnreadAdded,
    ConnectionReused,
}

const CORRUPTIONS: [Corruption; 13] = [
    Corruption::AckMoved,
    Corruption::AckOfAnother,
    Corruption::RenderDoubled,
    Corruption::RenderDropped,
    Corruption::RendersSwapped,
    Corruption::ContentChanged,
    Corruption::SenderChanged,
    Corruption::SequenceZero,
    Corruption::StoredDropped,
    Corruption::SyncDropped,
    Corruption::HeadMovedBack,
    Corruption::UnreadAdded,
    Corruption::ConnectionReused,
];

impl Corruption {
    /// Corrupts one suitable entry. Returns `false` if there is none.
    fn apply(self, world: &mut World, which: Index) -> bool {
        let lasting: Vec<_> = world.log.iter().filter(|stored| stored.sent.ttl_seconds.is_none()).collect();
        let lasts = |message: &Seen| lasting.iter().any(|stored| stored.sequence == message.sequence);
        let is_member = |client: Client| client.user_id != super::script::client(CLIENTS[EVE]).user_id;
        let locations: Vec<usize> = (0..world.entries.len())
            .filter(|location| {
                let Entry { client, op, .. } = &world.entries[*location];
                match (self, op) {
                    // A message with a time to live may expire before another client sees it.
                    (Self::AckMoved | Self::AckOfAnother, HistoryOp::SendAcked { client_message_id, .. }) => {
                        lasting.iter().any(|stored| send_id(&stored.sent.name) == *client_message_id)
                    }
                    (Self::RenderDoubled, HistoryOp::Rendered { .. }) => true,
                    (Self::ContentChanged | Self::SenderChanged | Self::SequenceZero, HistoryOp::Rendered { .. }) => {
                        true
                    }
                    (Self::RenderDropped, HistoryOp::Rendered { message, .. }) => is_member(*client) && lasts(message),
                    (Self::RendersSwapped, HistoryOp::Rendered { .. }) => world.entries[..*location]
                        .iter()
                        .any(|entry| entry.client == *client && matches!(entry.op, HistoryOp::Rendered { .. })),
                    (Self::StoredDropped, HistoryOp::Stored { page, .. }) => page.messages.iter().any(lasts),
                    (Self::SyncDropped, HistoryOp::SyncDone { page, .. }) => page.messages.iter().any(lasts),
                    (Self::HeadMovedBack, HistoryOp::SyncDone { page, .. }) => {
                        let told = world.entries[..*location].iter().any(|entry| match &entry.op {
                            HistoryOp::Rendered { message, .. } => message.sequence == page.through,
                            HistoryOp::SendAcked { sequence, .. } => *sequence == page.through,
                            _ => false,
                        });
                        told && page.messages.is_empty() && page.through > page.after
                    }
                    (Self::UnreadAdded, HistoryOp::Shown { .. }) => true,
                    (Self::ConnectionReused, HistoryOp::Connected { .. }) => *location > 5,
                    _ => false,
                }
            })
            .collect();
        if locations.is_empty() {
            return false;
        }
        let location = locations[which.index(locations.len())];
        let client = world.entries[location].client;
        let before = world.entries[..location].iter().rposition(|entry| entry.client == client && entry.is_render());
        match (self, &mut world.entries[location].op) {
            (Self::AckMoved, HistoryOp::SendAcked { sequence, .. }) => sequence.0 += 1,
            (Self::AckOfAnother, HistoryOp::SendAcked { message_id: id, .. }) => *id = message_id("another"),
            (Self::ContentChanged, HistoryOp::Rendered { message, .. }) => message.content ^= 1,
            (Self::SenderChanged, HistoryOp::Rendered { message, .. }) => {
                message.sender_id = super::script::client("somebody").user_id;
            }
            (Self::SequenceZero, HistoryOp::Rendered { message, .. }) => message.sequence = Sequence::ZERO,
            (Self::RenderDoubled, HistoryOp::Rendered { .. }) => {
                let entry = world.entries[location].clone();
                world.entries.insert(location, entry);
            }
            (Self::RenderDropped, _) => drop(world.entries.remove(location)),
            (Self::RendersSwapped, _) => world.entries.swap(before.expect("there is one before"), location),
            (Self::StoredDropped, HistoryOp::Stored { page, .. })
            | (Self::SyncDropped, HistoryOp::SyncDone { page, .. }) => {
                let those: Vec<usize> = (0..page.messages.len()).filter(|n| lasts(&page.messages[*n])).collect();
                page.messages.remove(those[which.index(those.len())]);
            }
            (Self::HeadMovedBack, HistoryOp::SyncDone { page, .. }) => page.through.0 -= 1,
            (Self::UnreadAdded, HistoryOp::Shown { unread, .. }) => *unread += 1000,
            (Self::ConnectionReused, HistoryOp::Connected { connection }) => {
                *connection = ConnectionId::from_bytes(bytes_of_1())
            }
            (corruption, op) => unreachable!("{corruption:?} is not for {op:?}"),
        }
        true
    }
}

fn bytes_of_1() -> [u8; 16] {
    1_u128.to_be_bytes()
}

impl Entry {
    fn is_render(&self) -> bool {
        matches!(self.op, HistoryOp::Rendered { .. })
    }
}

fn check(entries: &[Entry]) -> Findings {
    let mut checker = Checker::new();
    entries.iter().for_each(|entry| checker.observe(entry));
    checker.finish()
}

proptest! {
    #[test]
    fn valid_histories_pass(steps in prop::collection::vec(step(), 0..120)) {
        let findings = check(&World::run(&steps).entries);
        prop_assert!(findings.is_clean(), "{:?}", findings.violations().collect::<Vec<_>>());
    }

    #[test]
    fn one_corruption_is_found(
        steps in prop::collection::vec(step(), 20..120),
        corruption in prop::sample::select(&CORRUPTIONS[..]),
        which: Index,
    ) {
        let mut world = World::run(&steps);
        if corruption.apply(&mut world, which) {
            prop_assert!(!check(&world.entries).is_clean(), "{corruption:?}");
        }
    }
}
