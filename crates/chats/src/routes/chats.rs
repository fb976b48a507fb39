use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::limits::{GROUP_MEMBERS_MAX, TTL_MAX};
use domain::{ChatCommand, ChatName, ChatType, ChatUpdate, DirectPair, Ttl, User, UserId};
use ports::{CreatedChat, NewDirectChat, NewGroup};
use protocol::ErrorCode;
use protocol::rest::{self, Data};

use super::blocks::refuse_blocked;
use super::quotas::{refuse_more_chats, take_group};
use super::{ChatPath, RouteState};
use crate::Api;
use crate::http::{Caller, IdempotencyKey, Json, Path, Reserved, RestError, once};
use crate::views::details;

/// Opens a chat. A pair that has a direct chat gets that one, with status 200.
///
/// The creator is a member whether or not `member_ids` names them, and the owner of a group. Users who do not let the
/// creator add them (`group_invites` of PATCH `/users/me`) get an invitation, and `invited_user_ids` names them. A request whose answer was
/// lost is repeated with the same `Idempotency-Key` and opens no second chat.
#[utoipa::path(
    post,
    path = "/chats",
    tag = "chats",
    params((
        "Idempotency-Key" = Option<String>, Header, format = "uuid",
        description = "The client's name for the request; a repetition within 24 h gets the first answer."
    )),
    responses(
        (status = 201, description = "The chat is open", body = Data<rest::ChatDetails>),
        (status = 200, description = "The pair already has this chat", body = Data<rest::ChatDetails>)
    )
)]
pub(crate) async fn create_chat(
    State(api): RouteState,
    Caller(caller): Caller,
    key: IdempotencyKey,
    Json(body): Json<rest::CreateChat>,
) -> Result<Response, RestError> {
    let opening = Opening::new(&body, caller.user_id)?;
    let run = |reserved| open(&api, caller.user_id, opening, reserved);
    once(&api, caller.user_id, key, "POST /chats", &body, run).await
}

/// A chat with its members.
///
/// For members: with the watermarks of the caller, and all members with their roles.
#[utoipa::path(get, path = "/chats/{chat_id}", tag = "chats", params(ChatPath), responses((status = 200, body = Data<rest::ChatDetails>)))]
pub(crate) async fn chat(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
) -> Result<Json<Data<rest::ChatDetails>>, RestError> {
    let me = api.membership(chat_id, caller.user_id).await?;
    let chat = api.chats.chat(chat_id).await?.ok_or_else(|| RestError::new(ErrorCode::NotFound, "no such chat"))?;
    Ok(Json(Data { data: details(&api, chat, me).await? }))
}

/// Renames a group, or changes how long the messages of a chat live from now on.
///
/// Absent fields stay unchanged; `message_ttl_seconds: null` keeps messages permanently. In a group, the owner and admins
/// may do this. In a direct chat, either member may set `message_ttl_seconds`, and nothing else can be changed.
#[utoipa::path(
    patch,
    path = "/chats/{chat_id}",
    tag = "chats", params(ChatPath),
    responses((status = 200, body = Data<rest::ChatDetails>))
)]
pub(crate) async fn update_chat(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(ChatPath { chat_id }): Path<ChatPath>,
    Json(body): Json<rest::UpdateChat>,
) -> Result<Json<Data<rest::ChatDetails>>, RestError> {
    let command = ChatCommand::Update(chat_update(body)?);
    let change = api.chat_writer.apply(chat_id, caller.user_id, command, api.now()).await??;
    let me = api.membership(chat_id, caller.user_id).await?;
    Ok(Json(Data { data: details(&api, change.chat, me).await? }))
}

/// A requested chat, validated as far as the request alone allows.
enum Opening {
    Direct { pair: DirectPair },
    Group { name: ChatName, others: Vec<UserId> },
}

