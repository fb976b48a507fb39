use std::error::Error;

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::UserId;
use ports::{Begun, RequestKey, StoredResponse};
use protocol::ErrorCode;
use protocol::rest::Data;
use serde::Serialize;
use ulid::Ulid;
use uuid::Uuid;

use super::ApiError;
use crate::Api;

const HEADER: &str = "idempotency-key";

/// The client's name for a request it may repeat, if it gave one.
pub(crate) struct IdempotencyKey(Option<Uuid>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(HEADER) else { return Ok(Self(None)) };
        let key = value.to_str().ok().and_then(|text| Uuid::try_parse(text).ok());
        key.map(|key| Self(Some(key))).ok_or_else(|| ApiError::field("Idempotency-Key", "is not a uuid"))
    }
}

/// What a request may use that other tries of it use too.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    /// The id of what the request creates.
    pub(crate) ulid: Ulid,
    /// Whether an earlier try may have had its effect.
    pub(crate) resumed: bool,
}

/// Runs a request that creates something, once for each idempotency key: a repetition gets the first answer.
///
/// Requests are the same if `route` and the fields of `body` are; spelling and unknown fields do not count. Only success
/// is kept, so a request that failed may be tried again with its key.
pub(crate) async fn once<B, T, F>(
    api: &Api,
    user_id: UserId,
    IdempotencyKey(key): IdempotencyKey,
    route: &str,
    body: &B,
    run: impl FnOnce(Reserved) -> F,
) -> Result<Response, ApiError>
where
    B: Serialize,
    T: Serialize,
    F: Future<Output = Result<(StatusCode, T), ApiError>>,
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
                .map_err(|_| ApiError::new(ErrorCode::InternalError, "the service has a defect"))?;
            let mut response = answer(status, body);
            response.headers_mut().insert("x-idempotent-replay", HeaderValue::from_static("true"));
            return Ok(response);
        }
        Begun::Mismatch => {
            let message = "this Idempotency-Key was used for another request";
            return Err(ApiError::new(ErrorCode::IdempotencyKeyReused, message));
        }
    };
    let (status, data) = run(reserved).await?;
    let body = encode(data);
    let stored = StoredResponse { status: status.as_u16(), body: body.clone() };
    // What was asked for is done. Without the stored answer a repetition runs again, resumed, and does nothing twice.
    if let Err(error) = api.requests.finish(key, stored).await {
        tracing::warn!(error = &error as &dyn Error, "the answer to a repeatable request was not kept");
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
