use std::collections::BTreeMap;
use std::fmt::{self, Write};

use html::{Escaped, Page};

use super::Heading;
use super::story::{EntryKind, RunTime, Story, lane};
use crate::trace::{RunTrace, TraceActor, TraceEntry, TraceEvent};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A run as one HTML page: a lane for each process and client, a line for each entry, and at every entry the messages
/// visible to each client. It is self-contained and needs no server.
pub fn page(trace: &RunTrace, heading: &Heading) -> String {
    let mut body = String::new();
    // Writing to a string cannot fail.
    write_body(&mut body, &Story::of(trace), heading).expect("a string takes what is written");
    Page { title: &heading.title, style: STYLE, script: SCRIPT, body: &body }.to_string()
}

fn write_body(out: &mut String, story: &Story<'_>, heading: &Heading) -> fmt::Result {
    write_heading(out, story, heading)?;
    write_filters(out, story)?;
    write_entries(out, story)?;
    writeln!(out, "<aside id=\"detail\" hidden=\"hidden\"></aside>")
}

fn write_heading(out: &mut String, story: &Story<'_>, heading: &Heading) -> fmt::Result {
    let Heading { title, replay, notes } = heading;
    writeln!(out, "<header>\n<h1>{}</h1>\n<p id=\"replay\"><code>{}</code></p>", Escaped(title), Escaped(replay))?;
    if !notes.is_empty() {
        writeln!(
            out,
            "<details><summary>what was planned</summary><pre>{}</pre></details>",
            Escaped(notes.join("\n"))
        )?;
    }
    writeln!(out, "<ol id=\"violations\">")?;
    for n in story.trace.violations() {
        let TraceEntry { at, what, .. } = &story.trace.entries[n];
        let TraceEvent::Violated { invariant, detail } = what else { continue };
        let (at, detail) = (RunTime(*at), Escaped(story.spelled(detail)));
        let statement = Escaped(invariant.statement());
        writeln!(
            out,
            "<li><a href=\"#e{n}\"><b>{invariant}</b> <time>{at}</time> {detail}</a> <small>{statement}</small></li>"
        )?;
    }
    writeln!(out, "</ol>\n</header>")
}

fn write_filters(out: &mut String, story: &Story<'_>) -> fmt::Result {
    writeln!(out, "<nav>\n<label>chat <select id=\"chat\"><option value=\"\">all</option>")?;
    for (n, chat_id) in story.chats.iter().enumerate() {
        writeln!(out, "<option value=\"{n}\">{}</option>", Escaped(story.names().chat(*chat_id)))?;
    }
    writeln!(out, "</select></label>\n<label>user <select id=\"user\"><option value=\"\">all</option>")?;
    for (n, user) in story.users().into_iter().enumerate() {
        writeln!(out, "<option value=\"{n}\">{}</option>", Escaped(user))?;
    }
    writeln!(out, "</select></label>\n<input id=\"words\" type=\"search\" placeholder=\"find\" aria-label=\"find\"/>")?;
    writeln!(out, "<span id=\"kinds\">")?;
    let mut counts: BTreeMap<EntryKind, usize> = BTreeMap::new();
    for entry in &story.trace.entries {
        *counts.entry(EntryKind::of(&entry.what)).or_default() += 1;
    }
    for (kind, count) in counts {
        let name = kind.name();
        writeln!(
            out,
            "<label class=\"{name}\"><input type=\"checkbox\" checked=\"checked\" value=\"{name}\"/><i></i>{name} \
             <small>{count}</small></label>"
        )?;
    }
    writeln!(out, "</span>\n<output id=\"count\"></output>\n</nav>")
}

fn write_entries(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let mut lanes: Vec<(String, &str)> = story.actors.iter().map(|actor| (lane(actor), sort(actor))).collect();
    lanes.dedup();
    writeln!(out, "<main style=\"--n:{}\">\n<div id=\"lanes\">", lanes.len())?;
    for (n, (name, sort)) in lanes.iter().enumerate() {
        writeln!(out, "<span class=\"{sort}\" style=\"--l:{n}\">{}</span>", Escaped(name))?;
    }
    writeln!(out, "</div>\n<ol id=\"entries\">")?;
    let users: Vec<String> = story.users().into_iter().collect();
    let lane_of = |actor: &TraceActor| lanes.iter().position(|(name, of)| (name, *of) == (&lane(actor), sort(actor)));
    for n in 0..story.trace.entries.len() {
        write_entry(out, story, &users, &lane_of, n)?;
    }
    writeln!(out, "</ol>\n<div id=\"lives\"></div>\n</main>")
}

/// The kind of a lane, for its style and its meaning.
fn sort(actor: &TraceActor) -> &'static str {
    match actor {
        TraceActor::Process(_) => "process",
        TraceActor::Client(_) => "client",
        _ => "other",
    }
}

