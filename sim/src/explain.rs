//! What happened in a run, for people to read.
//!
//! [`text`] is a timeline of each chat that a violation is about, for a terminal: when, who, what, and in a lane for each
//! client what it had shown by then. [`page`] is the whole run as one HTML file that needs nothing else.
//!
//! `story` says in words what an entry is, and `shown` what a client has come to see; both are told by `text` and `page`.

use crate::trace::Trace;

mod page;
#[cfg(test)]
mod sample;
mod shown;
mod story;
mod text;

pub use page::page;
pub use text::text;

/// What is said above a trace.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Which run it was.
    pub title: String,
    /// The command that runs it again.
    pub replay: String,
    /// What else there is to know, a line each: what was planned, a panic.
    pub notes: Vec<String>,
}

impl Trace {
    /// The places of the violations among the entries.
    fn violations(&self) -> impl Iterator<Item = usize> {
        let violated = |(n, entry): (usize, &crate::trace::Entry)| story::is_violation(&entry.what).then_some(n);
        self.entries.iter().enumerate().filter_map(violated)
    }
}
