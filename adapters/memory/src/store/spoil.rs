use domain::{
    ChatId, ClientMessageId, DirectPair, Message, MessageUpdate, Reaction, Role, Sequence, UserId, Watermarks,
};
use ports::{Position, Receipt};

use super::MemoryStore;

/// Damage to a store, as by a disk, an operator or a defect.
#[derive(Clone, Debug)]
pub enum Damage {
    /// The head row of a chat has another sequence, and refers to a last message there.
    Head(ChatId, Sequence),
    /// A message is lost.
    NoMessage(ChatId, Sequence),
    /// A message is written without any checks.
    Message(Box<Message>),
    /// An update is lost.
    NoUpdate(ChatId, Sequence),
    /// An update is written without any checks.
    Update(Box<MessageUpdate>),
    /// A member has other reactions to a message.
    Reactions(ChatId, Sequence, UserId, Vec<Reaction>),
    /// The location row of a message is lost.
    NoPlace(ChatId, Sequence),
    /// A send key is lost.
    NoSendKey(ChatId, UserId, ClientMessageId),
    /// A send key has another receipt.
    SendKey(ChatId, UserId, ClientMessageId, Receipt),
    /// A member has other watermarks.
    Watermarks(ChatId, UserId, Watermarks),
    /// The watermarks of a member are lost.
    NoWatermarks(ChatId, UserId),
    /// The chat has lost the row of a member who was not removed.
    NoMember(ChatId, UserId),
    /// A member has another role.
    Role(ChatId, UserId, Role),
    /// The chat is missing from the member's list.
    NoListing(ChatId, UserId),
    /// The pair row of a direct chat refers to another chat.
    Pair(DirectPair, ChatId),
    /// An event of the log is lost.
    NoEvent(Position),
    /// Two events of the log are swapped.
    Swapped(Position, Position),
    /// A consumer group has another position.
    Consumer(String, Position),
}

impl MemoryStore {
    /// Damages the store, to test that an audit detects it. Damage to a missing row has no effect.
    pub fn spoil(&self, damage: Damage) {
        self.transaction(|state| match damage {
            Damage::Head(chat_id, sequence) => {
                if let Some(head) = state.chats.get_mut(&chat_id).and_then(|chat| chat.head.as_mut()) {
                    head.sequence = sequence;
                    head.last_message.iter_mut().for_each(|last| last.sequence = sequence);
                }
            }
            Damage::NoMessage(chat_id, sequence) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.messages.remove(&sequence));
            }
            Damage::Message(message) => {
                if let Some(chat) = state.chats.get_mut(&message.chat_id) {
                    chat.messages.insert(message.sequence, *message);
                }
            }
            Damage::NoUpdate(chat_id, sequence) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.updates.remove(&sequence));
            }
            Damage::Update(update) => {
                if let Some(chat) = state.chats.get_mut(&update.chat_id) {
                    chat.updates.insert(update.sequence, *update);
                }
            }
            Damage::Reactions(chat_id, sequence, user_id, reactions) => {
                if let Some(chat) = state.chats.get_mut(&chat_id) {
                    chat.reactions.insert((sequence, user_id), reactions);
                }
            }
            Damage::NoPlace(chat_id, sequence) => {
                state.locations.retain(|_, place| *place != (chat_id, sequence));
            }
            Damage::NoSendKey(chat_id, sender_id, send) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.sends.remove(&(sender_id, send)));
            }
            Damage::SendKey(chat_id, sender_id, send, receipt) => {
                let send = state.chats.get_mut(&chat_id).and_then(|chat| chat.sends.get_mut(&(sender_id, send)));
                send.into_iter().for_each(|send| send.receipt = receipt);
            }
            Damage::Watermarks(chat_id, user_id, watermarks) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.delivery_states.insert(user_id, watermarks.into()));
            }
            Damage::NoWatermarks(chat_id, user_id) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.delivery_states.remove(&user_id));
            }
            Damage::NoMember(chat_id, user_id) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.members.remove(&user_id));
            }
            Damage::Role(chat_id, user_id, role) => {
                let member = state.chats.get_mut(&chat_id).and_then(|chat| chat.members.get_mut(&user_id));
                member.into_iter().for_each(|member| member.role = role);
            }
            Damage::NoListing(chat_id, user_id) => {
                state.memberships.get_mut(&user_id).map(|chats| chats.remove(&chat_id));
            }
            Damage::Pair(pair, chat_id) => {
                state.direct_chats.insert(pair, chat_id);
            }
            Damage::NoEvent(position) => {
                state.log.remove(&position);
            }
            Damage::Swapped(one, other) => {
                if let (Some(first), Some(second)) = (state.log.remove(&one), state.log.remove(&other)) {
                    state.log.insert(one, second);
                    state.log.insert(other, first);
                }
            }
            Damage::Consumer(group, position) => {
                state.consumed.insert(group, position);
            }
        });
    }
}
