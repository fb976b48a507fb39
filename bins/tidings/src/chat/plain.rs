use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write, stdin, stdout};
use std::process::ExitCode;

use anyhow::{Context, bail};
use client::{Client, ClientEvent, StopReason};
use domain::{ChatId, ChatType, ContentType};
use protocol::frame::MessageBody;
use protocol::rest::ChatDetails;
use tokio::signal::unix::{SignalKind, signal};

use super::errands::{Refusal, direct_chat};
use super::text;

/// Sends one message, and ends when it is durable.
pub(crate) async fn send(client: &Client, phone_number: String, words: String) -> anyhow::Result<ExitCode> {
    let words = if words == "-" { from_stdin()? } else { words };
    let chat = direct_chat(client.api(), phone_number).await.map_err(|Refusal(why)| anyhow::anyhow!(why))?;
    let (handle, mut events) = client.connect()?;
    let sent = handle.send(chat.summary.chat_id, words);
    tokio::pin!(sent);
    loop {
        tokio::select! {
            outcome = &mut sent => {
                let ack = outcome.context("not sent")?;
                // Nobody is left to acknowledge messages that arrived meanwhile: they come again.
                drop(events);
                println!("{} {}", ack.message_id, ack.sequence);
                return Ok(ExitCode::SUCCESS);
            }
            event = events.next() => if let Some(ClientEvent::Stopped(reason)) = event {
                bail!(stopped(reason));
            },
        }
    }
}

/// Prints every message on a line of its own, until somebody ends it.
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
    // What was printed is acknowledged. If the session is over already, it was.
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
        // Whoever has left is nobody's member any more; their messages keep their id.
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
    // One byte more than a message may have, so that one which is too long is refused and not cut.
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
