use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use domain::limits::FRAME_BYTES_MAX;
use protocol::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ApiError;

/// The JSON body of a request or an answer.
///
/// A request's `Content-Type` is not asked for: the body is JSON or it is refused. A body that is not there is `{}`, so
/// routes whose fields are all optional need none, and others name the field they miss.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::new(ErrorCode::MessageTooLarge, format!("the body is over {FRAME_BYTES_MAX} bytes"))
            } else {
                ApiError::new(ErrorCode::ValidationError, "the body could not be read")
            }
        })?;
        parse(&body).map(Self)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let text = body.trim_ascii();
    let text = if text.is_empty() { b"{}" } else { text };
    // Derived structs can also be read from a list of their fields, which is nobody's contract.
    if !text.starts_with(b"{") {
        return Err(ApiError::new(ErrorCode::ValidationError, "the body is not a JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(unreadable)?;
    deserializer.end().map_err(|error| ApiError::new(ErrorCode::ValidationError, error))?;
    Ok(value)
}

fn unreadable(error: serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    if error.inner().is_data() {
        invalid_field(error)
    } else {
        ApiError::new(ErrorCode::ValidationError, format!("the body is not JSON: {}", error.inner()))
    }
}

/// The answer to a field that does not deserialize.
pub(super) fn invalid_field<E: std::error::Error>(error: serde_path_to_error::Error<E>) -> ApiError {
    let message = error.inner().to_string();
    let path = error.path().to_string();
    // A field that is missing has no place in the input, so its name is in the words only.
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    match missing {
        Some((field, _)) => ApiError::field(field, "is missing"),
        None => ApiError::field(path, message),
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}
