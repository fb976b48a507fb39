//! Signs in, opens a direct chat with a user, sends a greeting, and waits for a reply.
//!
//! `hello SERVER PHONE CODE TO`

use std::error::Error;

use tidings_client::rest::{CreateChat, Lookup};
use tidings_client::{ChatType, Client, ClientEvent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, phone_number, code, to] = arguments.as_slice() else {
        return Err("say `hello SERVER PHONE CODE TO`".into());
    };
    println!("{}", say_hello(server, phone_number, code, to).await?);
    Ok(())
}

/// Returns the reply.
pub(crate) async fn say_hello(
    server: &str,
    phone_number: &str,
    code: &str,
    to: &str,
) -> Result<String, Box<dyn Error>> {
    let client = Client::builder(server).build()?;
    client.api().request_otp(phone_number).await?;
    let me = client.api().verify_otp(phone_number, code, Some("Hello")).await?.user.user;

    let lookup = Lookup { phone_numbers: vec![to.into()] };
    let found = client.api().look_up_users(&lookup).await?.results;
    let Some(Some(other)) = found.first() else { return Err(format!("nobody has the number {to}").into()) };
    let chat = CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![other.user_id] };
    let chat_id = client.api().create_chat(&chat).await?.summary.chat_id;

    let (handle, mut events) = client.connect()?;
    let ack = handle.send(chat_id, format!("Hello, {}", other.display_name)).await?;
    while let Some(event) = events.next().await {
        if let ClientEvent::Message(message) = event
            && message.chat_id == chat_id
            && message.sequence > ack.sequence
            && message.sender_id != me.user_id
        {
            handle.close().await?;
            return Ok(message.content.into_owned());
        }
    }
    Err("the session ended before there was an answer".into())
}
