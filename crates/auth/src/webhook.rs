use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::hmac;
use domain::{PhoneNumber, Timestamp};
use ports::{Clock, OtpError, OtpSender};
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, StatusCode, Url};
use serde::Serialize;

use crate::Secret;
use crate::http::{self, HttpError};

/// The pauses before the second and the third try.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// Hands codes to the operator's own service, which sends them on.
///
/// It gets `POST {"phone_number", "code", "expires_at"}` with `Tidings-Signature: t=<unix>,v1=<hex>`, where `v1` is the
/// HMAC-SHA256 of `<t>.<body>` under the shared secret. Any 2xx takes the code. A failure that may pass is tried twice
/// more, so one code may arrive more than once.
pub struct WebhookSender {
    url: Url,
    key: hmac::Key,
    http: reqwest::Client,
    clock: Arc<dyn Clock>,
}

#[derive(Serialize)]
struct Body<'a> {
    phone_number: &'a str,
    code: &'a str,
    expires_at: Timestamp,
}

impl WebhookSender {
    /// Posts to `url`, signing with `secret`. Fails if this machine can make no HTTP client.
    pub fn new(url: Url, secret: &Secret, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        Ok(Self { url, key, http: http::client()?, clock })
    }

    fn signature(&self, body: &str) -> String {
        let at = self.clock.now().as_secs();
        let tag = hmac::sign(&self.key, format!("{at}.{body}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={at},v1={hex}")
    }

    fn request(&self, body: &str) -> RequestBuilder {
        let request = self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        request.header("Tidings-Signature", self.signature(body)).body(body.to_owned())
    }
}

#[async_trait]
impl OtpSender for WebhookSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        let body = Body { phone_number: phone_number.as_str(), code, expires_at };
        let body = serde_json::to_string(&body).map_err(|error| OtpError(error.into()))?;
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let Err(error) = http::send(self.request(&body)).await else { return Ok(()) };
            match pauses.next().filter(|_| may_pass(&error)) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(OtpError(error.into())),
            }
        }
    }
}

/// Whether trying again can help: not when the service has understood the request and said no.
fn may_pass(error: &HttpError) -> bool {
    match error {
        HttpError::Failed(_) => true,
        HttpError::Status(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
    }
}
