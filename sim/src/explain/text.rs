use std::collections::BTreeSet;
use std::fmt::Write;

use domain::{ChatId, InvariantPlane};

use super::Heading;
use super::shown::Shown;
use super::story::{EntryKind, RunTime, Story, owner};
use crate::trace::{RunTrace, TraceActor, TraceEntry, TraceEvent};

/// Maximum number of lines per timeline. The end leads up to the violation, so the first lines are left out.
const LINES_MAX: usize = 400;
/// Maximum number of violations listed above the timelines.
const VIOLATIONS_MAX: usize = 10;
/// The width of a client's lane.
const LANE_WIDTH: usize = 10;

/// A run as text: its violations, and a timeline of each chat with a violation.
///
/// A violation without a chat has a timeline of connections and presence. A run without violations is shown completely.
pub fn text(trace: &RunTrace, heading: &Heading) -> String {
    let story = Story::of(trace);
    let mut out = String::new();
    let violations: Vec<&TraceEntry> = trace.violations().map(|n| &trace.entries[n]).collect();
    // Writing to a string cannot fail.
    write_heading(&mut out, &story, heading, &violations).expect("a string takes what is written");
    for timeline in timelines(&story, &violations) {
        timeline.write(&mut out).expect("a string takes what is written");
    }
    out
}

fn write_heading(
    out: &mut String,
    story: &Story<'_>,
    heading: &Heading,
    violations: &[&TraceEntry],
) -> std::fmt::Result {
    writeln!(out, "{}\nreplay: {}", heading.title, heading.replay)?;
    for note in &heading.notes {
        writeln!(out, "{note}")?;
    }
    match violations.len() {
        0 => writeln!(out, "\nno violations"),
        1 => writeln!(out, "\n1 violation"),
        count => writeln!(out, "\n{count} violations"),
    }?;
    let mut stated = BTreeSet::new();
    for TraceEntry { at, what, .. } in violations.iter().take(VIOLATIONS_MAX) {
        writeln!(out, "  {:>9}  {}", RunTime(*at), story.words(what))?;
        if let TraceEvent::Violated { invariant, .. } = what
            && stated.insert(invariant)
        {
            writeln!(out, "  {:9}  {}", "", invariant.statement())?;
        }
    }
    match violations.len().saturating_sub(VIOLATIONS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// The subject of a timeline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimelineSubject {
    Chat(ChatId),
    Connections,
}

fn timelines<'a>(story: &'a Story<'a>, violations: &[&TraceEntry]) -> Vec<Timeline<'a>> {
    let named: BTreeSet<ChatId> = violations.iter().flat_map(|violation| story.chats_of(violation)).collect();
    let is_of_connections = |violation: &&&TraceEntry| match &violation.what {
        TraceEvent::Violated { invariant, .. } => {
            invariant.plane() == InvariantPlane::Routing || story.chats_of(violation).is_empty()
        }
        _ => false,
    };
    let chats = story.chats.iter().copied().filter(|chat_id| violations.is_empty() || named.contains(chat_id));
    let connections = violations.is_empty() || violations.iter().any(|violation| is_of_connections(&violation));
    let subjects = chats.map(TimelineSubject::Chat).chain(connections.then_some(TimelineSubject::Connections));
    subjects.map(|subject| Timeline::of(story, subject)).collect()
}

/// The timeline of a chat, or of connections.
struct Timeline<'a> {
    story: &'a Story<'a>,
    subject: TimelineSubject,
    /// The clients with a lane.
    clients: Vec<&'a TraceActor>,
}

