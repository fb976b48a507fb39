use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Sensitive;

/// Body of PUT `/devices/{device_id}/push`: how the device is notified of messages while its user is offline. A
/// browser's `PushSubscription` can be sent unchanged beside `provider`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct PushRegistration {
    pub provider: PushProvider,
    /// For `webhook`: the device's name at the operator's service, 1 to 2048 visible ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Without a bound in the schema: `webpush` ignores this field, so any length is valid.
    #[schema(value_type = Option<String>)]
    pub token: Option<Sensitive>,
    /// For `webpush`: the address at the browser's push service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    pub endpoint: Option<Sensitive>,
    /// For `webpush`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<PushKeys>,
}

/// The service that delivers notifications to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PushProvider {
    /// The operator's own service.
    Webhook,
    /// The browser's push service.
    Webpush,
}

/// The keys of a browser's subscription, in base64url.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PushKeys {
    /// The browser's public key, an uncompressed point on P-256.
    #[schema(value_type = String)]
    pub p256dh: Sensitive,
    /// The secret that the browser shares with this service, 16 bytes.
    #[schema(value_type = String)]
    pub auth: Sensitive,
}
