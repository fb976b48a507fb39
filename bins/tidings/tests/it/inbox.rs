use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::server::{TestDevice, TestServer, next_millisecond};

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
