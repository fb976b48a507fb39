//! The examples of the Rust SDK, against the real binary.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

// The published name of the SDK crate.
extern crate client as tidings_client;

#[allow(dead_code, reason = "an example has a `main` of its own")]
#[path = "../../../crates/client/examples/echo_bot.rs"]
mod echo_bot;
#[allow(dead_code, reason = "an example has a `main` of its own")]
#[path = "../../../crates/client/examples/export.rs"]
mod export;
#[allow(dead_code, reason = "an example has a `main` of its own")]
#[path = "../../../crates/client/examples/hello.rs"]
mod hello;
#[path = "it/server.rs"]
mod server;
#[allow(dead_code, reason = "an example has a `main` of its own")]
#[path = "../../../crates/client/examples/updates.rs"]
mod updates;

use server::{PATIENCE, TestServer};

const ADA: &str = "+14155550101";
const BOT: &str = "+14155550102";

#[tokio::test]
async fn hello_is_answered_by_the_echo_bot_and_both_are_exported_in_order() {
    let server = TestServer::start().await;
    let url = server.base_url();
    let (bot, bot_id) = echo_bot::sign_in(&url, BOT, "000000").await.unwrap();
    let bot = async { echo_bot::echo(bot, bot_id).await.unwrap_or_else(|error| panic!("the bot failed: {error}")) };
    let hello = tokio::time::timeout(PATIENCE, hello::say_hello(&url, ADA, "000000", BOT));
    let answer = tokio::select! {
        answer = hello => answer.expect("it is answered").unwrap(),
        () = bot => panic!("the bot ended"),
    };
    assert_eq!(answer, "Hello, Echo");

    let mut exported = Vec::new();
    export::export(&url, ADA, "000000", &mut exported).await.unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(exported).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<_> = lines.iter().map(|line| (line["sequence"].as_u64(), line["content"].as_str())).collect();
    assert_eq!(said, [(Some(1), Some("Hello, Echo")), (Some(2), Some("Hello, Echo"))]);
    assert_ne!(lines[0]["sender_id"], lines[1]["sender_id"]);
}

#[tokio::test]
async fn updates_leave_the_corrected_message_alone() {
    let server = TestServer::start().await;
    let url = server.base_url();
    echo_bot::sign_in(&url, BOT, "000000").await.unwrap();
    let updated = tokio::time::timeout(PATIENCE, updates::update(&url, ADA, "000000", BOT)).await;
    assert_eq!(updated.expect("it ends").unwrap(), ["Hello (edited)  👋 1"]);
}
