use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{ChatId, PushDevice, Restrictions, Session, Timestamp, UserId};
use ports::{
    ExportKind, ExportPage, ExportSource, ExportedSend, ImportAdmission, ImportId, ImportTarget, Moved, PageBookmark,
    Position, StoreError, UserKey,
};

use super::messages::CommittedSend;
use super::{ChatState, MemoryStore, MemoryStoreState};

#[async_trait]
impl ExportSource for MemoryStore {
    async fn rows(
        &self,
        kind: ExportKind,
        after: Option<&PageBookmark>,
        count: usize,
        at: Timestamp,
    ) -> Result<ExportPage, StoreError> {
        // A bookmark is the number of rows already returned.
        let strange = |text: &String| StoreError::unavailable(format!("`{text}` is no bookmark of this store"));
        let passed = after.map_or(Ok(0), |PageBookmark(text)| text.parse::<usize>().map_err(|_| strange(text)))?;
        let rows: Vec<Moved> = self.transaction(|state| state.moved(kind, at))?;
        let page: Vec<Moved> = rows.iter().skip(passed).take(count).cloned().collect();
        let next = (passed + page.len() < rows.len()).then(|| PageBookmark((passed + page.len()).to_string()));
        Ok(ExportPage { rows: page, next })
    }
}

#[async_trait]
impl ImportTarget for MemoryStore {
    async fn begin(&self, id: ImportId) -> Result<ImportAdmission, StoreError> {
        Ok(self.transaction(|state| match (state.import, state.occupied()) {
            (Some(begun), _) if begun == id => ImportAdmission::Again,
            (Some(_), _) => ImportAdmission::Other,
            (None, Some(table)) => ImportAdmission::NotEmpty { table },
            (None, None) => {
                state.import = Some(id);
                ImportAdmission::Begun
            }
        }))
    }

    async fn write(&self, rows: Vec<Moved>) -> Result<(), StoreError> {
        self.transaction(|state| rows.into_iter().try_for_each(|row| state.take_in(row)))
    }

    async fn finish(&self) -> Result<(), StoreError> {
        self.transaction(|state| state.import = None);
        Ok(())
    }

    async fn is_unfinished(&self) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| state.import.is_some()))
    }
}

impl MemoryStoreState {
    /// All records of a kind.
    fn moved(&self, kind: ExportKind, at: Timestamp) -> Result<Vec<Moved>, StoreError> {
        let rows: Vec<Moved> = match kind {
            ExportKind::User => self.users.values().cloned().map(Moved::User).collect(),
            ExportKind::UserKey => {
                // A hash map has no order, and each page must continue after the last one.
                let mut keys: Vec<_> = self.user_keys.iter().collect();
                keys.sort_by_key(|(_, user_id)| **user_id);
                let moved =
                    |(key, user_id): (&UserKey, &UserId)| Moved::UserKey { key: key.clone(), user_id: *user_id };
                keys.into_iter().map(moved).collect()
            }
            ExportKind::Block => {
                let lists = self.blocks.iter();
                let all = lists.flat_map(|(user_id, blocks)| blocks.iter().map(|blocked_id| (*user_id, *blocked_id)));
                all.map(|(user_id, blocked_id)| Moved::Block { user_id, blocked_id }).collect()
            }
            ExportKind::Restriction => {
                let restrictions = self.restrictions.iter();
                let moved = |(user_id, restrictions): (&UserId, &Restrictions)| Moved::Restriction {
                    user_id: *user_id,
                    restrictions: restrictions.clone(),
                };
                restrictions.map(moved).collect()
            }
            ExportKind::Invitation => self.invitations.values().copied().map(Moved::Invitation).collect(),
            ExportKind::Passkey => self.passkeys.values().cloned().map(Moved::Passkey).collect(),
            ExportKind::Contact => {
                let lists = self.contacts.iter();
                let all = lists.flat_map(|(user_id, listed)| listed.iter().map(|contact_id| (*user_id, *contact_id)));
                all.map(|(user_id, contact_id)| Moved::Contact { user_id, contact_id }).collect()
            }
            ExportKind::Session => self.sessions.values().cloned().map(Moved::Session).collect(),
            ExportKind::PushDevice => {
                let is_over = |device: &&PushDevice| {
                    let of_device =
                        |session: &&Session| (session.user_id, session.device_id) == (device.user_id, device.device_id);
                    self.sessions.values().find(of_device).is_some_and(|session| session.expires_at <= at)
                };
                let devices = self.push_devices.values().filter(|device| !is_over(device));
                devices.cloned().map(Moved::PushDevice).collect()
            }
            ExportKind::Chat => {
                let headed = |state: &ChatState| {
                    let head = state.head.clone().ok_or_else(|| headless(state.chat.chat_id))?;
                    Ok(Moved::Chat { chat: state.chat.clone(), head })
                };
                self.chats.values().map(headed).collect::<Result<_, StoreError>>()?
            }
            ExportKind::Pair => {
                let pairs = self.direct_chats.iter();
                pairs.map(|(pair, chat_id)| Moved::Pair { pair: *pair, chat_id: *chat_id }).collect()
            }
            ExportKind::Member => self.chats.iter().flat_map(|(chat_id, state)| members(*chat_id, state)).collect(),
            ExportKind::Message => {
                self.chats.values().flat_map(|state| state.messages.values()).cloned().map(Moved::Message).collect()
            }
            ExportKind::Update => {
                self.chats.values().flat_map(|state| state.updates.values()).cloned().map(Moved::Update).collect()
            }
            ExportKind::Reactions => self.chats.values().flat_map(|state| state.exported_reactions(at)).collect(),
            ExportKind::Send => self.chats.iter().flat_map(|(chat_id, state)| sends(*chat_id, state)).collect(),
        };
        Ok(rows.into_iter().filter_map(|row| row.at(at)).collect())
    }

