//! The names of version 0.2 for commands that are in a group now. They work unchanged, and `--help` does not list them.

use std::ffi::OsString;

/// The old names, by the group that has the command under the same name now. `events` has no name in its group: its
/// commands are commands of the group.
const STORE: &[&str] =
    &["verify", "backup", "restore", "repair", "migrate", "export", "import", "schema", "recover-counter"];
const LOG: &[&str] = &["reconcile", "webhook", "notifications", "dead-letters"];
const ADMIN: &[&str] = &["user", "session", "message", "report", "routes", "drain", "resume", "log-level"];
/// The commands for operators that `tidings chat` had.
const CHAT: &[&str] = &["show", "members", "timeline", "remove-member", "set-owner", "retention"];

/// Replaces an old name by the current one, also after `help`.
pub(crate) fn translate(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let at = if arguments.get(1).is_some_and(|name| name == "help") { 2 } else { 1 };
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str()).unwrap_or_default();
    let group = match text(at) {
        "events" => {
            arguments[at] = "log".into();
            return arguments;
        }
        "chat" if CHAT.contains(&text(at + 1)) => "admin",
        name if STORE.contains(&name) => "store",
        name if LOG.contains(&name) => "log",
        name if ADMIN.contains(&name) => "admin",
        _ => return arguments,
    };
    arguments.insert(at, group.into());
    arguments
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::CliArguments;

    fn translated(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let texts: Vec<_> = translate(arguments).into_iter().map(|text| text.into_string().unwrap()).collect();
        texts.join(" ")
    }

    #[test]
    fn an_old_name_gets_its_group() {
        for (old, current) in [
            ("tidings verify --deep", "tidings store verify --deep"),
            ("tidings help verify", "tidings help store verify"),
            ("tidings events tail --json", "tidings log tail --json"),
            ("tidings dead-letters list", "tidings log dead-letters list"),
            ("tidings chat show chat_1", "tidings admin chat show chat_1"),
            ("tidings drain", "tidings admin drain"),
        ] {
            assert_eq!(translated(old), current);
        }
    }

    #[test]
    fn current_names_stay_as_they_are() {
        for line in [
            "tidings",
            "tidings help",
            "tidings --version",
            "tidings chat",
            "tidings chat --send show --to verify",
            "tidings store verify",
            "tidings log replay",
            "tidings admin user export user_1",
            "tidings serve --dev",
        ] {
            assert_eq!(translated(line), line);
        }
    }

    #[test]
    fn every_translation_is_a_command() {
        let cli = CliArguments::command();
        let groups = [("store", STORE), ("log", LOG), ("admin", ADMIN)];
        for (group, name) in groups.iter().flat_map(|(group, names)| names.iter().map(move |name| (group, name))) {
            let group = cli.find_subcommand(group).unwrap();
            assert!(group.find_subcommand(name).is_some(), "{name}");
        }
        let chat = cli.find_subcommand("admin").unwrap().find_subcommand("chat").unwrap();
        for name in CHAT {
            assert!(chat.find_subcommand(name).is_some(), "{name}");
        }
    }
}
