use std::time::Duration;

use ports::BoxError;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode};

/// The longest pause that a receiver can ask for; longer values are capped.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Bytes read of an unneeded response body. Reading the body to its end lets the connection be reused for the next
/// call.
const UNNEEDED_BYTES_MAX: usize = 4 * 1024;

/// Why a call failed. The error never contains the URL, which may include a key of the operator.
#[derive(Debug, thiserror::Error)]
pub enum HttpCallError {
    /// The called resource does not exist, or no longer does.
    #[error("the answer was {0}")]
    Gone(StatusCode),
    /// The receiver rejected this request.
    #[error("the answer was {0}")]
    Refused(StatusCode),
    /// The receiver is temporarily unavailable.
    #[error("the answer was {status}")]
    Unavailable {
        /// The status of its response.
        status: StatusCode,
        /// The pause that it asked for, if any; at most an hour.
        retry_after: Option<Duration>,
    },
    /// No connection, or no response before the timeout.
    #[error(transparent)]
    Unanswered(NoAnswer),
}

/// Why a request got no response. The receiver may have processed it.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// No response before the timeout.
    #[error("there was no answer in time")]
    Late(#[source] BoxError),
    /// No connection, or it broke.
    #[error("the request failed")]
    Failed(#[source] BoxError),
}

impl From<reqwest::Error> for HttpCallError {
    fn from(error: reqwest::Error) -> Self {
        let reason = if error.is_timeout() { NoAnswer::Late } else { NoAnswer::Failed };
        Self::Unanswered(reason(error.without_url().into()))
    }
}

/// Builds a client with a timeout of `timeout` per call, including the response body.
///
/// It follows no redirects: a redirect could send a one-time code to a host that nobody configured, or fetch trusted
/// keys from one.
pub fn client(timeout: Duration) -> ClientBuilder {
    Client::builder().timeout(timeout).redirect(Policy::none())
}

/// Sends a request for which only the status of the response matters.
pub async fn call(request: RequestBuilder) -> Result<(), HttpCallError> {
    let (status, headers) = exchange(request).await?;
    judge(status, &headers)
}

/// Sends a request, and reads and discards the body of the response.
pub(crate) async fn exchange(request: RequestBuilder) -> Result<(StatusCode, HeaderMap), HttpCallError> {
    let mut response = request.send().await?;
    let answer = (response.status(), std::mem::take(response.headers_mut()));
    // The status decides. An error while reading the body does not change the outcome.
    let _ = read(response, UNNEEDED_BYTES_MAX).await;
    Ok(answer)
}

/// Sends a request and returns its response if the status is a success.
pub async fn send(request: RequestBuilder) -> Result<Response, HttpCallError> {
    let response = request.send().await?;
    judge(response.status(), response.headers())?;
    Ok(response)
}

/// Reads a response body, at most `bytes_max` bytes of it.
pub async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, HttpCallError> {
    let mut body = Vec::new();
    while body.len() < bytes_max
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk[..chunk.len().min(bytes_max - body.len())]);
    }
    Ok(body)
}

pub(crate) fn judge(status: StatusCode, headers: &HeaderMap) -> Result<(), HttpCallError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        404 | 410 => Err(HttpCallError::Gone(status)),
        408 | 425 | 429 | 502..=504 => Err(HttpCallError::Unavailable { status, retry_after: retry_after(headers) }),
        _ => Err(HttpCallError::Refused(status)),
    }
}

/// The pause that a response asks for in seconds. The other form of the header, a date, is ignored because it depends
/// on the clocks of both sides.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(retry_after: &[u8]) -> HeaderMap {
        HeaderValue::from_bytes(retry_after).map(|value| (RETRY_AFTER, value)).into_iter().collect()
    }

    #[test]
    fn each_status_maps_to_one_outcome() {
        let meaning = |status| match judge(StatusCode::from_u16(status).unwrap(), &headers(b"7")) {
            Ok(()) => "taken",
            Err(HttpCallError::Gone(_)) => "gone",
            Err(HttpCallError::Refused(_)) => "refused",
            Err(HttpCallError::Unavailable { retry_after, .. }) => {
                assert_eq!(retry_after, Some(Duration::from_secs(7)));
                "unavailable"
            }
            Err(HttpCallError::Unanswered(error)) => panic!("{error}"),
        };
        for (statuses, expected) in [
            (&[200, 201, 202, 204, 299][..], "taken"),
            (&[404, 410], "gone"),
            (&[301, 302, 304, 307, 400, 401, 403, 405, 409, 413, 422, 500, 501, 505, 599, 999], "refused"),
            (&[408, 425, 429, 502, 503, 504], "unavailable"),
        ] {
            for status in statuses {
                assert_eq!(meaning(*status), expected, "{status}");
            }
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_up_to_an_hour() {
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("3601", Some(3600)),
            ("18446744073709551615", Some(3600)),
            ("18446744073709551616", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("Fri, 30 Jan 2026 14:30:00 GMT", None),
        ] {
            assert_eq!(retry_after(&headers(text.as_bytes())), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_a_header_are_a_pause_within_the_bound_or_none(bytes in any::<Vec<u8>>()) {
            prop_assert!(retry_after(&headers(&bytes)).is_none_or(|pause| pause <= RETRY_AFTER_MAX));
        }
    }
}
