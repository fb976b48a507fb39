use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Why an address did not give what was asked. It does not name the address, which may carry a key of the operator's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the request failed")]
    Failed(#[source] reqwest::Error),
    #[error("the answer was {0}")]
    Status(StatusCode),
}

/// A client for addresses the operator has configured.
///
/// It follows no redirect: one could carry a code, or our trust in somebody's keys, to a host that nobody configured.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    Client::builder().timeout(TIMEOUT).redirect(Policy::none()).build()
}

/// Sends a request and takes a success for an answer, nothing else.
pub(crate) async fn send(request: RequestBuilder) -> Result<Response, HttpError> {
    let response = request.send().await?;
    if response.status().is_success() { Ok(response) } else { Err(HttpError::Status(response.status())) }
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        Self::Failed(error.without_url())
    }
}
