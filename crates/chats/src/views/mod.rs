//! Stored rows as the bodies of the contract.

mod chat;
mod message;
mod unread;

pub(crate) use chat::{load_chats, member_body, users_by_id};
pub(crate) use message::message_bodies;
