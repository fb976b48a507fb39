use std::fmt;

use crate::{DeviceId, Timestamp, UserId};

/// Maximum characters of a token or an endpoint.
const TEXT_CHARS_MAX: usize = 2048;
/// Size of an uncompressed P-256 point.
const POINT_BYTES: usize = 65;

/// A device that receives notifications while its user has no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushDevice {
    pub user_id: UserId,
    pub device_id: DeviceId,
    pub target: PushTarget,
    pub registered_at: Timestamp,
}

/// The address of a device for notifications. Anyone who has it can notify the device, so `Debug` never prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushTarget {
    /// Through the operator's own service, which identifies the device by this token.
    Webhook(PushToken),
    /// Through the browser's push service.
    WebPush(WebPushSubscription),
}

/// The device token of the operator's service: 1 to 2048 visible ASCII characters.
#[derive(Clone, PartialEq, Eq)]
pub struct PushToken(Box<str>);

/// A browser's subscription, with the fields of `PushSubscription`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebPushSubscription {
    endpoint: Box<str>,
    p256dh: [u8; POINT_BYTES],
    auth: [u8; 16],
}

/// Why a push target is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushTargetError {
    #[error("is 1 to {TEXT_CHARS_MAX} visible ASCII characters")]
    Text,
    #[error("is an uncompressed point on P-256: {POINT_BYTES} bytes that begin with 4")]
    Point,
    #[error("is 16 bytes")]
    Auth,
}

impl PushToken {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PushToken {
    type Error = PushTargetError;

    fn try_from(text: String) -> Result<Self, PushTargetError> {
        visible(text).map(Self)
    }
}

impl WebPushSubscription {
    /// A subscription with fields of the right form. The caller checks that the point is on the curve and that the
    /// endpoint is an allowed address.
    pub fn new(endpoint: String, p256dh: &[u8], auth: &[u8]) -> Result<Self, PushTargetError> {
        let p256dh: [u8; POINT_BYTES] = p256dh.try_into().map_err(|_| PushTargetError::Point)?;
        if p256dh[0] != 4 {
            return Err(PushTargetError::Point);
        }
        let auth = auth.try_into().map_err(|_| PushTargetError::Auth)?;
        Ok(Self { endpoint: visible(endpoint)?, p256dh, auth })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The browser's public key.
    pub fn p256dh(&self) -> &[u8] {
        &self.p256dh
    }

    /// The secret shared between the browser and the server.
    pub fn auth(&self) -> &[u8; 16] {
        &self.auth
    }
}

fn visible(text: String) -> Result<Box<str>, PushTargetError> {
    let fits = (1..=TEXT_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(text.into_boxed_str()) } else { Err(PushTargetError::Text) }
}

impl fmt::Debug for PushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<token>")
    }
}

impl fmt::Debug for WebPushSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<subscription>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_visible_bounded_and_never_printed() {
        let token = |text: &str| PushToken::try_from(text.to_owned());
        assert_eq!(format!("{:?}", token("fcm:abc").unwrap()), "<token>");
        for text in ["", "two words", "é", "line\n", &"x".repeat(2049)] {
            assert_eq!(token(text), Err(PushTargetError::Text), "{text}");
        }
    }

    #[test]
    fn a_subscription_has_a_point_and_a_secret_of_the_right_length() {
        let new = |p256dh: &[u8], auth: &[u8]| WebPushSubscription::new("https://push.example/1".into(), p256dh, auth);
        assert!(new(&[4; 65], &[0; 16]).is_ok());
        assert_eq!(new(&[3; 65], &[0; 16]), Err(PushTargetError::Point));
        assert_eq!(new(&[4; 64], &[0; 16]), Err(PushTargetError::Point));
        assert_eq!(new(&[4; 65], &[0; 15]), Err(PushTargetError::Auth));
        assert_eq!(WebPushSubscription::new("not visible".into(), &[4; 65], &[0; 16]), Err(PushTargetError::Text));
        assert_eq!(format!("{:?}", new(&[4; 65], &[0; 16]).unwrap()), "<subscription>");
    }
}
