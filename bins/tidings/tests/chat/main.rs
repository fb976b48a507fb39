//! `tidings chat` end to end: real processes in pseudo-terminals, and a real server that stops and restarts.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

#[path = "../it/server.rs"]
mod server;
mod terminal;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use server::TestServer;
use terminal::{SIZE, Terminal};

const ADA: &str = "+14155550101";
const BOB: &str = "+14155550102";
const CONTROL_C: &str = "\u{3}";
const ENTER: &str = "\r";

/// Signs a new user up at a terminal: types number, code and name.
fn sign_up(home: &Path, server: &TestServer, name: &str, phone_number: &str) -> Terminal {
    let mut terminal = Terminal::start(home, name, &server.base_url());
    for (question, answer) in [("Your phone number", phone_number), ("The code", "000000"), ("Your name", name)] {
        terminal.until(question);
        terminal.press(answer);
        terminal.press(ENTER);
    }
    terminal.until("● connected");
    terminal
}

fn say(terminal: &mut Terminal, words: &str) {
    terminal.press(words);
    terminal.press(ENTER);
}

fn plainly(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidings"))
        .arg("chat")
        .args(arguments)
        .env("XDG_STATE_HOME", home)
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_chat_while_their_server_dies_and_comes_back() {
    let mut server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut ada = sign_up(home.path(), &server, "Ada", ADA);
    let mut bob = sign_up(home.path(), &server, "Bob", BOB);

    say(&mut ada, &format!("/new {BOB}"));
    ada.until("the beginning of the chat");
    say(&mut ada, "Hello, Bob");
    ada.until("Hello, Bob  ✓");
    let inbox = bob.until("Hello, Bob");
    assert!(inbox.lines().next().unwrap().contains("Ada") && inbox.contains(" 1 "), "unread is shown: {inbox}");
    assert!(inbox.contains("No chat is open."), "and it is not read: {inbox}");
    bob.press("\t");
    bob.until("Ada        Hello, Bob");
    ada.until("Hello, Bob  ✓✓ read");

    bob.press("Hi, A");
    ada.until("Bob is typing…");
    say(&mut bob, "da");
    ada.until("Bob        Hi, Ada");

    server.kill().await;
    for terminal in [&ada, &bob] {
        terminal.until("○ offline");
    }
    say(&mut ada, "While you were away");
    ada.until("While you were away  … queued");
    server.restart().await;
    for terminal in [&ada, &bob] {
        terminal.until("● connected");
    }
    bob.until("Ada        While you were away");
    let screen = ada.until("While you were away  ✓✓ read");
    assert_eq!(screen.matches("While you were").count(), 2, "once in the chat, once in the inbox: {screen}");

    ada.press(CONTROL_C);
    assert_eq!(ada.exited(), 0);
    ada.assert_given_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_written_offline_are_sent_once_by_a_later_run() {
    let mut server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut bob = sign_up(home.path(), &server, "Bob", BOB);
    let mut ada = sign_up(home.path(), &server, "Ada", ADA);
    say(&mut ada, &format!("/new {BOB}"));
    ada.until("the beginning of the chat");
    server.kill().await;
    ada.until("○ offline");
    say(&mut ada, "Remember me");
    ada.until("Remember me  … queued");
    ada.signal(Signal::SIGKILL);
    assert_ne!(ada.exited(), 0);

    server.restart().await;
    let mut ada = Terminal::start(home.path(), "Ada", &server.base_url());
    ada.until("You: Remember me");
    bob.until("Remember me");
    bob.press("\t");
    let screen = bob.until("Ada        Remember me");
    assert_eq!(screen.matches("Remember me").count(), 2, "once in the chat, once in the inbox: {screen}");
    ada.signal(Signal::SIGTERM);
    assert_eq!(ada.exited(), 0);
    ada.assert_given_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_reactions_and_deletions_are_seen_on_the_other_terminal_and_behind_a_pipe() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut ada = sign_up(home.path(), &server, "Ada", ADA);
    let mut bob = sign_up(home.path(), &server, "Bob", BOB);
    say(&mut ada, &format!("/new {BOB}"));
    ada.until("the beginning of the chat");
    say(&mut ada, "Helo, Bob");
    bob.until("Helo, Bob");
    bob.press("\t");
    bob.until("Ada        Helo, Bob");
    say(&mut ada, "/edit Hello, Bob");
    bob.until("Ada        Hello, Bob  edited");
    say(&mut bob, "/react ok");
    bob.until("Hello, Bob  edited ok 1*");
    ada.until("Hello, Bob  edited ok 1 ");
    bob.press(CONTROL_C);
    assert_eq!(bob.exited(), 0);

    let mut tail = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["chat", "--profile", "Bob", "--tail"])
        .env("XDG_STATE_HOME", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    say(&mut ada, "/edit Hello again");
    assert!(lines.any(|line| line.ends_with(" Ada edited message 1: Hello again")));
    say(&mut ada, "/delete");
    assert!(lines.any(|line| line.ends_with(" Ada deleted message 1")));
    tail.kill().unwrap();
    tail.wait().unwrap();
    ada.until_so("no message", |screen| !screen.contents().contains("Hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resized_terminal_is_redrawn_and_one_too_small_shows_a_message() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let ada = sign_up(home.path(), &server, "Ada", ADA);
    ada.resize(40, 10);
    ada.until("This terminal is 40×10.");
    // The status is in the last row, at any terminal size.
    let has_rows = |rows: u16| {
        move |screen: &vt100::Screen| screen.contents().lines().nth(usize::from(rows) - 1).is_some_and(is_status)
    };
    ada.resize(120, 40);
    ada.until_so("the larger screen", has_rows(40));
    ada.until("No chat is open.");
    let (columns, rows) = SIZE;
    ada.resize(columns, rows);
    ada.until_so("the screen as it was", has_rows(rows));
}

fn is_status(line: &str) -> bool {
    line.contains("● connected")
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_send_and_receive_without_a_screen() {
    let server = TestServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut ada = sign_up(home.path(), &server, "Ada", ADA);
    let mut bob = sign_up(home.path(), &server, "Bob", BOB);

    let taken = plainly(home.path(), &["--profile", "Ada", "--tail"]);
    let complaint = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(complaint.contains("another `tidings chat` has profile `Ada`"), "{complaint}");
    for terminal in [&mut ada, &mut bob] {
        terminal.press(CONTROL_C);
        assert_eq!(terminal.exited(), 0);
    }

    let mut tail = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["chat", "--profile", "Bob", "--tail"])
        .env("XDG_STATE_HOME", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = plainly(home.path(), &["--profile", "Ada", "--to", BOB, "--send", "two\nlines \u{1b}[2J"]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(String::from_utf8_lossy(&sent.stdout).starts_with("msg_"), "{sent:?}");
    let mut line = String::new();
    BufReader::new(tail.stdout.take().unwrap()).read_line(&mut line).unwrap();
    tail.kill().unwrap();
    tail.wait().unwrap();
    let (_, said) = line.split_once("Z ").expect("it begins with its time");
    assert_eq!(said, "Ada: two lines \u{fffd}[2J\n", "no control character reaches a terminal behind the pipe");

    let unknown = plainly(home.path(), &["--profile", "Ada", "--to", "+14155550199", "--send", "hello"]);
    assert_eq!(unknown.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(complaint.contains("nobody with the number +14155550199 is on this server yet"), "{complaint}");
    let stranger = plainly(home.path(), &["--profile", "stranger", "--tail"]);
    let complaint = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(complaint.contains("nobody is signed in with profile `stranger`"), "{complaint}");
}
