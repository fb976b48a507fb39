use std::collections::{BTreeMap, BTreeSet};

use domain::{ChatId, Sequence};

use crate::trace::{TraceActor, TraceEntry, TraceEvent};

/// Messages that each client has shown so far, and whether it is connected.
#[derive(Default)]
pub(super) struct Shown<'a> {
    messages: BTreeMap<(&'a TraceActor, ChatId), BTreeSet<Sequence>>,
    connected: BTreeSet<&'a TraceActor>,
}

impl<'a> Shown<'a> {
    /// Applies the next entry.
    pub(super) fn follow(&mut self, entry: &'a TraceEntry) {
        match &entry.what {
            TraceEvent::Connected { .. } => {
                self.connected.insert(&entry.actor);
            }
            TraceEvent::Disconnected { .. } => {
                self.connected.remove(&entry.actor);
            }
            // A client shows its own message when it sends it, and learns its sequence from the acknowledgement.
            TraceEvent::Rendered { chat_id, sequence, .. } | TraceEvent::Acked { chat_id, sequence, .. } => {
                self.messages.entry((&entry.actor, *chat_id)).or_default().insert(*sequence);
            }
            _ => {}
        }
    }

    pub(super) fn is_connected(&self, client: &TraceActor) -> bool {
        self.connected.contains(client)
    }

    /// The sequences of a chat that a client has shown, as ranges: `1-3 5`. A `-` if there are none.
    pub(super) fn ranges(&self, client: &'a TraceActor, chat_id: ChatId) -> String {
        match self.messages.get(&(client, chat_id)) {
            Some(sequences) => ranges(sequences.iter().copied()),
            None => "-".to_owned(),
        }
    }
}

/// Ascending sequences as ranges.
pub(super) fn ranges(sequences: impl IntoIterator<Item = Sequence>) -> String {
    let mut ranges: Vec<(u64, u64)> = vec![];
    for Sequence(sequence) in sequences {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == sequence => *last = sequence,
            _ => ranges.push((sequence, sequence)),
        }
    }
    let range = |(first, last): (u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        let check = |sequences: &[u64], expected| {
            assert_eq!(ranges(sequences.iter().copied().map(Sequence)), expected);
        };
        check(&[], "");
        check(&[4], "4");
        check(&[1, 2, 3, 5, 7, 8], "1-3 5 7-8");
    }
}