/// Writes one line. Its attributes contain the data for the script.
fn write_entry(
    out: &mut String,
    story: &Story<'_>,
    users: &[String],
    lane_of: &impl Fn(&TraceActor) -> Option<usize>,
    n: usize,
) -> fmt::Result {
    let entry = &story.trace.entries[n];
    let place = |item: bool, n: usize| item.then(|| n.to_string());
    let (chats_of, users_of) = (story.chats_of(entry), story.users_of(entry));
    let chats = story.chats.iter().enumerate().filter_map(|(n, chat_id)| place(chats_of.contains(chat_id), n));
    let users = users.iter().enumerate().filter_map(|(n, user)| place(users_of.contains(user), n));
    let (chats, users): (Vec<_>, Vec<_>) = (chats.collect(), users.collect());
    let lane = lane_of(&entry.actor).unwrap_or_default();
    let kind = EntryKind::of(&entry.what).name();
    write!(
        out,
        "<li id=\"e{n}\" class=\"{kind}\" data-lane=\"{lane}\" data-chats=\"{}\" data-users=\"{}\" data-raw=\"{}\"",
        chats.join(" "),
        users.join(" "),
        Escaped(format!("{:?}", entry.what)),
    )?;
    match &entry.what {
        TraceEvent::Acked { sequence, .. }
        | TraceEvent::Committed { sequence, .. }
        | TraceEvent::Published { sequence, .. }
        | TraceEvent::Rendered { sequence, .. } => {
            write!(out, " data-has=\"{}\"", sequence.0)
        }
        TraceEvent::Started | TraceEvent::Connected { .. } => write!(out, " data-life=\"begins\""),
        TraceEvent::Killed | TraceEvent::Drained | TraceEvent::Disconnected { .. } => {
            write!(out, " data-life=\"ends\"")
        }
        _ => Ok(()),
    }?;
    write!(out, "><time>{}</time><span class=\"lane\">", RunTime(entry.at))?;
    if let Some(other) = gateway(&entry.what).and_then(|gateway| lane_of(&TraceActor::Process(gateway.to_owned()))) {
        write!(out, "<b style=\"--a:{};--b:{}\"></b>", lane.min(other), lane.max(other))?;
    }
    let chat = match chats_of.first() {
        Some(chat_id) if EntryKind::of(&entry.what) != EntryKind::Violation => {
            format!(" <em>in {}</em>", Escaped(story.names().chat(*chat_id)))
        }
        _ => String::new(),
    };
    writeln!(
        out,
        "<i style=\"--l:{lane}\"></i></span><span class=\"said\"><strong>{}</strong> {}{chat}</span></li>",
        Escaped(&entry.actor),
        Escaped(story.words(&entry.what)),
    )
}

/// The gateway that an entry refers to, if any.
fn gateway(what: &TraceEvent) -> Option<&str> {
    match what {
        TraceEvent::Connected { gateway } | TraceEvent::Pushed { gateway, .. } => Some(gateway),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::sample::sample;

    fn heading() -> Heading {
        Heading {
            title: "seed 7 </title><script>alert(1)</script>".to_owned(),
            replay: "cargo xtask sim --seed 7 --shape fleet".to_owned(),
            notes: vec!["a note & another".to_owned()],
        }
    }

    /// The element names of a document, in order; panics unless each is closed where it must be.
    fn elements(html: &str) -> Vec<&str> {
        let (mut open, mut seen) = (vec![], vec![]);
        let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("a document says what it is");
        while let Some(at) = rest.find('<') {
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<'), "`{tag}` has a tag in it");
            assert_eq!(tag.matches('"').count() % 2, 0, "`{tag}` has an attribute without an end");
            rest = &rest[end + 1..];
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "`{closed}` is closed"),
                None => {
                    let name = tag.split([' ', '/']).next().unwrap_or_default();
                    seen.push(name);
                    if !tag.ends_with('/') {
                        open.push(name);
                    }
                    // The content of these elements is not markup.
                    if ["script", "style"].contains(&name) {
                        rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
                    }
                }
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        seen
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let html = page(&sample(), &heading());
        let elements = elements(&html);
        assert_eq!(elements.iter().filter(|name| **name == "script").count(), 1);
        assert!(!elements.iter().any(|name| ["link", "img", "iframe", "object"].contains(name)));
        assert!(!html.contains("http://") && !html.contains("https://"));
    }

    #[test]
    fn every_entry_is_on_the_page() {
        let trace = sample();
        let story = Story::of(&trace);
        let html = page(&trace, &heading());
        for (n, entry) in trace.entries.iter().enumerate() {
            let line = html.lines().find(|line| line.starts_with(&format!("<li id=\"e{n}\""))).expect("it has a line");
            assert!(line.contains(&Escaped(story.words(&entry.what)).to_string()), "{line}");
            assert!(line.contains(&format!("<time>{}</time>", RunTime(entry.at))), "{line}");
            assert!(line.contains(&format!("<strong>{}</strong>", entry.actor)), "{line}");
        }
        assert_eq!(html.matches("<li id=\"e").count(), trace.entries.len());
    }

    #[test]
    fn a_violation_is_linked_from_the_top() {
        let html = page(&sample(), &heading());
        assert!(html.contains("<li><a href=\"#e37\"><b>no_silent_loss</b>"));
        assert!(html.contains("<li id=\"e37\" class=\"violations\""));
        assert!(html.contains("&lt;by ann&gt;"), "ids are replaced by names, and escaped");
    }

    #[test]
    fn nothing_in_a_trace_is_markup() {
        let mut trace = sample();
        let bad = "\"'><script>alert(1)</script>\u{0}&amp;".to_owned();
        trace.entries[0].actor = TraceActor::Process(bad.clone());
        trace.entries[1].actor = TraceActor::Client(format!("{bad}/0"));
        trace.entries[20].what = TraceEvent::Fault(bad.clone());
        trace.names.name_chat(crate::explain::sample::ids::chat(0), bad);
        let html = page(&trace, &heading());
        elements(&html);
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!html.contains('\u{0}'));
    }
}
