use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{PhoneNumber, Secret, Timestamp};
use ports::{Clock, OtpError, OtpSender};
use reqwest::Url;
use serde::Serialize;
use webhook::{HttpCallError, Webhook};

/// Timeout of an attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The delays before the second and the third attempt.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// Writes codes to the log, for single-operator servers and trials. Anyone with access to the log can sign in as any
/// user.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSender;

#[async_trait]
impl OtpSender for LogSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        tracing::info!(?phone_number, code, %expires_at, "one-time code");
        Ok(())
    }
}

/// Sends nothing; for a fixed code, which users know already.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedSender;

#[async_trait]
impl OtpSender for FixedSender {
    async fn send(&self, _: &PhoneNumber, _: &str, _: Timestamp) -> Result<(), OtpError> {
        Ok(())
    }
}

/// Sends codes through the operator's own service.
///
/// The service receives `POST {"phone_number", "code", "expires_at"}`, signed as [`Webhook`] describes. Any 2xx status
/// accepts the code. A transient failure is retried twice, so a code may be delivered more than once.
pub struct WebhookSender(Webhook);

#[derive(Serialize)]
struct OtpWebhookBody<'a> {
    phone_number: &'a str,
    code: &'a str,
    expires_at: Timestamp,
}

impl WebhookSender {
    /// Posts to `url`, signing with `secret`. Fails if the HTTP client cannot be created.
    pub fn new(url: Url, secret: &Secret, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        Webhook::new(url, secret.expose().as_bytes(), TIMEOUT, clock).map(Self)
    }
}

#[async_trait]
impl OtpSender for WebhookSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        let body = OtpWebhookBody { phone_number: phone_number.as_str(), code, expires_at };
        let body = Bytes::from(serde_json::to_vec(&body).map_err(|error| OtpError(error.into()))?);
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let Err(error) = self.0.post(body.clone(), &[]).await else { return Ok(()) };
            match pauses.next().filter(|_| may_pass(&error)) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(OtpError(error.into())),
            }
        }
    }
}

/// Whether a retry within a second can help. A user is waiting for the code, so every failure is retried, unless the
/// service has refused the request itself.
fn may_pass(error: &HttpCallError) -> bool {
    match error {
        HttpCallError::Unavailable { .. } | HttpCallError::Unanswered(_) => true,
        HttpCallError::Refused(status) => status.is_server_error(),
        HttpCallError::Gone(_) => false,
    }
}
