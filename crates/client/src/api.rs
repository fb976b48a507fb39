use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::{ChatId, ClientMessageId, DeviceId, MessageId, PasskeyId, Reaction, Role, Sequence, SessionId, UserId};
use protocol::frame::{Presence, PresenceSnapshot, SendMessageAck};
use protocol::rest::{
    AccountDeletion, AddMember, AddPasskey, Around, Blocks, ChangeRole, ChatDetails, Contacts, CreateChat, Data,
    DeleteMe, EditMessage, Export, Failure, FileReport, History, Inbox, Invitation, Invitations, Lookup, LookupResults,
    MarkDelivered, MarkRead, MarkedRead, Me, Member, Message, Mute, Muted, OtpRequested, Paged, PasskeyAuthentication,
    PasskeyCreationOptions, PasskeyRequestOptions, PasskeySummary, Passkeys, PresenceQuery, PushRegistration,
    Reactions, Receipts, RefreshTokens, Reported, RequestOtp, Revoked, SendMessage, Sessions, SignInWithPasskey,
    SignedIn, Tokens, TokensRefreshed, UpdateChat, UpdateMe, User, VerifyOtp, WsTicket,
};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tokens::{HeldTokens, Keeper};
use crate::{ApiError, BaseUrlError};

/// The REST API for one device of one user. Clones share the tokens, which are renewed before they expire and after a
/// refusal.
#[derive(Clone)]
pub struct Api {
    shared: Arc<ApiState>,
}

struct ApiState {
    http: reqwest::Client,
    /// Without a trailing slash.
    base_url: String,
    device_id: DeviceId,
    tokens: Mutex<Option<HeldTokens>>,
    keeper: Option<Keeper>,
    /// Held during a renewal: a refresh token is valid once, so two concurrent renewals would revoke the session.
    renewal: tokio::sync::Mutex<()>,
}

/// The range of a chat's messages to read; the newest messages if it has no bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryRange {
    /// Only messages below this sequence.
    pub before: Option<Sequence>,
    /// Only messages above this sequence, oldest first.
    pub after: Option<Sequence>,
    /// Most messages in the page; the server has a default.
    pub limit: Option<usize>,
}

impl Api {
    /// Timeout of a call.
    const TIMEOUT: Duration = Duration::from_secs(10);
    /// Largest accepted response body, far above any response of the API.
    const ANSWER_BYTES_MAX: usize = 8 << 20;
    /// Timeout of an export: the server streams all messages of the user.
    const EXPORT_TIMEOUT: Duration = Duration::from_secs(600);
    /// Largest accepted export.
    const EXPORT_BYTES_MAX: usize = 256 << 20;

    pub(crate) fn new(
        base_url: &str,
        device_id: DeviceId,
        http: Option<reqwest::Client>,
        keeper: Option<Keeper>,
    ) -> Result<Self, BaseUrlError> {
        let url = reqwest::Url::parse(base_url).map_err(|_| BaseUrlError::Unreadable(base_url.to_owned()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme(base_url.to_owned()));
        }
        let http = match http {
            Some(http) => http,
            None => reqwest::Client::builder().timeout(Self::TIMEOUT).build().map_err(BaseUrlError::Setup)?,
        };
        let shared = ApiState {
            http,
            base_url: base_url.trim_end_matches('/').to_owned(),
            device_id,
            tokens: Mutex::new(None),
            keeper,
            renewal: tokio::sync::Mutex::new(()),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The base URL of the server, without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.shared.base_url
    }

    /// The id of this device.
    pub fn device_id(&self) -> DeviceId {
        self.shared.device_id
    }
}

/// Sign-in and tokens.
impl Api {
    /// Requests a one-time code.
    pub async fn request_otp(&self, phone_number: &str) -> Result<OtpRequested, ApiError> {
        self.open(Method::POST, "/auth/request-otp", &RequestOtp { phone_number: phone_number.into() }).await
    }

    /// Signs in with a one-time code. `display_name` is for a new user; an existing user keeps theirs.
    pub async fn verify_otp(
        &self,
        phone_number: &str,
        otp: &str,
        display_name: Option<&str>,
    ) -> Result<SignedIn, ApiError> {
        let body = VerifyOtp {
            phone_number: phone_number.into(),
            otp: otp.into(),
            device_id: self.shared.device_id,
            display_name: display_name.map(str::to_owned),
        };
        let signed_in: SignedIn = self.open(Method::POST, "/auth/verify-otp", &body).await?;
        self.hold(Some(signed_in.tokens.clone()));
        Ok(signed_in)
    }

