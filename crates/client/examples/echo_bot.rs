//! Replies to every message with the same text, until it is stopped.
//!
//! `echo_bot SERVER PHONE CODE`
//!
//! A bot must not reply twice, even if it crashes between its reply and the acknowledgement of the message. The id of a
//! reply is derived from the id of the message, so a second reply to the same message is a retry of the same send.

use std::error::Error;

use tidings_client::frame::{MessageBody, SendMessage};
use tidings_client::{Body, Client, ClientEvent, ClientMessageId, ContentError, UserId};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, phone_number, code] = arguments.as_slice() else {
        return Err("say `echo_bot SERVER PHONE CODE`".into());
    };
    let (client, me) = sign_in(server, phone_number, code).await?;
    echo(client, me).await
}

/// Signs the bot in.
pub(crate) async fn sign_in(server: &str, phone_number: &str, code: &str) -> Result<(Client, UserId), Box<dyn Error>> {
    let client = Client::builder(server).build()?;
    client.api().request_otp(phone_number).await?;
    let me = client.api().verify_otp(phone_number, code, Some("Echo")).await?.user.user;
    Ok((client, me.user_id))
}

/// Replies until the session ends.
pub(crate) async fn echo(client: Client, me: UserId) -> Result<(), Box<dyn Error>> {
    let (handle, mut events) = client.connect()?;
    while let Some(event) = events.next().await {
        if let ClientEvent::Message(message) = event
            && message.sender_id != me
        {
            // Awaiting the ack keeps the message unacknowledged until its reply is durable.
            handle.submit(answer(&message)?).await?.await?;
            handle.mark_read(message.chat_id, message.sequence).await?;
        }
    }
    Ok(())
}

fn answer(message: &MessageBody<'_>) -> Result<SendMessage, ContentError> {
    Ok(SendMessage {
        client_message_id: ClientMessageId::from_bytes(message.message_id.to_bytes()),
        chat_id: message.chat_id,
        body: Body::new(message.content.clone().into_owned().try_into()?, message.content_type),
        ttl: None,
    })
}
