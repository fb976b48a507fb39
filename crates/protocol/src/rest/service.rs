use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What this service is and what it takes, GET `/api/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Service {
    pub name: String,
    pub version: String,
    pub protocol_version: u32,
    /// Where the WebSocket is.
    pub websocket_path: String,
    /// What content may be.
    pub content_types: Vec<String>,
    /// The key that browsers subscribe to Web Push with (`applicationServerKey`); `null` where it is off.
    #[schema(required = true)]
    pub web_push_public_key: Option<String>,
    pub limits: ServiceLimits,
}

/// The bounds of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ServiceLimits {
    pub content_bytes_max: usize,
    pub frame_bytes_max: usize,
    pub body_bytes_max: usize,
    pub group_members_max: usize,
    pub display_name_chars_max: usize,
    pub chat_name_chars_max: usize,
    pub ttl_seconds_max: u64,
    pub sync_page_max: usize,
    pub history_page_max: usize,
    pub lookup_numbers_max: usize,
}
