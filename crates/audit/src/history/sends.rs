use std::collections::{BTreeMap, BTreeSet};

use domain::{ClientMessageId, Invariant, MessageId, Sequence, UserId};

use super::entry::Client;
use crate::Findings;

/// Refusals after which nothing was stored, and after which no client tries again by itself.
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

/// The sends into a chat, by sender and the sender's name for them.
#[derive(Debug, Default)]
pub(super) struct Sends {
    by_key: BTreeMap<Key, Send>,
    by_content: BTreeMap<(UserId, u64), Alike>,
    orders: BTreeMap<Client, Order>,
}

/// What identifies a send in its chat.
pub(super) type Key = (UserId, ClientMessageId);

/// How a send began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    pub(super) entry: u64,
    pub(super) at: u64,
    pub(super) ttl_seconds: Option<u64>,
    pub(super) is_ordered: bool,
    /// The highest sequence of the chat that anybody had been told by then.
    pub(super) floor: Sequence,
    /// How often the connection of its client had changed by then.
    pub(super) breaks: u64,
}

/// One send, over all its tries.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) beginning: Beginning,
    /// The contents it was given. More than one is a misuse that the server refuses.
    pub(super) contents: Vec<u64>,
    /// What it has become.
    pub(super) place: Option<(MessageId, Sequence)>,
    /// How it was refused, if that leaves no doubt.
    refused: Option<String>,
    /// Whether a try may have gone through unnoticed: there was another one, or a refusal, or the client does not say.
    is_in_doubt: bool,
    order: Option<(Client, u64)>,
}

impl Send {
    /// Whether a message of it may be gone by `now`. It was committed after it began, so this errs on the side of yes.
    pub(super) fn may_be_gone(&self, now: u64) -> bool {
        self.beginning.ttl_seconds.is_some_and(|ttl| self.beginning.at.saturating_add(ttl.saturating_mul(1000)) <= now)
    }
}

/// Sends of one user that say the same.
#[derive(Debug, Default)]
struct Alike {
    keys: BTreeSet<Key>,
    messages: BTreeSet<MessageId>,
}

/// The ordered sends of one client.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    /// Where those ended up of which it is known.
    places: BTreeMap<u64, Sequence>,
}

impl Sends {
    /// Notes a send that is about to leave.
    pub(super) fn begin(&mut self, client: Client, id: ClientMessageId, content: u64, beginning: Beginning) {
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
        let send = Send { beginning, contents: vec![content], place: None, refused: None, is_in_doubt, order };
        self.by_key.insert(key, send);
    }

    pub(super) fn get(&self, key: Key) -> Option<&Send> {
        self.by_key.get(&key)
    }

    /// The send that a message is, if its key or its content says so.
    pub(super) fn of(&self, sender_id: UserId, client_message_id: Option<ClientMessageId>, content: u64) -> Of {
        if let Some(client_message_id) = client_message_id {
            let key = (sender_id, client_message_id);
            return if self.by_key.contains_key(&key) { Of::One(key) } else { Of::Nobody };
        }
        match self.by_content.get(&(sender_id, content)).map(|alike| &alike.keys) {
            None => Of::Nobody,
            Some(keys) => match keys.first() {
                Some(key) if keys.len() == 1 => Of::One(*key),
                _ => {
                    Of::Several { may_expire: keys.iter().any(|key| self.by_key[key].beginning.ttl_seconds.is_some()) }
                }
            },
        }
    }

    /// Notes that a message says this, and tells whether there are no more of them than sends that do.
    pub(super) fn count(&mut self, sender_id: UserId, content: u64, message_id: MessageId) -> bool {
        let alike = self.by_content.entry((sender_id, content)).or_default();
        alike.messages.insert(message_id);
        alike.messages.len() <= alike.keys.len()
    }

    /// Notes what a send has become, and checks that nothing speaks against it. If its sender was not a member all the
    /// while, a try may have been refused unnoticed, and its order says nothing.
    pub(super) fn place(
        &mut self,
        key: Key,
        place: (MessageId, Sequence),
        was_member_all_the_while: bool,
        findings: &mut Findings,
    ) {
        let Some(send) = self.by_key.get_mut(&key) else { return };
        let (message_id, sequence) = place;
        let name = || format!("send {} of {}", key.1, key.0);
        let first = *send.place.get_or_insert(place);
        findings.check(Invariant::IdempotencySequenceConsistency, first == place, || {
            format!("{} is {message_id} at {sequence}, and is {} at {}", name(), first.0, first.1)
        });
        if let Some(code) = &send.refused {
            findings.check(Invariant::DynamodbIsAuthoritative, false, || {
                format!("{} was refused with {code}, and is {message_id} at {sequence}", name())
            });
        }
        if was_member_all_the_while
            && let Some((client, number)) = send.order
            && let Some(order) = self.orders.get_mut(&client)
        {
            order.place(client, number, sequence, findings);
        }
    }

    /// Notes a refusal. `breaks` is how often the connection of the client has changed.
    pub(super) fn fail(&mut self, key: Key, code: &str, breaks: u64, findings: &mut Findings) {
        let Some(send) = self.by_key.get_mut(&key) else { return };
        let is_definite = DEFINITE.contains(&code) && !send.is_in_doubt && send.beginning.breaks == breaks;
        send.is_in_doubt = true;
        // What was sent behind it may be taken before it is tried again.
        if let Some((client, number)) = send.order.take()
            && let Some(order) = self.orders.get_mut(&client)
        {
            order.places.remove(&number);
        }
        if is_definite {
            send.refused = Some(code.to_owned());
            findings.check(Invariant::DynamodbIsAuthoritative, send.place.is_none(), || {
                format!("send {} of {} was refused with {code}, and is a message", key.1, key.0)
            });
        }
    }

    /// Sends that may have been stored and gone again without anybody knowing, by `now`.
    pub(super) fn vanished(&self, now: u64) -> impl Iterator<Item = (&Key, &Send)> {
        self.by_key.iter().filter(move |(_, send)| send.place.is_none() && send.may_be_gone(now))
    }
}

/// Which send a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    One(Key),
    /// One of several that say the same.
    Several {
        may_expire: bool,
    },
    /// Nobody has sent it.
    Nobody,
}

impl Order {
    fn place(&mut self, client: Client, number: u64, sequence: Sequence, findings: &mut Findings) {
        let before = self.places.range(..number).next_back().map(|(_, sequence)| *sequence);
        let behind = self.places.range(number + 1..).next().map(|(_, sequence)| *sequence);
        if self.places.insert(number, sequence).is_some() {
            return;
        }
        let holds = before.is_none_or(|before| before < sequence) && behind.is_none_or(|behind| sequence < behind);
        findings.check(Invariant::WriteOrderPreserved, holds, || {
            let at = |place: Option<Sequence>| place.map_or("nowhere".to_owned(), |place| place.to_string());
            let (before, behind) = (at(before), at(behind));
            format!(
                "{} on {} sent what is at {before}, at {sequence} and at {behind} in this order",
                client.user_id, client.device_id
            )
        });
    }
}
