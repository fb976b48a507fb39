use std::collections::{BTreeMap, BTreeSet};

use domain::{ClientMessageId, Invariant, MessageId, Sequence, UserId};

use super::entry::Client;
use crate::Findings;

/// Error codes after which nothing was stored and no client retries.
const DEFINITE: [&str; 10] = [
    "COUNTER_MISSING",
    "FORBIDDEN",
    "INVALID_CONTENT_TYPE",
    "INVALID_MESSAGE",
    "INVALID_OPERATION",
    "MESSAGE_TOO_LARGE",
    "NOT_A_MEMBER",
    "NOT_FOUND",
    "UNAUTHORIZED",
    "VALIDATION_ERROR",
];

/// The sends to a chat, by sender and client message id.
#[derive(Debug, Default)]
pub(super) struct ChatSends {
    by_key: BTreeMap<SendId, SendRecord>,
    by_content: BTreeMap<(UserId, u64), SameContentSends>,
    orders: BTreeMap<Client, SendOrder>,
    /// The users who erase their messages, and since when.
    erased: BTreeMap<UserId, u64>,
    /// The time from which the chat may have no members. Its messages are erased then.
    abandoned: Option<u64>,
    /// When a message of the chat may first have been deleted or erased.
    shortened: Option<u64>,
}

/// Identifies a send in its chat.
pub(super) type SendId = (UserId, ClientMessageId);

/// State at the start of a send.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendStart {
    pub(super) entry: u64,
    pub(super) at: u64,
    pub(super) ttl_seconds: Option<u64>,
    pub(super) is_ordered: bool,
    /// Whether it is an update of a message.
    pub(super) is_update: bool,
    /// The highest known sequence of the chat.
    pub(super) floor: Sequence,
    /// Number of connects and disconnects of the client.
    pub(super) breaks: u64,
}

/// One send, over all its attempts.
#[derive(Debug)]
pub(super) struct SendRecord {
    pub(super) beginning: SendStart,
    /// Contents of its attempts. The server must reject more than one.
    pub(super) contents: Vec<u64>,
    /// Contents that an edit may have given to its message.
    edits: Vec<u64>,
    /// The resulting message.
    pub(super) location: Option<(MessageId, Sequence)>,
    /// The error code of a definite rejection.
    refused: Option<String>,
    /// The time from which its sender, or the last member of its chat, erases it.
    erased_at: Option<u64>,
    /// Whether an attempt may have succeeded unnoticed: after a retry, after a rejection, or for an unordered send.
    is_in_doubt: bool,
    order: Option<(Client, u64)>,
}

impl SendRecord {
    /// Whether its message may expire at any time.
    fn may_expire(&self) -> bool {
        self.beginning.ttl_seconds.is_some() || self.erased_at.is_some()
    }

    /// Records that its entry may be gone from this time on.
    fn may_be_erased(&mut self, at: u64) {
        self.erased_at = Some(self.erased_at.map_or(at, |before| before.min(at)));
    }

    /// Whether its message may have this content.
    pub(super) fn may_have(&self, content: u64) -> bool {
        self.contents.contains(&content) || self.edits.contains(&content)
    }

    /// Whether its message may have expired by `now`. It was committed after the start, so this may return `true` too early.
    pub(super) fn may_be_gone(&self, now: u64) -> bool {
        let expires_at =
            self.beginning.ttl_seconds.map(|ttl| self.beginning.at.saturating_add(ttl.saturating_mul(1000)));
        expires_at.into_iter().chain(self.erased_at).any(|gone_at| gone_at <= now)
    }
}

/// Sends of one user with the same content.
#[derive(Debug, Default)]
struct SameContentSends {
    keys: BTreeSet<SendId>,
    messages: BTreeSet<MessageId>,
}

/// The ordered sends of one client.
#[derive(Debug, Default)]
struct SendOrder {
    next: u64,
    /// The known sequences of these sends.
    locations: BTreeMap<u64, Sequence>,
}

