//! The messages that the application of a device has stored. They survive a crash of the device.

use std::collections::BTreeMap;

use audit::history::fingerprint;
use domain::{ChatId, ClientMessageId, Message, MessageState, Reaction, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, MessageUpdated, UpdateName};

/// The messages of each chat.
pub(crate) type Copies = BTreeMap<ChatId, BTreeMap<Sequence, MessageCopy>>;

/// A copy of a message.
#[derive(Clone, Debug)]
pub(crate) struct MessageCopy {
    pub(crate) sender_id: UserId,
    /// Present on the devices of the sender.
    pub(crate) client_message_id: Option<ClientMessageId>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) state: CopyState,
}

/// The part of a message that updates change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    Present {
        /// The fingerprint of the content.
        content: u64,
        state: MessageState,
    },
    /// It was deleted for everyone.
    Deleted,
}

impl CopyState {
    /// The state of a stored message.
    pub(crate) fn of_stored(message: &Message) -> Self {
        Self::Present { content: fingerprint(message.body.content.as_str()), state: message.state.clone() }
    }

    /// The state of a message that a client has received.
    fn of_received(body: &MessageBody<'_>) -> Self {
        let state = body.state.clone().map(MessageState::from).unwrap_or_default();
        Self::Present { content: fingerprint(body.content.as_ref()), state }
    }

    /// The sequence of the last update. Nothing follows a deletion.
    fn revision(&self) -> Sequence {
        match self {
            Self::Present { state, .. } => state.revision,
            Self::Deleted => Sequence(u64::MAX),
        }
    }
}

/// Stores a received message, unless the copy that is already there is newer.
pub(crate) fn keep(copies: &mut Copies, body: &MessageBody<'_>, keeps_older: bool) {
    let of_chat = copies.entry(body.chat_id).or_default();
    let state = CopyState::of_received(body);
    let known = of_chat.get(&body.sequence);
    if known.is_some_and(|known| (known.state.revision() < state.revision()) == keeps_older) {
        return;
    }
    let copy = MessageCopy {
        sender_id: body.sender_id,
        // The push of an update by another user does not have it.
        client_message_id: body.client_message_id.or(known.and_then(|known| known.client_message_id)),
        expires_at: body.expires_at,
        state,
    };
    of_chat.insert(body.sequence, copy);
}

/// Applies an update to the copy of its message. A message that the client has not shown stays unknown to it.
///
/// A process with a late clock still has a deleted message for a moment, so the kind of the update decides.
pub(crate) fn apply(copies: &mut Copies, updated: &MessageUpdated<'_>, keeps_older: bool) {
    let MessageUpdated { update, message } = updated;
    let Some(of_chat) = copies.get_mut(&update.chat_id) else { return };
    let Some(known) = of_chat.get_mut(&update.target_sequence) else { return };
    match message {
        _ if update.kind == UpdateName::Deleted => known.state = CopyState::Deleted,
        Some(message) => keep(copies, message, keeps_older),
        None => {}
    }
}

/// A hash of the fields of an update that every client sees.
pub(crate) fn update_fingerprint(kind: UpdateName, target: Sequence, reaction: Option<&Reaction>) -> u64 {
    let reaction = reaction.map_or("", Reaction::as_str);
    fingerprint(&format!("{kind:?} {target} {reaction}"))
}
