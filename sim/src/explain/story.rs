use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::{ChatId, UserId};

use super::shown::ranges;
use crate::trace::{Actor, Entry, Names, Trace, What};

/// What sort of thing an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
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

impl Kind {
    pub(super) fn of(what: &What) -> Self {
        match what {
            What::Violated { .. } => Self::Violation,
            What::Fault(_) => Self::Fault,
            What::Started | What::Killed | What::Drained => Self::Process,
            What::Connected { .. } | What::Disconnected { .. } => Self::Connection,
            What::Sending { .. } | What::Acked { .. } | What::Failed { .. } => Self::Send,
            What::Committed { .. } => Self::Commit,
            What::Published { .. } => Self::Log,
            What::Pushed { .. } => Self::Push,
            What::Rendered { .. } => Self::Shown,
            What::Marked { .. } => Self::Mark,
            What::Members { .. } => Self::Member,
            What::Expired { .. } => Self::Expiry,
            What::Seen { .. } => Self::Presence,
            What::Called { .. } => Self::Call,
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

pub(super) fn is_violation(what: &What) -> bool {
    Kind::of(what) == Kind::Violation
}

/// A trace with what can be known of it as a whole: who takes part, and what everything is called.
pub(super) struct Story<'a> {
    pub(super) trace: &'a Trace,
    /// Everybody who does something, in the order of their lanes.
    pub(super) actors: Vec<&'a Actor>,
    /// The chats, in the order in which they came up.
    pub(super) chats: Vec<ChatId>,
    /// What ids are called, for texts that were written with ids in them.
    called: BTreeMap<String, String>,
}

impl<'a> Story<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
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

    pub(super) fn names(&self) -> &'a Names {
        &self.trace.names
    }

    /// All users of whom there is word, by name.
    pub(super) fn users(&self) -> BTreeSet<String> {
        self.trace.entries.iter().flat_map(|entry| self.users_of(entry)).collect()
    }

    /// The users whom an entry is about, by name: whose device it is, and who is named in it.
    pub(super) fn users_of(&self, entry: &Entry) -> BTreeSet<String> {
        let named = user_ids(&entry.what).into_iter().map(|user_id| self.names().user(user_id));
        owner(&entry.actor).map(str::to_owned).into_iter().chain(named).collect()
    }

    /// The chats that an entry is about. A violation and a call name theirs in words.
    pub(super) fn chats_of(&self, entry: &Entry) -> Vec<ChatId> {
        match (&entry.what, entry.what.chat_id()) {
            (_, Some(chat_id)) => vec![chat_id],
            (What::Violated { detail: words, .. } | What::Called { what: words, .. }, None) => {
                let words = self.spelled(words);
                self.chats.iter().copied().filter(|chat_id| names_word(&words, &self.names().chat(*chat_id))).collect()
            }
            _ => vec![],
        }
    }

    /// A text in which ids are replaced by what they are called.
    pub(super) fn spelled(&self, text: &str) -> String {
        let spelled = |text: String, (id, name): (&String, &String)| text.replace(id.as_str(), name);
        self.called.iter().fold(text.to_owned(), spelled)
    }

