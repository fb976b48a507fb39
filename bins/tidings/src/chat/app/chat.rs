use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ChatType, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, ReceiptBody, SendMessageAck};
use protocol::rest::{ChatDetails, ChatSummary, LastMessage, Member, MemberWatermarks, MessageStatus};

use super::log::{Entry, Log};

/// How long somebody types who does not say so again.
const TYPING: Duration = Duration::from_secs(10);

/// One chat of the inbox, and what is known of it.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) summary: ChatSummary,
    /// Once somebody has looked at the chat.
    pub(crate) members: Vec<Member>,
    watermarks: BTreeMap<UserId, Watermarks>,
    pub(crate) log: Log,
    /// Who types, and until when that is believed.
    typing: BTreeMap<UserId, Timestamp>,
    /// What was written and not sent when another chat was opened.
    pub(crate) draft: String,
    /// How far this person has read, as far as this device knows.
    read: Sequence,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watermarks {
    delivered: Sequence,
    read: Sequence,
}

/// How far one's own message has come, as a person reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Sent,
    Delivered,
    Read,
}

/// Whether what the server says of a chat is newer than what has arrived since.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// Messages have arrived that it does not count: it is to be asked for again.
    Stale,
}

impl Chat {
    pub(crate) fn new(summary: ChatSummary) -> Self {
        Self {
            read: summary.my_read_sequence,
            summary,
            members: Vec::new(),
            watermarks: BTreeMap::new(),
            log: Log::default(),
            typing: BTreeMap::new(),
            draft: String::new(),
        }
    }

    /// What the chat is called: the name of a group, or of the other person.
    pub(crate) fn title(&self) -> &str {
        let other = self.summary.other_participants.first().map(|user| user.display_name.as_str());
        self.summary.name.as_deref().or(other).unwrap_or("(nobody else)")
    }

    /// The other person of a direct chat.
    pub(crate) fn other(&self) -> Option<UserId> {
        match self.summary.chat_type {
            ChatType::Direct => self.summary.other_participants.first().map(|user| user.user_id),
            ChatType::Group => None,
        }
    }

    /// What somebody in the chat is called, if that is known.
    pub(crate) fn name_of(&self, user_id: UserId) -> Option<&str> {
        let members = self.members.iter().map(|member| (member.user_id, member.display_name.as_str()));
        let others = self.summary.other_participants.iter().map(|user| (user.user_id, user.display_name.as_str()));
        members.chain(others).find(|(known, _)| *known == user_id).map(|(_, name)| name)
    }

    pub(crate) fn is_muted(&self, now: Timestamp) -> bool {
        self.summary.my_membership.muted_until.is_some_and(|until| until > now)
    }

    pub(crate) fn read(&self) -> Sequence {
        self.read
    }

    /// Where the chat stands in the inbox.
    pub(crate) fn active_at(&self) -> Timestamp {
        self.summary.last_message_at.unwrap_or(self.summary.created_at)
    }

    /// Takes what the server says of the chat. What has arrived since, and what was read here since, stands.
    pub(crate) fn update(&mut self, summary: ChatSummary) -> Freshness {
        self.read = self.read.max(summary.my_read_sequence);
        if summary.head_sequence < self.summary.head_sequence {
            return Freshness::Stale;
        }
        self.summary = summary;
        if self.read >= self.summary.head_sequence {
            self.summary.unread_count = 0;
        }
        Freshness::Fresh
    }

    /// Takes the members too, and how far they have come.
    pub(crate) fn update_details(&mut self, details: ChatDetails, watermarks: Vec<MemberWatermarks>) -> Freshness {
        self.members = details.members;
        self.watermarks.retain(|user_id, _| self.members.iter().any(|member| member.user_id == *user_id));
        for of_member in watermarks {
            self.advance(of_member.user_id, of_member.delivered_sequence, of_member.read_sequence);
        }
        self.update(details.summary)
    }

    /// A send has become a message.
    pub(crate) fn acknowledge(&mut self, me: UserId, ack: &SendMessageAck) {
        if let Some(message) = self.log.acknowledge(me, ack) {
            self.arrive(me, &message);
        }
    }

