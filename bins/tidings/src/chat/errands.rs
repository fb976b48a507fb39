use client::{Api, ApiError, HistoryRange};
use domain::{ChatId, ChatType, Sequence, UserId};
use protocol::ErrorCode;
use protocol::rest::{
    AddMember, ChatDetails, ChatSummary, CreateChat, Lookup, MemberWatermarks, Mute, Sensitive, UpdateChat,
};

use super::app::effect::{ApiRequest, ApiResult};
use super::app::log::ChatLog;

/// Performs a request of the app on the server. A failure is an answer too.
pub(crate) async fn run(api: Api, request: ApiRequest) -> ApiResult {
    match ask(&api, request.clone()).await {
        Ok(answer) => answer,
        Err(RequestRefusal(why)) => ApiResult::Failed { request, why },
    }
}

/// A reason for the user, as a sentence.
pub(crate) struct RequestRefusal(pub(crate) String);

impl From<ApiError> for RequestRefusal {
    fn from(error: ApiError) -> Self {
        Self(explain(&error))
    }
}

/// Describes an error to the user, without technical detail.
pub(crate) fn explain(error: &ApiError) -> String {
    match error {
        ApiError::Refused { error, .. } => error.message.clone(),
        ApiError::Transport(_) => "the server does not answer; try again in a moment".to_owned(),
        other => other.to_string(),
    }
}

async fn ask(api: &Api, request: ApiRequest) -> Result<ApiResult, RequestRefusal> {
    match request {
        ApiRequest::Inbox => Ok(ApiResult::Inbox(inbox(api).await?)),
        ApiRequest::Chat(chat_id) => {
            let details = Box::new(api.chat(chat_id).await?);
            let last = details.summary.last_message.as_ref().map(|last| last.sequence);
            let watermarks = watermarks(api, chat_id, last).await?;
            Ok(ApiResult::Chat { details, watermarks })
        }
        ApiRequest::Page { chat_id, before } => {
            let range = HistoryRange { before, after: None, limit: Some(ChatLog::PAGE_LEN) };
            Ok(ApiResult::Page { chat_id, before, page: api.history(chat_id, range).await? })
        }
        ApiRequest::New { phone_number } => Ok(ApiResult::Made(Box::new(direct_chat(api, phone_number).await?))),
        ApiRequest::Group { name, phone_numbers } => {
            let member_ids = look_up(api, &phone_numbers).await?;
            let chat = CreateChat { chat_type: ChatType::Group, name: Some(name), member_ids };
            Ok(ApiResult::Made(Box::new(api.create_chat(&chat).await?)))
        }
        ApiRequest::Add { chat_id, phone_number } => {
            let user_id = look_up_one(api, phone_number).await?;
            let member = api.add_member(chat_id, &AddMember { user_id, role: domain::Role::Member }).await?;
            let state = if member.invited { "is invited" } else { "is a member now" };
            done(api, chat_id, format!("{} {state}", member.display_name)).await
        }
        ApiRequest::Leave(chat_id) => {
            api.leave(chat_id).await?;
            Ok(ApiResult::Left(chat_id))
        }
        ApiRequest::Mute { chat_id, duration } => {
            api.mute(chat_id, &Mute { duration_seconds: duration.map(|duration| duration.as_secs()) }).await?;
            done(api, chat_id, "this chat is quiet now; /unmute ends that".to_owned()).await
        }
        ApiRequest::Unmute(chat_id) => {
            api.unmute(chat_id).await?;
            done(api, chat_id, "this chat rings again".to_owned()).await
        }
        ApiRequest::SetTtl { chat_id, ttl } => {
            let message_ttl_seconds = Some(ttl.map(|ttl| ttl.as_duration().as_secs()));
            api.update_chat(chat_id, &UpdateChat { name: None, message_ttl_seconds }).await?;
            let said = if ttl.is_some() { "new messages vanish after that time" } else { "new messages stay" };
            done(api, chat_id, said.to_owned()).await
        }
        ApiRequest::AddContact { chat_id, user_id } => {
            let user = api.add_contact(user_id).await?;
            done(api, chat_id, format!("{} is a contact now", user.display_name)).await
        }
    }
}

async fn done(api: &Api, chat_id: ChatId, said: String) -> Result<ApiResult, RequestRefusal> {
    Ok(ApiResult::Done { details: Box::new(api.chat(chat_id).await?), said })
}

async fn inbox(api: &Api) -> Result<Vec<ChatSummary>, ApiError> {
    let mut chats = Vec::new();
    let mut cursor = None;
    loop {
        let page = api.chats(cursor.as_deref()).await?;
        chats.extend(page.data.chats);
        cursor = page.pagination.next_cursor;
        if cursor.is_none() {
            return Ok(chats);
        }
    }
}

/// The watermarks of the members, from the receipts of the last message. The server has no receipts for an update, and
/// none for an expired message; the result is then empty.
async fn watermarks(
    api: &Api,
    chat_id: ChatId,
    last_message: Option<Sequence>,
) -> Result<Vec<MemberWatermarks>, ApiError> {
    let Some(last_message) = last_message else { return Ok(Vec::new()) };
    match api.receipts(chat_id, last_message).await {
        Ok(receipts) => Ok(receipts.members),
        Err(ApiError::Refused { error, .. }) if error.code == ErrorCode::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The direct chat with a user, created if there is none.
pub(crate) async fn direct_chat(api: &Api, phone_number: String) -> Result<ChatDetails, RequestRefusal> {
    let user_id = look_up_one(api, phone_number).await?;
    // Adding the recipient as a contact lets both see each other's presence, if the recipient adds the sender too.
    api.add_contact(user_id).await?;
    let chat = CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![user_id] };
    Ok(api.create_chat(&chat).await?)
}

async fn look_up_one(api: &Api, phone_number: String) -> Result<UserId, RequestRefusal> {
    let missing = nobody_with(&phone_number);
    look_up(api, &[phone_number]).await?.first().copied().ok_or(missing)
}

/// The users with these numbers, in their order.
async fn look_up(api: &Api, phone_numbers: &[String]) -> Result<Vec<UserId>, RequestRefusal> {
    let lookup = Lookup { phone_numbers: phone_numbers.iter().map(|number| Sensitive(number.clone())).collect() };
    let results = api.look_up_users(&lookup).await?.results;
    let found = phone_numbers.iter().zip(results);
    found.map(|(number, user)| user.map(|user| user.user_id).ok_or_else(|| nobody_with(number))).collect()
}

fn nobody_with(phone_number: &str) -> RequestRefusal {
    RequestRefusal(format!("nobody with the number {phone_number} is on this server yet"))
}
