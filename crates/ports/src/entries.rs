use std::time::Duration;

use aws_lc_rs::digest;
use domain::{
    ChatId, ClientMessageId, Message, MessageId, MessageUpdate, Role, Sequence, Timestamp, Ttl, UpdateAction, Updater,
    UserId,
};

use crate::NewMessage;
use crate::messages::digest_of_body;

/// An entry of a chat to be committed, complete except for its sequence.
#[derive(Clone, Debug)]
pub enum NewEntry {
    /// A message.
    Message(NewMessage),
    /// An update of a message.
    Update(NewUpdate),
}

/// An update of a message to be committed, complete except for its sequence.
#[derive(Clone, Debug)]
pub struct NewUpdate {
    /// The chat of the message.
    pub chat_id: ChatId,
    /// The author of the update; the commit checks their membership.
    pub user_id: UserId,
    /// The client's id of the update, from the same space as that of a send.
    pub client_message_id: ClientMessageId,
    /// The id of the update if it is new.
    pub update_id: MessageId,
    /// The sequence of the message.
    pub target: Sequence,
    /// The action on the message.
    pub action: UpdateAction,
    /// The age up to which authors edit and delete their messages; unlimited if absent.
    pub window: Option<Duration>,
    /// The longest lifetime of any entry of the service; unlimited if absent.
    pub ttl_max: Option<Ttl>,
    /// The time of the update if it is new.
    pub created_at: Timestamp,
}

impl NewUpdate {
    /// A digest of the parts that a retry must repeat, as [`NewMessage::fingerprint`]. No message has the same one: its
    /// digest begins with a ttl, which is far below the first eight bytes of this one.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&u64::MAX.to_be_bytes());
        context.update(&self.target.0.to_be_bytes());
        let kind = self.action.kind();
        context.update(kind.as_str().as_bytes());
        context.update(&[0]);
        match &self.action {
            UpdateAction::Edit(body) => digest_of_body(&mut context, body),
            UpdateAction::Delete => {}
            UpdateAction::React(reaction) | UpdateAction::Unreact(reaction) => {
                context.update(reaction.as_str().as_bytes());
            }
        }
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&context.finish().as_ref()[..16]);
        fingerprint
    }

    /// The circumstances of this update at `sequence`, by a member with this role.
    pub fn updater(&self, role: Role, sequence: Sequence) -> Updater {
        Updater { user_id: self.user_id, role, window: self.window, sequence, now: self.created_at }
    }

    /// The entry of this update at `sequence`, for its message in the new state. It gets the expiry time that the message
    /// has now, or the end of `ttl_max` if that is earlier. A later, earlier expiry of the message does not change it: the
    /// entry has no content. That of a deletion ends only with `ttl_max`, so that clients which were away learn of it.
    pub fn at(&self, sequence: Sequence, message: &Message) -> MessageUpdate {
        let of_message = match self.action {
            UpdateAction::Delete => None,
            UpdateAction::Edit(_) | UpdateAction::React(_) | UpdateAction::Unreact(_) => message.expires_at,
        };
        let of_service = self.ttl_max.map(|ttl| self.created_at + ttl.as_duration());
        MessageUpdate {
            update_id: self.update_id,
            chat_id: self.chat_id,
            sequence,
            user_id: self.user_id,
            client_message_id: self.client_message_id,
            target: self.target,
            kind: self.action.kind(),
            created_at: self.created_at,
            expires_at: [of_message, of_service].into_iter().flatten().min(),
        }
    }
}

impl NewEntry {
    /// The chat of the entry.
    pub fn chat_id(&self) -> ChatId {
        match self {
            Self::Message(message) => message.chat_id,
            Self::Update(update) => update.chat_id,
        }
    }

    /// The author of the entry.
    pub fn sender_id(&self) -> UserId {
        match self {
            Self::Message(message) => message.sender_id,
            Self::Update(update) => update.user_id,
        }
    }

    /// The client's id of the entry: with chat and author, the idempotency key.
    pub fn client_message_id(&self) -> ClientMessageId {
        match self {
            Self::Message(message) => message.client_message_id,
            Self::Update(update) => update.client_message_id,
        }
    }

    /// The id of the entry if it is new.
    pub fn message_id(&self) -> MessageId {
        match self {
            Self::Message(message) => message.message_id,
            Self::Update(update) => update.update_id,
        }
    }

    /// The time of the entry if it is new.
    pub fn created_at(&self) -> Timestamp {
        match self {
            Self::Message(message) => message.created_at,
            Self::Update(update) => update.created_at,
        }
    }

    /// Whether the entry makes the content of the chat smaller, so that a full store accepts it.
    pub fn frees_space(&self) -> bool {
        matches!(self, Self::Update(NewUpdate { action: UpdateAction::Delete, .. }))
    }

    /// A digest of the parts that a retry must repeat.
    pub fn fingerprint(&self) -> [u8; 16] {
        match self {
            Self::Message(message) => message.fingerprint(),
            Self::Update(update) => update.fingerprint(),
        }
    }
}

impl From<NewMessage> for NewEntry {
    fn from(message: NewMessage) -> Self {
        Self::Message(message)
    }
}

impl From<NewUpdate> for NewEntry {
    fn from(update: NewUpdate) -> Self {
        Self::Update(update)
    }
}