impl Opening {
    fn new(body: &rest::CreateChat, creator: UserId) -> Result<Self, RestError> {
        let others: BTreeSet<UserId> = body.member_ids.iter().copied().filter(|id| *id != creator).collect();
        match body.chat_type {
            ChatType::Direct => {
                let mut pairs = others.iter().filter_map(|other| DirectPair::new(creator, *other));
                match (pairs.next(), pairs.next()) {
                    (Some(pair), None) => Ok(Self::Direct { pair }),
                    _ => Err(RestError::field("member_ids", "a direct chat has exactly one other member")),
                }
            }
            ChatType::Group => {
                let name = body.name.clone().ok_or_else(|| RestError::field("name", "a group needs a name"))?;
                let name = chat_name(name)?;
                if others.len() >= GROUP_MEMBERS_MAX {
                    let message = format!("a group has at most {GROUP_MEMBERS_MAX} members");
                    return Err(RestError::new(ErrorCode::ChatFull, message));
                }
                Ok(Self::Group { name, others: others.into_iter().collect() })
            }
        }
    }

    fn others(&self, creator: UserId) -> Vec<UserId> {
        match self {
            Self::Direct { pair } => pair.users().into_iter().filter(|user_id| *user_id != creator).collect(),
            Self::Group { others, .. } => others.clone(),
        }
    }
}

/// Whether a user does not exist or has a deleted account.
fn is_gone(user: &Option<User>) -> bool {
    user.as_ref().is_none_or(|user| user.deleted_at.is_some())
}

async fn open(
    api: &Api,
    created_by: UserId,
    opening: Opening,
    reserved: Reserved,
) -> Result<(StatusCode, rest::ChatDetails), RestError> {
    let others = opening.others(created_by);
    let users = api.users.users(&others).await?;
    if let Some((unknown, _)) = others.iter().zip(&users).find(|(_, user)| is_gone(user)) {
        return Err(RestError::field("member_ids", format!("there is no user `{unknown}`")));
    }
    let chat_id = reserved.ulid.into();
    let created_at = api.now();
    let created = match opening {
        Opening::Direct { pair } => {
            if api.limits.chats_per_user.is_some() && api.chats.direct_chat(pair).await?.is_none() {
                refuse_more_chats(api, created_by).await?;
            }
            api.chat_writer.create_direct(NewDirectChat { chat_id, pair, created_by, created_at }).await??
        }
        Opening::Group { name, others } => {
            refuse_blocked(api, created_by, &others).await?;
            // An earlier attempt of this request that created the group has paid. A refused attempt has not.
            if !(reserved.resumed && api.chats.chat(chat_id).await?.is_some()) {
                refuse_more_chats(api, created_by).await?;
                take_group(api, created_by, others.len()).await?;
            }
            let group = NewGroup { chat_id, name, created_by, members: others, created_at };
            api.chat_writer.create_group(group).await?
        }
    };
    let status = match &created {
        CreatedChat::New(_) => StatusCode::CREATED,
        // An earlier attempt of this request created it, and its response was lost.
        CreatedChat::Existing(chat) if chat.chat_id == chat_id => StatusCode::CREATED,
        CreatedChat::Existing(_) => StatusCode::OK,
    };
    let chat = created.chat().clone();
    let me = api.membership(chat.chat_id, created_by).await?;
    let mut opened = details(api, chat, me).await?;
    // The same for an invitation that the store dropped: the creator does not learn of a decline or of a full list.
    let is_member = |user_id: &UserId| opened.members.iter().any(|member| member.user_id == *user_id);
    opened.invited_user_ids = others.into_iter().filter(|user_id| !is_member(user_id)).collect();
    Ok((status, opened))
}

fn chat_update(body: rest::UpdateChat) -> Result<ChatUpdate, RestError> {
    if body == rest::UpdateChat::default() {
        return Err(RestError::field("name", "one of `name` and `message_ttl_seconds` is needed"));
    }
    let ttl = |seconds: u64| {
        let error = || RestError::field("message_ttl_seconds", format!("is {seconds}, not 1 to {}", TTL_MAX.as_secs()));
        Ttl::from_secs(seconds).ok_or_else(error)
    };
    let name = body.name.map(chat_name).transpose()?;
    let message_ttl = body.message_ttl_seconds.map(|seconds| seconds.map(ttl).transpose()).transpose()?;
    Ok(ChatUpdate { name, message_ttl })
}

fn chat_name(text: String) -> Result<ChatName, RestError> {
    ChatName::try_from(text).map_err(|error| RestError::field("name", error))
}
