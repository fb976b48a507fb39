//! What clients did and saw, and whether it fits the promises.
//!
//! Clients note every operation as an [`Entry`], in the order in which things happened: a call before it is made, an answer
//! after it has come. A [`Checker`] takes the entries one by one and decides. It looks for a contradiction that no order of
//! commits explains: what it calls a violation is one, whatever was under way or has failed; what is only unlikely passes.
//!
//! What the order of entries says is sound, because a call is noted before it leaves and an answer once it is there. If an
//! acknowledgement stands before the beginning of another send, it happened before. Where two things overlap, nothing is
//! concluded from their order.
//!
//! A history is whole: every send into its chats is in it, and so are all changes of members of a chat, or none.
//!
//! In reading order: `entry` is what a history consists of, `file` how it is written down, `checker` what becomes of each
//! entry. Behind it `chat` keeps what is known of a chat's log and its `sends`, `members` who was in it when, `gaps` what
//! somebody did not get, `readers` how far each client has come.

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
pub use entry::{Client, Entry, Op, Page, Seen, fingerprint};
pub use file::{LINE_BYTES_MAX, ReadError, Reader, Recorder};
