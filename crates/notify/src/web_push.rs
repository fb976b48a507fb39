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
use webhook::HttpCallError;

use crate::encryption::{self, SubscriberKey, encrypt};
use crate::endpoint::{PublicResolver, SubscriptionError, is_private_endpoint, public_url};
use crate::providers::notify_error;
use crate::{VapidKeys, body};

/// How long a push service stores a notification for an offline browser.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// Bytes before encryption, at most: every push service accepts 4096 bytes after it (RFC 8291).
const PAYLOAD_BYTES_MAX: usize = 4096 - encryption::OVERHEAD;
/// Bytes of a topic, which has at most 32 characters (RFC 8030).
const TOPIC_BYTES: usize = 24;

/// Notifies browsers through their push services (RFC 8030), encrypted for each subscription (RFC 8291).
pub struct WebPushNotifier {
    http: reqwest::Client,
    keys: Arc<VapidKeys>,
    config: WebPushConfig,
    clock: Arc<dyn Clock>,
}

/// Configuration of Web Push.
#[derive(Clone, Debug)]
pub struct WebPushConfig {
    /// Contact of the operator for push services: a `mailto:` or `https:` URL. Some services require it.
    pub contact: Option<String>,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Also allows private addresses and plain HTTP, for tests and closed networks. Users choose the endpoint, so on other
    /// networks any user could make the server call internal addresses.
    pub private_endpoints: bool,
}

impl WebPushNotifier {
    /// Creates a notifier that signs with `keys`. Fails if the HTTP client cannot be created.
    pub fn new(keys: Arc<VapidKeys>, config: WebPushConfig, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        let mut http = webhook::client(config.timeout);
        if !config.private_endpoints {
            // A proxy would resolve host names itself and bypass the check, so do not use one.
            http = http.https_only(true).no_proxy().dns_resolver(PublicResolver);
        }
        Ok(Self { http: http.build()?, keys, config, clock })
    }

    /// Whether a subscription is usable, without resolving its host name.
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
            Err(HttpCallError::Gone(_)) => Err(NotifyError::Gone),
            Err(error) if is_private_endpoint(&error) => Err(NotifyError::Refused(SubscriptionError::Private.into())),
            other => other.map_err(notify_error),
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
        let encrypted = encrypt(&body, public_key, subscription.auth())?;
        let authorization = self.keys.authorization(&url, self.config.contact.as_deref(), self.clock.now())?;
        let request = self.http.post(url).header(AUTHORIZATION, authorization);
        let request = request.header(CONTENT_ENCODING, "aes128gcm").header(CONTENT_TYPE, "application/octet-stream");
        let request = request.header("TTL", TTL.as_secs()).header("Urgency", "high");
        Ok(request.header("Topic", topic(subscription, chat_id)).body(encrypted))
    }

    /// The URL to call and the public key to encrypt for.
    fn address(&self, subscription: &WebPushSubscription) -> Result<(Url, SubscriberKey), SubscriptionError> {
        let url = match self.config.private_endpoints {
            true => Url::parse(subscription.endpoint()).map_err(|_| SubscriptionError::Unreadable)?,
            false => public_url(subscription.endpoint())?,
        };
        let key = SubscriberKey::parse(subscription.p256dh()).ok_or(SubscriptionError::Key)?;
        Ok((url, key))
    }
}

/// Topic of a chat: a push service keeps only the latest notification of each topic. It differs for each subscription, so the
/// service cannot tell which users share a chat.
fn topic(subscription: &WebPushSubscription, chat_id: ChatId) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, subscription.auth());
    BASE64_URL_SAFE_NO_PAD.encode(&hmac::sign(&key, &chat_id.to_bytes()).as_ref()[..TOPIC_BYTES])
}
