use std::collections::HashMap;

use domain::{Chat, ChatId, Member, Timestamp, User, UserId, Watermarks};
use futures_util::future::try_join_all;
use ports::{Head, UnreadCount, UnreadQuery};
use protocol::{ErrorCode, rest};

use crate::Api;
use crate::http::RestError;

/// Maximum number of other members that a summary names.
const OTHER_PARTICIPANTS_MAX: usize = 5;

/// The rows that decide a chat's position in the inbox of `me`.
pub(crate) struct ChatSummaryRows {
    pub(crate) chat: Chat,
    pub(crate) head: Head,
    pub(crate) me: Member,
}

/// Summaries of chats for one of their members. Any number of chats takes two rounds of store calls: the first identifies
/// the rows that the second reads.
pub(crate) async fn summaries(api: &Api, chats: Vec<ChatSummaryRows>) -> Result<Vec<rest::ChatSummary>, RestError> {
    let now = api.now();
    let chat_ids: Vec<_> = chats.iter().map(|rows| rows.chat.chat_id).collect();
    let mine: Vec<_> = chats.iter().map(|rows| (rows.me.user_id, rows.chat.chat_id)).collect();
    let (watermarks, members) = tokio::try_join!(
        api.watermarks.watermarks(&mine),
        // One more, because one of them may be me.
        api.chats.first_members(&chat_ids, OTHER_PARTICIPANTS_MAX + 1),
    )?;
    let others: Vec<Vec<UserId>> = chats.iter().zip(members).map(|(rows, members)| others(&rows.me, members)).collect();

    let named: Vec<_> = others.iter().flatten().copied().collect();
    let unread: Vec<_> = mine
        .iter()
        .zip(&watermarks)
        .map(|((reader, chat_id), marks)| UnreadQuery { chat_id: *chat_id, reader: *reader, read: marks.read })
        .collect();
    let (users, unread, last_messages) = tokio::try_join!(
        users_by_id(api, &named),
        async { Ok(api.messages.unread(&unread, now).await?) },
        try_join_all(chats.iter().map(|rows| last_message(api, rows, now))),
    )?;
    let rows = chats.into_iter().zip(watermarks).zip(others).zip(unread).zip(last_messages);
    Ok(rows
        .map(|((((rows, marks), others), unread), last_message)| {
            let other_participants = others.iter().filter_map(|user_id| users.get(user_id)).map(Into::into).collect();
            summary(rows, marks, other_participants, unread, last_message, now)
        })
        .collect())
}

fn others(me: &Member, members: Vec<Member>) -> Vec<UserId> {
    let others = members.into_iter().map(|member| member.user_id).filter(|user_id| *user_id != me.user_id);
    others.take(OTHER_PARTICIPANTS_MAX).collect()
}

/// The newest message that has not expired. The head has it, unless it expired or was deleted before older ones (G11).
async fn last_message(
    api: &Api,
    rows: &ChatSummaryRows,
    now: Timestamp,
) -> Result<Option<rest::LastMessage>, RestError> {
    let ChatSummaryRows { chat, head, .. } = rows;
    let Some(last) = &head.last_message else { return Ok(None) };
    if last.expires_at.is_none_or(|at| at > now) {
        return Ok(Some(rest::LastMessage {
            message_id: last.message_id,
            sequence: last.sequence,
            sender_id: last.sender_id,
            preview: last.preview.clone().map(Into::into),
            created_at: last.created_at,
        }));
    }
    let older = api.messages.before(chat.chat_id, last.sequence, 1, now).await?.pop();
    Ok(older.map(|message| rest::LastMessage {
        message_id: message.message_id,
        sequence: message.sequence,
        sender_id: message.sender_id,
        preview: message.body.preview().map(Into::into),
        created_at: message.created_at,
    }))
}

fn summary(
    ChatSummaryRows { chat, head, me }: ChatSummaryRows,
    my_watermarks: Watermarks,
    other_participants: Vec<rest::User>,
    unread: UnreadCount,
    last_message: Option<rest::LastMessage>,
    now: Timestamp,
) -> rest::ChatSummary {
    rest::ChatSummary {
        chat_id: chat.chat_id,
        chat_type: chat.chat_type,
        name: chat.name.map(|name| name.as_str().to_owned()),
        member_count: chat.member_count,
        created_at: chat.created_at,
        other_participants,
        last_message,
        // The time of an expired message stays, or the chat would move in the inbox at expiry.
        last_message_at: head.last_message.map(|last| last.created_at),
        unread_count: unread.count,
        unread_count_exact: unread.is_exact,
        my_membership: rest::MyMembership { role: me.role, muted_until: me.muted_until.filter(|until| *until > now) },
        message_ttl_seconds: chat.message_ttl.map(|ttl| ttl.as_duration().as_secs()),
        head_sequence: head.sequence,
        my_read_sequence: my_watermarks.read,
        my_delivered_sequence: my_watermarks.delivered,
    }
}

/// A chat with all its members.
pub(crate) async fn details(api: &Api, chat: Chat, me: Member) -> Result<rest::ChatDetails, RestError> {
    let chat_id = chat.chat_id;
    let head = api.messages.head(chat_id).await?.unwrap_or_default();
    let (mut summaries, members) = tokio::try_join!(summaries(api, vec![ChatSummaryRows { chat, head, me }]), async {
        Ok(api.chats.members(chat_id).await?)
    })?;
    let user_ids: Vec<_> = members.iter().map(|member| member.user_id).collect();
    let users = users_by_id(api, &user_ids).await?;
    let named = |member: &Member| users.get(&member.user_id).map(|user| body(member, user));
    Ok(rest::ChatDetails {
        summary: summaries.pop().expect("one chat in, one summary out"),
        members: members.iter().filter_map(named).collect(),
        invited_user_ids: vec![],
    })
}

/// One member, by name.
pub(crate) async fn member_body(api: &Api, chat_id: ChatId, user_id: UserId) -> Result<rest::Member, RestError> {
    let member = api.chats.member(chat_id, user_id).await?;
    let user = api.user(user_id).await?;
    let body = member.zip(user).map(|(member, user)| body(&member, &user));
    body.ok_or_else(|| RestError::new(ErrorCode::NotFound, "that user is not a member of this chat"))
}

fn body(member: &Member, user: &User) -> rest::Member {
    rest::Member {
        user_id: member.user_id,
        display_name: user.display_name.as_str().to_owned(),
        role: member.role,
        joined_at: member.joined_at,
        invited: false,
    }
}

/// The existing users among these ids.
async fn users_by_id(api: &Api, user_ids: &[UserId]) -> Result<HashMap<UserId, User>, RestError> {
    let users = api.users.users(user_ids).await?;
    Ok(users.into_iter().flatten().map(|user| (user.user_id, user)).collect())
}
