use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write, stdin, stdout};
use std::process::ExitCode;

use anyhow::{Context, bail};
use client::{Client, ClientEvent, StopReason};
use domain::{ChatId, ChatType, ContentType};
use protocol::frame::MessageBody;
use protocol::rest::ChatDetails;
use tokio::signal::unix::{SignalKind, signal};

use super::errands::{RequestRefusal, direct_chat};
use super::text;

/// Sends one message, and returns when it is durable.
pub(crate) async fn send(client: &Client, phone_number: String, words: String) -> anyhow::Result<ExitCode> {
    let words = if words == "-" { from_stdin()? } else { words };
    let chat = direct_chat(client.api(), phone_number).await.map_err(|RequestRefusal(why)| anyhow::anyhow!(why))?;
    let (handle, mut events) = client.connect()?;
    let sent = handle.send(chat.summary.chat_id, words);
    tokio::pin!(sent);
    loop {
        tokio::select! {
            outcome = &mut sent => {
                let ack = outcome.context("not sent")?;
                // Messages that arrived meanwhile stay unacknowledged, so the server delivers them again.
                drop(events);
                outln!("{} {}", ack.message_id, ack.sequence);
                return Ok(ExitCode::SUCCESS);
            }
            event = events.next() => if let Some(ClientEvent::Stopped(reason)) = event {
                bail!(stopped(reason));
            },
        }
    }
}

/// Prints every message on a line of its own, until interrupted.
pub(crate) async fn tail(client: &Client) -> anyhow::Result<ExitCode> {
    let (handle, mut events) = client.connect()?;
    let mut chats = HashMap::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        match event {
            Some(ClientEvent::Message(message)) => {
                let line = line(client, &mut chats, &message).await?;
                match writeln!(stdout(), "{line}").and_then(|()| stdout().flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                    written => written?,
                }
            }
            Some(ClientEvent::Stopped(reason)) => bail!(stopped(reason)),
            Some(_) => {}
            None => break,
        }
    }
    // Acknowledges the printed messages. An error means that the session has already ended, and with it the acks.
    let _ = handle.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn line(
    client: &Client,
    chats: &mut HashMap<ChatId, ChatDetails>,
    message: &MessageBody<'_>,
) -> anyhow::Result<String> {
    let is_known = chats
        .get(&message.chat_id)
        .is_some_and(|chat| chat.members.iter().any(|member| member.user_id == message.sender_id));
    if !is_known {
        // The list of members may be outdated. A sender who has left is not in the new list either, and is shown by id.
        chats.insert(message.chat_id, client.api().chat(message.chat_id).await?);
    }
    let chat = &chats[&message.chat_id];
    let sender = chat.members.iter().find(|member| member.user_id == message.sender_id);
    let sender = sender.map_or_else(|| message.sender_id.to_string(), |member| text::one_line(&member.display_name));
    let place = match (chat.summary.chat_type, &chat.summary.name) {
        (ChatType::Group, Some(name)) => format!(" #{}", text::one_line(name)),
        _ => String::new(),
    };
    let words = match message.content_type {
        ContentType::Encrypted => "(encrypted)".to_owned(),
        ContentType::Text | ContentType::Markdown | ContentType::Json => text::one_line(&message.content),
    };
    Ok(format!("{}{place} {sender}: {words}", message.created_at))
}

fn from_stdin() -> anyhow::Result<String> {
    // Reads past the maximum content size, so that an oversized message is refused instead of truncated.
    let mut words = String::new();
    let bytes_max = domain::limits::CONTENT_BYTES_MAX as u64 + 2;
    stdin().take(bytes_max).read_to_string(&mut words).context("standard input cannot be read as text")?;
    Ok(words.trim_end_matches('\n').to_owned())
}

fn stopped(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Closed => "the session was closed",
        StopReason::SignedOut => "this device was signed out; run `tidings chat` to sign in",
        StopReason::DuplicateConnection => "this device has connected from elsewhere",
    }
}
