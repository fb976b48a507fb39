use async_trait::async_trait;
use domain::{RefreshAttempt, RefreshOutcome, Session, SessionId, SpentToken, Timestamp, TokenChain, UserId};
use ports::{SessionStore, StoreError};

use crate::DynamoStore;
use crate::db::{self, PartitionQuery};
use crate::devices::{device_key, prolong, session_of, sign_in, sign_out};
use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, bytes, end, item, text};
use crate::schema::Table;
use crate::write::{Condition, Write};

#[async_trait]
impl SessionStore for DynamoStore {
    async fn create(&self, session: Session) -> Result<Vec<SessionId>, StoreError> {
        let session = &session;
        let device = &device_key(session.user_id, session.device_id);
        db::undisturbed(|| async move {
            let item = self.db().get(device).await?;
            let earlier = item.as_ref().map(session_of).transpose()?.flatten();
            if earlier == Some(session.session_id) {
                // An earlier attempt of this call has succeeded, and its answer was lost.
                return Ok(Some(vec![]));
            }
            let writes = || {
                let signed_in = sign_in(device.clone(), earlier, session.session_id, session.expires_at);
                let created = Write::create(session_key(session.session_id), session_item(session));
                let ended = earlier.map(|session_id| Write::delete(session_key(session_id)));
                [signed_in, created].into_iter().chain(ended).collect()
            };
            Ok(self.db().transact(writes).await?.is_committed().then(|| earlier.into_iter().collect()))
        })
        .await
    }

    async fn session(&self, session_id: SessionId, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let session = self.stored_session(session_id).await?;
        Ok(session.filter(|session| session.expires_at > now))
    }

    async fn sessions(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        let devices = self.db().query(&PartitionQuery::partition(Table::PushDevices, user_id), usize::MAX).await?;
        let mut keys = vec![];
        for device in &devices {
            keys.extend(session_of(device)?.map(session_key));
        }
        let items = self.db().get_many(&keys).await?;
        let sessions: Result<Vec<_>, _> = items.iter().flatten().map(read_session).collect();
        let mut sessions: Vec<_> = sessions?.into_iter().filter(|session| session.expires_at > now).collect();
        sessions.sort_by_key(|session| (session.created_at, session.session_id));
        Ok(sessions)
    }

    async fn refresh(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, StoreError> {
        let attempt = &attempt;
        db::undisturbed(|| async move {
            let Some(before) = self.stored_session(session_id).await? else { return Ok(Some(None)) };
            let mut session = before.clone();
            let outcome = session.refresh(attempt);
            let device = device_key(session.user_id, session.device_id);
            // A rotation changes the current token, so this condition ensures that the session is as it was read.
            let unchanged = || Condition::Equals("current_token", bytes(&before.current));
            let key = || session_key(session_id);
            let committed = match outcome {
                RefreshOutcome::Refused => true,
                RefreshOutcome::Rotated => {
                    let writes = || {
                        let rotated = Write::put(key(), session_item(&session)).when(unchanged());
                        vec![rotated, prolong(device.clone(), session_id, session.expires_at)]
                    };
                    self.db().transact(writes).await?.is_committed()
                }
                RefreshOutcome::Reused => {
                    let writes = || vec![Write::delete(key()).when(unchanged()), sign_out(device.clone(), session_id)];
                    self.db().transact(writes).await?.is_committed()
                }
            };
            Ok(committed.then_some(Some((session, outcome))))
        })
        .await
    }

    async fn revoke(&self, user_id: UserId, session_ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        let mut revoked = vec![];
        for session_id in session_ids {
            if self.end(user_id, *session_id).await? {
                revoked.push(*session_id);
            }
        }
        Ok(revoked)
    }
}

impl DynamoStore {
    async fn stored_session(&self, session_id: SessionId) -> Result<Option<Session>, StoreError> {
        self.db().get(&session_key(session_id)).await?.map(|item| read_session(&item)).transpose()
    }

