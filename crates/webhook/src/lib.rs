//! Calls external HTTP servers: the operator's own, another system's, a push service.
//!
//! One call is one attempt. Redirects are not followed, and responses are bounded in time and in bytes. [`HttpCallError`]
//! classifies every response in one place. A URL may include a key of the operator, so no error contains it, and
//! response bodies are not logged. A [`Webhook`] signs each request, so that the receiver can authenticate the caller, and
//! posts it through a [`WebhookTransport`].

mod http;
mod transport;
mod webhook;

pub use http::{HttpCallError, NoAnswer, call, client, read, send};
pub use transport::WebhookTransport;
pub use webhook::Webhook;
