//! Renders a run for people to read.
//!
//! [`text`] is a timeline for a terminal of each chat with a violation: time, actor and event, and a lane for each
//! client with the messages it had shown by then. [`page`] is the whole run as one self-contained HTML file.
//!
//! `story` describes an entry in words, and `shown` tracks the messages that a client has shown; `text` and `page` use
//! both.

use crate::trace::RunTrace;

mod page;
#[cfg(test)]
mod sample;
mod shown;
mod story;
mod text;

pub use page::page;
pub use text::text;

/// Heading of a trace.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Title of the run.
    pub title: String,
    /// The command that repeats it.
    pub replay: String,
    /// Additional notes, one line each: the plan, a panic.
    pub notes: Vec<String>,
}

impl RunTrace {
    /// The indices of the violations among the entries.
    fn violations(&self) -> impl Iterator<Item = usize> {
        let violated = |(n, entry): (usize, &crate::trace::TraceEntry)| story::is_violation(&entry.what).then_some(n);
        self.entries.iter().enumerate().filter_map(violated)
    }
}
