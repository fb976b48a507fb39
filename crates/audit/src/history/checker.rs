use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::{ChatId, ConnectionId, Invariant, Sequence, UserId};

use super::chat::{ChatHistory, ShownWatermarks};
use super::entry::{Client, Entry, HistoryOp, Seen};
use super::readers::ClientState;
use super::sends::SendStart;
use crate::Findings;

/// The invariants that a history can violate.
pub const CHECKED: &[Invariant] = &[
    Invariant::StoreIsAuthoritative,
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

/// Reads a history entry by entry and finds violations.
///
/// A violation is reported as soon as it is certain: immediately, when later entries provide the missing facts, or in
/// [`finish`](Self::finish). Memory grows with the history, by a few hundred bytes per message.
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
/// # Ok::<(), audit::history::HistoryReadError>(())
/// ```
#[derive(Debug, Default)]
pub struct Checker {
    findings: Findings,
    now: Now,
    chats: BTreeMap<ChatId, ChatHistory>,
    readers: BTreeMap<Client, ClientState>,
    connections: BTreeSet<ConnectionId>,
    /// The users who erase their messages, and since when.
    erased: BTreeMap<UserId, u64>,
    /// Losses that are already reported, because each later check would find them again.
    lost: BTreeSet<(Client, ChatId)>,
}

/// Current position in the history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// The number of the entry, starting at 1.
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
    /// Creates a checker without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the allowed clock difference between servers and the history, in milliseconds. It applies to expiry.
    #[must_use]
    pub fn with_skew_ms(self, skew: u64) -> Self {
        Self { now: Now { skew, ..self.now }, ..self }
    }

    /// Findings so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Number of entries read.
    pub fn entries(&self) -> u64 {
        self.now.entry
    }

    /// Reads the next entry.
    pub fn observe(&mut self, entry: &Entry) {
        self.now = Now { entry: self.now.entry + 1, at: entry.at, ..self.now };
        let (client, now) = (entry.client, self.now);
        match &entry.op {
            HistoryOp::SendBegan { .. }
            | HistoryOp::UpdateBegan { .. }
            | HistoryOp::SendAcked { .. }
            | HistoryOp::SendFailed { .. } => self.observe_send(client, &entry.op),
            HistoryOp::Editing { chat_id, client_message_id, content } => {
                self.chat(*chat_id).sends.edit((client.user_id, *client_message_id), *content);
            }
            HistoryOp::Deleting { chat_id, sequence } => self.chat(*chat_id).deleting(*sequence, now),
            HistoryOp::Connected { connection } => {
                let is_new = self.connections.insert(*connection);
                self.findings.check(Invariant::ConnIdUniqueness, is_new, || {
                    format!("{now}: {connection} is the id of two connections")
                });
                self.reader(client).connect(now.entry);
            }
            HistoryOp::Disconnected => self.reader(client).disconnect(),
            HistoryOp::Restarted { positions } => self.reader(client).restart(positions),
            HistoryOp::Stopped => self.reader(client).is_stopped = true,
            HistoryOp::SyncBegan { chat_id, after } => {
                let floor = self.chat(*chat_id).floor(client.user_id, now);
                self.reader(client).syncing.entry((*chat_id, *after)).or_insert(floor);
            }
            HistoryOp::SyncDone { chat_id, page } => {
                let asked = self.reader(client).syncing.remove(&(*chat_id, page.after));
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.synced(client, asked, page, now, findings);
            }
            HistoryOp::Rendered { chat_id, message } => self.observe_rendered(client, *chat_id, message),
            HistoryOp::Joining { chat_id, user_id } => self.chat(*chat_id).members.joining(*user_id),
            HistoryOp::Joined { chat_id, user_id } => self.chat(*chat_id).members.joined(*user_id, now.entry),
            HistoryOp::Leaving { chat_id, user_id } => self.chat(*chat_id).leaving(*user_id, now),
            HistoryOp::Left { chat_id, user_id } => self.chat(*chat_id).members.left(*user_id, now.entry),
            HistoryOp::Erasing { user_id } => {
                self.erased.entry(*user_id).or_insert(now.at);
                self.chats.values_mut().for_each(|chat| chat.sends.erase(*user_id, now.at));
            }
            HistoryOp::Marked { chat_id, delivered, read } => {
                self.chat(*chat_id).marked(client.user_id, (*delivered).max(*read));
            }
            HistoryOp::Asked { chat_id } => {
                let floor = self.chat(*chat_id).floor(client.user_id, now);
                self.reader(client).asking.insert(*chat_id, floor);
            }
            HistoryOp::Shown { chat_id, head, delivered, read, unread } => {
                let asked = self.reader(client).asking.remove(chat_id);
                let marks = ShownWatermarks { delivered: *delivered, read: *read };
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.shown(client.user_id, asked, (*head, marks, *unread), now, findings);
            }
            HistoryOp::Stored { chat_id, began_at, page } => {
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.stored(*began_at, page, now, findings);
            }
            HistoryOp::Settled => self.settle(),
        }
    }

    /// Ends the history and checks everything that was still open.
    #[must_use]
    pub fn finish(mut self) -> Findings {
        for chat in self.chats.values() {
            chat.finish(self.now, &mut self.findings);
        }
        self.findings
    }

    fn observe_send(&mut self, client: Client, op: &HistoryOp) {
        let now = self.now;
        let breaks = self.reader(client).breaks;
        match op {
            HistoryOp::SendBegan { chat_id, client_message_id, content, ttl_seconds, ordered }
            | HistoryOp::UpdateBegan { chat_id, client_message_id, content, ttl_seconds, ordered } => {
                let is_update = matches!(op, HistoryOp::UpdateBegan { .. });
                let chat = self.chat(*chat_id);
                let beginning = SendStart {
                    entry: now.entry,
                    at: now.at,
                    ttl_seconds: *ttl_seconds,
                    is_ordered: *ordered,
                    is_update,
                    floor: chat.highest,
                    breaks,
                };
                chat.sends.begin(client, *client_message_id, *content, beginning);
            }
            HistoryOp::SendAcked { chat_id, client_message_id, message_id, sequence } => {
                let (chat, findings) = self.chat_and_findings(*chat_id);
                chat.acked(client.user_id, *client_message_id, (*message_id, *sequence), now, findings);
            }
            HistoryOp::SendFailed { chat_id, client_message_id, code } => {
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

    /// Checks that every running client has received all messages it should have.
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
                    "{now}: {user_id} on {device_id} lacks {} at {} of {chat_id}, and {} more",
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

    fn reader(&mut self, client: Client) -> &mut ClientState {
        self.readers.entry(client).or_default()
    }

    fn chat(&mut self, chat_id: ChatId) -> &mut ChatHistory {
        self.chats.entry(chat_id).or_insert_with(|| ChatHistory::new(chat_id, &self.erased))
    }

    fn chat_and_findings(&mut self, chat_id: ChatId) -> (&mut ChatHistory, &mut Findings) {
        let chat = self.chats.entry(chat_id).or_insert_with(|| ChatHistory::new(chat_id, &self.erased));
        (chat, &mut self.findings)
    }
}
