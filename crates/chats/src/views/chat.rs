use std::collections::HashMap;

use domain::{Chat, ChatId, Member, Timestamp, User, UserId, Watermarks};
use futures_util::future::try_join_all;
use ports::Head;
use protocol::{ErrorCode, rest};

use super::unread::unread_count;
use crate::Api;
use crate::http::ApiError;

/// Other members that a summary names, at the most.
const OTHER_PARTICIPANTS_MAX: usize = 5;

/// A chat as one of its members finds it.
pub(crate) struct ChatView {
    chat: Chat,
    head: Head,
    members: Vec<Member>,
    me: Member,
    my_watermarks: Watermarks,
}

/// Reads what else bears on chats that `me` is in.
pub(crate) async fn load_chats(api: &Api, chats: Vec<(Chat, Head, Member)>) -> Result<Vec<ChatView>, ApiError> {
    let mine: Vec<_> = chats.iter().map(|(chat, _, me)| (me.user_id, chat.chat_id)).collect();
    let watermarks = api.watermarks.watermarks(&mine).await?;
    let members = try_join_all(chats.iter().map(|(chat, ..)| api.chats.members(chat.chat_id))).await?;
    let rows = chats.into_iter().zip(members).zip(watermarks);
    Ok(rows
        .map(|(((chat, head, me), members), my_watermarks)| ChatView { chat, head, members, me, my_watermarks })
        .collect())
}

impl ChatView {
    /// The other members that a summary names.
    pub(crate) fn other_participants(&self) -> impl Iterator<Item = UserId> {
        let others = self.members.iter().map(|member| member.user_id).filter(|user_id| *user_id != self.me.user_id);
        others.take(OTHER_PARTICIPANTS_MAX)
    }

    pub(crate) async fn summary(
        &self,
        api: &Api,
        users: &HashMap<UserId, User>,
        now: Timestamp,
    ) -> Result<rest::ChatSummary, ApiError> {
        let Self { chat, head, me, my_watermarks, .. } = self;
        let unread_count = unread_count(api, chat.chat_id, me.user_id, my_watermarks.read, head.sequence, now).await?;
        // An expired message leaves its time behind, or the chat would jump in the inbox when it goes (G11).
        let shown = head.last_message.as_ref().filter(|last| last.expires_at.is_none_or(|at| at > now));
        Ok(rest::ChatSummary {
            chat_id: chat.chat_id,
            chat_type: chat.chat_type,
            name: chat.name.as_ref().map(|name| name.as_str().to_owned()),
            member_count: chat.member_count,
            created_at: chat.created_at,
            other_participants: self.other_participants().filter_map(|id| users.get(&id)).map(Into::into).collect(),
            last_message: shown.map(|last| rest::LastMessage {
                message_id: last.message_id,
                sequence: head.sequence,
                sender_id: last.sender_id,
                preview: last.preview.clone(),
                created_at: last.created_at,
            }),
            last_message_at: head.last_message.as_ref().map(|last| last.created_at),
            unread_count,
            my_membership: rest::MyMembership {
                role: me.role,
                muted_until: me.muted_until.filter(|until| *until > now),
            },
            head_sequence: head.sequence,
            my_read_sequence: my_watermarks.read,
            my_delivered_sequence: my_watermarks.delivered,
        })
    }

    pub(crate) async fn details(&self, api: &Api) -> Result<rest::ChatDetails, ApiError> {
        let user_ids: Vec<_> = self.members.iter().map(|member| member.user_id).collect();
        let users = users_by_id(api, &user_ids).await?;
        let named = |member: &Member| users.get(&member.user_id).map(|user| body(member, user));
        Ok(rest::ChatDetails {
            summary: self.summary(api, &users, api.now()).await?,
            members: self.members.iter().filter_map(named).collect(),
        })
    }
}

/// One member, by name.
pub(crate) async fn member_body(api: &Api, chat_id: ChatId, user_id: UserId) -> Result<rest::Member, ApiError> {
    let member = api.chats.member(chat_id, user_id).await?;
    let user = api.user(user_id).await?;
    let body = member.zip(user).map(|(member, user)| body(&member, &user));
    body.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "that user is not a member of this chat"))
}

fn body(member: &Member, user: &User) -> rest::Member {
    rest::Member {
        user_id: member.user_id,
        display_name: user.display_name.as_str().to_owned(),
        role: member.role,
        joined_at: member.joined_at,
    }
}

/// The users of these ids that there are.
pub(crate) async fn users_by_id(api: &Api, user_ids: &[UserId]) -> Result<HashMap<UserId, User>, ApiError> {
    let users = api.users.users(user_ids).await?;
    Ok(users.into_iter().flatten().map(|user| (user.user_id, user)).collect())
}
