//! The shared parts of all routes: extractors, limits, idempotency keys, and responses.

mod caller;
mod cursor;
mod deadline;
mod envelope;
mod error;
mod idempotency;
mod json;
mod path;
mod query;
mod rate_limit;

pub(crate) use caller::{Caller, authenticate};
pub(crate) use cursor::{Cursor, PagedList};
pub(crate) use deadline::deadline;
pub(crate) use envelope::envelope;
pub(crate) use error::RestError;
pub(crate) use idempotency::{IdempotencyKey, Reserved, once};
pub(crate) use json::Json;
pub(crate) use path::Path;
pub(crate) use query::{Query, page_limit};
pub(crate) use rate_limit::{Limited, limit_requests, take, take_all};
