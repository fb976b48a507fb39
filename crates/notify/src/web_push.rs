use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use domain::{ChatId, PushDevice, WebPushSubscription};
use ports::{BoxError, Clock, Notification, NotifyError, UnusableTarget};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{RequestBuilder, Url};
use web_push_native::p256::PublicKey;
use web_push_native::{Auth, encrypt};
use webhook::CallError;

use crate::endpoint::{PublicResolver, SubscriptionError, is_private_endpoint, public_url};
use crate::providers::not_told;
use crate::{VapidKeys, body};

/// How long a push service keeps a notification for a browser that is not there.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// Bytes before encryption, at the most: of the 4096 that every push service takes (RFC 8291), 86 are the header of the
/// encryption, 1 ends the padding and 16 are the tag.
const PAYLOAD_BYTES_MAX: usize = 4096 - 86 - 1 - 16;
/// Bytes of a topic, which is 32 characters at the most (RFC 8030).
const TOPIC_BYTES: usize = 24;

/// Tells browsers through their push services (RFC 8030), encrypted for each (RFC 8291).
pub struct WebPushNotifier {
    http: reqwest::Client,
    keys: Arc<VapidKeys>,
    config: WebPushConfig,
    clock: Arc<dyn Clock>,
}

/// What the operator decides about Web Push.
#[derive(Clone, Debug)]
pub struct WebPushConfig {
    /// Where push services reach the operator: a `mailto:` or `https:` URL. Some take nothing without it.
    pub contact: Option<String>,
    /// How long a call may take.
    pub timeout: Duration,
    /// Calls addresses that are not public, and without TLS, too: for tests and closed networks. A user chooses the
    /// address, so otherwise any user could have the server call its neighbours.
    pub private_endpoints: bool,
}

impl WebPushNotifier {
    /// Signs with `keys`. Fails if this machine can make no HTTP client.
    pub fn new(keys: Arc<VapidKeys>, config: WebPushConfig, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        let mut http = webhook::client(config.timeout);
        if !config.private_endpoints {
            // A proxy would resolve names itself, and so is not asked.
            http = http.https_only(true).no_proxy().dns_resolver(PublicResolver);
        }
        Ok(Self { http: http.build()?, keys, config, clock })
    }

    /// Whether a subscription can be used, as far as its text can say.
    pub(crate) fn check(&self, subscription: &WebPushSubscription) -> Result<(), UnusableTarget> {
        self.address(subscription).map(|_| ()).map_err(|error| UnusableTarget::Subscription(error.to_string()))
    }

    pub(crate) async fn notify(
        &self,
        device: &PushDevice,
        subscription: &WebPushSubscription,
        notification: &Notification,
    ) -> Result<(), NotifyError> {
        let body = body::encode(device, None, notification);
        let request = self.request(subscription, notification.chat_id, body).map_err(NotifyError::Refused)?;
        match webhook::call(request).await {
            Err(CallError::Gone(_)) => Err(NotifyError::Gone),
            Err(error) if is_private_endpoint(&error) => Err(NotifyError::Refused(SubscriptionError::Private.into())),
            other => other.map_err(not_told),
        }
    }

    fn request(
        &self,
        subscription: &WebPushSubscription,
        chat_id: ChatId,
        body: Bytes,
    ) -> Result<RequestBuilder, BoxError> {
        if body.len() > PAYLOAD_BYTES_MAX {
            return Err(format!("the notification has {} bytes, limit is {PAYLOAD_BYTES_MAX}", body.len()).into());
        }
        let (url, public_key) = self.address(subscription)?;
        let encrypted = encrypt(body.into(), &public_key, &Auth::from(*subscription.auth()))?;
        let authorization = self.keys.authorization(&url, self.config.contact.as_deref(), self.clock.now())?;
        let request = self.http.post(url).header(AUTHORIZATION, authorization);
        let request = request.header(CONTENT_ENCODING, "aes128gcm").header(CONTENT_TYPE, "application/octet-stream");
        let request = request.header("TTL", TTL.as_secs()).header("Urgency", "high");
        Ok(request.header("Topic", topic(subscription, chat_id)).body(encrypted))
    }

    /// Whom to call and for whom to encrypt.
    fn address(&self, subscription: &WebPushSubscription) -> Result<(Url, PublicKey), SubscriptionError> {
        let url = match self.config.private_endpoints {
            true => Url::parse(subscription.endpoint()).map_err(|_| SubscriptionError::Unreadable)?,
            false => public_url(subscription.endpoint())?,
        };
        let key = PublicKey::from_sec1_bytes(subscription.p256dh()).map_err(|_| SubscriptionError::Key)?;
        Ok((url, key))
    }
}

/// The name under which a push service keeps the last notification of a chat only. Each subscription has its own, so that
/// the service does not learn who is in the same chat.
fn topic(subscription: &WebPushSubscription, chat_id: ChatId) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, subscription.auth());
    BASE64_URL_SAFE_NO_PAD.encode(&hmac::sign(&key, &chat_id.to_bytes()).as_ref()[..TOPIC_BYTES])
}
