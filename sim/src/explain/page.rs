use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use super::Heading;
use super::story::{Kind, Moment, Story, lane};
use crate::trace::{Actor, Entry, Trace, What};

/// Nothing is loaded from anywhere, and nothing in a trace can make it so.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A run as one HTML page: a lane for each process and client, an entry for each line, and at every entry what was visible
/// to whom. It needs no server and nothing else.
pub fn page(trace: &Trace, heading: &Heading) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    write_page(&mut out, &Story::of(trace), heading).expect("a string takes what is written");
    out
}

fn write_page(out: &mut String, story: &Story<'_>, heading: &Heading) -> fmt::Result {
    let title = Escaped(&heading.title);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    )?;
    write_heading(out, story, heading)?;
    write_filters(out, story)?;
    write_entries(out, story)?;
    writeln!(out, "<aside id=\"detail\" hidden=\"hidden\"></aside>\n<script>\n{SCRIPT}</script>\n</body>\n</html>")
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
        let Entry { at, what, .. } = &story.trace.entries[n];
        let What::Violated { invariant, detail } = what else { continue };
        let (at, detail) = (Moment(*at), Escaped(story.spelled(detail)));
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
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for entry in &story.trace.entries {
        *counts.entry(Kind::of(&entry.what)).or_default() += 1;
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
    let lane_of = |actor: &Actor| lanes.iter().position(|(name, of)| (name, *of) == (&lane(actor), sort(actor)));
    for n in 0..story.trace.entries.len() {
        write_entry(out, story, &users, &lane_of, n)?;
    }
    writeln!(out, "</ol>\n<div id=\"lives\"></div>\n</main>")
}

/// What sort of lane it is, for its looks and for what it means to be in it.
fn sort(actor: &Actor) -> &'static str {
    match actor {
        Actor::Process(_) => "process",
        Actor::Client(_) => "client",
        _ => "other",
    }
}

/// One line. What the script needs to know of it is in its attributes.
fn write_entry(
    out: &mut String,
    story: &Story<'_>,
    users: &[String],
    lane_of: &impl Fn(&Actor) -> Option<usize>,
    n: usize,
) -> fmt::Result {
    let entry = &story.trace.entries[n];
    let place = |item: bool, n: usize| item.then(|| n.to_string());
    let (chats_of, users_of) = (story.chats_of(entry), story.users_of(entry));
    let chats = story.chats.iter().enumerate().filter_map(|(n, chat_id)| place(chats_of.contains(chat_id), n));
    let users = users.iter().enumerate().filter_map(|(n, user)| place(users_of.contains(user), n));
    let (chats, users): (Vec<_>, Vec<_>) = (chats.collect(), users.collect());
    let lane = lane_of(&entry.actor).unwrap_or_default();
    let kind = Kind::of(&entry.what).name();
    write!(
        out,
        "<li id=\"e{n}\" class=\"{kind}\" data-lane=\"{lane}\" data-chats=\"{}\" data-users=\"{}\" data-raw=\"{}\"",
        chats.join(" "),
        users.join(" "),
        Escaped(format!("{:?}", entry.what)),
    )?;
    match &entry.what {
        What::Acked { sequence, .. }
        | What::Committed { sequence, .. }
        | What::Published { sequence, .. }
        | What::Rendered { sequence, .. } => {
            write!(out, " data-has=\"{}\"", sequence.0)
        }
        What::Started | What::Connected { .. } => write!(out, " data-life=\"begins\""),
        What::Killed | What::Drained | What::Disconnected { .. } => write!(out, " data-life=\"ends\""),
        _ => Ok(()),
    }?;
    write!(out, "><time>{}</time><span class=\"lane\">", Moment(entry.at))?;
    if let Some(other) = gateway(&entry.what).and_then(|gateway| lane_of(&Actor::Process(gateway.to_owned()))) {
        write!(out, "<b style=\"--a:{};--b:{}\"></b>", lane.min(other), lane.max(other))?;
    }
    let chat = match chats_of.first() {
        Some(chat_id) if Kind::of(&entry.what) != Kind::Violation => {
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

/// The gateway that something goes to.
fn gateway(what: &What) -> Option<&str> {
    match what {
        What::Connected { gateway } | What::Pushed { gateway, .. } => Some(gateway),
        _ => None,
    }
}

/// A text in which nothing is markup.
struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string().chars() {
            match character {
                '&' => f.write_str("&amp;"),
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                '\n' => f.write_char('\n'),
                control if control.is_control() => f.write_char(char::REPLACEMENT_CHARACTER),
                other => f.write_char(other),
            }?;
        }
        Ok(())
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

    /// The names of the elements of a document, in their order; panics unless each is closed where it must be.
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
                    // What is in these is no markup.
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
            assert!(line.contains(&format!("<time>{}</time>", Moment(entry.at))), "{line}");
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
        trace.entries[0].actor = Actor::Process(bad.clone());
        trace.entries[1].actor = Actor::Client(format!("{bad}/0"));
        trace.entries[20].what = What::Fault(bad.clone());
        trace.names.name_chat(crate::explain::sample::ids::chat(0), bad);
        let html = page(&trace, &heading());
        elements(&html);
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!html.contains('\u{0}'));
    }
}
