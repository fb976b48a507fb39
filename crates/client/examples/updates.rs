//! Signs in, opens a direct chat with a user, sends three messages, and edits, deletes and reacts to them.
//!
//! `updates SERVER PHONE CODE TO`

use std::collections::BTreeMap;
use std::error::Error;

use tidings_client::frame::MessageBody;
use tidings_client::rest::{CreateChat, Lookup};
use tidings_client::{ChatType, Client, ClientEvent, Sequence, with_updated};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, phone_number, code, to] = arguments.as_slice() else {
        return Err("say `updates SERVER PHONE CODE TO`".into());
    };
    for line in update(server, phone_number, code, to).await? {
        println!("{line}");
    }
    Ok(())
}

/// Returns the messages after all updates.
pub(crate) async fn update(
    server: &str,
    phone_number: &str,
    code: &str,
    to: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let client = Client::builder(server).build()?;
    client.api().request_otp(phone_number).await?;
    let me = client.api().verify_otp(phone_number, code, Some("Ada")).await?.user.user.user_id;

    let lookup = Lookup { phone_numbers: vec![to.into()] };
    let found = client.api().look_up_users(&lookup).await?.results;
    let Some(Some(other)) = found.first() else { return Err(format!("nobody has the number {to}").into()) };
    let chat = CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![other.user_id] };
    let chat_id = client.api().create_chat(&chat).await?.summary.chat_id;

    let (handle, mut events) = client.connect()?;
    let hello = handle.send(chat_id, "Hallo").await?.sequence;
    let secret = handle.send(chat_id, "my password").await?.sequence;
    handle.edit(chat_id, hello, "Hello").await?;
    handle.react(chat_id, hello, "👋").await?;
    let last = handle.delete(chat_id, secret).await?.sequence;

    // The copies of this application, each in its current state.
    let mut held: BTreeMap<Sequence, MessageBody<'static>> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            ClientEvent::Message(message) => drop(held.insert(message.sequence, message)),
            ClientEvent::Updated(updated) => {
                let target = updated.update.target_sequence;
                match with_updated(held.get(&target), &updated, me) {
                    Some(message) => held.insert(target, message),
                    None => held.remove(&target),
                };
                if updated.update.sequence == last {
                    handle.close().await?;
                    return Ok(held.values().map(line).collect());
                }
            }
            _ => {}
        }
    }
    Err("the session ended before the last update".into())
}

fn line(message: &MessageBody<'_>) -> String {
    let reactions = message.state.iter().flat_map(|state| &state.reactions);
    let reactions: String = reactions.map(|one| format!("  {} {}", one.reaction, one.count)).collect();
    let edited = message.state.as_ref().is_some_and(|state| state.edited_at.is_some());
    format!("{}{}{reactions}", message.content, if edited { " (edited)" } else { "" })
}
