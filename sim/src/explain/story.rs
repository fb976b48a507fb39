use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::{ChatId, UserId};

use super::shown::ranges;
use crate::trace::{RunTrace, TraceActor, TraceEntry, TraceEvent, TraceNames};

/// Category of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryKind {
    Violation,
    Fault,
    Process,
    Connection,
    Send,
    Commit,
    Log,
    Push,
    Shown,
    Mark,
    Member,
    Expiry,
    Presence,
    Call,
}

impl EntryKind {
    pub(super) fn of(what: &TraceEvent) -> Self {
        match what {
            TraceEvent::Violated { .. } => Self::Violation,
            TraceEvent::Fault(_) => Self::Fault,
            TraceEvent::Started | TraceEvent::Killed | TraceEvent::Drained => Self::Process,
            TraceEvent::Connected { .. } | TraceEvent::Disconnected { .. } => Self::Connection,
            TraceEvent::Sending { .. } | TraceEvent::Acked { .. } | TraceEvent::Failed { .. } => Self::Send,
            TraceEvent::Committed { .. } => Self::Commit,
            TraceEvent::Published { .. } => Self::Log,
            TraceEvent::Pushed { .. } => Self::Push,
            TraceEvent::Rendered { .. } => Self::Shown,
            TraceEvent::Marked { .. } => Self::Mark,
            TraceEvent::Members { .. } => Self::Member,
            TraceEvent::Expired { .. } => Self::Expiry,
            TraceEvent::Seen { .. } => Self::Presence,
            TraceEvent::Called { .. } => Self::Call,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Violation => "violations",
            Self::Fault => "faults",
            Self::Process => "processes",
            Self::Connection => "connections",
            Self::Send => "sends",
            Self::Commit => "commits",
            Self::Log => "log",
            Self::Push => "pushes",
            Self::Shown => "shown",
            Self::Mark => "marks",
            Self::Member => "members",
            Self::Expiry => "expiry",
            Self::Presence => "presence",
            Self::Call => "calls",
        }
    }
}

pub(super) fn is_violation(what: &TraceEvent) -> bool {
    EntryKind::of(what) == EntryKind::Violation
}

/// A trace with its derived data: the actors, the chats and the names.
pub(super) struct Story<'a> {
    pub(super) trace: &'a RunTrace,
    /// All actors, in the order of their lanes.
    pub(super) actors: Vec<&'a TraceActor>,
    /// The chats, in the order of their first entry.
    pub(super) chats: Vec<ChatId>,
    /// Names of ids, to replace ids in texts.
    called: BTreeMap<String, String>,
}

impl<'a> Story<'a> {
    pub(super) fn of(trace: &'a RunTrace) -> Self {
        let mut actors: Vec<_> = trace.entries.iter().map(|entry| &entry.actor).collect();
        actors.sort_by_key(|actor| (lane_group(actor), *actor));
        actors.dedup();
        let (mut chats, mut called) = (vec![], BTreeMap::new());
        for entry in &trace.entries {
            if let Some(chat_id) = entry.what.chat_id()
                && !chats.contains(&chat_id)
            {
                chats.push(chat_id);
                called.insert(chat_id.to_string(), trace.names.chat(chat_id));
            }
            for user_id in user_ids(&entry.what) {
                called.entry(user_id.to_string()).or_insert_with(|| trace.names.user(user_id));
            }
        }
        Self { trace, actors, chats, called }
    }