impl ChatSends {
    /// No sends yet. `erased` are the users who erase their messages, and since when.
    pub(super) fn new(erased: BTreeMap<UserId, u64>) -> Self {
        Self { erased, ..Self::default() }
    }

    /// Records the start of a send.
    pub(super) fn begin(&mut self, client: Client, id: ClientMessageId, content: u64, beginning: SendStart) {
        let key = (client.user_id, id);
        self.by_content.entry((client.user_id, content)).or_default().keys.insert(key);
        if let Some(send) = self.by_key.get_mut(&key) {
            send.refused = None;
            send.is_in_doubt = true;
            if !send.contents.contains(&content) {
                send.contents.push(content);
            }
            return;
        }
        let order = beginning.is_ordered.then(|| {
            let order = self.orders.entry(client).or_default();
            order.next += 1;
            (client, order.next)
        });
        let is_in_doubt = !beginning.is_ordered;
        let shortened = self.shortened.filter(|_| beginning.is_update);
        let erased = self.erased.get(&client.user_id).copied();
        let erased_at = [erased, self.abandoned, shortened].into_iter().flatten().min();
        let (contents, edits, location, refused) = (vec![content], vec![], None, None);
        let send = SendRecord { beginning, contents, edits, location, refused, erased_at, is_in_doubt, order };
        self.by_key.insert(key, send);
    }

    /// Records that a user erases all messages, including those of sends that are still in progress.
    pub(super) fn erase(&mut self, user_id: UserId, at: u64) {
        let at = *self.erased.entry(user_id).or_insert(at);
        let of_user = self.by_key.iter_mut().filter(|((sender_id, _), _)| *sender_id == user_id);
        of_user.for_each(|(_, send)| send.may_be_erased(at));
        self.shorten(at);
    }

    /// Records that an edit may give another content to the message of a send.
    pub(super) fn edit(&mut self, key: SendId, content: u64) {
        let Some(send) = self.by_key.get_mut(&key) else { return };
        send.edits.push(content);
        self.by_content.entry((key.0, content)).or_default().keys.insert(key);
    }

    /// Whether a message may have been edited, so that it has several contents.
    pub(super) fn is_edited(&self, of: MatchedSend) -> bool {
        matches!(of, MatchedSend::One(key) if self.by_key.get(&key).is_some_and(|send| !send.edits.is_empty()))
    }

    /// Records that the message of a send may be deleted from now on.
    pub(super) fn delete(&mut self, key: SendId, at: u64) {
        if let Some(send) = self.by_key.get_mut(&key) {
            send.may_be_erased(at);
        }
    }

    /// Records that messages of the chat may expire earlier than their clients know. An update that is committed from now
    /// on expires with its message.
    pub(super) fn shorten(&mut self, at: u64) {
        let at = *self.shortened.get_or_insert(at);
        let pending = self.by_key.values_mut().filter(|send| send.beginning.is_update && send.location.is_none());
        pending.for_each(|send| send.may_be_erased(at));
    }

    /// Records that the chat may have no members from now on, which erases all its messages, including those of sends that
    /// are still in progress.
    pub(super) fn abandon(&mut self, at: u64) {
        self.abandoned.get_or_insert(at);
        self.by_key.values_mut().for_each(|send| {
            send.erased_at.get_or_insert(at);
        });
    }

    pub(super) fn get(&self, key: SendId) -> Option<&SendRecord> {
        self.by_key.get(&key)
    }

    /// Matches a message to a send, by its key or its content.
    pub(super) fn of(
        &self,
        sender_id: UserId,
        client_message_id: Option<ClientMessageId>,
        content: u64,
    ) -> MatchedSend {
        if let Some(client_message_id) = client_message_id {
            let key = (sender_id, client_message_id);
            return if self.by_key.contains_key(&key) { MatchedSend::One(key) } else { MatchedSend::Nobody };
        }
        match self.by_content.get(&(sender_id, content)).map(|alike| &alike.keys) {
            None => MatchedSend::Nobody,
            Some(keys) => match keys.first() {
                Some(key) if keys.len() == 1 => MatchedSend::One(*key),
                _ => MatchedSend::Several {
                    may_expire: keys.iter().map(|key| &self.by_key[key]).any(SendRecord::may_expire),
                    is_update: keys.iter().any(|key| self.by_key[key].beginning.is_update),
                },
            },
        }
    }

