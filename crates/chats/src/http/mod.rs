//! What all routes share: how a request is read, bounded and repeated, and how an answer is written.

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
pub(crate) use cursor::{Cursor, List};
pub(crate) use deadline::deadline;
pub(crate) use envelope::envelope;
pub(crate) use error::ApiError;
pub(crate) use idempotency::{IdempotencyKey, Reserved, once};
pub(crate) use json::Json;
pub(crate) use path::Path;
pub(crate) use query::{Query, page_limit};
pub(crate) use rate_limit::{Limited, limit_requests, take};
