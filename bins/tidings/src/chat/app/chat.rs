use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ChatType, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, MessageUpdated, ReceiptBody, SendMessageAck};
use protocol::rest::{ChatDetails, ChatSummary, LastMessage, Member, MemberWatermarks, MessageStatus};

use super::log::{ChatLog, ChatLogEntry};

/// How long a typing indicator lasts unless it is repeated.
const TYPING: Duration = Duration::from_secs(10);

/// One chat of the inbox, with its local state.
#[derive(Debug)]
pub(crate) struct InboxChat {
    pub(crate) summary: ChatSummary,
    /// Loaded when the chat is first opened.
    pub(crate) members: Vec<Member>,
    watermarks: BTreeMap<UserId, KnownWatermarks>,
    pub(crate) log: ChatLog,
    /// Users who are typing, and when each indicator expires.
    typing: BTreeMap<UserId, Timestamp>,
    /// Unsent text, kept while another chat is open.
    pub(crate) draft: String,
    /// The read watermark of this user, as far as this device knows.
    read: Sequence,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownWatermarks {
    delivered: Sequence,
    read: Sequence,
}

/// Delivery state of the user's own message, as shown on screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryProgress {
    Sent,
    Delivered,
    Read,
}

/// Whether a summary from the server is newer than the messages received since.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// Messages have arrived that the summary does not count: request it again.
    Stale,
}

impl InboxChat {
    pub(crate) fn new(summary: ChatSummary) -> Self {
        Self {
            read: summary.my_read_sequence,
            summary,
            members: Vec::new(),
            watermarks: BTreeMap::new(),
            log: ChatLog::default(),
            typing: BTreeMap::new(),
            draft: String::new(),
        }
    }

    /// Display title: the name of a group, or of the other person.
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

    /// Display name of a user in the chat, if known.
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

    /// Sort key of the chat in the inbox.
    pub(crate) fn active_at(&self) -> Timestamp {
        self.summary.last_message_at.unwrap_or(self.summary.created_at)
    }

    /// Applies a summary from the server. Newer local state (messages received and read since) takes precedence.
    pub(crate) fn update(&mut self, summary: ChatSummary) -> Freshness {
        self.read = self.read.max(summary.my_read_sequence);
        if summary.head_sequence < self.summary.head_sequence {
            return Freshness::Stale;
        }
        self.summary = summary;
        if self.read >= self.summary.head_sequence {
            self.summary.unread_count = 0;
            self.summary.unread_count_exact = true;
        }
        Freshness::Fresh
    }

    /// Also applies the members and their watermarks.
    pub(crate) fn update_details(&mut self, details: ChatDetails, watermarks: Vec<MemberWatermarks>) -> Freshness {
        self.members = details.members;
        self.watermarks.retain(|user_id, _| self.members.iter().any(|member| member.user_id == *user_id));
        for of_member in watermarks {
            self.advance(of_member.user_id, of_member.delivered_sequence, of_member.read_sequence);
        }
        self.update(details.summary)
    }

    /// Records the acknowledgement of a send.
    pub(crate) fn acknowledge(&mut self, me: UserId, ack: &SendMessageAck) {
        if let Some(message) = self.log.acknowledge(me, ack) {
            self.arrive(me, &message);
        }
    }

    /// Adds a received message. Returns whether it is new and unread for this user.
    pub(crate) fn arrive(&mut self, me: UserId, message: &MessageBody<'static>) -> bool {
        self.typing.remove(&message.sender_id);
        // The ack of the user's own message does not carry an expiry that comes from the chat.
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
            preview: preview(message),
            created_at: message.created_at,
        });
        let is_change = message.sender_id != me && message.sequence > self.read;
        self.summary.unread_count += u64::from(is_change);
        is_change
    }

    /// Applies an update of a message, also to the inbox preview.
    pub(crate) fn update_message(&mut self, me: UserId, updated: &MessageUpdated<'static>) {
        let MessageUpdated { update, message } = updated;
        self.summary.head_sequence = self.summary.head_sequence.max(update.sequence);
        if let Some(client_message_id) = update.client_message_id {
            self.log.settle_update(client_message_id);
        }
        match message {
            Some(message) => {
                if let Some(last) = self.summary.last_message.as_mut().filter(|last| last.sequence == message.sequence)
                {
                    last.preview = preview(message);
                }
                self.log.revise(me, updated);
            }
            None => self.expire(&[update.target_sequence]),
        }
    }

    /// Applies a server reset (its head sequence is lower than the local one): drops everything above its head.
    pub(crate) fn reset(&mut self, head: Sequence) {
        self.log.reset();
        self.summary.head_sequence = head;
        self.read = self.read.min(head);
        self.watermarks.clear();
    }

    /// Advances the read watermark, from this device or another. Returns whether the whole chat is read.
    pub(crate) fn mark_read(&mut self, sequence: Sequence) -> bool {
        self.read = self.read.max(sequence);
        let all = self.read >= self.summary.head_sequence;
        if all {
            self.summary.unread_count = 0;
            self.summary.unread_count_exact = true;
        }
        all
    }

    /// Applies the watermarks of a member.
    pub(crate) fn take_receipt(&mut self, receipt: &ReceiptBody) {
        self.advance(receipt.user_id, receipt.delivered_sequence, receipt.read_sequence);
    }

    fn advance(&mut self, user_id: UserId, delivered: Sequence, read: Sequence) {
        let known = self.watermarks.entry(user_id).or_default();
        known.delivered = known.delivered.max(delivered);
        known.read = known.read.max(read);
    }

    /// Delivery state of the user's own message: the status from the server, or newer watermarks of the members.
    pub(crate) fn fate(&self, me: UserId, entry: &ChatLogEntry) -> DeliveryProgress {
        let said = match entry.status {
            Some(MessageStatus::Read) => return DeliveryProgress::Read,
            Some(MessageStatus::Delivered) => DeliveryProgress::Delivered,
            Some(MessageStatus::Sent) | None => DeliveryProgress::Sent,
        };
        let others: Vec<KnownWatermarks> =
            self.others(me).map(|user_id| self.watermarks.get(&user_id).copied().unwrap_or_default()).collect();
        let reached = |reach: fn(&KnownWatermarks) -> Sequence| {
            !others.is_empty() && others.iter().all(|of_member| reach(of_member) >= entry.body.sequence)
        };
        if reached(|of_member| of_member.read) {
            DeliveryProgress::Read
        } else if reached(|of_member| of_member.delivered) {
            DeliveryProgress::Delivered
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

    /// Starts or ends the typing indicator of a user.
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

    /// Removes expired messages, also from the inbox preview.
    pub(crate) fn expire(&mut self, sequences: &[Sequence]) {
        self.log.expire(sequences);
        self.summary.last_message.take_if(|last| sequences.contains(&last.sequence));
    }

    /// Drops expired typing indicators and messages. Returns whether messages expired.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> bool {
        self.typing.retain(|_, until| *until > now);
        let gone = self.log.sweep(now);
        self.expire(&gone);
        !gone.is_empty()
    }

    /// When the next typing indicator or message expires.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.typing.values().copied().chain(self.log.next_expiry()).min()
    }
}

/// The preview of the inbox. The terminal client does not decrypt.
fn preview(message: &MessageBody<'_>) -> Option<String> {
    match message.content_type {
        domain::ContentType::Encrypted => None,
        _ => Some(message.content.chars().take(domain::limits::PREVIEW_CHARS_MAX).collect()),
    }
}
