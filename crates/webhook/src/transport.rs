use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url};

use crate::HttpCallError;
use crate::http::exchange;

/// Carries the requests of a [`Webhook`](crate::Webhook) to its receiver. Each call is one attempt.
#[async_trait]
pub trait WebhookTransport: Send + Sync {
    /// Posts a body, and returns the status and the headers of the response, for any status.
    ///
    /// After an error the receiver may have processed the request. Dropping the future may not stop the request.
    async fn post(&self, body: Bytes, headers: &[(&str, String)]) -> Result<(StatusCode, HeaderMap), HttpCallError>;
}

/// Posts over HTTP.
pub(crate) struct HttpTransport {
    pub(crate) url: Url,
    pub(crate) http: Client,
}

#[async_trait]
impl WebhookTransport for HttpTransport {
    async fn post(&self, body: Bytes, headers: &[(&str, String)]) -> Result<(StatusCode, HeaderMap), HttpCallError> {
        let request = self.http.post(self.url.clone());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        exchange(request.body(body)).await
    }
}