    /// Begins a sign-in with a passkey: the options for an authenticator.
    pub async fn passkey_challenge(&self) -> Result<PasskeyRequestOptions, ApiError> {
        self.open(Method::POST, "/auth/passkeys/challenges", &()).await
    }

    /// Signs in with the answer of an authenticator.
    pub async fn verify_passkey(&self, credential: PasskeyAuthentication) -> Result<SignedIn, ApiError> {
        let body = SignInWithPasskey { device_id: self.shared.device_id, credential };
        let signed_in: SignedIn = self.open(Method::POST, "/auth/passkeys/sessions", &body).await?;
        self.hold(Some(signed_in.tokens.clone()));
        Ok(signed_in)
    }

    /// Resumes a session with stored tokens of an earlier run.
    pub fn resume(&self, tokens: Tokens) {
        *self.tokens() = Some(HeldTokens::new(tokens, Instant::now()));
    }

    /// Ends the session.
    pub async fn logout(&self) -> Result<(), ApiError> {
        self.command(Method::POST, "/auth/logout", NO_BODY).await?;
        self.hold(None);
        Ok(())
    }

    /// A ticket for one WebSocket handshake.
    pub async fn ws_ticket(&self) -> Result<WsTicket, ApiError> {
        self.call(Method::POST, "/auth/ws-ticket", NO_BODY).await
    }

    /// An access token, renewed first if it expires soon.
    pub async fn access_token(&self) -> Result<String, ApiError> {
        let held = self.tokens().clone().ok_or(ApiError::NotSignedIn)?;
        if Instant::now() < held.renew_at {
            return Ok(held.access_token);
        }
        self.renew(&held.access_token).await
    }

    /// When the tokens are due for renewal.
    pub(crate) fn renew_at(&self) -> Option<Instant> {
        self.tokens().as_ref().map(|held| held.renew_at)
    }

    /// The access token, if somebody is signed in. It may have expired.
    pub(crate) fn present_token(&self) -> Option<String> {
        self.tokens().as_ref().map(|held| held.access_token.clone())
    }

    /// Replaces the access token `stale`, unless another caller already has.
    pub(crate) async fn renew(&self, stale: &str) -> Result<String, ApiError> {
        let _one_at_a_time = self.shared.renewal.lock().await;
        let held = self.tokens().clone().ok_or(ApiError::NotSignedIn)?;
        if held.access_token != stale {
            return Ok(held.access_token);
        }
        let body =
            RefreshTokens { refresh_token: held.refresh_token.as_str().into(), device_id: self.shared.device_id };
        let TokensRefreshed { tokens } = self.open(Method::POST, "/auth/refresh", &body).await?;
        let access_token = tokens.access_token.0.clone();
        self.hold(Some(tokens));
        Ok(access_token)
    }

    /// Switches to new tokens, or to none, after the application has stored them.
    fn hold(&self, tokens: Option<Tokens>) {
        if let Some(keep) = &self.shared.keeper {
            keep(tokens.as_ref());
        }
        *self.tokens() = tokens.map(|tokens| HeldTokens::new(tokens, Instant::now()));
    }

    fn tokens(&self) -> MutexGuard<'_, Option<HeldTokens>> {
        // The lock is never held across a panic, so the value is always complete.
        self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Users and sessions.
impl Api {
    /// The signed-in user.
    pub async fn me(&self) -> Result<Me, ApiError> {
        self.get("/users/me").await
    }

    /// Changes the user's own name or settings.
    pub async fn update_me(&self, update: &UpdateMe) -> Result<Me, ApiError> {
        self.call(Method::PATCH, "/users/me", Some(update)).await
    }

