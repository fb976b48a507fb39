use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use domain::limits::FRAME_BYTES_MAX;
use protocol::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RestError;

/// The JSON body of a request or a response.
///
/// The `Content-Type` of a request is ignored: a body that is not JSON is refused. An absent body is read as `{}`, so
/// routes with only optional fields need no body, and other routes name the missing field.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RestError> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
                RestError::new(ErrorCode::MessageTooLarge, format!("the body is over {FRAME_BYTES_MAX} bytes"))
            } else {
                RestError::new(ErrorCode::ValidationError, "the body could not be read")
            }
        })?;
        parse(&body).map(Self)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, RestError> {
    let text = body.trim_ascii();
    let text = if text.is_empty() { b"{}" } else { text };
    // Serde also reads derived structs from a list of their fields, which the contract does not allow.
    if !text.starts_with(b"{") {
        return Err(RestError::new(ErrorCode::ValidationError, "the body is not a JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(unreadable)?;
    deserializer.end().map_err(|error| RestError::new(ErrorCode::ValidationError, error))?;
    Ok(value)
}

fn unreadable(error: serde_path_to_error::Error<serde_json::Error>) -> RestError {
    if error.inner().is_data() {
        invalid_field(error)
    } else {
        RestError::new(ErrorCode::ValidationError, format!("the body is not JSON: {}", error.inner()))
    }
}

/// The error for a field that does not deserialize.
pub(super) fn invalid_field<E: std::error::Error>(error: serde_path_to_error::Error<E>) -> RestError {
    let message = error.inner().to_string();
    let path = error.path().to_string();
    // A missing field has no path in the input, so only the message has its name.
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    match missing {
        Some((field, _)) => RestError::field(field, "is missing"),
        None => RestError::field(path, message),
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}