impl<'a> Timeline<'a> {
    fn of(story: &'a Story<'a>, subject: TimelineSubject) -> Self {
        let is_about = |entry: &&TraceEntry| match subject {
            TimelineSubject::Chat(chat_id) => story.chats_of(entry).contains(&chat_id),
            TimelineSubject::Connections => true,
        };
        let users: BTreeSet<String> =
            story.trace.entries.iter().filter(is_about).flat_map(|entry| story.users_of(entry)).collect();
        let has_lane = |actor: &&TraceActor| owner(actor).is_some_and(|owner| users.contains(owner));
        let clients = story.actors.iter().copied().filter(has_lane).collect();
        Self { story, subject, clients }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let lines = self.story.trace.entries.iter().filter(|entry| self.tells(entry)).count();
        let (title, left_out) = (self.title(), lines.saturating_sub(LINES_MAX));
        writeln!(out, "\n{title}\n{}", "=".repeat(title.chars().count()))?;
        write!(out, "   {:>9}  {:<12}", "time", "who")?;
        for client in &self.clients {
            write!(out, " {:<LANE_WIDTH$}", client.to_string())?;
        }
        writeln!(out, " what")?;
        if left_out > 0 {
            writeln!(out, "   {:>9}  {left_out} earlier lines are left out", "...")?;
        }
        let mut shown = Shown::default();
        let mut line = 0;
        for entry in &self.story.trace.entries {
            shown.follow(entry);
            if self.tells(entry) {
                line += 1;
                if line > left_out {
                    self.write_line(out, entry, &shown)?;
                }
            }
        }
        Ok(())
    }

    fn title(&self) -> String {
        match self.subject {
            TimelineSubject::Chat(chat_id) => self.story.names().chat(chat_id),
            TimelineSubject::Connections => "connections and presence".to_owned(),
        }
    }

    /// Whether an entry belongs to this timeline: it concerns the chat, a client with a lane, or all clients.
    fn tells(&self, entry: &TraceEntry) -> bool {
        let chats = self.story.chats_of(entry);
        match (EntryKind::of(&entry.what), self.subject) {
            (EntryKind::Fault | EntryKind::Process, _) => true,
            (EntryKind::Connection, _) => self.clients.contains(&&entry.actor),
            (EntryKind::Presence | EntryKind::Call, TimelineSubject::Connections) => true,
            (EntryKind::Violation, TimelineSubject::Connections) => true,
            (_, TimelineSubject::Connections) => false,
            (_, TimelineSubject::Chat(chat_id)) => chats.contains(&chat_id),
        }
    }

    fn write_line(&self, out: &mut String, entry: &'a TraceEntry, shown: &Shown<'a>) -> std::fmt::Result {
        let is_violation = EntryKind::of(&entry.what) == EntryKind::Violation;
        let mark = if is_violation { "!!" } else { "" };
        let actor = entry.actor.to_string();
        write!(out, "{mark:<2} {:>9}  {actor:<12}", RunTime(entry.at))?;
        for client in &self.clients {
            let lane = self.lane(client, entry, shown);
            write!(out, " {lane:<LANE_WIDTH$}")?;
        }
        writeln!(out, " {}", self.story.words(&entry.what))
    }

    /// The content of a client's lane: the messages it has shown, if they changed; otherwise its connection state.
    fn lane(&self, client: &'a TraceActor, entry: &TraceEntry, shown: &Shown<'a>) -> String {
        let is_own = entry.actor == *client;
        match (&entry.what, self.subject) {
            (TraceEvent::Violated { .. }, TimelineSubject::Chat(chat_id)) => tail(&shown.ranges(client, chat_id)),
            (TraceEvent::Rendered { .. } | TraceEvent::Acked { .. }, TimelineSubject::Chat(chat_id)) if is_own => {
                tail(&shown.ranges(client, chat_id))
            }
            (TraceEvent::Connected { .. }, _) if is_own => "┬".to_owned(),
            (TraceEvent::Disconnected { .. }, _) if is_own => "┴".to_owned(),
            _ if is_own => "●".to_owned(),
            _ if shown.is_connected(client) => "│".to_owned(),
            _ => String::new(),
        }
    }
}