    /// All data of the user as one document: the profile, sessions, devices, contacts, chats, and the user's own
    /// messages. The server allows a few exports a day.
    pub async fn export_me(&self) -> Result<Export<'static>, ApiError> {
        let request = |token: String| async move {
            let url = format!("{}/api/v1/users/me/export", self.shared.base_url);
            let request = self.shared.http.get(url).bearer_auth(token).timeout(Self::EXPORT_TIMEOUT);
            request.send().await.map_err(ApiError::Transport)
        };
        let token = self.access_token().await?;
        let mut response = request(token.clone()).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            response = request(self.renew(&token).await?).await?;
        }
        parse(response, Self::EXPORT_BYTES_MAX).await.map(|Data { data }| data)
    }

    /// Deletes the account permanently and signs this device out. The user's name becomes "Deleted account"; with
    /// `erase_messages` their messages are erased too. `confirm` is the user's own id.
    pub async fn delete_me(&self, request: &DeleteMe) -> Result<AccountDeletion, ApiError> {
        let deletion = self.call(Method::DELETE, "/users/me", Some(request)).await?;
        self.hold(None);
        Ok(deletion)
    }

    /// Another user.
    pub async fn user(&self, user_id: UserId) -> Result<User, ApiError> {
        self.get(&format!("/users/{user_id}")).await
    }

    /// The users with these phone numbers, in the order of the request.
    pub async fn look_up_users(&self, phone_numbers: &Lookup) -> Result<LookupResults, ApiError> {
        self.call(Method::POST, "/users/lookup", Some(phone_numbers)).await
    }

    /// The sessions of the user.
    pub async fn sessions(&self) -> Result<Sessions, ApiError> {
        self.get("/sessions").await
    }

    /// Begins the registration of a passkey: the options for an authenticator.
    pub async fn begin_passkey(&self) -> Result<PasskeyCreationOptions, ApiError> {
        self.call(Method::POST, "/auth/passkeys/registrations", NO_BODY).await
    }

    /// Registers a passkey that an authenticator has created.
    pub async fn add_passkey(&self, passkey: &AddPasskey) -> Result<PasskeySummary, ApiError> {
        self.call(Method::POST, "/auth/passkeys", Some(passkey)).await
    }

    /// The passkeys of the user, oldest first.
    pub async fn passkeys(&self) -> Result<Passkeys, ApiError> {
        self.get("/auth/passkeys").await
    }

    /// Removes a passkey. Sessions that it opened stay.
    pub async fn remove_passkey(&self, passkey_id: PasskeyId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/auth/passkeys/{passkey_id}"), NO_BODY).await
    }

    /// Ends one of the user's sessions.
    pub async fn revoke_session(&self, session_id: SessionId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/sessions/{session_id}"), NO_BODY).await
    }

    /// Registers a device of the user for push notifications, which are sent while the user has no connection.
    pub async fn register_push(&self, device_id: DeviceId, how: &PushRegistration) -> Result<(), ApiError> {
        self.command(Method::PUT, &format!("/devices/{device_id}/push"), Some(how)).await
    }

    /// Ends the push notifications of a device.
    pub async fn unregister_push(&self, device_id: DeviceId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/devices/{device_id}/push"), NO_BODY).await
    }

    /// Ends all of the user's sessions but this one.
    pub async fn revoke_other_sessions(&self) -> Result<Revoked, ApiError> {
        self.call(Method::DELETE, "/sessions", NO_BODY).await
    }
}

/// Contacts, blocks, reports and presence.
impl Api {
    /// A page of the user's contacts, ordered by id, from the start or from the cursor of the previous page.
    pub async fn contacts(&self, cursor: Option<&str>) -> Result<Paged<Contacts>, ApiError> {
        let path = match cursor {
            None => "/contacts?limit=100".to_owned(),
            Some(cursor) => format!("/contacts?limit=100&cursor={cursor}"),
        };
        self.read(Method::GET, &path, NO_BODY).await
    }

    /// Adds a contact. Two users who have added each other are mutual contacts.
    pub async fn add_contact(&self, user_id: UserId) -> Result<User, ApiError> {
        self.call(Method::PUT, &format!("/contacts/{user_id}"), NO_BODY).await
    }

    /// Removes a contact. Succeeds if there is none.
    pub async fn remove_contact(&self, user_id: UserId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/contacts/{user_id}"), NO_BODY).await
    }

