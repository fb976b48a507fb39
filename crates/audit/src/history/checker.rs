use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::{ChatId, ConnectionId, Invariant, Sequence};

use super::chat::{Chat, Watermarks};
use super::entry::{Client, Entry, Op, Seen};
use super::readers::Reader;
use super::sends::Beginning;
use crate::Findings;

/// What a history can contradict.
pub const CHECKED: &[Invariant] = &[
    Invariant::DynamodbIsAuthoritative,
    Invariant::WriteOrderPreserved,
    Invariant::SequenceUniqueness,
    Invariant::SequenceContiguous,
    Invariant::AllocationMonotonicity,
    Invariant::CounterLowerBound,
    Invariant::IdempotencySequenceConsistency,
    Invariant::AckImpliesPersistence,
    Invariant::NoZeroSequence,
    Invariant::DeliveryWatermarkMonotonic,
    Invariant::WatermarkBoundedByHead,
    Invariant::ReadImpliesDelivered,
    Invariant::MembershipCheckUsesAuthority,
    Invariant::SyncReadsAuthority,
    Invariant::SyncCompleteness,
    Invariant::ExpiredNeverRead,
    Invariant::ConnIdUniqueness,
    Invariant::MultiDeviceDelivery,
    Invariant::NoSilentLoss,
    Invariant::NoDuplicateRender,
    Invariant::OnlyMembersReceive,
    Invariant::ReconnectHeals,
];

/// Takes a history entry by entry, and finds what no correct service can have done.
///
/// What can be said at once is said at once; the rest when what it depends on becomes known, or in [`finish`](Self::finish).
/// Its memory grows with the history: a few hundred bytes for each message.
///
/// # Examples
///
/// ```
/// # extern crate tidings_audit as audit;
/// use audit::history::{Checker, Reader};
///
/// let mut checker = Checker::new();
/// for entry in Reader::new(&b""[..]) {
///     checker.observe(&entry?);
/// }
/// assert!(checker.finish().is_clean());
/// # Ok::<(), audit::history::ReadError>(())
/// ```
#[derive(Debug, Default)]
pub struct Checker {
    findings: Findings,
    now: Now,
    chats: BTreeMap<ChatId, Chat>,
    readers: BTreeMap<Client, Reader>,
    connections: BTreeSet<ConnectionId>,
    /// Whom a loss was noted for: every later moment would find it again.
    lost: BTreeSet<(Client, ChatId)>,
}

