//! Histories of client operations, checked against the guarantees of the service.
//!
//! Clients record every operation as an [`Entry`], in real-time order: a call before it is made, a response after it has
//! arrived. A [`Checker`] reads the entries one by one. It reports a violation only if no order of commits can explain the
//! history, including operations in progress and failed ones. Unlikely but possible histories pass.
//!
//! The order of entries is sound, because a call is recorded before it is sent and a response after it arrived. If an
//! acknowledgement is recorded before another send begins, it happened before. The checker draws no conclusion from the
//! order of overlapping operations.
//!
//! A history must be complete: it contains every send to its chats. It contains either all membership changes of a chat or
//! none.
//!
//! Modules in reading order:
//!
//! - `entry` defines the entries, `file` their file format, and `checker` the entry point of the checks.
//! - `chat` holds the known log of a chat, and `sends` its sends.
//! - `members` tracks memberships, `gaps` the sequences that a client did not receive, and `readers` each client's position.

mod chat;
mod checker;
mod entry;
mod file;
mod gaps;
mod members;
mod readers;
mod sends;
#[cfg(test)]
mod tests;

pub use checker::{CHECKED, Checker};
pub use entry::{Client, Entry, HistoryOp, Page, Seen, fingerprint};
pub use file::{HistoryReadError, LINE_BYTES_MAX, Reader, Recorder};