    /// A page of the blocked users, ordered by id, from the start or from the cursor of the previous page.
    pub async fn blocks(&self, cursor: Option<&str>) -> Result<Paged<Blocks>, ApiError> {
        let path = match cursor {
            None => "/blocks?limit=100".to_owned(),
            Some(cursor) => format!("/blocks?limit=100&cursor={cursor}"),
        };
        self.read(Method::GET, &path, NO_BODY).await
    }

    /// Blocks a user. Until the block is removed, neither can write to the other in their direct chat, and the blocked
    /// user sees nothing of this user's presence. The blocked user is not notified.
    pub async fn block(&self, user_id: UserId) -> Result<(), ApiError> {
        self.command(Method::PUT, &format!("/blocks/{user_id}"), NO_BODY).await
    }

    /// Removes a block. Succeeds if there is none.
    pub async fn unblock(&self, user_id: UserId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/blocks/{user_id}"), NO_BODY).await
    }

    /// The pending invitations of the user to groups, newest first.
    pub async fn invitations(&self) -> Result<Vec<Invitation>, ApiError> {
        let Invitations { invitations } = self.get("/invitations").await?;
        Ok(invitations)
    }

    /// Accepts an invitation. The user becomes a member of the group, which is returned.
    pub async fn accept_invitation(&self, chat_id: ChatId) -> Result<ChatDetails, ApiError> {
        self.call(Method::POST, &format!("/invitations/{chat_id}/accept"), NO_BODY).await
    }

    /// Declines an invitation. Succeeds if there is none. For 30 days no member of the group can invite the user again.
    pub async fn decline_invitation(&self, chat_id: ChatId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/invitations/{chat_id}"), NO_BODY).await
    }

    /// Reports a message, a user or a chat to the operators.
    pub async fn report(&self, report: &FileReport) -> Result<Reported, ApiError> {
        self.call(Method::POST, "/reports", Some(report)).await
    }

    /// The current presence of a user, as far as it is visible to the caller.
    pub async fn presence(&self, user_id: UserId) -> Result<Presence, ApiError> {
        self.get(&format!("/users/{user_id}/presence")).await
    }

    /// The current presence of up to 100 users, in the order of the request, as far as it is visible to the caller.
    pub async fn query_presence(&self, user_ids: Vec<UserId>) -> Result<PresenceSnapshot, ApiError> {
        self.call(Method::POST, "/presence/query", Some(&PresenceQuery { user_ids })).await
    }
}

/// Chats and their members.
impl Api {
    /// Creates a chat; an existing direct chat is returned instead. Users who want to be asked first are invited and not
    /// members: `invited_user_ids` names them.
    pub async fn create_chat(&self, chat: &CreateChat) -> Result<ChatDetails, ApiError> {
        self.call(Method::POST, "/chats", Some(chat)).await
    }

    /// A page of the inbox, newest activity first, from the start or from the cursor of the previous page.
    pub async fn chats(&self, cursor: Option<&str>) -> Result<Paged<Inbox>, ApiError> {
        let path = match cursor {
            None => "/chats?limit=100".to_owned(),
            Some(cursor) => format!("/chats?limit=100&cursor={cursor}"),
        };
        self.read(Method::GET, &path, NO_BODY).await
    }

    /// One chat with its members and the user's watermarks.
    pub async fn chat(&self, chat_id: ChatId) -> Result<ChatDetails, ApiError> {
        self.get(&format!("/chats/{chat_id}")).await
    }

    /// Renames a group, or changes the lifetime of later messages of a chat.
    pub async fn update_chat(&self, chat_id: ChatId, update: &UpdateChat) -> Result<ChatDetails, ApiError> {
        self.call(Method::PATCH, &format!("/chats/{chat_id}"), Some(update)).await
    }

    /// Adds a member to a group. A user who wants to be asked first is invited instead: then `invited` is `true`, and the
    /// user is not a member.
    pub async fn add_member(&self, chat_id: ChatId, member: &AddMember) -> Result<Member, ApiError> {
        self.call(Method::POST, &format!("/chats/{chat_id}/members"), Some(member)).await
    }

    /// Changes a member's role; `owner` transfers the ownership of the group.
    pub async fn change_role(&self, chat_id: ChatId, user_id: UserId, role: Role) -> Result<Member, ApiError> {
        self.call(Method::PATCH, &format!("/chats/{chat_id}/members/{user_id}"), Some(&ChangeRole { role })).await
    }

