use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use bytes::Bytes;
use ports::Clock;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;

use crate::http::judge;
use crate::transport::HttpTransport;
use crate::{HttpCallError, WebhookTransport, client};

/// A URL of the operator that receives signed JSON bodies.
///
/// Each call carries `Tidings-Signature: t=<unix>,v1=<hex>`, where `v1` is the HMAC-SHA256 of `<t>.<body>` under a
/// secret that the receiver knows. The signature covers the time, so that a receiver can reject replays of an
/// intercepted request.
pub struct Webhook {
    transport: Arc<dyn WebhookTransport>,
    key: hmac::Key,
    clock: Arc<dyn Clock>,
}

impl Webhook {
    /// Posts to `url`, signing with `secret`; each call has a timeout of `timeout`. Fails if the HTTP client cannot be
    /// built.
    pub fn new(url: Url, secret: &[u8], timeout: Duration, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        Ok(Self::over(Arc::new(HttpTransport { url, http: client(timeout).build()? }), secret, clock))
    }

    /// Posts through a transport, which knows the receiver.
    pub fn over(transport: Arc<dyn WebhookTransport>, secret: &[u8], clock: Arc<dyn Clock>) -> Self {
        Self { transport, key: hmac::Key::new(hmac::HMAC_SHA256, secret), clock }
    }

    /// Posts `body` once, with `headers` in addition to its own.
    pub async fn post(&self, body: Bytes, headers: &[(&str, String)]) -> Result<(), HttpCallError> {
        let own =
            [(CONTENT_TYPE.as_str(), "application/json".to_owned()), ("Tidings-Signature", self.signature(&body))];
        let (status, headers) = self.transport.post(body, &[&own, headers].concat()).await?;
        judge(status, &headers)
    }

    fn signature(&self, body: &[u8]) -> String {
        let at = self.clock.now().as_secs();
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{at}.").as_bytes());
        context.update(body);
        let hex: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={at},v1={hex}")
    }
}
