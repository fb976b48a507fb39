use std::time::Duration;

use domain::{Body, Content, ContentType, Reaction, Ttl, UpdateAction};

/// A command line that begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlashCommand {
    Help,
    New {
        phone_number: String,
    },
    Group {
        name: String,
        phone_numbers: Vec<String>,
    },
    Add {
        phone_number: String,
    },
    Leave,
    /// Without a duration, permanently.
    Mute {
        duration: Option<Duration>,
    },
    Unmute,
    /// Retention of new messages in the chat; `None` disables expiry.
    Ttl {
        ttl: Option<Ttl>,
    },
    /// Updates the message at this position from the end, or the last one that suits the action.
    Update {
        position: Option<usize>,
        action: UpdateAction,
    },
    Who,
    Contact,
    Quit,
}

/// The commands as `/help` lists them.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("/new +PHONE", "open a chat with a person"),
    ("/group NAME +PHONE…", "make a group"),
    ("/add +PHONE", "add a person to this group"),
    ("/leave", "leave this group"),
    ("/mute [TIME], /unmute", "be quiet about this chat, as 8h or 7d"),
    ("/ttl TIME, /ttl off", "let new messages vanish, after 30s, 1h or 7d"),
    ("/edit [-N] TEXT", "change your last message, or the Nth from the end"),
    ("/delete [-N]", "delete your last message, or the Nth, for everyone"),
    ("/react [-N] EMOJI", "react to the last message of others, or the Nth"),
    ("/unreact [-N] EMOJI", "take your reaction back"),
    ("/who", "list the members of this chat"),
    ("/contact", "see each other online, if both of you say so"),
    ("/quit", "end"),
];

/// Parses a line. `None` is a message; an error is a sentence for the user.
pub(crate) fn parse(line: &str) -> Option<Result<SlashCommand, String>> {
    let rest = line.strip_prefix('/')?;
    if rest.starts_with('/') {
        return None;
    }
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(command(name, arguments.trim()))
}

/// The text of a message; a leading `//` escapes `/`.
pub(crate) fn message(line: &str) -> &str {
    if line.starts_with("//") { &line[1..] } else { line }
}

fn command(name: &str, arguments: &str) -> Result<SlashCommand, String> {
    match (name, arguments) {
        ("help", "") => Ok(SlashCommand::Help),
        ("leave", "") => Ok(SlashCommand::Leave),
        ("unmute", "") => Ok(SlashCommand::Unmute),
        ("who", "") => Ok(SlashCommand::Who),
        ("contact", "") => Ok(SlashCommand::Contact),
        ("quit", "") => Ok(SlashCommand::Quit),
        ("mute", "") => Ok(SlashCommand::Mute { duration: None }),
        ("mute", time) => Ok(SlashCommand::Mute { duration: Some(duration(time)?) }),
        ("ttl", "off") => Ok(SlashCommand::Ttl { ttl: None }),
        ("ttl", time) => match Ttl::from_secs(duration(time)?.as_secs()) {
            Some(ttl) => Ok(SlashCommand::Ttl { ttl: Some(ttl) }),
            None => Err(format!("messages live from 1s to 365d, not `{time}`")),
        },
        ("new", number) => Ok(SlashCommand::New { phone_number: phone_number(number)? }),
        ("add", number) => Ok(SlashCommand::Add { phone_number: phone_number(number)? }),
        ("group", arguments) => group(arguments),
        ("edit" | "delete" | "react" | "unreact", arguments) => update(name, arguments),
        ("help" | "leave" | "unmute" | "who" | "contact" | "quit", _) => {
            Err(format!("`/{name}` stands alone; begin with // to send the line as it is"))
        }
        _ => Err(format!("`/{name}` is no command; /help lists them, and // sends a line that begins with /")),
    }
}

/// A position from the end or none, then a text, a reaction or nothing.
fn update(name: &str, arguments: &str) -> Result<SlashCommand, String> {
    let (first, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let (position, argument) = match first.strip_prefix('-').and_then(|number| number.parse().ok()) {
        Some(position) => (Some(position), rest.trim_start()),
        None => (None, arguments),
    };
    let reaction = || -> Result<Reaction, String> {
        argument.parse().map_err(|error| format!("`{argument}` is no reaction: {error}"))
    };
    let action = match (name, argument) {
        ("delete", "") => UpdateAction::Delete,
        ("delete", _) => return Err("say `/delete`, or `/delete -2` for the second message from the end".to_owned()),
        (_, "") => return Err(format!("say `/{name} TEXT`, or `/{name} -2 TEXT` for the second message from the end")),
        ("edit", text) => {
            let content = Content::try_from(text.to_owned()).map_err(|error| error.to_string())?;
            UpdateAction::Edit(Body::new(content, ContentType::Text))
        }
        ("react", _) => UpdateAction::React(reaction()?),
        _ => UpdateAction::Unreact(reaction()?),
    };
    Ok(SlashCommand::Update { position, action })
}

/// A name of one or more words, then one number or more.
fn group(arguments: &str) -> Result<SlashCommand, String> {
    let usage = || "say `/group NAME +PHONE…`, as `/group Book club +14155550102`".to_owned();
    let place = arguments.split_whitespace().position(|word| word.starts_with('+')).ok_or_else(usage)?;
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (name, numbers) = words.split_at(place);
    if name.is_empty() {
        return Err(usage());
    }
    let phone_numbers = numbers.iter().map(|number| phone_number(number)).collect::<Result<_, _>>()?;
    Ok(SlashCommand::Group { name: name.join(" "), phone_numbers })
}

/// Parses a phone number with spaces, dashes and brackets, starting at its `+`. The server validates the rest.
fn phone_number(text: &str) -> Result<String, String> {
    let number: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '-' | '(' | ')' | '.')).collect();
    match number.strip_prefix('+') {
        Some(digits) if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) => Ok(number),
        _ => Err(format!("`{text}` is no phone number; write it with its country, as +14155550102")),
    }
}

