use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use domain::limits::{SYNC_PAGE_BYTES_MAX, SYNC_PAGE_MAX};
use domain::{ChatId, DeliveryState, Member, Sequence, User, UserId};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use ports::{PageBounds, StoreError};
use protocol::frame::{MessageBody, UpdateBody};
use protocol::rest;
use serde::Serialize;

use super::Accounts;

/// Maximum number of contacts in one chunk of the document.
const CONTACTS_PAGE: usize = 1000;
/// Bounds of the entries in one chunk of the document. An export holds no more messages in memory.
const ENTRIES_PAGE: PageBounds = PageBounds { count: SYNC_PAGE_MAX, bytes: SYNC_PAGE_BYTES_MAX };
/// The JSON between the messages and the updates of a chat.
const UPDATES: &str = r#"],"updates":["#;
/// The JSON end of a chat.
const CHAT_END: &str = "]}";

impl Accounts {
    /// Streams all data of a user as one JSON document, `rest::Export` in its envelope. A document that ends early is not
    /// valid JSON, so a partial export cannot be taken for a complete one.
    ///
    /// The data is the profile, sessions, passkeys, devices, pending invitations, contacts, chat memberships, the messages
    /// that the user sent, and the user's updates of messages. Messages that others sent are excluded.
    pub fn export(self: Arc<Self>, user: User) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
        let export =
            AccountExport { accounts: self, user_id: user.user_id, stage: ExportStage::Profile(Box::new(user)) };
        try_unfold(export, AccountExport::next)
    }
}

/// An export in progress.
struct AccountExport {
    accounts: Arc<Accounts>,
    user_id: UserId,
    stage: ExportStage,
}

/// The next part of the document to write.
enum ExportStage {
    Profile(Box<User>),
    Contacts {
        after: Option<UserId>,
    },
    Chats {
        memberships: VecDeque<(ChatId, Member)>,
        is_first: bool,
    },
    Messages {
        memberships: VecDeque<(ChatId, Member)>,
        chat_id: ChatId,
        after: Sequence,
        is_first: bool,
        /// The start of the first page with an update of the user.
        updates_after: Option<Sequence>,
    },
    Updates {
        memberships: VecDeque<(ChatId, Member)>,
        chat_id: ChatId,
        after: Sequence,
        is_first: bool,
    },
    Over,
}

