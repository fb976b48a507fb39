//! Executes a runbook: runs its commands as they are on the page, and compares their output with the page.
#![allow(dead_code, reason = "several test binaries share this file, and each uses its own part of it")]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

/// Longest time until a page matches: metrics are updated every few seconds, and tools wait for timeouts.
const PATIENCE: Duration = Duration::from_secs(40);

/// The commands of a page to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunbookMoment {
    /// During the failure.
    Broken,
    /// After the failure.
    Over,
}

impl RunbookMoment {
    fn fence(self) -> &'static str {
        match self {
            Self::Broken => "```sh drill",
            Self::Over => "```sh drill over",
        }
    }
}

/// The variables that commands of runbooks use.
pub(crate) fn names(url: &str, admin_url: &str, data_dir: &Path) -> Vec<(String, String)> {
    let admin = admin_url.strip_prefix("http://").unwrap();
    let data = data_dir.to_str().expect("the path of a temporary directory is text");
    [("URL", url), ("ADMIN", admin), ("DATA", data)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Runs the commands of a page for a moment, repeatedly until the output matches the page.
pub(crate) async fn follow(page: &str, moment: RunbookMoment, environment: Vec<(String, String)>) {
    let blocks = blocks(&read(&format!("runbooks/{page}")), moment.fence());
    assert!(!blocks.is_empty(), "{page} has nothing to do when it is {moment:?}");
    for CommandBlock { commands, shown } in blocks {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, said) = run(&commands, &environment, PATIENCE).await;
            let Some(missing) = shown.iter().find(|line| !said.lines().any(|said| matches(line, said))) else { break };
            assert!(Instant::now() < deadline, "{page} shows `{missing}`, and its commands said:\n{said}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Runs the commands of the blocks `sh drill STEP` of a page once, in order. Returns the exit code and the output of
/// the last one, which matches the page.
pub(crate) async fn take_step(page: &str, step: &str, environment: &[(String, String)]) -> (Option<i32>, String) {
    let mut last = None;
    for CommandBlock { commands, shown } in blocks(&read(page), &format!("```sh drill {step}")) {
        let (code, said) = run(&commands, environment, 4 * PATIENCE).await;
        let missing = shown.iter().find(|line| !said.lines().any(|said| matches(line, said)));
        assert_eq!(missing, None, "{page} shows it for `{step}`, and its commands said:\n{said}");
        last = Some((code, said));
    }
    last.unwrap_or_else(|| panic!("{page} has no step `{step}`"))
}

/// The text of a page of docs.
fn read(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Commands, and the expected lines of their output.
#[derive(Debug, PartialEq, Eq)]
struct CommandBlock {
    commands: String,
    shown: Vec<String>,
}

/// The command blocks of a page that begin with a fence, each with the text block after it. They may be parts of a
/// list.
fn blocks(page: &str, fence: &str) -> Vec<CommandBlock> {
    let mut lines = page.lines().map(str::trim_start);
    let mut blocks = vec![];
    while lines.by_ref().any(|line| line == fence) {
        let commands = lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
        assert_eq!((lines.next(), lines.next()), (Some(""), Some("```text")), "a page shows what its commands say");
        let shown = lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
        blocks.push(CommandBlock { commands, shown });
    }
    blocks
}

/// The exit code and the output of commands.
async fn run(commands: &str, environment: &[(String, String)], patience: Duration) -> (Option<i32>, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidings")).parent().expect("a file is in a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    // Settings in the environment of the test are not meant for this command.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command.args(["-eu", "-c", commands]).env("PATH", path).envs(environment.iter().cloned());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(patience, command.output()).await.expect("commands come to an end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said)
}

/// Whether a line matches the page, where `…` matches anything.
fn matches(shown: &str, said: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| said.strip_prefix(first)) else { return false };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open = part.is_empty();
    }
    is_open || rest.is_empty()
}

#[test]
fn the_output_shown_on_a_page_matches_the_output_of_commands() {
    assert!(matches("nothing is violated", "nothing is violated"));
    assert!(!matches("nothing is violated", "nothing is violated, or is it"));
    assert!(matches("up{a=\"b\"} …", "up{a=\"b\"} 7"));
    assert!(matches("…\"status\":\"ready\"…", "{\"status\":\"ready\"}"));
    assert!(matches("BAD   redis…", "BAD   redis          it is away"));
    assert!(!matches("BAD   redis…", "ok    redis          it is there"));
    assert!(matches("…connections", "local  1 connections"));
}

#[test]
fn the_commands_of_a_moment_are_parsed_with_their_output() {
    let page = "# A page\n\n```sh\nnever\n```\n\n```sh drill\none\ntwo\n```\n\n```text\nsaid\n```\n\n\
                ```sh drill over\nthree\n```\n\n```text\n```\n";
    let block = |commands: &str, shown: &[&str]| CommandBlock {
        commands: commands.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(blocks(page, RunbookMoment::Broken.fence()), [block("one\ntwo", &["said"])]);
    assert_eq!(blocks(page, RunbookMoment::Over.fence()), [block("three", &[])]);
    let page = "1. A step:\n\n   ```sh drill plan\n   four\n   ```\n\n   ```text\n   said …\n   ```\n";
    assert_eq!(blocks(page, "```sh drill plan"), [block("four", &["said …"])]);
}
