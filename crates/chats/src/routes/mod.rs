//! The routes, one file for each family.

pub(crate) mod auth;
pub(crate) mod chats;
pub(crate) mod contacts;
pub(crate) mod devices;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod presence;
pub(crate) mod receipts;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod users;

use std::sync::Arc;

use axum::extract::State;
use domain::{ChatId, UserId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Api;

pub(crate) type App = State<Arc<Api>>;

#[derive(Deserialize, IntoParams)]
pub(crate) struct UserPath {
    #[param(value_type = String)]
    user_id: UserId,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct ChatPath {
    #[param(value_type = String)]
    chat_id: ChatId,
}

#[derive(Deserialize, IntoParams)]
pub(crate) struct MemberPath {
    #[param(value_type = String)]
    chat_id: ChatId,
    #[param(value_type = String)]
    user_id: UserId,
}
