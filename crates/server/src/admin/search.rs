use axum::Json;
use axum::extract::{Extension, Query, State};
use domain::{ChatId, ConnectionId, ExternalId, MessageId, PhoneNumber, SessionId, User, UserId};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::error::AdminError;
use super::records::Records;
use super::{AdminState, routes};

/// Trailing digits of a phone number that are shown.
const DIGITS_SHOWN: usize = 3;

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    q: String,
}

/// The object searched for, recognized by the form of the text.
enum Wanted {
    User(UserId),
    Phone(PhoneNumber),
    Chat(ChatId),
    Message(MessageId),
    Session(SessionId),
    Connection(ConnectionId),
}

impl Wanted {
    fn parse(text: &str) -> Option<Self> {
        let user = || text.parse().ok().map(Self::User);
        let chat = || text.parse().ok().map(Self::Chat);
        let message = || text.parse().ok().map(Self::Message);
        let session = || text.parse().ok().map(Self::Session);
        let connection = || text.parse().ok().map(Self::Connection);
        let without_spaces: String = text.chars().filter(|c| !matches!(c, ' ' | '-' | '(' | ')')).collect();
        let phone = || without_spaces.parse().ok().map(Self::Phone);
        user().or_else(chat).or_else(message).or_else(session).or_else(connection).or_else(phone)
    }
}

/// Finds the object that an id or a phone number stands for. Names are not searchable, because the store has no index
/// on them.
///
/// With an identity provider, any text may be the id of a user there. It is looked up if nothing else has that id, because
/// the forms of ids are those of this service.
pub(super) async fn search(
    State(admin): State<AdminState>,
    Query(SearchQuery { q }): Query<SearchQuery>,
) -> Result<(Extension<AuditedRequest>, Json<Value>), AdminError> {
    let records = admin.records()?;
    let q = q.trim();
    let wanted = Wanted::parse(q);
    let external_id = records.auth.external_issuer().zip(q.parse::<ExternalId>().ok());
    if wanted.is_none() && external_id.is_none() {
        let message = "`q` is none of: the id of a user, chat, message, session or connection; a phone number like \
                       +14155550101";
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    // The trail has no phone numbers and no ids of other systems: it names the user that was found.
    let asked = match wanted {
        Some(Wanted::Phone(_)) => "a phone number",
        Some(_) => q,
        None => "an external id",
    };
    let mut audited = json!({ "q": asked });
    let mut found = match wanted {
        Some(wanted) => object(&admin, records, wanted).await?,
        None => None,
    };
    if found.is_none()
        && let Some((issuer, external_id)) = external_id
    {
        found = records.users.by_external_id(issuer, &external_id).await?.map(|user| user_found(&user));
    }
    if let Some(user_id) = found.as_ref().and_then(|found| found.get("user_id")) {
        audited["user_id"] = user_id.clone();
    }
    let results = json!({ "results": found.into_iter().collect::<Vec<_>>() });
    Ok((Extension(AuditedRequest(audited)), Json(results)))
}

/// The body of the object, if it exists.
async fn object(admin: &AdminState, records: &Records, wanted: Wanted) -> Result<Option<Value>, AdminError> {
    Ok(match wanted {
        Wanted::User(user_id) => records.users.users(&[user_id]).await?.pop().flatten().map(|user| user_found(&user)),
        Wanted::Phone(phone) => {
            let user = records.users.by_phone(std::slice::from_ref(&phone)).await?.pop().flatten();
            user.map(|user| {
                let mut found = user_found(&user);
                found["phone_number"] = masked(&phone).into();
                found
            })
        }
        Wanted::Chat(chat_id) => records.chats.chat(chat_id).await?.map(|chat| {
            let name = chat.name.as_ref().map(|name| name.as_str());
            json!({ "kind": "chat", "chat_id": chat_id, "type": chat.chat_type, "name": name, "member_count": chat.member_count })
        }),
        Wanted::Message(message_id) => records.messages.by_id(message_id, records.now()).await?.map(|message| {
            json!({
                "kind": "message",
                "message_id": message_id,
                "chat_id": message.chat_id,
                "sequence": message.sequence,
                "sender_id": message.sender_id,
                "created_at": message.created_at,
            })
        }),
        Wanted::Session(session_id) => {
            let session = records.sessions.session(session_id, records.now()).await?;
            match session {
                Some(session) => Some(json!({
                    "kind": "session",
                    "session_id": session_id,
                    "device_id": session.device_id,
                    "user_id": session.user_id,
                    "display_name": name(records, session.user_id).await?,
                })),
                None => None,
            }
        }
        Wanted::Connection(connection_id) => match routes::connection(admin, connection_id).await? {
            Some(route) => Some(json!({
                "kind": "connection",
                "connection_id": connection_id,
                "device_id": route.device_id,
                "gateway": *route.gateway.0,
                "connected_at": route.connected_at,
                "user_id": route.user_id,
                "display_name": name(records, route.user_id).await?,
            })),
            None => None,
        },
    })
}

fn user_found(user: &User) -> Value {
    let mut found = json!({ "kind": "user", "user_id": user.user_id, "display_name": user.display_name.as_str() });
    if let Some(external_id) = &user.external_id {
        found["external_id"] = external_id.as_str().into();
    }
    found
}

async fn name(records: &Records, user_id: UserId) -> Result<Option<String>, AdminError> {
    Ok(records.names(&[user_id]).await?.pop())
}

/// A phone number with all but the last digits masked.
fn masked(phone: &PhoneNumber) -> String {
    let digits = phone.as_str();
    let hidden = digits.len() - DIGITS_SHOWN;
    format!("{}{}", "•".repeat(hidden), &digits[hidden..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_number_shows_its_last_three_digits() {
        assert_eq!(masked(&"+14155550101".parse().unwrap()), "•••••••••101");
    }

    #[test]
    fn the_kind_of_object_follows_from_the_text() {
        let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let kind = |text: &str| match Wanted::parse(text) {
            Some(Wanted::User(_)) => "user",
            Some(Wanted::Phone(_)) => "phone",
            Some(Wanted::Chat(_)) => "chat",
            Some(Wanted::Message(_)) => "message",
            Some(Wanted::Session(_)) => "session",
            Some(Wanted::Connection(_)) => "connection",
            None => "nothing",
        };
        for (prefix, expected) in
            [("user", "user"), ("chat", "chat"), ("msg", "message"), ("sess", "session"), ("conn", "connection")]
        {
            assert_eq!(kind(&format!("{prefix}_{ulid}")), expected);
        }
        assert_eq!(kind("+1 (415) 555-0101"), "phone");
        assert_eq!([kind("Ada"), kind(""), kind("evt_01ARZ3NDEKTSV4RRFFQ69G5FAV")], ["nothing"; 3]);
    }
}
