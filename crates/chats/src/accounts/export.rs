use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use domain::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_MAX};
use domain::{ChatId, Member, Sequence, User, UserId, Watermarks};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use ports::{PageBounds, StoreError};
use protocol::frame::MessageBody;
use protocol::rest;
use serde::Serialize;

use super::Accounts;

/// Contacts that are written at a time.
const CONTACTS_PAGE: usize = 1000;
/// What one piece of the document is made from, at the most: an export holds no more in memory than this.
const MESSAGES_PAGE: PageBounds = PageBounds { count: SYNC_PAGE_MAX, bytes: SYNC_PAGE_BYTES_MAX };
/// How a chat ends in JSON whose messages are still to come. They are the last of its fields.
const NO_MESSAGES: &str = "]}";

impl Accounts {
    /// Everything that is a user's own, as one JSON document, `rest::Export` in its envelope, piece by piece. One that ends
    /// early is no JSON, so that nobody takes a part for the whole.
    ///
    /// A user's own are their profile, sessions, devices, contacts, their places in chats, and the messages that they sent
    /// there. What others wrote to them is those others'.
    pub fn export(self: Arc<Self>, user: User) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
        let export = Export { accounts: self, user_id: user.user_id, stage: Stage::Profile(Box::new(user)) };
        try_unfold(export, Export::next)
    }
}

/// A document that is being written.
struct Export {
    accounts: Arc<Accounts>,
    user_id: UserId,
    stage: Stage,
}

/// What is written next.
enum Stage {
    Profile(Box<User>),
    Contacts { after: Option<UserId> },
    Chats { places: VecDeque<(ChatId, Member)>, is_first: bool },
    Messages { places: VecDeque<(ChatId, Member)>, chat_id: ChatId, after: Sequence, is_first: bool },
    Over,
}

impl Export {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        let (piece, stage) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Profile(user) => (self.profile(&user).await?, Stage::Contacts { after: None }),
            Stage::Contacts { after } => self.contacts(after).await?,
            Stage::Chats { places, is_first } => self.chat(places, is_first).await?,
            Stage::Messages { places, chat_id, after, is_first } => {
                self.messages(places, chat_id, after, is_first).await?
            }
            Stage::Over => return Ok(None),
        };
        self.stage = stage;
        Ok(Some((piece.into(), self)))
    }

    async fn profile(&self, user: &User) -> Result<String, StoreError> {
        let now = self.accounts.clock.now();
        let as_user =
            ports::Principal { user_id: self.user_id, session_id: None, device_id: None, token_expires_at: now };
        let sessions = self.accounts.auth.sessions(&as_user).await.map_err(StoreError::unavailable)?;
        let sessions: Vec<_> = sessions.iter().map(|session| rest::Session::new(session, None)).collect();
        let devices = self.accounts.push_devices.devices(&[self.user_id]).await?;
        let devices: Vec<_> = devices.iter().map(rest::ExportedDevice::from).collect();
        let (user, exported_at) = (rest::Me::from(user), now);
        Ok(format!(
            r#"{{"data":{{"exported_at":{},"user":{},"sessions":{},"push_devices":{},"contacts":["#,
            json(&exported_at),
            json(&user),
            json(&sessions),
            json(&devices)
        ))
    }

    async fn contacts(&self, after: Option<UserId>) -> Result<(String, Stage), StoreError> {
        let page = self.accounts.contacts.contacts(self.user_id, after, CONTACTS_PAGE).await?;
        let mut piece = listed(&page, after.is_none());
        if page.len() == CONTACTS_PAGE {
            return Ok((piece, Stage::Contacts { after: page.last().copied() }));
        }
        piece += r#"],"chats":["#;
        let places = self.accounts.chats.memberships(self.user_id).await?.into();
        Ok((piece, Stage::Chats { places, is_first: true }))
    }

    async fn chat(
        &self,
        mut places: VecDeque<(ChatId, Member)>,
        is_first: bool,
    ) -> Result<(String, Stage), StoreError> {
        let Some((chat_id, member)) = places.pop_front() else {
            return Ok((r#"],"is_complete":true}}"#.to_owned(), Stage::Over));
        };
        let Some(chat) = self.accounts.chats.chat(chat_id).await? else {
            return Ok((String::new(), Stage::Chats { places, is_first }));
        };
        let marks = self.accounts.watermarks.watermarks(&[(self.user_id, chat_id)]).await?;
        let Watermarks { delivered, read } = marks.first().copied().unwrap_or_default();
        let chat = rest::ExportedChat {
            chat_id,
            chat_type: chat.chat_type,
            name: chat.name.map(|name| name.as_str().to_owned()),
            role: member.role,
            joined_at: member.joined_at,
            muted_until: member.muted_until,
            delivered_sequence: delivered,
            read_sequence: read,
            messages: vec![],
        };
        let chat = json(&chat);
        let open = chat.strip_suffix(NO_MESSAGES).expect("the messages of a chat are its last field");
        let piece = if is_first { open.to_owned() } else { format!(",{open}") };
        Ok((piece, Stage::Messages { places, chat_id, after: Sequence::ZERO, is_first: true }))
    }

    async fn messages(
        &self,
        places: VecDeque<(ChatId, Member)>,
        chat_id: ChatId,
        after: Sequence,
        is_first: bool,
    ) -> Result<(String, Stage), StoreError> {
        let page = self.accounts.messages.after(chat_id, after, MESSAGES_PAGE, self.accounts.clock.now()).await?;
        let own = page.messages.iter().filter(|message| message.sender_id == self.user_id);
        let own: Vec<_> = own.map(|message| MessageBody::new(message, Some(self.user_id))).collect();
        let mut piece = listed(&own, is_first);
        if page.examined < page.head {
            let is_first = is_first && own.is_empty();
            return Ok((piece, Stage::Messages { places, chat_id, after: page.examined, is_first }));
        }
        piece += NO_MESSAGES;
        Ok((piece, Stage::Chats { places, is_first: false }))
    }
}

/// Elements of a list that is open, with a comma before each but the very first.
fn listed(elements: &[impl Serialize], is_first: bool) -> String {
    let mut piece = String::new();
    for (n, element) in elements.iter().enumerate() {
        if n > 0 || !is_first {
            piece.push(',');
        }
        piece += &json(element);
    }
    piece
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("bodies of ours always serialize")
}
