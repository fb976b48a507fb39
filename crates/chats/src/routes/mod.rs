//! The routes, one file for each family.

pub(crate) mod account;
pub(crate) mod auth;
pub(crate) mod blocks;
pub(crate) mod chats;
pub(crate) mod contacts;
pub(crate) mod devices;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod invitations;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod passkeys;
pub(crate) mod presence;
mod quotas;
pub(crate) mod receipts;
pub(crate) mod reports;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod updates;
pub(crate) mod users;

use std::sync::Arc;

use axum::extract::State;
use domain::{ChatId, UserId};
use protocol::schema;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Api;

pub(crate) type RouteState = State<Arc<Api>>;

#[derive(Deserialize, IntoParams)]
pub(crate) struct UserPath {
    /// The user.
    #[param(value_type = schema::UserId)]
    user_id: UserId,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct ChatPath {
    /// The chat.
    #[param(value_type = schema::ChatId)]
    chat_id: ChatId,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct MemberPath {
    /// The chat.
    #[param(value_type = schema::ChatId)]
    chat_id: ChatId,
    /// The user.
    #[param(value_type = schema::UserId)]
    user_id: UserId,
}
