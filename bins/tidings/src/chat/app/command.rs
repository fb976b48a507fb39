use std::time::Duration;

use domain::Ttl;

/// What a line that begins with `/` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
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
    /// Without an end, for ever.
    Mute {
        duration: Option<Duration>,
    },
    Unmute,
    /// How long messages of the chat live from now on; without an end, for ever.
    Ttl {
        ttl: Option<Ttl>,
    },
    Who,
    Contact,
    Quit,
}

/// The commands as `/help` lists them.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("/new +PHONE", "open a chat with somebody"),
    ("/group NAME +PHONE…", "make a group"),
    ("/add +PHONE", "add somebody to this group"),
    ("/leave", "leave this group"),
    ("/mute [TIME], /unmute", "be quiet about this chat, as 8h or 7d"),
    ("/ttl TIME, /ttl off", "let new messages vanish, after 30s, 1h or 7d"),
    ("/who", "list the members of this chat"),
    ("/contact", "see each other online, if both of you say so"),
    ("/quit", "end"),
];

/// Reads a line. `None` is a message; a refusal is a sentence for the person.
pub(crate) fn parse(line: &str) -> Option<Result<Command, String>> {
    let rest = line.strip_prefix('/')?;
    if rest.starts_with('/') {
        return None;
    }
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(command(name, arguments.trim()))
}

/// The text of a message; a line that begins with `//` is one that begins with `/`.
pub(crate) fn message(line: &str) -> &str {
    if line.starts_with("//") { &line[1..] } else { line }
}

fn command(name: &str, arguments: &str) -> Result<Command, String> {
    match (name, arguments) {
        ("help", "") => Ok(Command::Help),
        ("leave", "") => Ok(Command::Leave),
        ("unmute", "") => Ok(Command::Unmute),
        ("who", "") => Ok(Command::Who),
        ("contact", "") => Ok(Command::Contact),
        ("quit", "") => Ok(Command::Quit),
        ("mute", "") => Ok(Command::Mute { duration: None }),
        ("mute", time) => Ok(Command::Mute { duration: Some(duration(time)?) }),
        ("ttl", "off") => Ok(Command::Ttl { ttl: None }),
        ("ttl", time) => match Ttl::from_secs(duration(time)?.as_secs()) {
            Some(ttl) => Ok(Command::Ttl { ttl: Some(ttl) }),
            None => Err(format!("messages live from 1s to 365d, not `{time}`")),
        },
        ("new", number) => Ok(Command::New { phone_number: phone_number(number)? }),
        ("add", number) => Ok(Command::Add { phone_number: phone_number(number)? }),
        ("group", arguments) => group(arguments),
        ("help" | "leave" | "unmute" | "who" | "contact" | "quit", _) => {
            Err(format!("`/{name}` stands alone; begin with // to send the line as it is"))
        }
        _ => Err(format!("`/{name}` is no command; /help lists them, and // sends a line that begins with /")),
    }
}

/// A name of one or more words, then one number or more.
fn group(arguments: &str) -> Result<Command, String> {
    let usage = || "say `/group NAME +PHONE…`, as `/group Book club +14155550102`".to_owned();
    let place = arguments.split_whitespace().position(|word| word.starts_with('+')).ok_or_else(usage)?;
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (name, numbers) = words.split_at(place);
    if name.is_empty() {
        return Err(usage());
    }
    let phone_numbers = numbers.iter().map(|number| phone_number(number)).collect::<Result<_, _>>()?;
    Ok(Command::Group { name: name.join(" "), phone_numbers })
}

/// A number as people write it: with spaces, dashes and brackets, from its `+` on. The server knows the rest.
fn phone_number(text: &str) -> Result<String, String> {
    let number: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '-' | '(' | ')' | '.')).collect();
    match number.strip_prefix('+') {
        Some(digits) if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) => Ok(number),
        _ => Err(format!("`{text}` is no phone number; write it with its country, as +14155550102")),
    }
}

/// A time as `30s`, `5m`, `8h` or `7d`.
fn duration(text: &str) -> Result<Duration, String> {
    let refusal = || format!("`{text}` is no time; write it as 30s, 5m, 8h or 7d");
    let unit = text.chars().next_back().ok_or_else(refusal)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return Err(refusal()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| refusal())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(line: &str) -> Command {
        parse(line).expect("it is a command").expect("it is a good one")
    }

    #[track_caller]
    fn refused(line: &str) -> String {
        parse(line).expect("it is a command").expect_err("it is refused")
    }

    #[test]
    fn commands_are_read_with_what_they_need() {
        assert_eq!(read("/new +1 (415) 555-0102"), Command::New { phone_number: "+14155550102".into() });
        let group = Command::Group { name: "Book club".into(), phone_numbers: vec!["+41".into(), "+42".into()] };
        assert_eq!(read("/group Book club +41 +42"), group);
        assert_eq!(read("/mute"), Command::Mute { duration: None });
        assert_eq!(read("/mute 8h"), Command::Mute { duration: Some(Duration::from_secs(28_800)) });
        assert_eq!(read("/ttl 30s"), Command::Ttl { ttl: Ttl::from_secs(30) });
        assert_eq!(read("/ttl off"), Command::Ttl { ttl: None });
        assert_eq!(read("/quit"), Command::Quit);
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
            ("/mute €", "`€` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/mute 99999999999999999999d", "`99999999999999999999d` is no time; write it as 30s, 5m, 8h or 7d"),
            ("/ttl 400d", "messages live from 1s to 365d, not `400d`"),
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
