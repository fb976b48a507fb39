use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::limits::{HISTORY_PAGE_DEFAULT, HISTORY_PAGE_MAX};
use serde::de::DeserializeOwned;

use super::RestError;
use super::json::invalid_field;

/// The parameters after the `?`. Unknown ones are ignored.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RestError> {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map(Self).map_err(invalid_field)
    }
}

/// The number of entries in a page: the default unless given, and never more than the maximum.
pub(crate) fn page_limit(asked: Option<i64>) -> Result<usize, RestError> {
    match asked {
        None => Ok(HISTORY_PAGE_DEFAULT),
        Some(limit @ ..=0) => Err(RestError::field("limit", format!("is {limit}, it must be 1 or more"))),
        Some(limit) => Ok(usize::try_from(limit).unwrap_or(HISTORY_PAGE_MAX).min(HISTORY_PAGE_MAX)),
    }
}
