use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Name, versions and limits of this service, GET `/api/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Service {
    pub name: String,
    pub version: String,
    pub protocol_version: u32,
    /// The path of the WebSocket.
    pub websocket_path: String,
    /// The content types that the service accepts.
    pub content_types: Vec<String>,
    /// The key with which browsers subscribe to Web Push (`applicationServerKey`); `null` if Web Push is off.
    #[schema(required = true)]
    pub web_push_public_key: Option<String>,
    /// Whether users can register passkeys and sign in with them.
    #[serde(default)]
    #[schema(required = true)]
    pub passkeys: bool,
    pub limits: ServiceLimits,
}

/// The bounds of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ServiceLimits {
    pub content_bytes_max: usize,
    pub metadata_bytes_max: usize,
    pub frame_bytes_max: usize,
    pub body_bytes_max: usize,
    pub group_members_max: usize,
    pub display_name_chars_max: usize,
    pub chat_name_chars_max: usize,
    pub ttl_seconds_max: u64,
    pub sync_page_max: usize,
    pub history_page_max: usize,
    pub lookup_numbers_max: usize,
    /// The age in seconds up to which authors edit and delete their messages; 0 means unlimited.
    #[serde(default)]
    #[schema(required = true)]
    pub update_window_seconds: u64,
    #[serde(default)]
    #[schema(required = true)]
    pub reaction_bytes_max: usize,
    /// Different reactions on a message.
    #[serde(default)]
    #[schema(required = true)]
    pub reaction_kinds_max: usize,
    /// Reactions of a member on a message.
    #[serde(default)]
    #[schema(required = true)]
    pub reactions_per_user_max: usize,
}