/// The end of a text, cut to the width of a lane.
fn tail(text: &str) -> String {
    let excess = text.chars().count().saturating_sub(LANE_WIDTH);
    match excess {
        0 => text.to_owned(),
        excess => format!("…{}", text.chars().skip(excess + 1).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::explain::sample::sample;

    fn heading() -> Heading {
        Heading {
            title: "seed 7, a fleet".to_owned(),
            replay: "cargo xtask sim --seed 7 --shape fleet".to_owned(),
            notes: vec!["fault 1 of 40: Kill { process: 0, back_after: 3s } at 2.003 s".to_owned()],
        }
    }

    #[test]
    fn a_failing_run_prints_the_timeline_of_the_affected_chat() {
        expect![[r#"
            seed 7, a fleet
            replay: cargo xtask sim --seed 7 --shape fleet
            fault 1 of 40: Kill { process: 0, back_after: 3s } at 2.003 s

            1 violation
                 95.000  no_silent_loss: `bob/0` never shows 2 of group 0 <by ann>
                         Every member eventually has every acknowledged message.

            group 0
            =======
                    time  who          ann/0      ann/1      bob/0      what
                   0.000  gateway 0                                     starts
                   0.001  fanout 0                                      starts
                   0.010  store                                         has ann as a member
                   0.010  store                                         has bob as a member
                   0.200  ann/0        ┬                                connects to gateway 0
                   0.210  ann/1        │          ┬                     connects to gateway 0
                   0.220  bob/0        │          │          ┬          connects to gateway 0
                   1.000  ann/0        ●          │          │          sends #1
                   1.002  store        │          │          │          commits 1 by ann
                   1.003  ann/0        1          │          │          has #1 acknowledged as 1
                   1.005  log          │          │          │          has 1
                   1.006  fanout 0     │          │          │          pushes 1 to gateway 0 for ann, bob
                   1.008  ann/1        │          1          │          shows 1 by ann
                   1.009  bob/0        │          │          1          shows 1 by ann
                   1.500  bob/0        │          │          ●          says that all is read up to 1
                   2.000  ann/0        ●          │          │          sends #3
                   2.002  store        │          │          │          commits 2 by ann
                   2.003  nemesis      │          │          │          Kill { process: 0, back_after: 3s }
                   2.003  gateway 0    │          │          │          is killed
                   2.004  ann/0        ┴          │          │          is disconnected: Lost
                   2.004  ann/1                   ┴          │          is disconnected: Lost
                   2.004  bob/0                              ┴          is disconnected: Lost
                   2.010  log                                           has 2
                   5.003  gateway 0                                     starts
                   5.200  ann/0        ┬                                connects to gateway 0
                   5.201  ann/0        ●                                sends #3
                   5.203  ann/0        1-2                              has #3 acknowledged as 2, by an earlier try
                   5.300  ann/1        │          ┬                     connects to gateway 0
                   5.310  ann/1        │          1-2                   shows 2 by ann
                   5.400  bob/0        │          │          ┬          connects to gateway 0
                   6.000  ann/0        ●          │          │          calls GET /chats/group 0: 200
                   7.000  ann/1        │          ●          │          receives the expiry of 1-2
                   8.000  fanout 0     │          │          │          goes in good order
                   9.000  store        │          │          │          has bob as a member no more
            !!    95.000  checker      1-2        1-2        1          no_silent_loss: `bob/0` never shows 2 of group 0 <by ann>
        "#]].assert_eq(&text(&sample(), &heading()));
    }

    #[test]
    fn a_run_without_violations_is_shown_completely() {
        let mut trace = sample();
        trace.entries.pop();
        let text = text(&trace, &heading());
        let titles: Vec<_> =
            text.lines().zip(text.lines().skip(1)).filter(|(_, line)| line.starts_with("==")).collect();
        let titles: Vec<_> = titles.into_iter().map(|(title, _)| title).collect();
        assert_eq!(titles, ["group 0", "direct 1", "connections and presence"]);
        assert!(text.contains("\nno violations\n"));
    }

    #[test]
    fn a_long_run_shows_its_end() {
        let mut trace = sample();
        let last = trace.entries.pop().unwrap();
        let again = trace.entries[8].clone();
        trace.entries.extend(std::iter::repeat_n(again, 1000));
        trace.entries.push(last);
        let text = text(&trace, &heading());
        assert!(text.contains("earlier lines are left out"), "{text}");
        assert!(text.lines().count() < LINES_MAX + 20);
        assert!(text.lines().last().unwrap().starts_with("!!"));
    }

    #[test]
    fn text_too_wide_for_a_lane_loses_its_beginning() {
        assert_eq!(tail("1-3 5"), "1-3 5");
        assert_eq!(tail("1-3 5 7 9 11 13"), "…7 9 11 13");
    }
}