    /// Removes a member from a group.
    pub async fn remove_member(&self, chat_id: ChatId, user_id: UserId) -> Result<(), ApiError> {
        self.command(Method::DELETE, &format!("/chats/{chat_id}/members/{user_id}"), NO_BODY).await
    }

    /// Leaves a group.
    pub async fn leave(&self, chat_id: ChatId) -> Result<(), ApiError> {
        self.command(Method::POST, &format!("/chats/{chat_id}/leave"), NO_BODY).await
    }

    /// Mutes a chat for this user.
    pub async fn mute(&self, chat_id: ChatId, mute: &Mute) -> Result<Muted, ApiError> {
        self.call(Method::POST, &format!("/chats/{chat_id}/mute"), Some(mute)).await
    }

    /// Ends a mute.
    pub async fn unmute(&self, chat_id: ChatId) -> Result<Muted, ApiError> {
        self.call(Method::POST, &format!("/chats/{chat_id}/unmute"), NO_BODY).await
    }
}

/// Messages.
impl Api {
    /// Sends a message over HTTP. Retries with the same `client_message_id` create one message.
    pub async fn send(&self, chat_id: ChatId, message: &SendMessage) -> Result<SendMessageAck, ApiError> {
        self.call(Method::POST, &format!("/chats/{chat_id}/messages"), Some(message)).await
    }

    /// The first page of a chat's messages.
    pub async fn history(&self, chat_id: ChatId, range: HistoryRange) -> Result<History<'static>, ApiError> {
        self.history_page(chat_id, range, None).await.map(|page| page.data)
    }

    /// A page of a chat's messages, from the start of the range or from the cursor of the previous page. A page may be
    /// empty and not the last, if all of its messages have expired.
    pub async fn history_page(
        &self,
        chat_id: ChatId,
        range: HistoryRange,
        cursor: Option<&str>,
    ) -> Result<Paged<History<'static>>, ApiError> {
        let mut query = Vec::new();
        match cursor {
            // A cursor includes the range.
            Some(cursor) => query.push(format!("cursor={cursor}")),
            None => {
                query.extend(range.before.map(|before| format!("before={before}")));
                query.extend(range.after.map(|after| format!("after={after}")));
            }
        }
        query.extend(range.limit.map(|limit| format!("limit={limit}")));
        self.read(Method::GET, &format!("/chats/{chat_id}/messages?{}", query.join("&")), NO_BODY).await
    }

    /// The messages around a given one.
    pub async fn around(&self, chat_id: ChatId, sequence: Sequence) -> Result<Around<'static>, ApiError> {
        self.get(&format!("/chats/{chat_id}/messages/around/{sequence}")).await
    }

    /// One message by its id.
    pub async fn message(&self, message_id: MessageId) -> Result<Message<'static>, ApiError> {
        self.get(&format!("/messages/{message_id}")).await
    }

    /// Edits a message of the user over HTTP. Retries with the same `client_message_id` make one edit, as of every update.
    pub async fn edit_message(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        edit: &EditMessage,
    ) -> Result<SendMessageAck, ApiError> {
        self.call(Method::PATCH, &format!("/chats/{chat_id}/messages/{sequence}"), Some(edit)).await
    }

    /// Deletes a message for everyone over HTTP.
    pub async fn delete_message(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        client_message_id: ClientMessageId,
    ) -> Result<SendMessageAck, ApiError> {
        let path = format!("/chats/{chat_id}/messages/{sequence}?client_message_id={client_message_id}");
        self.call(Method::DELETE, &path, NO_BODY).await
    }

    /// Adds a reaction of the user to a message over HTTP.
    pub async fn add_reaction(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        reaction: &Reaction,
        client_message_id: ClientMessageId,
    ) -> Result<SendMessageAck, ApiError> {
        let path = reaction_path(chat_id, sequence, reaction, client_message_id);
        self.call(Method::PUT, &path, NO_BODY).await
    }

    /// Removes a reaction of the user from a message over HTTP.
    pub async fn remove_reaction(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        reaction: &Reaction,
        client_message_id: ClientMessageId,
    ) -> Result<SendMessageAck, ApiError> {
        let path = reaction_path(chat_id, sequence, reaction, client_message_id);
        self.call(Method::DELETE, &path, NO_BODY).await
    }

    /// A page of the members who reacted to a message, ordered by id, from the start or from the cursor of the previous
    /// page.
    pub async fn reactions(
        &self,
        chat_id: ChatId,
        sequence: Sequence,
        cursor: Option<&str>,
    ) -> Result<Paged<Reactions>, ApiError> {
        let path = format!("/chats/{chat_id}/messages/{sequence}/reactions?limit=100");
        let path = cursor.map_or_else(|| path.clone(), |cursor| format!("{path}&cursor={cursor}"));
        self.read(Method::GET, &path, NO_BODY).await
    }

    /// Acknowledges all messages up to `sequence`, which must have no gap: for clients that read messages over REST. A
    /// connected [`Client`](crate::Client) acknowledges by itself.
    pub async fn mark_delivered(&self, chat_id: ChatId, sequence: Sequence) -> Result<MarkedRead, ApiError> {
        let body = MarkDelivered { last_acked_sequence: sequence };
        self.call(Method::POST, &format!("/chats/{chat_id}/delivered"), Some(&body)).await
    }

    /// Marks all messages up to `sequence` as read.
    pub async fn mark_read(&self, chat_id: ChatId, sequence: Sequence) -> Result<MarkedRead, ApiError> {
        let body = MarkRead { last_read_sequence: sequence };
        self.call(Method::POST, &format!("/chats/{chat_id}/read"), Some(&body)).await
    }

    /// The number of members that have received and read a message.
    pub async fn receipts(&self, chat_id: ChatId, sequence: Sequence) -> Result<Receipts, ApiError> {
        self.get(&format!("/chats/{chat_id}/receipts?sequence={sequence}")).await
    }
}

