use std::fmt::Display;
use std::ops::Bound;
use std::str::FromStr;

use async_trait::async_trait;
use domain::{
    ChatId, ChatType, ClientMessageId, DirectPair, Event, EventBody, Message, MessageUpdate, Sequence, SessionId,
    UserId,
};
use ports::{
    AUDIT_MEMBERS_MAX, AuditLog, AuditPage, AuditSource, AuditedChatRows, AuditedChatState, AuditedRecord, AuditedRow,
    ConsumerOffset, End, IndexedLocation, ListingRows, ListingState, MemberRows, MessageRows, PageBookmark, PairRows,
    Position, ReactionCounts, SendKeyRows, SentEntry, StoreError, StoredEntry, UpdateRows, count_reactions,
};

use super::{ChatState, MemoryStore, MemoryStoreState};

/// Nominal limit: the rows of this store have no size limit except those of the domain.
const ROW_BYTES_MAX: usize = 400 * 1024;

/// A valid row: rows of this store are never encoded.
fn sound<T>(table: &'static str, key: impl Display, row: T) -> AuditedRow<T> {
    AuditedRow { table, key: key.to_string(), bytes: size_of::<T>(), end: End::Lasting, row: Ok(row) }
}

/// Splits a bookmark into the words of its key; the next page starts after that key.
fn start_after<const N: usize>(after: Option<&PageBookmark>) -> Result<Option<[&str; N]>, StoreError> {
    let Some(PageBookmark(text)) = after else { return Ok(None) };
    let words: Vec<&str> = text.split(' ').collect();
    words.try_into().map(Some).map_err(|_| strange(text))
}

fn parse<T: FromStr>(word: &str) -> Result<T, StoreError> {
    word.parse().map_err(|_| strange(word))
}

fn strange(text: &str) -> StoreError {
    StoreError::unavailable(format!("`{text}` is no bookmark of this store"))
}

