use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{PhoneNumber, Timestamp};
use ports::{Clock, OtpError, OtpSender};
use reqwest::Url;
use serde::Serialize;
use webhook::{CallError, Webhook};

use crate::Secret;

/// How long a try may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses before the second and the third try.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// Writes codes to the log, for whoever runs the server alone or tries it out: who reads the log can sign in as anyone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSender;

#[async_trait]
impl OtpSender for LogSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        tracing::info!(?phone_number, code, %expires_at, "one-time code");
        Ok(())
    }
}

/// Sends nothing: with a fixed code everybody knows it already.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedSender;

#[async_trait]
impl OtpSender for FixedSender {
    async fn send(&self, _: &PhoneNumber, _: &str, _: Timestamp) -> Result<(), OtpError> {
        Ok(())
    }
}

/// Hands codes to the operator's own service, which sends them on.
///
/// It gets `POST {"phone_number", "code", "expires_at"}`, signed as [`Webhook`] says. Any 2xx takes the code. A failure
/// that may pass is tried twice more, so one code may arrive more than once.
pub struct WebhookSender(Webhook);

#[derive(Serialize)]
struct Body<'a> {
    phone_number: &'a str,
    code: &'a str,
    expires_at: Timestamp,
}

impl WebhookSender {
    /// Posts to `url`, signing with `secret`. Fails if this machine can make no HTTP client.
    pub fn new(url: Url, secret: &Secret, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        Webhook::new(url, secret.expose().as_bytes(), TIMEOUT, clock).map(Self)
    }
}

#[async_trait]
impl OtpSender for WebhookSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        let body = Body { phone_number: phone_number.as_str(), code, expires_at };
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

/// Whether trying again within a second can help. Somebody waits for the code, so a service that has failed is asked
/// again, unless it has understood the request and said no.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Unavailable { .. } | CallError::Unanswered(_) => true,
        CallError::Refused(status) => status.is_server_error(),
        CallError::Gone(_) => false,
    }
}