    /// Counts a message with this content. Returns whether there are at most as many messages as sends.
    pub(super) fn count(&mut self, sender_id: UserId, content: u64, message_id: MessageId) -> bool {
        let alike = self.by_content.entry((sender_id, content)).or_default();
        alike.messages.insert(message_id);
        alike.messages.len() <= alike.keys.len()
    }

    /// Records the message of a send and checks it against earlier facts. If its sender was not a member all the time, an
    /// attempt may have been rejected unnoticed, so the order is not checked.
    pub(super) fn location(
        &mut self,
        key: SendId,
        location: (MessageId, Sequence),
        was_member_all_the_while: bool,
        findings: &mut Findings,
    ) {
        let Some(send) = self.by_key.get_mut(&key) else { return };
        let (message_id, sequence) = location;
        let name = || format!("send {} of {}", key.1, key.0);
        let first = *send.location.get_or_insert(location);
        findings.check(Invariant::IdempotencySequenceConsistency, first == location, || {
            format!("{} is {message_id} at {sequence}, but was {} at {} before", name(), first.0, first.1)
        });
        if let Some(code) = &send.refused {
            findings.check(Invariant::StoreIsAuthoritative, false, || {
                format!("{} was rejected with {code}, but is {message_id} at {sequence}", name())
            });
        }
        if was_member_all_the_while
            && let Some((client, number)) = send.order
            && let Some(order) = self.orders.get_mut(&client)
        {
            order.location(client, number, sequence, findings);
        }
    }

    /// Records a rejection. `breaks` is the number of connects and disconnects of the client.
    pub(super) fn fail(&mut self, key: SendId, code: &str, breaks: u64, findings: &mut Findings) {
        let Some(send) = self.by_key.get_mut(&key) else { return };
        let is_definite = DEFINITE.contains(&code) && !send.is_in_doubt && send.beginning.breaks == breaks;
        send.is_in_doubt = true;
        // Later sends may be accepted before its retry.
        if let Some((client, number)) = send.order.take()
            && let Some(order) = self.orders.get_mut(&client)
        {
            order.locations.remove(&number);
        }
        if is_definite {
            send.refused = Some(code.to_owned());
            findings.check(Invariant::StoreIsAuthoritative, send.location.is_none(), || {
                format!("send {} of {} was rejected with {code}, but is a message", key.1, key.0)
            });
        }
    }

    /// Sends that may have been stored and expired by `now` without being seen.
    pub(super) fn vanished(&self, now: u64) -> impl Iterator<Item = (&SendId, &SendRecord)> {
        self.by_key.iter().filter(move |(_, send)| send.location.is_none() && send.may_be_gone(now))
    }
}

/// The send that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchedSend {
    One(SendId),
    /// One of several with the same content.
    Several {
        may_expire: bool,
        is_update: bool,
    },
    /// No send matches.
    Nobody,
}

impl SendOrder {
    fn location(&mut self, client: Client, number: u64, sequence: Sequence, findings: &mut Findings) {
        let before = self.locations.range(..number).next_back().map(|(_, sequence)| *sequence);
        let behind = self.locations.range(number + 1..).next().map(|(_, sequence)| *sequence);
        if self.locations.insert(number, sequence).is_some() {
            return;
        }
        let holds = before.is_none_or(|before| before < sequence) && behind.is_none_or(|behind| sequence < behind);
        findings.check(Invariant::WriteOrderPreserved, holds, || {
            let at =
                |location: Option<Sequence>| location.map_or("nowhere".to_owned(), |location| location.to_string());
            let (before, behind) = (at(before), at(behind));
            format!(
                "{} on {} sent in this order, but got sequences {before}, {sequence} and {behind}",
                client.user_id, client.device_id
            )
        });
    }
}
