use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode};

/// The longest pause that a receiver can ask for; a longer one is taken for a mistake.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Bytes that are read of an answer which nobody needs: an answer read to its end leaves its connection for the next call.
const UNNEEDED_BYTES_MAX: usize = 4 * 1024;

/// Why a call was not taken. It does not name the address, which may carry a key of the operator's.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// What was called is not there, or no longer.
    #[error("the answer was {0}")]
    Gone(StatusCode),
    /// The receiver is there and does not take this.
    #[error("the answer was {0}")]
    Refused(StatusCode),
    /// The receiver takes nothing now and may later.
    #[error("the answer was {status}")]
    Unavailable {
        /// What it said.
        status: StatusCode,
        /// How long it wants to be left alone, if it has said so; an hour at the most.
        retry_after: Option<Duration>,
    },
    /// There was no connection, or no answer in time.
    #[error("{}", if .0.is_timeout() { "there was no answer in time" } else { "the request failed" })]
    Unanswered(#[source] reqwest::Error),
}

impl From<reqwest::Error> for CallError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unanswered(error.without_url())
    }
}

/// A client whose calls take `timeout` at the most, answer and all.
///
/// It follows no redirect: one could carry a code, or our trust in somebody's keys, to a host that nobody has named.
pub fn client(timeout: Duration) -> ClientBuilder {
    Client::builder().timeout(timeout).redirect(Policy::none())
}

/// Sends a request whose answer says no more than whether it was taken.
pub async fn call(request: RequestBuilder) -> Result<(), CallError> {
    let response = request.send().await?;
    let judged = judge(response.status(), response.headers());
    // The status has said it all: an answer that breaks off behind it changes nothing.
    let _ = read(response, UNNEEDED_BYTES_MAX).await;
    judged
}

/// Sends a request for what its answer holds. A success is an answer, nothing else is.
pub async fn send(request: RequestBuilder) -> Result<Response, CallError> {
    let response = request.send().await?;
    judge(response.status(), response.headers())?;
    Ok(response)
}

/// The first `bytes_max` bytes of an answer, or all of them.
pub async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while body.len() < bytes_max
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk[..chunk.len().min(bytes_max - body.len())]);
    }
    Ok(body)
}

fn judge(status: StatusCode, headers: &HeaderMap) -> Result<(), CallError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        404 | 410 => Err(CallError::Gone(status)),
        408 | 425 | 429 | 502..=504 => Err(CallError::Unavailable { status, retry_after: retry_after(headers) }),
        _ => Err(CallError::Refused(status)),
    }
}

/// The pause that an answer asks for in seconds. The other form of the header, a date, trusts the clocks of both sides.
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
    fn what_each_status_means() {
        let meaning = |status| match judge(StatusCode::from_u16(status).unwrap(), &headers(b"7")) {
            Ok(()) => "taken",
            Err(CallError::Gone(_)) => "gone",
            Err(CallError::Refused(_)) => "refused",
            Err(CallError::Unavailable { retry_after, .. }) => {
                assert_eq!(retry_after, Some(Duration::from_secs(7)));
                "unavailable"
            }
            Err(CallError::Unanswered(error)) => panic!("{error}"),
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
