use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::UserId;
use ports::{Begun, RequestKey, StoredResponse, error_chain};
use protocol::ErrorCode;
use protocol::rest::Data;
use serde::Serialize;
use ulid::Ulid;
use uuid::Uuid;

use super::RestError;
use crate::Api;

const HEADER: &str = "idempotency-key";

/// The client's key for a request that it may repeat, if it sent one.
pub(crate) struct IdempotencyKey(Option<Uuid>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RestError> {
        let Some(value) = parts.headers.get(HEADER) else { return Ok(Self(None)) };
        let key = value.to_str().ok().and_then(|text| Uuid::try_parse(text).ok());
        key.map(|key| Self(Some(key))).ok_or_else(|| RestError::field("Idempotency-Key", "is not a uuid"))
    }
}

/// The state that all attempts of a request share.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    /// The id of the created resource.
    pub(crate) ulid: Ulid,
    /// Whether an earlier attempt may have taken effect.
    pub(crate) resumed: bool,
}

/// Runs a request that creates something, once for each idempotency key: a repetition gets the first response.
///
/// Requests are equal if `route` and the known fields of `body` are; JSON formatting and unknown fields do not count.
/// Only success is stored, so a failed request may be retried with its key.
pub(crate) async fn once<B, T, F>(
    api: &Api,
    user_id: UserId,
    IdempotencyKey(key): IdempotencyKey,
    route: &str,
    body: &B,
    run: impl FnOnce(Reserved) -> F,
) -> Result<Response, RestError>
where
    B: Serialize,
    T: Serialize,
    F: Future<Output = Result<(StatusCode, T), RestError>>,
{
    let new = api.ids.ulid();
    let Some(key) = key else {
        let (status, data) = run(Reserved { ulid: new, resumed: false }).await?;
        return Ok(answer(status, encode(data)));
    };
    let key = RequestKey { user_id, key };
    let reserved = match api.requests.begin(key, fingerprint(route, body), new, api.now()).await? {
        Begun::Run { reserved, resumed } => Reserved { ulid: reserved, resumed },
        Begun::Replay(StoredResponse { status, body }) => {
            let status = StatusCode::from_u16(status)
                .map_err(|_| RestError::new(ErrorCode::InternalError, "the service has a defect"))?;
            let mut response = answer(status, body);
            response.headers_mut().insert("x-idempotent-replay", HeaderValue::from_static("true"));
            return Ok(response);
        }
        Begun::Mismatch => {
            let message = "this Idempotency-Key was used for another request";
            return Err(RestError::new(ErrorCode::IdempotencyKeyReused, message));
        }
    };
    let (status, data) = run(reserved).await?;
    let body = encode(data);
    let stored = StoredResponse { status: status.as_u16(), body: body.clone() };
    // The request has taken effect. Without the stored response, a repetition runs with `resumed` and has no new effect.
    if let Err(error) = api.requests.finish(key, stored).await {
        tracing::warn!(
            error = %error_chain(&error),
            "could not store a response; a request with the same key runs again"
        );
    }
    Ok(answer(status, body))
}

fn fingerprint(route: &str, body: &impl Serialize) -> [u8; 32] {
    let text = serde_json::to_vec(&(route, body)).expect("bodies that were read can be written");
    digest(&SHA256, &text).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn encode(data: impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&Data { data }).expect("strings, numbers and lists always serialize")
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