const NO_BODY: Option<&()> = None;

fn reaction_path(
    chat_id: ChatId,
    sequence: Sequence,
    reaction: &Reaction,
    client_message_id: ClientMessageId,
) -> String {
    let encoded = percent_encoded(reaction.as_str());
    format!("/chats/{chat_id}/messages/{sequence}/reactions/{encoded}?client_message_id={client_message_id}")
}

/// A text as one segment of a path.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => {
                // Writing to a string never fails.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

impl Api {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(Method::GET, path, NO_BODY).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ApiError> {
        self.read(method, path, body).await.map(|Data { data }| data)
    }

    /// Makes a call and parses the whole response.
    async fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ApiError> {
        parse(self.authorized(method, path, body).await?, Self::ANSWER_BYTES_MAX).await
    }

    /// Makes a call with an empty response.
    async fn command(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<(), ApiError> {
        let response = self.authorized(method, path, body).await?;
        if response.status().is_success() { Ok(()) } else { Err(refusal(response).await) }
    }

    /// Makes a call without a token.
    async fn open<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let response = self.request(method, path, Some(body), None).await?;
        parse(response, Self::ANSWER_BYTES_MAX).await.map(|Data { data }| data)
    }

    /// Makes a call, and repeats it once with a new token if the server refused the first one.
    async fn authorized(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response, ApiError> {
        let token = self.access_token().await?;
        let response = self.request(method.clone(), path, body, Some(&token)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let token = self.renew(&token).await?;
        self.request(method, path, body, Some(&token)).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        token: Option<&str>,
    ) -> Result<Response, ApiError> {
        let mut request = self.shared.http.request(method, format!("{}/api/v1{path}", self.shared.base_url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.map_err(ApiError::Transport)
    }
}

async fn parse<T: DeserializeOwned>(response: Response, bytes_max: usize) -> Result<T, ApiError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let status = response.status().as_u16();
    let body = body(response, bytes_max).await?;
    serde_json::from_slice(&body).map_err(|source| ApiError::Unreadable { status, source })
}

async fn refusal(response: Response) -> ApiError {
    let status = response.status().as_u16();
    match body(response, Api::ANSWER_BYTES_MAX).await {
        Err(error) => error,
        Ok(body) => match serde_json::from_slice(&body) {
            Ok(Failure { error }) => ApiError::Refused { status, error: error.body },
            Err(source) => ApiError::Unreadable { status, source },
        },
    }
}

async fn body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(ApiError::Transport)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(ApiError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("base_url", &self.shared.base_url)
            .field("device_id", &self.shared.device_id)
            .finish_non_exhaustive()
    }
}