    /// The name of a non-empty table, if any.
    fn occupied(&self) -> Option<&'static str> {
        let tables = [
            ("users", self.users.is_empty()),
            ("user_keys", self.user_keys.is_empty()),
            ("contacts", self.contacts.values().all(|listed| listed.is_empty())),
            ("blocks", self.blocks.values().all(|blocks| blocks.is_empty())),
            ("restrictions", self.restrictions.is_empty()),
            ("invitations", self.invitations.is_empty()),
            ("passkeys", self.passkeys.is_empty()),
            ("sessions", self.sessions.is_empty()),
            ("push_devices", self.push_devices.is_empty()),
            ("chats", self.chats.is_empty()),
            ("log", self.log_end == Position(0)),
        ];
        tables.into_iter().find_map(|(table, is_empty)| (!is_empty).then_some(table))
    }

    fn take_in(&mut self, row: Moved) -> Result<(), StoreError> {
        match row {
            Moved::User(user) => drop(self.users.insert(user.user_id, user)),
            Moved::UserKey { key, user_id } => drop(self.user_keys.insert(key, user_id)),
            Moved::Block { user_id, blocked_id } => {
                self.blocks.entry(user_id).or_default().insert(blocked_id);
            }
            Moved::Restriction { user_id, restrictions } => drop(self.restrictions.insert(user_id, restrictions)),
            Moved::Invitation(invitation) => {
                self.invitations.insert((invitation.user_id, invitation.chat_id), invitation);
            }
            Moved::Passkey(passkey) => drop(self.passkeys.insert(passkey.credential_id.clone(), passkey)),
            Moved::Contact { user_id, contact_id } => {
                self.contacts.entry(user_id).or_default().insert(contact_id);
            }
            Moved::Session(session) => drop(self.sessions.insert(session.session_id, session)),
            Moved::PushDevice(device) => {
                self.push_devices.insert((device.user_id, device.device_id), device);
            }
            Moved::Chat { chat, head } => {
                if let Some(outbox) = &mut self.outbox {
                    outbox.chats.entry(chat.chat_id).or_default().published = head.sequence;
                }
                let empty = || ChatState {
                    chat: chat.clone(),
                    members: BTreeMap::new(),
                    delivery_states: BTreeMap::new(),
                    head: None,
                    messages: BTreeMap::new(),
                    updates: BTreeMap::new(),
                    reactions: BTreeMap::new(),
                    sends: BTreeMap::new(),
                };
                let state = self.chats.entry(chat.chat_id).or_insert_with(empty);
                state.chat = chat;
                state.head = Some(head);
            }
            Moved::Pair { pair, chat_id } => drop(self.direct_chats.insert(pair, chat_id)),
            Moved::Member { chat_id, member, delivery_state } => {
                self.memberships.entry(member.user_id).or_default().insert(chat_id);
                let chat = self.chat_to_fill(chat_id)?;
                chat.delivery_states.insert(member.user_id, delivery_state);
                chat.members.insert(member.user_id, member);
            }
            Moved::Message(message) => {
                let (chat_id, sequence) = (message.chat_id, message.sequence);
                self.locations.insert(message.message_id, (chat_id, sequence));
                self.chat_to_fill(chat_id)?.messages.insert(sequence, message);
            }
            Moved::Update(update) => {
                self.chat_to_fill(update.chat_id)?.updates.insert(update.sequence, update);
            }
            Moved::Reactions { message, member } => {
                let key = (message.sequence, member.user_id);
                self.chat_to_fill(message.chat_id)?.reactions.insert(key, member.reactions);
            }
            Moved::Send(send) => {
                let ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint } = send;
                let send = CommittedSend { receipt, fingerprint };
                self.chat_to_fill(chat_id)?.sends.insert((sender_id, client_message_id), send);
            }
        }
        Ok(())
    }

    fn chat_to_fill(&mut self, chat_id: ChatId) -> Result<&mut ChatState, StoreError> {
        let missing = || StoreError::unavailable(format!("`{chat_id}` must be imported before its contents"));
        self.chats.get_mut(&chat_id).ok_or_else(missing)
    }
}

fn members(chat_id: ChatId, state: &ChatState) -> impl Iterator<Item = Moved> {
    state.members.values().map(move |member| {
        // Missing watermarks read as 0 everywhere.
        let delivery_state = state.delivery_states.get(&member.user_id).copied().unwrap_or_default();
        Moved::Member { chat_id, member: member.clone(), delivery_state }
    })
}

fn sends(chat_id: ChatId, state: &ChatState) -> impl Iterator<Item = Moved> {
    state.sends.iter().map(move |((sender_id, client_message_id), send)| {
        let (sender_id, client_message_id) = (*sender_id, *client_message_id);
        let CommittedSend { receipt, fingerprint } = send.clone();
        Moved::Send(ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint })
    })
}

fn headless(chat_id: ChatId) -> StoreError {
    StoreError::Corrupt { table: "heads", source: format!("`{chat_id}` has no head row").into() }
}
