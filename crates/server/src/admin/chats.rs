use axum::Json;
use axum::extract::{Path, Query, State};
use domain::{Chat, ChatId, Message, Sequence, UserId};
use ports::Head;
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::AdminError;
use super::records::Records;
use super::standing::{MemberStatus, standings};
use super::{AdminState, parse};

/// Messages in a page of a timeline, unless the request gives another limit.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 200;
/// Most members listed in a response as not reached by a message. The watermarks cover the others.
const MISSING_MAX: usize = 20;

/// One chat: its members with their roles, watermarks and connections, its head sequence, and its published sequence.
pub(super) async fn chat(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let (records, chat_id) = (admin.records()?, parse(&id)?);
    let (chat, head) = known(records, chat_id).await?;
    let published = records.published(chat_id, head.sequence).await?;
    let members = standings(&admin, records, chat_id).await?;
    Ok(Json(json!({
        "chat_id": chat_id,
        "type": chat.chat_type,
        "name": chat.name.as_ref().map(|name| name.as_str()),
        "created_by": chat.created_by,
        "created_at": chat.created_at,
        "updated_at": chat.updated_at,
        "message_ttl_seconds": chat.message_ttl.map(|ttl| ttl.as_duration().as_secs()),
        "head_sequence": head.sequence,
        "published_sequence": published,
        "last_message_at": head.last_message.as_ref().map(|message| message.created_at),
        "members": members.iter().map(MemberStatus::body).collect::<Vec<_>>(),
    })))
}

#[derive(Deserialize)]
pub(super) struct TimelineQuery {
    before: Option<u64>,
    limit: Option<usize>,
}

/// The timeline of a chat, newest first: messages without their contents, runs of expired sequences, and the join times
/// of current members.
pub(super) async fn timeline(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Query(TimelineQuery { before, limit }): Query<TimelineQuery>,
) -> Result<Json<Value>, AdminError> {
    let limit = super::limit(limit, LIMIT, LIMIT_MAX)?;
    let (records, chat_id) = (admin.records()?, parse(&id)?);
    let (chat, head) = known(records, chat_id).await?;
    let top = Sequence(before.unwrap_or(u64::MAX).min(head.sequence.0.saturating_add(1)));
    let messages = records.messages.before(chat_id, top, limit, records.now()).await?;
    let members = standings(&admin, records, chat_id).await?;
    let is_last = messages.len() < limit || messages.last().is_none_or(|message| message.sequence.0 == 1);
    let names = records.names(&messages.iter().map(|message| message.sender_id).collect::<Vec<_>>()).await?;

    let mut events = vec![];
    let mut below = top;
    for (message, sender_name) in messages.iter().zip(names) {
        events.extend(gone(message.sequence, below));
        events.push(message_event(message, &sender_name, &members));
        below = message.sequence;
    }
    if is_last {
        events.extend(gone(Sequence::ZERO, below));
    }
    // Each commit takes the times of messages and members from the same clock, so one order fits both.
    let newest = messages.first().filter(|_| before.is_some()).map(|message| message.created_at);
    let oldest = messages.last().filter(|_| !is_last).map(|message| message.created_at);
    let in_page = |at| newest.is_none_or(|newest| at <= newest) && oldest.is_none_or(|oldest| at > oldest);
    for standing in members.iter().filter(|standing| in_page(standing.member.joined_at)) {
        insert(&mut events, joined(standing, &chat));
    }
    if is_last {
        events.push(json!({ "kind": "created", "at": chat.created_at, "user_id": chat.created_by }));
    }
    let next = messages.last().filter(|_| !is_last).map(|message| message.sequence);
    Ok(Json(json!({
        "chat_id": chat_id,
        "head_sequence": head.sequence,
        "members": members.iter().map(MemberStatus::body).collect::<Vec<_>>(),
        "events": events,
        "next_before": next,
    })))
}

/// A chat and its head. A chat with a missing head row reports sequence 0 and accepts no messages.
pub(super) async fn known(records: &Records, chat_id: ChatId) -> Result<(Chat, Head), AdminError> {
    let chat = records.chats.chat(chat_id).await?;
    let chat = chat.ok_or_else(|| AdminError::new(ErrorCode::NotFound, format!("there is no chat `{chat_id}`")))?;
    Ok((chat, records.messages.head(chat_id).await?.unwrap_or_default()))
}

/// A message without its content.
pub(super) fn without_content(message: &Message, sender_name: &str) -> Value {
    json!({
        "message_id": message.message_id,
        "chat_id": message.chat_id,
        "sequence": message.sequence,
        "sender_id": message.sender_id,
        "sender_name": sender_name,
        "client_message_id": message.client_message_id,
        "created_at": message.created_at,
        "expires_at": message.expires_at,
        "content_type": message.body.content_type,
        "content_bytes": message.body.content.as_str().len(),
    })
}

fn message_event(message: &Message, sender_name: &str, members: &[MemberStatus]) -> Value {
    let others = || members.iter().filter(|standing| standing.member.user_id != message.sender_id);
    let read = others().filter(|standing| standing.watermarks.read >= message.sequence).count();
    let missing: Vec<UserId> = others()
        .filter(|standing| standing.watermarks.delivered < message.sequence)
        .map(|standing| standing.member.user_id)
        .collect();
    let mut event = without_content(message, sender_name);
    event["kind"] = "message".into();
    event["at"] = json!(message.created_at);
    event["others_count"] = others().count().into();
    event["delivered_count"] = (others().count() - missing.len()).into();
    event["read_count"] = read.into();
    event["not_delivered_to"] = json!(missing.iter().take(MISSING_MAX).collect::<Vec<_>>());
    event
}

/// The range of expired sequences between two messages of a page.
fn gone(above: Sequence, below: Sequence) -> Option<Value> {
    let (from, to) = (above.0 + 1, below.0.saturating_sub(1));
    (from <= to).then(|| json!({ "kind": "expired", "from_sequence": from, "to_sequence": to }))
}

fn joined(standing: &MemberStatus, chat: &Chat) -> Value {
    json!({
        "kind": "joined",
        "at": standing.member.joined_at,
        "user_id": standing.member.user_id,
        "display_name": standing.name,
        "role": standing.member.role,
        "with_the_chat": standing.member.joined_at == chat.created_at,
    })
}

/// Inserts an event before the first older one. Timestamps have one format, so they compare as strings.
fn insert(events: &mut Vec<Value>, event: Value) {
    let at = event["at"].as_str().unwrap_or_default().to_owned();
    let place = events.iter().position(|other| other["at"].as_str().is_some_and(|other| other < at.as_str()));
    events.insert(place.unwrap_or(events.len()), event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_between_two_messages_have_expired() {
        let gone = |above, below| gone(Sequence(above), Sequence(below));
        assert_eq!(gone(4, 5), None);
        assert_eq!(gone(4, 6), Some(json!({ "kind": "expired", "from_sequence": 5, "to_sequence": 5 })));
        assert_eq!(gone(0, 4), Some(json!({ "kind": "expired", "from_sequence": 1, "to_sequence": 3 })));
        assert_eq!(gone(0, 0), None, "a chat without messages has lost none");
        assert_eq!(gone(0, 1), None);
    }

    #[test]
    fn an_event_comes_before_the_first_that_is_older() {
        let at = |time: &str| json!({ "at": time });
        let expired = || json!({ "kind": "expired" });
        let mut events = vec![at("5"), expired(), at("3")];
        for time in ["4", "9", "1"] {
            insert(&mut events, at(time));
        }
        assert_eq!(events, [at("9"), at("5"), expired(), at("4"), at("3"), at("1")]);
    }
}
