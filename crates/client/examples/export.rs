//! Prints every message that a user can read, as one line of JSON each, chat by chat and in order.
//!
//! `export SERVER PHONE CODE`

use std::error::Error;
use std::io::Write;

use tidings_client::{Api, ChatId, Client, HistoryRange, Sequence};

/// The largest page of the server.
const PAGE_LEN: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, phone_number, code] = arguments.as_slice() else {
        return Err("say `export SERVER PHONE CODE`".into());
    };
    export(server, phone_number, code, &mut std::io::stdout()).await
}

/// Writes the messages of all chats.
pub(crate) async fn export(
    server: &str,
    phone_number: &str,
    code: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(server).build()?;
    client.api().request_otp(phone_number).await?;
    client.api().verify_otp(phone_number, code, None).await?;
    let mut cursor = None;
    loop {
        let page = client.api().chats(cursor.as_deref()).await?;
        for chat in page.data.chats {
            export_chat(client.api(), chat.chat_id, out).await?;
        }
        cursor = page.pagination.next_cursor;
        if cursor.is_none() {
            return Ok(client.api().logout().await?);
        }
    }
}

async fn export_chat(api: &Api, chat_id: ChatId, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // With `after` set, the pages are in ascending order.
    let range = HistoryRange { before: None, after: Some(Sequence::ZERO), limit: Some(PAGE_LEN) };
    let mut cursor = None;
    loop {
        let page = api.history_page(chat_id, range, cursor.as_deref()).await?;
        for message in &page.data.messages {
            writeln!(out, "{}", serde_json::to_string(message)?)?;
        }
        cursor = page.pagination.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