    pub(super) fn names(&self) -> &'a TraceNames {
        &self.trace.names
    }

    /// All users in the trace, by name.
    pub(super) fn users(&self) -> BTreeSet<String> {
        self.trace.entries.iter().flat_map(|entry| self.users_of(entry)).collect()
    }

    /// The users of an entry, by name: the owner of the device, and the users named in it.
    pub(super) fn users_of(&self, entry: &TraceEntry) -> BTreeSet<String> {
        let named = user_ids(&entry.what).into_iter().map(|user_id| self.names().user(user_id));
        owner(&entry.actor).map(str::to_owned).into_iter().chain(named).collect()
    }

    /// The chats of an entry. Violations and calls contain theirs in text.
    pub(super) fn chats_of(&self, entry: &TraceEntry) -> Vec<ChatId> {
        match (&entry.what, entry.what.chat_id()) {
            (_, Some(chat_id)) => vec![chat_id],
            (TraceEvent::Violated { detail: words, .. } | TraceEvent::Called { what: words, .. }, None) => {
                let words = self.spelled(words);
                self.chats.iter().copied().filter(|chat_id| names_word(&words, &self.names().chat(*chat_id))).collect()
            }
            _ => vec![],
        }
    }

    /// Replaces ids in a text by their names.
    pub(super) fn spelled(&self, text: &str) -> String {
        let spelled = |text: String, (id, name): (&String, &String)| text.replace(id.as_str(), name);
        self.called.iter().fold(text.to_owned(), spelled)
    }

    /// Describes an entry, as the predicate of a sentence with its actor as the subject.
    pub(super) fn words(&self, what: &TraceEvent) -> String {
        let names = self.names();
        match what {
            TraceEvent::Started => "starts".to_owned(),
            TraceEvent::Killed => "is killed".to_owned(),
            TraceEvent::Drained => "goes in good order".to_owned(),
            TraceEvent::Fault(fault) => self.spelled(fault),
            TraceEvent::Connected { gateway } => format!("connects to {gateway}"),
            TraceEvent::Disconnected { how } => format!("is disconnected: {how}"),
            TraceEvent::Sending { send, .. } => format!("sends {send}"),
            TraceEvent::Acked { send, sequence, deduplicated, .. } => {
                let again = if *deduplicated { ", by an earlier try" } else { "" };
                format!("has {send} acknowledged as {sequence}{again}")
            }
            TraceEvent::Failed { send, code, .. } => format!("is refused {send}: {code}"),
            TraceEvent::Committed { sequence, sender_id, .. } => {
                format!("commits {sequence} by {}", names.user(*sender_id))
            }
            TraceEvent::Published { sequence, .. } => format!("has {sequence}"),
            TraceEvent::Pushed { sequence, gateway, recipients, .. } => {
                let recipients: Vec<_> = recipients.iter().map(|user_id| names.user(*user_id)).collect();
                format!("pushes {sequence} to {gateway} for {}", recipients.join(", "))
            }
            TraceEvent::Rendered { sequence, sender_id, .. } => {
                format!("shows {sequence} by {}", names.user(*sender_id))
            }
            TraceEvent::Marked { read: true, sequence, .. } => format!("says that all is read up to {sequence}"),
            TraceEvent::Marked { read: false, sequence, .. } => format!("says that it has all up to {sequence}"),
            TraceEvent::Members { user_id, joined: true, .. } => format!("has {} as a member", names.user(*user_id)),
            TraceEvent::Members { user_id, joined: false, .. } => {
                format!("has {} as a member no more", names.user(*user_id))
            }
            TraceEvent::Expired { sequences, .. } => {
                format!("receives the expiry of {}", ranges(sequences.iter().copied()))
            }
            TraceEvent::Seen { user_id, view } => format!("sees {} as {view}", names.user(*user_id)),
            TraceEvent::Called { what, answer } => format!("calls {}: {answer}", self.spelled(what)),
            TraceEvent::Violated { invariant, detail } => format!("{invariant}: {}", self.spelled(detail)),
        }
    }
}

/// The owner of a client: its name is the user's name and a number.
pub(super) fn owner(actor: &TraceActor) -> Option<&str> {
    match actor {
        TraceActor::Client(name) => Some(name.split_once('/')?.0),
        _ => None,
    }
}

/// The name of an actor's lane. A restarted process, which has a counter in its name, stays in the same lane.
pub(super) fn lane(actor: &TraceActor) -> String {
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match actor {
        TraceActor::Process(name) => match name.rsplit_once('.') {
            Some((lane, count)) if is_count(count) => lane.to_owned(),
            _ => name.clone(),
        },
        other => other.to_string(),
    }
}

/// Orders the lanes: faults on the left, then processes, then clients.
fn lane_group(actor: &TraceActor) -> u8 {
    match actor {
        TraceActor::Nemesis => 0,
        TraceActor::Process(_) => 1,
        TraceActor::Store => 2,
        TraceActor::Log => 3,
        TraceActor::Client(_) => 4,
        TraceActor::Checker => 5,
    }
}

/// Whether a text contains a name as a whole word.
fn names_word(text: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    text.match_indices(name)
        .any(|(at, name)| !is_part(text[..at].chars().next_back()) && !is_part(text[at + name.len()..].chars().next()))
}

fn user_ids(what: &TraceEvent) -> Vec<UserId> {
    match what {
        TraceEvent::Committed { sender_id, .. } | TraceEvent::Rendered { sender_id, .. } => vec![*sender_id],
        TraceEvent::Pushed { recipients, .. } => recipients.clone(),
        TraceEvent::Members { user_id, .. } | TraceEvent::Seen { user_id, .. } => vec![*user_id],
        _ => vec![],
    }
}

/// A time of a run, in seconds.
pub(super) struct RunTime(pub(super) std::time::Duration);

impl fmt::Display for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Truncate to milliseconds, so that rounding never shows a later time.
        let millis = self.0.as_millis();
        f.pad(&format!("{}.{:03}", millis / 1000, millis % 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::sample::{ids, sample};

    #[test]
    fn a_process_that_was_started_again_stays_in_its_lane() {
        let of = |name: &str| lane(&TraceActor::Process(name.to_owned()));
        assert_eq!([of("ingest-0.0"), of("ingest-0.12"), of("ingest-1.0")], ["ingest-0", "ingest-0", "ingest-1"]);
        assert_eq!([of("ingest"), of("ingest.a"), of("ingest.")], ["ingest", "ingest.a", "ingest."]);
    }

    #[test]
    fn a_violation_is_about_the_chats_it_names_by_id_or_by_name() {
        let trace = sample();
        let story = Story::of(&trace);
        let about = |detail: &str| {
            let what = TraceEvent::Violated { invariant: domain::Invariant::NoSilentLoss, detail: detail.to_owned() };
            story.chats_of(&TraceEntry { at: std::time::Duration::ZERO, actor: TraceActor::Checker, what })
        };
        assert_eq!(about(&format!("bob never has 3 of {}", ids::chat(0))), [ids::chat(0)]);
        assert_eq!(about("direct 1 has no head"), [ids::chat(1)]);
        assert_eq!(about("direct 11 has no head"), []);
    }
}
