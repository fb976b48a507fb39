use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write, stdin, stdout};
use std::process::ExitCode;

use anyhow::{Context, bail};
use client::{Client, ClientEvent, StopReason};
use domain::{ChatId, ChatType, ContentType, Timestamp, UserId};
use protocol::frame::{MessageBody, MessageUpdated, UpdateName};
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

/// Prints every message and every update of one on a line of its own, until interrupted.
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
        let line = match event {
            Some(ClientEvent::Message(message)) => message_line(client, &mut chats, &message).await?,
            Some(ClientEvent::Updated(updated)) => update_line(client, &mut chats, &updated).await?,
            Some(ClientEvent::Stopped(reason)) => bail!(stopped(reason)),
            Some(_) => continue,
            None => break,
        };
        match writeln!(stdout(), "{line}").and_then(|()| stdout().flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    // Acknowledges the printed messages. An error means that the session has already ended, and with it the acks.
    let _ = handle.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn message_line(
    client: &Client,
    chats: &mut HashMap<ChatId, ChatDetails>,
    message: &MessageBody<'_>,
) -> anyhow::Result<String> {
    let lead = lead(client, chats, message.chat_id, message.sender_id, message.created_at).await?;
    Ok(format!("{lead}: {}", words(message)))
}

/// The line of an update. It names the message by its sequence.
async fn update_line(
    client: &Client,
    chats: &mut HashMap<ChatId, ChatDetails>,
    MessageUpdated { update, message }: &MessageUpdated<'_>,
) -> anyhow::Result<String> {
    let lead = lead(client, chats, update.chat_id, update.user_id, update.created_at).await?;
    let target = update.target_sequence;
    let reaction = update.reaction.as_ref().map(|one| text::one_line(one.as_str())).unwrap_or_default();
    let said = match (update.kind, message) {
        (UpdateName::Edited, Some(message)) => format!("edited message {target}: {}", words(message)),
        (UpdateName::Edited, None) => format!("edited message {target}, which is gone"),
        (UpdateName::Deleted, _) => format!("deleted message {target}"),
        (UpdateName::Reacted, _) => format!("reacted {reaction} to message {target}"),
        (UpdateName::Unreacted, _) => format!("took back {reaction} from message {target}"),
        (UpdateName::Unknown, _) => format!("changed message {target}"),
    };
    Ok(format!("{lead} {said}"))
}

/// The beginning of a line: the time, the name of a group, and the user.
async fn lead(
    client: &Client,
    chats: &mut HashMap<ChatId, ChatDetails>,
    chat_id: ChatId,
    user_id: UserId,
    at: Timestamp,
) -> anyhow::Result<String> {
    let is_known = chats.get(&chat_id).is_some_and(|chat| chat.members.iter().any(|member| member.user_id == user_id));
    if !is_known {
        // The list of members may be outdated. A user who has left is not in the new list either, and is shown by id.
        chats.insert(chat_id, client.api().chat(chat_id).await?);
    }
    let chat = &chats[&chat_id];
    let user = chat.members.iter().find(|member| member.user_id == user_id);
    let user = user.map_or_else(|| user_id.to_string(), |member| text::one_line(&member.display_name));
    let place = match (chat.summary.chat_type, &chat.summary.name) {
        (ChatType::Group, Some(name)) => format!(" #{}", text::one_line(name)),
        _ => String::new(),
    };
    Ok(format!("{at}{place} {user}"))
}

fn words(message: &MessageBody<'_>) -> String {
    match message.content_type {
        ContentType::Encrypted => "(encrypted)".to_owned(),
        ContentType::Text | ContentType::Markdown | ContentType::Json => text::one_line(&message.content),
    }
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