    /// Ends a session, if it exists and belongs to the user, and deletes its device.
    async fn end(&self, user_id: UserId, session_id: SessionId) -> Result<bool, StoreError> {
        db::undisturbed(|| async {
            let session = self.stored_session(session_id).await?;
            let Some(session) = session.filter(|session| session.user_id == user_id) else { return Ok(Some(false)) };
            let device = device_key(user_id, session.device_id);
            let writes =
                || vec![Write::delete(session_key(session_id)).if_there(), sign_out(device.clone(), session_id)];
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }
}

pub(crate) fn session_key(session_id: SessionId) -> ItemKey {
    ItemKey::one(Table::Sessions, session_id)
}

pub(crate) fn session_item(session: &Session) -> DynamoItem {
    let spent = session.spent.as_ref();
    let overtaken: Vec<u8> = session.overtaken.iter().flat_map(chain_bytes).collect();
    let [expires_at, ttl] = end(Some(session.expires_at));
    item([
        ("user_id", Some(text(session.user_id))),
        ("device_id", Some(text(session.device_id))),
        ("created_at", Some(text(session.created_at))),
        ("last_active_at", Some(text(session.last_active_at))),
        ("current_token", Some(bytes(&session.current))),
        ("spent_token", spent.map(|spent| bytes(&spent.digest))),
        ("spent_at", spent.map(|spent| text(spent.spent_at))),
        ("spent_forgiven", spent.map(|spent| text(spent.forgiven))),
        ("overtaken_tokens", (!overtaken.is_empty()).then(|| bytes(&overtaken))),
        expires_at,
        ttl,
    ])
}

pub(crate) fn read_session(item: &DynamoItem) -> Result<Session, StoreError> {
    let row = ItemReader { table: Table::Sessions, item };
    let spent = if row.has("spent_token") {
        Some(SpentToken {
            digest: row.array("spent_token")?,
            spent_at: row.parsed("spent_at")?,
            forgiven: row.parsed("spent_forgiven")?,
        })
    } else {
        None
    };
    let overtaken = if row.has("overtaken_tokens") { row.bytes("overtaken_tokens")? } else { &[] };
    let (overtaken, []) = overtaken.as_chunks::<CHAIN_BYTES>() else {
        return Err(row.unreadable("attribute `overtaken_tokens` does not contain whole chains"));
    };
    Ok(Session {
        session_id: row.parsed("session_id")?,
        user_id: row.parsed("user_id")?,
        device_id: row.parsed("device_id")?,
        created_at: row.parsed("created_at")?,
        last_active_at: row.parsed("last_active_at")?,
        expires_at: row.parsed(EXPIRES_AT)?,
        current: row.array("current_token")?,
        spent,
        overtaken: overtaken.iter().map(read_chain).collect(),
    })
}

/// Bytes of a chain of tokens: the current one, and the one before it with its time and state.
const CHAIN_BYTES: usize = 32 + 32 + 8 + 1;
/// The states of the token before the current one.
const ABSENT: u8 = 0;
const SPENT: u8 = 1;
const FORGIVEN: u8 = 2;

fn chain_bytes(chain: &TokenChain) -> Vec<u8> {
    let (digest, spent_at, state) = match &chain.spent {
        None => ([0; 32], Timestamp::default(), ABSENT),
        Some(spent) => (spent.digest, spent.spent_at, if spent.forgiven { FORGIVEN } else { SPENT }),
    };
    [&chain.current[..], &digest, &spent_at.as_millis().to_be_bytes(), &[state]].concat()
}

fn read_chain(bytes: &[u8; CHAIN_BYTES]) -> TokenChain {
    fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&bytes[at..at + N]);
        part
    }
    let [state] = part(bytes, 72);
    let spent_at = Timestamp::from_millis(u64::from_be_bytes(part(bytes, 64)));
    let spent = SpentToken { digest: part(bytes, 32), spent_at, forgiven: state == FORGIVEN };
    TokenChain { current: part(bytes, 0), spent: (state != ABSENT).then_some(spent) }
}
