//! Calls servers that somebody else has named: the operator's own, another system's, a push service.
//!
//! One call is one try. No redirect is followed, an answer is bounded in time and in bytes, and what it means is judged in
//! one place, [`CallError`]. An address may carry a key of the operator's, so no error names it, and what an answer says
//! beyond its status is nobody's business. A [`Webhook`] signs what it sends, so that the receiver knows who is calling.

mod http;
mod webhook;

pub use http::{CallError, call, client, read, send};
pub use webhook::Webhook;
