use std::time::Duration;

use axum::extract::State;
use domain::{ContentType, limits};
use protocol::PROTOCOL_VERSION;
use protocol::rest::{self, Data};

use super::RouteState;
use crate::http::Json;

/// The name, version and limits of this service.
///
/// Clients read the version of the contract, the limits that they must keep, and the key for Web Push subscriptions. No
/// token is needed.
#[utoipa::path(get, path = "/", tag = "service", responses((status = 200, body = Data<rest::Service>)))]
pub(crate) async fn service(State(api): RouteState) -> Json<Data<rest::Service>> {
    let (key, passkeys) = (api.web_push_public_key.clone(), api.auth.relying_party().is_ok());
    Json(Data { data: describe(key, passkeys, api.update_window) })
}

/// The description of the service, with its Web Push key if Web Push is on, whether passkeys are, and its update window.
pub(crate) fn describe(
    web_push_public_key: Option<String>,
    passkeys: bool,
    update_window: Option<Duration>,
) -> rest::Service {
    let content_types = [ContentType::Text, ContentType::Markdown, ContentType::Json, ContentType::Encrypted];
    rest::Service {
        name: "tidings".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol_version: PROTOCOL_VERSION,
        websocket_path: "/v1/ws".to_owned(),
        content_types: content_types.map(|content_type| content_type.as_str().to_owned()).to_vec(),
        web_push_public_key,
        passkeys,
        limits: rest::ServiceLimits {
            content_bytes_max: limits::CONTENT_BYTES_MAX,
            metadata_bytes_max: limits::METADATA_BYTES_MAX,
            frame_bytes_max: limits::FRAME_BYTES_MAX,
            body_bytes_max: limits::FRAME_BYTES_MAX,
            group_members_max: limits::GROUP_MEMBERS_MAX,
            display_name_chars_max: limits::DISPLAY_NAME_CHARS_MAX,
            chat_name_chars_max: limits::CHAT_NAME_CHARS_MAX,
            ttl_seconds_max: limits::TTL_MAX.as_secs(),
            sync_page_max: limits::SYNC_PAGE_MAX,
            history_page_max: limits::HISTORY_PAGE_MAX,
            lookup_numbers_max: limits::LOOKUP_NUMBERS_MAX,
            update_window_seconds: update_window.map_or(0, |window| window.as_secs()),
            reaction_bytes_max: limits::REACTION_BYTES_MAX,
            reaction_kinds_max: limits::REACTION_KINDS_MAX,
            reactions_per_user_max: limits::REACTIONS_PER_USER_MAX,
        },
    }
}

/// The public keys that verify our access tokens, as a JWK set (RFC 7517), without the envelope.
///
/// Services that trust our tokens fetch and cache it. A key stays in the set for as long as tokens that it signed are
/// valid.
#[utoipa::path(
    get,
    path = "/.well-known/jwks.json",
    tag = "service",
    responses((status = 200, description = "A JWK set", body = serde_json::Value))
)]
pub(crate) async fn jwks(State(api): RouteState) -> Json<serde_json::Value> {
    Json(api.auth.jwks())
}