fn from<T>(after: Option<T>) -> (Bound<T>, Bound<T>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// A page of rows. A full page has a bookmark for the next one.
fn page<T>(rows: Vec<(String, AuditedRow<T>)>, count: usize) -> AuditPage<T> {
    let next = (rows.len() == count).then(|| rows.last().map(|(key, _)| PageBookmark(key.clone()))).flatten();
    AuditPage { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
}

#[async_trait]
impl AuditSource for MemoryStore {
    async fn size(&self) -> Result<u64, StoreError> {
        Ok(self.transaction(|state| {
            let entries = |chat: &ChatState| chat.messages.len() + chat.updates.len();
            let of_chat = |chat: &ChatState| 2 + 3 * chat.members.len() + entries(chat) + chat.sends.len();
            let of_chats: usize = state.chats.values().map(of_chat).sum();
            (of_chats + state.direct_chats.len() + state.users.len() + state.sessions.len() + state.log.len()) as u64
        }))
    }

    fn row_bytes_max(&self) -> usize {
        ROW_BYTES_MAX
    }

    async fn chats(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ChatId>, StoreError> {
        let after: Option<ChatId> = start_after::<1>(after)?.map(|[chat_id]| parse(chat_id)).transpose()?;
        Ok(self.transaction(|state| {
            let chats = state.chats.range(from(after)).take(count);
            page(chats.map(|(chat_id, _)| (chat_id.to_string(), sound("chats", chat_id, *chat_id))).collect(), count)
        }))
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Option<AuditedChatRows>, StoreError> {
        Ok(self.transaction(|state| Some(state.chat_rows(chat_id, state.chats.get(&chat_id)?))))
    }

    async fn messages(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<MessageRows>, StoreError> {
        Ok(self.transaction(|state| {
            let messages = state.chats.get(&chat_id).into_iter().flat_map(|chat| chat.messages.range(from..));
            messages.take(count).map(|(sequence, message)| state.message_rows(chat_id, *sequence, message)).collect()
        }))
    }

    async fn updates(&self, chat_id: ChatId, from: Sequence, count: usize) -> Result<Vec<UpdateRows>, StoreError> {
        Ok(self.transaction(|state| {
            let Some(chat) = state.chats.get(&chat_id) else { return vec![] };
            let updates = chat.updates.range(from..).take(count);
            updates.map(|(sequence, update)| chat.update_rows(*sequence, update)).collect()
        }))
    }

    async fn listings(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<ListingRows>, StoreError> {
        let after: Option<(UserId, ChatId)> = start_after::<2>(after)?
            .map(|[user_id, chat_id]| Ok::<_, StoreError>((parse(user_id)?, parse(chat_id)?)))
            .transpose()?;
        Ok(self.transaction(|state| {
            let users =
                state.memberships.range(after.map(|(user_id, _)| user_id).unwrap_or(UserId::from_bytes([0; 16]))..);
            let all = users.flat_map(|(user_id, chats)| chats.iter().map(|chat_id| (*user_id, *chat_id)));
            let rows =
                all.filter(|key| after.is_none_or(|after| *key > after)).take(count).map(|(user_id, chat_id)| {
                    let is_member = state.chats.get(&chat_id).is_some_and(|chat| chat.members.contains_key(&user_id));
                    let key = format!("{user_id} {chat_id}");
                    (key.clone(), sound("memberships", key, ListingRows { user_id, chat_id, is_member }))
                });
            page(rows.collect(), count)
        }))
    }

    async fn pairs(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<PairRows>, StoreError> {
        let after = match start_after::<2>(after)? {
            Some([one, other]) => Some(DirectPair::new(parse(one)?, parse(other)?).ok_or_else(|| strange(one))?),
            None => None,
        };
        Ok(self.transaction(|state| {
            let rows = state.direct_chats.range(from(after)).take(count).map(|(pair, chat_id)| {
                let chat = state.chats.get(chat_id);
                let [one, other] = pair.users();
                let key = format!("{one} {other}");
                let rows = PairRows {
                    pair: *pair,
                    chat_id: *chat_id,
                    chat_type: chat.map(|chat| chat.chat.chat_type),
                    members: chat.into_iter().flat_map(|chat| chat.members.keys().copied()).take(3).collect(),
                };
                (key.clone(), sound("direct_chats", key, rows))
            });
            page(rows.collect(), count)
        }))
    }

    async fn send_keys(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<SendKeyRows>, StoreError> {
        type AuditedSendKey = (ChatId, UserId, ClientMessageId);
        let after: Option<AuditedSendKey> = start_after::<3>(after)?
            .map(|[chat, user, send]| Ok::<_, StoreError>((parse(chat)?, parse(user)?, parse(send)?)))
            .transpose()?;
        Ok(self.transaction(|state| {
            let first = after.map(|(chat_id, ..)| chat_id).unwrap_or(ChatId::from_bytes([0; 16]));
            let chats = state.chats.range(first..);
            let all = chats.flat_map(|(chat_id, chat)| chat.sends.iter().map(move |send| (*chat_id, chat, send)));
            let unseen = all.filter(|(chat_id, _, ((user_id, send), _))| {
                after.is_none_or(|after| (*chat_id, *user_id, *send) > after)
            });
            let rows = unseen.take(count).map(|(chat_id, chat, ((sender_id, client_message_id), send))| {
                let key = format!("{chat_id} {sender_id} {client_message_id}");
                let rows = SendKeyRows {
                    chat_id,
                    sender_id: *sender_id,
                    client_message_id: *client_message_id,
                    receipt: send.receipt,
                    entry: chat.sent_entry(send.receipt.sequence),
                    head: chat.head.as_ref().map(|head| head.sequence),
                };
                (key.clone(), sound("send_keys", key, rows))
            });
            page(rows.collect(), count)
        }))
    }

    async fn others(&self, after: Option<&PageBookmark>, count: usize) -> Result<AuditPage<()>, StoreError> {
        let after: Option<SessionId> = start_after::<1>(after)?.map(|[session_id]| parse(session_id)).transpose()?;
        Ok(self.transaction(|state| {
            let rows = state.sessions.range(from(after)).take(count).map(|(session_id, _)| {
                (session_id.to_string(), AuditedRow { end: End::Timed, ..sound("sessions", session_id, ()) })
            });
            page(rows.collect(), count)
        }))
    }

    async fn stored(&self, locations: &[(ChatId, Sequence)]) -> Result<Vec<Option<StoredEntry>>, StoreError> {
        let stored = |state: &MemoryStoreState, chat_id, sequence| {
            let chat = state.chats.get(chat_id)?;
            let message = chat.messages.get(sequence).map(StoredEntry::from);
            message.or_else(|| chat.updates.get(sequence).map(StoredEntry::from))
        };
        Ok(self.transaction(|state| {
            locations.iter().map(|(chat_id, sequence)| stored(state, chat_id, sequence)).collect()
        }))
    }

    async fn standing(&self, chat_ids: &[ChatId]) -> Result<Vec<AuditedChatState>, StoreError> {
        let standing = |state: &MemoryStoreState, chat_id| {
            let chat = state.chats.get(chat_id);
            let head = chat.and_then(|chat| chat.head.as_ref()).map(|head| head.sequence);
            AuditedChatState { exists: chat.is_some(), head }
        };
        Ok(self.transaction(|state| chat_ids.iter().map(|chat_id| standing(state, chat_id)).collect()))
    }

    async fn leaving(&self, chat_id: ChatId) -> Result<Vec<Sequence>, StoreError> {
        Ok(self.transaction(|state| {
            let waiting = state.outbox.as_ref().and_then(|outbox| outbox.chats.get(&chat_id));
            let purges = waiting.into_iter().flat_map(|of_chat| of_chat.changes.values());
            purges.flat_map(|event| expired(event)).collect()
        }))
    }
}

fn expired(event: &Event) -> Vec<Sequence> {
    match &event.body {
        EventBody::MessagesExpired { sequences, .. } => sequences.clone(),
        _ => vec![],
    }
}

impl MemoryStoreState {
    fn chat_rows(&self, chat_id: ChatId, state: &ChatState) -> AuditedChatRows {
        let members = state.members.iter().take(AUDIT_MEMBERS_MAX).map(|(user_id, member)| {
            let is_listed = self.memberships.get(user_id).is_some_and(|chats| chats.contains(&chat_id));
            let key = format!("{chat_id} {user_id}");
            MemberRows {
                user_id: *user_id,
                listing: if is_listed { ListingState::Same } else { ListingState::Missing },
                watermarks: state.delivery_states.get(user_id).map(|state| sound("watermarks", &key, state.watermarks)),
                member: sound("members", key, member.clone()),
            }
        });
        let pair = match state.members.keys().collect::<Vec<_>>()[..] {
            [one, other] if state.chat.chat_type == ChatType::Direct => DirectPair::new(*one, *other),
            _ => None,
        };
        let waiting = self.outbox.as_ref().and_then(|outbox| outbox.chats.get(&chat_id));
        let waiting = waiting
            .into_iter()
            .flat_map(|of_chat| of_chat.changes.values().map(|event| event.event_time).chain(of_chat.dirty_since));
        AuditedChatRows {
            members: members.collect(),
            pair_leads_to: pair.and_then(|pair| self.direct_chats.get(&pair).copied()),
            head: state.head.clone().map(|head| sound("heads", chat_id, head)),
            waiting_since: waiting.min(),
            chat: sound("chats", chat_id, state.chat.clone()),
        }
    }

    fn message_rows(&self, chat_id: ChatId, sequence: Sequence, message: &Message) -> MessageRows {
        let place = self.locations.get(&message.message_id);
        let chat = self.chats.get(&chat_id);
        let send = chat.and_then(|chat| chat.sends.get(&(message.sender_id, message.client_message_id)));
        let mut reactions = ReactionCounts::new();
        let of_members = chat.into_iter().flat_map(|chat| &chat.reactions).filter(|((of, _), _)| *of == sequence);
        of_members.for_each(|(_, own)| count_reactions(&mut reactions, own.clone()));
        let key = format!("{chat_id} {sequence}");
        let end = if message.expires_at.is_some() { End::Timed } else { End::Lasting };
        MessageRows {
            sequence,
            id_leads_to: place
                .map_or(IndexedLocation::Nowhere, |(chat_id, sequence)| IndexedLocation::To(*chat_id, *sequence)),
            send_key: send.map(|send| send.receipt),
            is_update: chat.is_some_and(|chat| chat.updates.contains_key(&sequence)),
            reactions: Some(reactions),
            message: AuditedRow { end, ..sound("messages", key, message.clone()) },
        }
    }
}

impl ChatState {
    fn sent_entry(&self, sequence: Sequence) -> Option<SentEntry> {
        let message = self.messages.get(&sequence).map(SentEntry::from);
        message.or_else(|| self.updates.get(&sequence).map(SentEntry::from))
    }

    fn update_rows(&self, sequence: Sequence, update: &MessageUpdate) -> UpdateRows {
        let send = self.sends.get(&(update.user_id, update.client_message_id));
        let end = if update.expires_at.is_some() { End::Timed } else { End::Lasting };
        UpdateRows {
            sequence,
            message: self.messages.get(&update.target).cloned(),
            send_key: send.map(|send| send.receipt),
            update: AuditedRow { end, ..sound("updates", format!("{} {sequence}", update.chat_id), update.clone()) },
        }
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn records(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<AuditedRecord>, StoreError> {
        let after = start_after::<1>(after)?.map(|[position]| parse(position).map(Position)).transpose()?;
        Ok(self.transaction(|state| {
            let records = state.log.range(from(after)).take(count);
            let rows = records.map(|(position, event)| {
                (position.0.to_string(), sound("log", position.0, AuditedRecord::of(*position, event)))
            });
            page(rows.collect(), count)
        }))
    }

    fn has_each_once(&self) -> bool {
        true
    }

    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError> {
        Ok(self.transaction(|state| {
            let place = |(group, next): (&String, &Position)| ConsumerOffset {
                group: group.clone(),
                part: String::new(),
                next: next.0,
                end: state.log_end.0,
            };
            state.consumed.iter().map(place).collect()
        }))
    }
}