/// Where a history is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// The number of the entry, from 1.
    pub(super) entry: u64,
    pub(super) at: u64,
    pub(super) skew: u64,
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.entry)
    }
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the clocks of servers differ from that of the history by so many milliseconds, when expiry is judged.
    #[must_use]
    pub fn with_skew_ms(self, skew: u64) -> Self {
        Self { now: Now { skew, ..self.now }, ..self }
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// How many entries it has seen.
    pub fn entries(&self) -> u64 {
        self.now.entry
    }

    /// Takes the next entry.
    pub fn observe(&mut self, entry: &Entry) {
        self.now = Now { entry: self.now.entry + 1, at: entry.at, ..self.now };
        let (client, now) = (entry.client, self.now);
        match &entry.op {
            Op::SendBegan { .. } | Op::SendAcked { .. } | Op::SendFailed { .. } => self.observe_send(client, &entry.op),
            Op::Connected { connection } => {
                let is_new = self.connections.insert(*connection);
                self.findings.check(Invariant::ConnIdUniqueness, is_new, || {
                    format!("{now}: {connection} is the id of another connection too")
                });
                self.reader(client).connect(now.entry);
            }
            Op::Disconnected => self.reader(client).disconnect(),
            Op::Restarted { positions } => self.reader(client).restart(positions),
            Op::Stopped => self.reader(client).is_stopped = true,
            Op::SyncBegan { chat_id, after } => {
                let floor = self.chat(*chat_id).floor(client.user_id, now);
                self.reader(client).syncing.entry((*chat_id, *after)).or_insert(floor);
            }
            Op::SyncDone { chat_id, page } => {
                let asked = self.reader(client).syncing.remove(&(*chat_id, page.after));
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.synced(client, asked, page, now, findings);
            }
            Op::Rendered { chat_id, message } => self.observe_rendered(client, *chat_id, message),
            Op::Joining { chat_id, user_id } => self.chat(*chat_id).members.joining(*user_id),
            Op::Joined { chat_id, user_id } => self.chat(*chat_id).members.joined(*user_id, now.entry),
            Op::Leaving { chat_id, user_id } => self.chat(*chat_id).members.leaving(*user_id),
            Op::Left { chat_id, user_id } => self.chat(*chat_id).members.left(*user_id, now.entry),
            Op::Marked { chat_id, delivered, read } => {
                self.chat(*chat_id).marked(client.user_id, (*delivered).max(*read));
            }
            Op::Asked { chat_id } => {
                let floor = self.chat(*chat_id).floor(client.user_id, now);
                self.reader(client).asking.insert(*chat_id, floor);
            }
            Op::Shown { chat_id, head, delivered, read, unread } => {
                let asked = self.reader(client).asking.remove(chat_id);
                let marks = Watermarks { delivered: *delivered, read: *read };
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.shown(client.user_id, asked, (*head, marks, *unread), now, findings);
            }
            Op::Stored { chat_id, began_at, page } => {
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.stored(*began_at, page, now, findings);
            }
            Op::Settled => self.settle(),
        }
    }

    /// Everything is told: what is left open is decided.
    #[must_use]
    pub fn finish(mut self) -> Findings {
        for chat in self.chats.values() {
            chat.finish(self.now, &mut self.findings);
        }
        self.findings
    }

    fn observe_send(&mut self, client: Client, op: &Op) {
        let now = self.now;
        let breaks = self.reader(client).breaks;
        match op {
            Op::SendBegan { chat_id, client_message_id, content, ttl_seconds, ordered } => {
                let chat = self.chat(*chat_id);
                let beginning = Beginning {
                    entry: now.entry,
                    at: now.at,
                    ttl_seconds: *ttl_seconds,
                    is_ordered: *ordered,
                    floor: chat.highest,
                    breaks,
                };
                chat.sends.begin(client, *client_message_id, *content, beginning);
            }
            Op::SendAcked { chat_id, client_message_id, message_id, sequence } => {
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.acked(client.user_id, *client_message_id, (*message_id, *sequence), now, findings);
            }
            Op::SendFailed { chat_id, client_message_id, code } => {
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.sends.fail((client.user_id, *client_message_id), code, breaks, findings);
            }
            _ => {}
        }
    }

    fn observe_rendered(&mut self, client: Client, chat_id: ChatId, message: &Seen) {
        let now = self.now;
        let reader = self.reader(client);
        reader.is_reader = true;
        let last = reader.positions.get(&chat_id).copied();
        reader.positions.insert(chat_id, last.map_or(message.sequence, |last| last.max(message.sequence)));
        let (chat, findings) = self.chat_and_findings(chat_id);
        chat.rendered(client, last, message, now, findings);
    }

    /// Every client that still is there has everything that is owed to it.
    fn settle(&mut self) {
        let Self { findings, now, chats, readers, lost, .. } = self;
        for (chat_id, chat) in &*chats {
            for (client, reader) in readers.iter().filter(|(_, reader)| reader.is_reader && !reader.is_stopped) {
                let position = reader.positions.get(chat_id).copied();
                let is_follower = position.is_some() || chat.members.are_told();
                if !is_follower || chat.members.owed_since(client.user_id).is_none() {
                    continue;
                }
                let others = readers
                    .iter()
                    .filter(|(other, _)| other.user_id == client.user_id && other.device_id != client.device_id);
                let others: Vec<Option<Sequence>> =
                    others.map(|(_, other)| other.positions.get(chat_id).copied()).collect();
                let has_come_back = reader.connections > 1;
                findings.checked(Invariant::NoSilentLoss, 1);
                findings.checked(Invariant::ReconnectHeals, u64::from(has_come_back));
                findings.checked(Invariant::MultiDeviceDelivery, u64::from(!others.is_empty()));
                let Some(owed) = chat.owed(client.user_id, position, *now) else { continue };
                if !lost.insert((*client, *chat_id)) {
                    continue;
                }
                let Client { user_id, device_id } = client;
                let detail = format!(
                    "{now}: {user_id} on {device_id} has no {} at {} of {chat_id}, and {} more",
                    owed.message_id, owed.sequence, owed.more
                );
                if has_come_back && owed.told < reader.connected {
                    findings.violate(Invariant::ReconnectHeals, detail.clone());
                }
                if others.iter().any(|other| other.is_some_and(|other| other >= owed.sequence)) {
                    findings.violate(Invariant::MultiDeviceDelivery, detail.clone());
                }
                findings.violate(Invariant::NoSilentLoss, detail);
            }
        }
    }

    fn reader(&mut self, client: Client) -> &mut Reader {
        self.readers.entry(client).or_default()
    }

    fn chat(&mut self, chat_id: ChatId) -> &mut Chat {
        self.chats.entry(chat_id).or_insert_with(|| Chat::new(chat_id))
    }

    fn chat_and_findings(&mut self, chat_id: ChatId) -> (&mut Chat, &mut Findings) {
        let chat = self.chats.entry(chat_id).or_insert_with(|| Chat::new(chat_id));
        (chat, &mut self.findings)
    }
}
