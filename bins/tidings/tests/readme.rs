//! The README's tour, pasted into a shell.

use std::process::Command;

/// The shell blocks of the tour, in order, for this build of the binary and free addresses.
fn tour(port: u16) -> String {
    let readme = include_str!("../../../README.md");
    let (_, tour) = readme.split_once("## A tour of five minutes").expect("the README has a tour");
    let (tour, _) = tour.split_once("\n## ").expect("the tour ends");
    let blocks: Vec<&str> = tour.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4, "server and people, a message, a crash, what is left");
    blocks
        .concat()
        .replace("target/release/tidings serve", &format!("{} serve", env!("CARGO_BIN_EXE_tidings")))
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
}

#[test]
fn the_tour_works_when_pasted_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = Command::new("bash")
        // The trap leaves no server running, even on a failure.
        .args(["-uc", &format!("trap 'kill -9 $server 2> /dev/null' EXIT\n{}", tour(port))])
        .current_dir(directory.path())
        .env("TIDINGS_LISTEN", format!("127.0.0.1:{port}"))
        .env("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");

    let answers: Vec<serde_json::Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [me, sent, again, history, inbox] = answers.as_slice() else { panic!("{said}\n{complained}") };
    assert_eq!(me["data"]["display_name"], "Ada");
    assert_eq!((&sent["data"]["sequence"], &sent["data"]["deduplicated"]), (&1.into(), &false.into()));
    assert_eq!(again["data"]["message_id"], sent["data"]["message_id"]);
    assert_eq!(again["data"]["deduplicated"], true);
    assert_eq!(history["data"]["messages"].as_array().unwrap().len(), 1);
    assert_eq!(history["data"]["messages"][0]["content"], "Hello, Bob");
    assert_eq!(inbox["data"]["chats"][0]["unread_count"], 1);
}