    /// What an entry says, as the end of a sentence that its actor begins.
    pub(super) fn words(&self, what: &What) -> String {
        let names = self.names();
        match what {
            What::Started => "starts".to_owned(),
            What::Killed => "is killed".to_owned(),
            What::Drained => "goes in good order".to_owned(),
            What::Fault(fault) => self.spelled(fault),
            What::Connected { gateway } => format!("connects to {gateway}"),
            What::Disconnected { how } => format!("is disconnected: {how}"),
            What::Sending { send, .. } => format!("sends {send}"),
            What::Acked { send, sequence, deduplicated, .. } => {
                let again = if *deduplicated { ", by an earlier try" } else { "" };
                format!("has {send} acknowledged as {sequence}{again}")
            }
            What::Failed { send, code, .. } => format!("is refused {send}: {code}"),
            What::Committed { sequence, sender_id, .. } => format!("commits {sequence} by {}", names.user(*sender_id)),
            What::Published { sequence, .. } => format!("has {sequence}"),
            What::Pushed { sequence, gateway, recipients, .. } => {
                let recipients: Vec<_> = recipients.iter().map(|user_id| names.user(*user_id)).collect();
                format!("pushes {sequence} to {gateway} for {}", recipients.join(", "))
            }
            What::Rendered { sequence, sender_id, .. } => format!("shows {sequence} by {}", names.user(*sender_id)),
            What::Marked { read: true, sequence, .. } => format!("says that all is read up to {sequence}"),
            What::Marked { read: false, sequence, .. } => format!("says that it has all up to {sequence}"),
            What::Members { user_id, joined: true, .. } => format!("has {} as a member", names.user(*user_id)),
            What::Members { user_id, joined: false, .. } => format!("has {} as a member no more", names.user(*user_id)),
            What::Expired { sequences, .. } => format!("hears that {} expired", ranges(sequences.iter().copied())),
            What::Seen { user_id, view } => format!("sees {} as {view}", names.user(*user_id)),
            What::Called { what, answer } => format!("calls {}: {answer}", self.spelled(what)),
            What::Violated { invariant, detail } => format!("{invariant}: {}", self.spelled(detail)),
        }
    }
}

/// The user whose device a client is: its name is theirs and a number.
pub(super) fn owner(actor: &Actor) -> Option<&str> {
    match actor {
        Actor::Client(name) => Some(name.split_once('/')?.0),
        _ => None,
    }
}

/// The name of an actor's lane. A process that was started again, and counts that behind its name, stays in its own.
pub(super) fn lane(actor: &Actor) -> String {
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match actor {
        Actor::Process(name) => match name.rsplit_once('.') {
            Some((lane, count)) if is_count(count) => lane.to_owned(),
            _ => name.clone(),
        },
        other => other.to_string(),
    }
}

/// Where the lanes of an actor's sort are: what fails on the left, then what serves, then who is served.
fn lane_group(actor: &Actor) -> u8 {
    match actor {
        Actor::Nemesis => 0,
        Actor::Process(_) => 1,
        Actor::Store => 2,
        Actor::Log => 3,
        Actor::Client(_) => 4,
        Actor::Checker => 5,
    }
}

/// Whether a text has a name in it, and not only as a part of a longer one.
fn names_word(text: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    text.match_indices(name)
        .any(|(at, name)| !is_part(text[..at].chars().next_back()) && !is_part(text[at + name.len()..].chars().next()))
}

fn user_ids(what: &What) -> Vec<UserId> {
    match what {
        What::Committed { sender_id, .. } | What::Rendered { sender_id, .. } => vec![*sender_id],
        What::Pushed { recipients, .. } => recipients.clone(),
        What::Members { user_id, .. } | What::Seen { user_id, .. } => vec![*user_id],
        _ => vec![],
    }
}

/// A moment of a run, in seconds.
pub(super) struct Moment(pub(super) std::time::Duration);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole milliseconds first, so that rounding never shows a moment that has not come.
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
        let of = |name: &str| lane(&Actor::Process(name.to_owned()));
        assert_eq!([of("ingest-0.0"), of("ingest-0.12"), of("ingest-1.0")], ["ingest-0", "ingest-0", "ingest-1"]);
        assert_eq!([of("ingest"), of("ingest.a"), of("ingest.")], ["ingest", "ingest.a", "ingest."]);
    }

    #[test]
    fn a_violation_is_about_the_chats_it_names_by_id_or_by_name() {
        let trace = sample();
        let story = Story::of(&trace);
        let about = |detail: &str| {
            let what = What::Violated { invariant: domain::Invariant::NoSilentLoss, detail: detail.to_owned() };
            story.chats_of(&Entry { at: std::time::Duration::ZERO, actor: Actor::Checker, what })
        };
        assert_eq!(about(&format!("bob never has 3 of {}", ids::chat(0))), [ids::chat(0)]);
        assert_eq!(about("direct 1 has no head"), [ids::chat(1)]);
        assert_eq!(about("direct 11 has no head"), []);
    }
}
