use domain::{ChatId, ClientMessageId, DirectPair, Message, Role, Sequence, UserId, Watermarks};
use ports::{Position, Receipt};

use super::MemoryStore;

/// A way in which a store can be broken: by a disk, an operator, or a defect.
#[derive(Clone, Debug)]
pub enum Damage {
    /// The head row of a chat says another sequence.
    Head(ChatId, Sequence),
    /// A message is lost.
    NoMessage(ChatId, Sequence),
    /// A message is stored where it says, past every rule.
    Message(Box<Message>),
    /// The id of a message leads nowhere.
    NoPlace(ChatId, Sequence),
    /// A send is forgotten.
    NoSendKey(ChatId, UserId, ClientMessageId),
    /// A send key says something else.
    SendKey(ChatId, UserId, ClientMessageId, Receipt),
    /// The watermarks of a member are others.
    Watermarks(ChatId, UserId, Watermarks),
    /// The watermarks of a member are lost.
    NoWatermarks(ChatId, UserId),
    /// The chat has lost a member, whom nobody has removed.
    NoMember(ChatId, UserId),
    /// A member has another role.
    Role(ChatId, UserId, Role),
    /// A member does not find the chat any more.
    NoListing(ChatId, UserId),
    /// The direct chat of a pair is another.
    Pair(DirectPair, ChatId),
    /// An event of the log is lost.
    NoEvent(Position),
    /// Two events of the log have changed places.
    Swapped(Position, Position),
    /// A group of consumers is somewhere else.
    Consumer(String, Position),
}

impl MemoryStore {
    /// Breaks the store, to show that it is noticed. What is not there cannot be broken, and is left alone.
    pub fn spoil(&self, damage: Damage) {
        self.transaction(|state| match damage {
            Damage::Head(chat_id, sequence) => {
                let head = state.chats.get_mut(&chat_id).and_then(|chat| chat.head.as_mut());
                head.into_iter().for_each(|head| head.sequence = sequence);
            }
            Damage::NoMessage(chat_id, sequence) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.messages.remove(&sequence));
            }
            Damage::Message(message) => {
                if let Some(chat) = state.chats.get_mut(&message.chat_id) {
                    chat.messages.insert(message.sequence, *message);
                }
            }
            Damage::NoPlace(chat_id, sequence) => {
                state.places.retain(|_, place| *place != (chat_id, sequence));
            }
            Damage::NoSendKey(chat_id, sender_id, send) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.sends.remove(&(sender_id, send)));
            }
            Damage::SendKey(chat_id, sender_id, send, receipt) => {
                let send = state.chats.get_mut(&chat_id).and_then(|chat| chat.sends.get_mut(&(sender_id, send)));
                send.into_iter().for_each(|send| send.receipt = receipt);
            }
            Damage::Watermarks(chat_id, user_id, watermarks) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.watermarks.insert(user_id, watermarks));
            }
            Damage::NoWatermarks(chat_id, user_id) => {
                state.chats.get_mut(&chat_id).and_then(|chat| chat.watermarks.remove(&user_id));
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
