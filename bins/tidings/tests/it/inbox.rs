use std::fs;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::server::{ATTEMPTS, TestDevice, TestServer, next_millisecond};

/// More chats than the embedded store reads one by one.
const CHATS: usize = 230;

async fn page(by: &TestDevice, cursor: Option<&Value>) -> Value {
    let cursor = cursor.map(|cursor| format!("&cursor={}", cursor.as_str().unwrap())).unwrap_or_default();
    by.get(&format!("/chats?limit=100{cursor}")).await.body
}

fn chat_ids(page: &Value) -> Vec<String> {
    let chats = page["data"]["chats"].as_array().unwrap();
    chats.iter().map(|chat| chat["chat_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_large_inbox_keeps_its_order_while_messages_arrive() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let mut groups = JoinSet::new();
    for n in 0..CHATS {
        let ann = ann.clone();
        groups.spawn(async move { ann.group(&n.to_string(), &[]).await });
    }
    let mut created = groups.join_all().await;

    let first = page(&ann, None).await;
    let mut listed = chat_ids(&first);
    let last = created.iter().find(|chat_id| !listed.contains(chat_id)).unwrap().clone();
    let message = json!({ "client_message_id": Uuid::new_v4(), "content": "hello" });
    ann.post(&format!("/chats/{last}/messages"), message).await.data(201);
    next_millisecond().await;
    let newest = ann.group("newest", &[]).await;
    assert_eq!(chat_ids(&page(&ann, None).await)[..2], [newest, last.clone()]);

    let mut cursor = first["pagination"]["next_cursor"].clone();
    while !cursor.is_null() {
        let next = page(&ann, Some(&cursor)).await;
        listed.extend(chat_ids(&next));
        cursor = next["pagination"]["next_cursor"].clone();
    }
    assert!(listed[100..].contains(&last), "a chat keeps the position that it had in the first page");
    listed.sort_unstable();
    created.sort_unstable();
    assert_eq!(listed, created, "each chat comes once");
}

/// Chats of the attacker, and of the user it is compared with.
const ATTACKER_CHATS: usize = 3000;
const USUAL_CHATS: usize = 100;
/// Reads of each.
const READS: usize = 200;
/// Resident memory that reads of the large inbox may add.
const RESIDENT_BYTES_MORE_MAX: u64 = 32 << 20;

/// Creates groups, several at a time.
async fn create_groups(by: &TestDevice, count: usize) {
    let mut creators = JoinSet::new();
    for creator in 0..10 {
        let by = by.clone();
        creators.spawn(async move {
            for n in (creator..count).step_by(10) {
                by.group(&n.to_string(), &[]).await;
            }
        });
    }
    creators.join_all().await;
}

/// The CPU time of a process, in ticks of the kernel.
fn cpu_ticks(server: &TestServer) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").expect("the name of the program is in parentheses");
    // The fields `utime` and `stime`, of which the first two are left out here.
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The CPU time of the server for many first pages.
async fn reads(server: &TestServer, by: &TestDevice) -> u64 {
    let before = cpu_ticks(server);
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let by = by.clone();
        readers.spawn(async move {
            for _ in 0..READS / 4 {
                assert_eq!(chat_ids(&page(&by, None).await).len(), 100);
            }
        });
    }
    readers.join_all().await;
    cpu_ticks(server) - before
}

#[tokio::test]
async fn reads_of_an_inbox_of_thousands_of_chats_cost_as_much_as_of_a_hundred() {
    let server = TestServer::start().await;
    let [ann, eve] = server.sign_up_all(["Ann", "Eve"]).await;
    create_groups(&ann, USUAL_CHATS).await;
    create_groups(&eve, ATTACKER_CHATS).await;
    // The first page builds the index.
    for user in [&ann, &eve] {
        page(user, None).await;
    }
    let mut attempts = vec![];
    // Compactions and other work of the server count as well, so one attempt of a few has to be within the bound.
    while attempts.len() < ATTEMPTS {
        let usual = reads(&server, &ann).await;
        let resident = server.resident_bytes();
        let attack = reads(&server, &eve).await;
        let more = server.resident_bytes().saturating_sub(resident);
        println!("{usual} ticks for {USUAL_CHATS} chats, {attack} ticks and {more} bytes for {ATTACKER_CHATS}");
        attempts.push((usual, attack, more));
        if 2 * attack < 3 * usual && more < RESIDENT_BYTES_MORE_MAX {
            return;
        }
    }
    panic!("ticks for {USUAL_CHATS} chats, ticks and bytes for {ATTACKER_CHATS}: {attempts:?}");
}
