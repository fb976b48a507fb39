//! Stored rows as the bodies of the contract.

mod chat;
mod message;

pub(crate) use chat::{ChatSummaryRows, details, member_body, summaries};
pub(crate) use message::{message_bodies, visible_delivery_states};