    /// Takes a message that arrived. Returns whether it is news to this person.
    pub(crate) fn arrive(&mut self, me: UserId, message: &MessageBody<'static>) -> bool {
        self.typing.remove(&message.sender_id);
        // The ack of one's own message does not say that the chat gives it an end.
        let of_chat = self.summary.message_ttl_seconds.filter(|_| message.sender_id == me);
        let ends_with_chat = of_chat.map(|ttl| message.created_at + Duration::from_secs(ttl));
        self.log.arrive(MessageBody { expires_at: message.expires_at.or(ends_with_chat), ..message.clone() });
        if message.sequence <= self.summary.head_sequence {
            return false;
        }
        self.summary.head_sequence = message.sequence;
        self.summary.last_message_at = Some(message.created_at);
        self.summary.last_message = Some(LastMessage {
            message_id: message.message_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            preview: match message.content_type {
                domain::ContentType::Encrypted => None,
                _ => Some(message.content.chars().take(domain::limits::PREVIEW_CHARS_MAX).collect()),
            },
            created_at: message.created_at,
        });
        let is_news = message.sender_id != me && message.sequence > self.read;
        self.summary.unread_count += u64::from(is_news);
        is_news
    }

    /// The server knows less of the chat than was known here: nothing above its head counts any more.
    pub(crate) fn reset(&mut self, head: Sequence) {
        self.log.reset();
        self.summary.head_sequence = head;
        self.read = self.read.min(head);
        self.watermarks.clear();
    }

    /// This person has read everything up to here, on this device or another. Returns whether all of it is read.
    pub(crate) fn mark_read(&mut self, sequence: Sequence) -> bool {
        self.read = self.read.max(sequence);
        let all = self.read >= self.summary.head_sequence;
        if all {
            self.summary.unread_count = 0;
        }
        all
    }

    /// A member has come further.
    pub(crate) fn take_receipt(&mut self, receipt: &ReceiptBody) {
        self.advance(receipt.user_id, receipt.delivered_sequence, receipt.read_sequence);
    }

    fn advance(&mut self, user_id: UserId, delivered: Sequence, read: Sequence) {
        let known = self.watermarks.entry(user_id).or_default();
        known.delivered = known.delivered.max(delivered);
        known.read = known.read.max(read);
    }

    /// How far one's own message has come: what the server said of it, or what members have said since.
    pub(crate) fn fate(&self, me: UserId, entry: &Entry) -> Fate {
        let said = match entry.status {
            Some(MessageStatus::Read) => return Fate::Read,
            Some(MessageStatus::Delivered) => Fate::Delivered,
            Some(MessageStatus::Sent) | None => Fate::Sent,
        };
        let others: Vec<Watermarks> =
            self.others(me).map(|user_id| self.watermarks.get(&user_id).copied().unwrap_or_default()).collect();
        let reached = |reach: fn(&Watermarks) -> Sequence| {
            !others.is_empty() && others.iter().all(|of_member| reach(of_member) >= entry.body.sequence)
        };
        if reached(|of_member| of_member.read) {
            Fate::Read
        } else if reached(|of_member| of_member.delivered) {
            Fate::Delivered
        } else {
            said
        }
    }

    fn others(&self, me: UserId) -> impl Iterator<Item = UserId> {
        let (members, other) = match self.members.as_slice() {
            [] => ([].as_slice(), self.other()),
            members => (members, None),
        };
        members.iter().map(|member| member.user_id).filter(move |user_id| *user_id != me).chain(other)
    }

    /// Somebody types, or no longer does.
    pub(crate) fn take_typing(&mut self, now: Timestamp, user_id: UserId, is_typing: bool) {
        if is_typing {
            self.typing.insert(user_id, now + TYPING);
        } else {
            self.typing.remove(&user_id);
        }
    }

    pub(crate) fn typing(&self) -> impl Iterator<Item = UserId> {
        self.typing.keys().copied()
    }

    /// Messages that are gone; the inbox shows none of them either.
    pub(crate) fn expire(&mut self, sequences: &[Sequence]) {
        self.log.expire(sequences);
        self.summary.last_message.take_if(|last| sequences.contains(&last.sequence));
    }

    /// Lets go of what ends by itself. Returns whether messages did.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> bool {
        self.typing.retain(|_, until| *until > now);
        let gone = self.log.sweep(now);
        self.expire(&gone);
        !gone.is_empty()
    }

    /// When something next ends by itself.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.typing.values().copied().chain(self.log.next_expiry()).min()
    }
}