/// Parses a duration such as `30s`, `8h` or `1h 30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).ok().filter(|duration| duration.as_secs() > 0);
    duration.ok_or_else(|| format!("`{text}` is no time; write it as 30s, 5m, 8h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(line: &str) -> SlashCommand {
        parse(line).expect("it is a command").expect("it is a good one")
    }

    #[track_caller]
    fn refused(line: &str) -> String {
        parse(line).expect("it is a command").expect_err("it is refused")
    }

    #[test]
    fn commands_are_parsed_with_their_arguments() {
        assert_eq!(read("/new +1 (415) 555-0102"), SlashCommand::New { phone_number: "+14155550102".into() });
        let group = SlashCommand::Group { name: "Book club".into(), phone_numbers: vec!["+41".into(), "+42".into()] };
        assert_eq!(read("/group Book club +41 +42"), group);
        assert_eq!(read("/mute"), SlashCommand::Mute { duration: None });
        assert_eq!(read("/mute 8h"), SlashCommand::Mute { duration: Some(Duration::from_secs(28_800)) });
        for (text, seconds) in [("30s", 30), ("5m", 300), ("8h", 28_800), ("7d", 604_800), ("1h 30m", 5400)] {
            assert_eq!(read(&format!("/ttl {text}")), SlashCommand::Ttl { ttl: Ttl::from_secs(seconds) }, "{text}");
        }
        assert_eq!(read("/ttl off"), SlashCommand::Ttl { ttl: None });
        assert_eq!(read("/quit"), SlashCommand::Quit);
    }

    #[test]
    fn updates_are_parsed_with_the_position_of_their_message() {
        let check = |line: &str, position, action| {
            assert_eq!(read(line), SlashCommand::Update { position, action }, "{line}");
        };
        let edit = |text: &str| UpdateAction::Edit(Body::new(text.to_owned().try_into().unwrap(), ContentType::Text));
        check("/edit two words", None, edit("two words"));
        check("/edit -2 two words", Some(2), edit("two words"));
        check("/edit -1 -2 degrees", Some(1), edit("-2 degrees"));
        check("/edit -x", None, edit("-x"));
        check("/delete", None, UpdateAction::Delete);
        check("/delete -3", Some(3), UpdateAction::Delete);
        check("/react ☕\u{fe0f}", None, UpdateAction::React("☕".parse().unwrap()));
        check("/unreact -1 +1", Some(1), UpdateAction::Unreact("+1".parse().unwrap()));
    }

    #[test]
    fn a_refusal_names_the_value_and_the_remedy() {
        let cases = [
            ("/nwe +41", "`/nwe` is no command; /help lists them, and // sends a line that begins with /"),
            ("/new 0155", "`0155` is no phone number; write it with its country, as +14155550102"),
            ("/new", "`` is no phone number; write it with its country, as +14155550102"),
            ("/group +41", "say `/group NAME +PHONE…`, as `/group Book club +14155550102`"),
            ("/group Book club", "say `/group NAME +PHONE…`, as `/group Book club +14155550102`"),
            ("/mute 8", "`8` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/mute 0s", "`0s` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/mute €", "`€` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/mute 99999999999999999999d", "`99999999999999999999d` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/ttl 400d", "messages live from 1s to 365d, not `400d`"),
            ("/edit -2", "say `/edit TEXT`, or `/edit -2 TEXT` for the second message from the end"),
            ("/delete it", "say `/delete`, or `/delete -2` for the second message from the end"),
            ("/react a b", "`a b` is no reaction: a reaction has a space or a control character"),
            ("/quit now", "`/quit` stands alone; begin with // to send the line as it is"),
        ];
        for (line, expected) in cases {
            assert_eq!(refused(line), expected);
        }
    }

    #[test]
    fn everything_else_is_a_message() {
        assert_eq!(parse("hello /new"), None);
        assert_eq!((parse("//usr/bin"), message("//usr/bin")), (None, "/usr/bin"));
        assert_eq!(message("hello"), "hello");
    }
}