impl AccountExport {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        let (piece, stage) = match std::mem::replace(&mut self.stage, ExportStage::Over) {
            ExportStage::Profile(user) => (self.profile(&user).await?, ExportStage::Contacts { after: None }),
            ExportStage::Contacts { after } => self.contacts(after).await?,
            ExportStage::Chats { memberships, is_first } => self.chat(memberships, is_first).await?,
            ExportStage::Messages { memberships, chat_id, after, is_first, updates_after } => {
                self.messages(memberships, chat_id, after, is_first, updates_after).await?
            }
            ExportStage::Updates { memberships, chat_id, after, is_first } => {
                self.updates(memberships, chat_id, after, is_first).await?
            }
            ExportStage::Over => return Ok(None),
        };
        self.stage = stage;
        Ok(Some((piece.into(), self)))
    }

    async fn profile(&self, user: &User) -> Result<String, StoreError> {
        let now = self.accounts.clock.now();
        let as_user = ports::Principal {
            user_id: self.user_id,
            session_id: None,
            device_id: None,
            token_expires_at: now,
            assertion: None,
        };
        let sessions = self.accounts.auth.sessions(&as_user).await.map_err(StoreError::unavailable)?;
        let sessions: Vec<_> = sessions.iter().map(|session| rest::Session::new(session, None)).collect();
        let devices = self.accounts.push_devices.devices(&[self.user_id]).await?;
        let devices: Vec<_> = devices.iter().map(rest::ExportedDevice::from).collect();
        let invitations = self.accounts.invitations.invitations(self.user_id, now).await?;
        let invitations: Vec<_> = invitations.iter().map(rest::ExportedInvitation::from).collect();
        let passkeys = self.accounts.passkeys.passkeys(self.user_id).await?;
        let passkeys: Vec<_> = passkeys.iter().map(rest::PasskeySummary::from).collect();
        let (user, exported_at) = (json(&rest::Me::from(user)), json(&now));
        let [sessions, passkeys] = [json(&sessions), json(&passkeys)];
        let [devices, invitations] = [json(&devices), json(&invitations)];
        let own = format!(r#""user":{user},"sessions":{sessions},"passkeys":{passkeys},"push_devices":{devices}"#);
        Ok(format!(r#"{{"data":{{"exported_at":{exported_at},{own},"invitations":{invitations},"contacts":["#))
    }

    async fn contacts(&self, after: Option<UserId>) -> Result<(String, ExportStage), StoreError> {
        let page = self.accounts.contacts.contacts(self.user_id, after, CONTACTS_PAGE).await?;
        let mut piece = listed(&page, after.is_none());
        if page.len() == CONTACTS_PAGE {
            return Ok((piece, ExportStage::Contacts { after: page.last().copied() }));
        }
        piece += r#"],"chats":["#;
        let memberships = self.accounts.chats.memberships(self.user_id).await?.into();
        Ok((piece, ExportStage::Chats { memberships, is_first: true }))
    }

    async fn chat(
        &self,
        mut memberships: VecDeque<(ChatId, Member)>,
        is_first: bool,
    ) -> Result<(String, ExportStage), StoreError> {
        let Some((chat_id, member)) = memberships.pop_front() else {
            return Ok((r#"],"is_complete":true}}"#.to_owned(), ExportStage::Over));
        };
        let Some(chat) = self.accounts.chats.chat(chat_id).await? else {
            return Ok((String::new(), ExportStage::Chats { memberships, is_first }));
        };
        let states = self.accounts.watermarks.delivery_states(&[(self.user_id, chat_id)]).await?;
        let DeliveryState { watermarks, delivered_at, read_at } = states.first().copied().unwrap_or_default();
        let chat = rest::ExportedChat {
            chat_id,
            chat_type: chat.chat_type,
            name: chat.name.map(|name| name.as_str().to_owned()),
            role: member.role,
            joined_at: member.joined_at,
            muted_until: member.muted_until,
            delivered_sequence: watermarks.delivered,
            delivered_at,
            read_sequence: watermarks.read,
            read_at,
            messages: vec![],
            updates: vec![],
        };
        let chat = json(&chat);
        let open = chat.strip_suffix(CHAT_END).and_then(|open| open.strip_suffix(UPDATES));
        let open = open.expect("messages and updates are the last fields of a chat");
        let piece = if is_first { open.to_owned() } else { format!(",{open}") };
        let after = Sequence::ZERO;
        Ok((piece, ExportStage::Messages { memberships, chat_id, after, is_first: true, updates_after: None }))
    }

    async fn messages(
        &self,
        memberships: VecDeque<(ChatId, Member)>,
        chat_id: ChatId,
        after: Sequence,
        is_first: bool,
        updates_after: Option<Sequence>,
    ) -> Result<(String, ExportStage), StoreError> {
        let page = self.accounts.messages.after(chat_id, after, ENTRIES_PAGE, self.accounts.clock.now()).await?;
        let own = page.messages.iter().filter(|message| message.sender_id == self.user_id);
        let own: Vec<_> = own.map(|message| MessageBody::new(message, Some(self.user_id))).collect();
        let mut piece = listed(&own, is_first);
        let has_updates = page.updates.iter().any(|update| update.user_id == self.user_id);
        let updates_after = updates_after.or(has_updates.then_some(after));
        if page.examined < page.head {
            let (after, is_first) = (page.examined, is_first && own.is_empty());
            return Ok((piece, ExportStage::Messages { memberships, chat_id, after, is_first, updates_after }));
        }
        piece += UPDATES;
        // Read again, because the updates of a chat may be more than the memory holds. Most chats have none of the user.
        if let Some(after) = updates_after {
            return Ok((piece, ExportStage::Updates { memberships, chat_id, after, is_first: true }));
        }
        piece += CHAT_END;
        Ok((piece, ExportStage::Chats { memberships, is_first: false }))
    }

    async fn updates(
        &self,
        memberships: VecDeque<(ChatId, Member)>,
        chat_id: ChatId,
        after: Sequence,
        is_first: bool,
    ) -> Result<(String, ExportStage), StoreError> {
        let page = self.accounts.messages.after(chat_id, after, ENTRIES_PAGE, self.accounts.clock.now()).await?;
        let own = page.updates.iter().filter(|update| update.user_id == self.user_id);
        let own: Vec<_> = own.map(|update| UpdateBody::new(update, Some(self.user_id))).collect();
        let mut piece = listed(&own, is_first);
        if page.examined < page.head {
            let is_first = is_first && own.is_empty();
            return Ok((piece, ExportStage::Updates { memberships, chat_id, after: page.examined, is_first }));
        }
        piece += CHAT_END;
        Ok((piece, ExportStage::Chats { memberships, is_first: false }))
    }
}

/// Elements of an open JSON list, with a comma before each but the very first.
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
