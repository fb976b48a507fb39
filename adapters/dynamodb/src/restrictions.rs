//! Restrictions of users, and the cache with which their checks need no request of their own.
//!
//! The commit of every send asks whether its sender is suspended. Each process caches the answers. A change gets the
//! next number of the feed, in the same transaction, and the feed lists the changed users by number. A process reads the
//! feed before it uses its cache, unless it has done so within the last second, and drops the listed users. That is one
//! request in a second, however many sends there are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{DeniedToken, RestrictionChange, Restrictions, Suspension, Timestamp, TooManyDeniedTokens, UserId};
use ports::{RestrictionStore, StoreError, lock};
use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::DynamoStore;
use crate::db::{self, Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, bytes, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::{Condition, Write};

/// How long a process uses its cache without reading the feed.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Limit of cached users. Most have no restrictions.
const USERS_MAX: usize = 100_000;
/// How long the feed keeps a change. A process that has not read the feed for half of it clears its cache.
const FEED_RETENTION: Duration = Duration::from_secs(3600);

/// Partition of the feed, by the number of the change.
const FEED: &str = "feed";
/// Partition and sort key of the item with the last number of the feed.
const HEAD: &str = "head";
/// Sort key of the restrictions of a user, in the partition of the user.
const STATE: &str = "state";
/// Bytes of a denied token: its digest, the time of its denial and its expiry.
const DENIED_BYTES: usize = 48;

/// The restrictions that this process has read.
pub(crate) struct RestrictionCache {
    users: Cache<UserId, Arc<Restrictions>>,
    feed: Mutex<FeedPosition>,
}

#[derive(Clone, Copy, Default)]
struct FeedPosition {
    /// The last number that was read.
    number: u64,
    /// When the last read of the feed began; absent before the first one.
    read_at: Option<Instant>,
    /// When this process last made a change. An earlier read of the feed does not count.
    changed_at: Option<Instant>,
}

impl FeedPosition {
    fn is_fresh(&self, now: Instant) -> bool {
        self.read_at > self.changed_at && self.read_at.is_some_and(|at| now.duration_since(at) < FRESH_FOR)
    }
}

impl Default for RestrictionCache {
    fn default() -> Self {
        Self { users: Cache::new(USERS_MAX), feed: Mutex::default() }
    }
}

impl RestrictionCache {
    fn position(&self) -> FeedPosition {
        *lock(&self.feed)
    }

    /// Drops the users of a page of the feed, which was read from `began` on and ends with `number`.
    fn advance(&self, changed: &[UserId], number: u64, began: Instant) {
        let mut feed = lock(&self.feed);
        for user_id in changed {
            self.users.remove(user_id);
        }
        feed.number = feed.number.max(number);
        feed.read_at = feed.read_at.max(Some(began));
    }

    /// Empties the cache, if it is too old to be updated, and continues after `number`.
    fn restart(&self, number: u64, began: Instant) {
        let mut feed = lock(&self.feed);
        self.users.clear();
        *feed = FeedPosition { number, read_at: Some(began), ..*feed };
    }

    /// Caches what was read at a position of the feed, unless the feed has moved on since.
    fn fill(&self, user_id: UserId, restrictions: Arc<Restrictions>, read_from: u64) {
        let feed = lock(&self.feed);
        if feed.number == read_from {
            self.users.insert(user_id, restrictions);
        }
    }

    /// Has the next lookup read the feed first, because this process has made a change.
    fn handle_change(&self) {
        lock(&self.feed).changed_at = Some(Instant::now());
    }
}

#[async_trait]
impl RestrictionStore for DynamoStore {
    async fn current_restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        self.stored_restrictions(user_id).await
    }

    async fn restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        self.cached_restrictions(user_id).await.map(|restrictions| (*restrictions).clone())
    }

    async fn restrict(
        &self,
        user_id: UserId,
        change: RestrictionChange,
        now: Timestamp,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, StoreError> {
        let change = &change;
        let decided = db::undisturbed(|| async move {
            // Every change moves the head, so this condition ensures that the restrictions are as they are read next.
            let head = self.feed_head().await?;
            let before = self.stored_restrictions(user_id).await?;
            let mut restrictions = before.clone();
            if let Err(refusal) = restrictions.apply(change, now) {
                return Ok(Some(Err(refusal)));
            }
            if restrictions == before {
                return Ok(Some(Ok(restrictions)));
            }
            let writes = || change_writes(user_id, &restrictions, head, now);
            Ok(self.db().transact(writes).await?.is_committed().then_some(Ok(restrictions)))
        })
        .await;
        // Also after a failure, which may hide a success.
        self.restriction_cache().handle_change();
        decided
    }
}

impl DynamoStore {
    /// Whether a user may not send.
    pub(crate) async fn is_suspended(&self, user_id: UserId) -> Result<bool, StoreError> {
        Ok(self.cached_restrictions(user_id).await?.suspension.is_some())
    }

    async fn cached_restrictions(&self, user_id: UserId) -> Result<Arc<Restrictions>, StoreError> {
        let cache = self.restriction_cache();
        self.follow_feed().await?;
        if let Some(restrictions) = cache.users.get(&user_id) {
            return Ok(restrictions);
        }
        let read_from = cache.position().number;
        let restrictions = Arc::new(self.stored_restrictions(user_id).await?);
        cache.fill(user_id, restrictions.clone(), read_from);
        Ok(restrictions)
    }

    /// Reads the feed, unless that was done within the last second. Concurrent calls may do so twice, which is harmless.
    async fn follow_feed(&self) -> Result<(), StoreError> {
        let (cache, began) = (self.restriction_cache(), Instant::now());
        let position = cache.position();
        let number = position.number;
        match position.read_at {
            Some(_) if position.is_fresh(began) => Ok(()),
            Some(at) if began.duration_since(at) < FEED_RETENTION / 2 => {
                let above = Bound::Above(text(feed_place(number)));
                let query =
                    PartitionQuery { bound: Some(above), ..PartitionQuery::partition(Table::Restrictions, FEED) };
                let items = self.db().query(&query, usize::MAX).await?;
                let changes: Vec<(u64, UserId)> = items.iter().map(read_change).collect::<Result<_, _>>()?;
                let users: Vec<UserId> = changes.iter().map(|(_, user_id)| *user_id).collect();
                cache.advance(&users, changes.last().map_or(number, |(number, _)| *number), began);
                Ok(())
            }
            _ => {
                cache.restart(self.feed_head().await?.unwrap_or(0), began);
                Ok(())
            }
        }
    }

    /// The number of the last change.
    async fn feed_head(&self) -> Result<Option<u64>, StoreError> {
        let head = self.db().get(&ItemKey::of(Table::Restrictions, HEAD, HEAD)).await?;
        head.map(|item| ItemReader { table: Table::Restrictions, item: &item }.number("number")).transpose()
    }

    async fn stored_restrictions(&self, user_id: UserId) -> Result<Restrictions, StoreError> {
        let stored = self.db().get(&state_key(user_id)).await?;
        stored.map(|item| read_state(&item)).transpose().map(Option::unwrap_or_default)
    }
}

/// Writes the restrictions of a user, and the change at the end of the feed.
fn change_writes(user_id: UserId, restrictions: &Restrictions, head: Option<u64>, now: Timestamp) -> Vec<Write> {
    let next = head.unwrap_or(0) + 1;
    let state = match *restrictions == Restrictions::default() {
        true => Write::delete(state_key(user_id)),
        false => Write::put(state_key(user_id), state_item(restrictions)),
    };
    let moved = Write::put(ItemKey::of(Table::Restrictions, HEAD, HEAD), item([("number", Some(number(next)))]));
    let change = item([("user_id", Some(text(user_id))), (TTL, Some(ttl(now + FEED_RETENTION)))]);
    vec![
        moved.when(Condition::is("number", head.map(number))),
        state,
        Write::create(ItemKey::of(Table::Restrictions, FEED, feed_place(next)), change),
    ]
}

/// The sort key of a change: its number in as many digits as the largest has, so that texts sort as numbers do.
fn feed_place(number: u64) -> String {
    format!("{number:020}")
}

fn read_change(item: &DynamoItem) -> Result<(u64, UserId), StoreError> {
    let row = ItemReader { table: Table::Restrictions, item };
    let number = row.text("place")?.parse().map_err(|_| row.unreadable("the place of a change is not a number"))?;
    Ok((number, row.parsed("user_id")?))
}

pub(crate) fn state_key(user_id: UserId) -> ItemKey {
    ItemKey::of(Table::Restrictions, user_id, STATE)
}

pub(crate) fn state_item(restrictions: &Restrictions) -> DynamoItem {
    let Restrictions { suspension, not_before, denied } = restrictions;
    let reason = suspension.as_ref().and_then(|suspension| suspension.reason.as_ref());
    let denied: Vec<u8> = denied.iter().flat_map(denied_bytes).collect();
    item([
        ("suspended_since", suspension.as_ref().map(|suspension| text(suspension.since))),
        ("suspension_reason", reason.map(|reason| text(reason.as_str()))),
        ("not_before", not_before.map(text)),
        ("denied_tokens", (!denied.is_empty()).then(|| bytes(&denied))),
    ])
}

/// The user and the restrictions of an item; `None` for items of the feed.
pub(crate) fn read_restrictions(item: &DynamoItem) -> Result<Option<(UserId, Restrictions)>, StoreError> {
    let row = ItemReader { table: Table::Restrictions, item };
    match row.text("list")? {
        FEED => read_change(item).map(|_| None),
        HEAD => row.number("number").map(|_| None),
        _ => Ok(Some((row.parsed("list")?, read_state(item)?))),
    }
}

fn read_state(item: &DynamoItem) -> Result<Restrictions, StoreError> {
    let row = ItemReader { table: Table::Restrictions, item };
    let suspension = match row.maybe_parsed("suspended_since")? {
        Some(since) => Some(Suspension { since, reason: row.maybe_made("suspension_reason")? }),
        None => None,
    };
    let denied = if row.has("denied_tokens") { row.bytes("denied_tokens")? } else { &[] };
    let (denied, []) = denied.as_chunks::<DENIED_BYTES>() else {
        return Err(row.unreadable("attribute `denied_tokens` does not contain whole tokens"));
    };
    let denied = denied.iter().map(read_denied).collect();
    Ok(Restrictions { suspension, not_before: row.maybe_parsed("not_before")?, denied })
}

fn denied_bytes(denied: &DeniedToken) -> Vec<u8> {
    let times = [denied.denied_at, denied.expires_at].map(|at| at.as_millis().to_be_bytes());
    [&denied.token_id[..], &times.concat()].concat()
}

fn read_denied(bytes: &[u8; DENIED_BYTES]) -> DeniedToken {
    let part = |at: usize| {
        let mut millis = [0; 8];
        millis.copy_from_slice(&bytes[at..at + 8]);
        Timestamp::from_millis(u64::from_be_bytes(millis))
    };
    let mut token_id = [0; 32];
    token_id.copy_from_slice(&bytes[..32]);
    DeniedToken { token_id, denied_at: part(32), expires_at: part(40) }
}

#[cfg(test)]
mod tests {
    use engines::{Fault, When};
    use ports::{AppendOutcome, Clock, MessageWriter, SendRefusal, SystemClock};

    use super::*;
    use crate::testing::{DynamoServer, chat, message};

    #[test]
    fn restrictions_are_read_as_they_were_written() {
        let mut restrictions = Restrictions::default();
        let now = Timestamp::from_millis(1_769_783_400_123);
        let reason = "spam".to_owned().try_into().ok();
        for change in [
            RestrictionChange::Suspend { reason },
            RestrictionChange::SignOut,
            RestrictionChange::DenyToken { token_id: [1; 32], lifetime: FRESH_FOR },
            RestrictionChange::DenyToken { token_id: [2; 32], lifetime: FEED_RETENTION },
        ] {
            restrictions.apply(&change, now).unwrap();
            let user_id = UserId::from_bytes([7; 16]);
            let mut stored = state_item(&restrictions);
            stored.extend(state_key(user_id).attributes());
            assert_eq!(read_restrictions(&stored).unwrap(), Some((user_id, restrictions.clone())));
        }
    }

    /// Sets when the cache last read the feed.
    fn read_feed_at(store: &DynamoStore, at: Instant) {
        lock(&store.restriction_cache().feed).read_at = Some(at);
    }

    #[tokio::test]
    async fn a_cached_user_costs_no_request_and_a_change_by_another_process_is_seen_after_a_second() {
        let server = DynamoServer::with_tables().await;
        // Each has a cache of its own, as processes have.
        let (api, ingest) = (server.store(), server.store());
        let (chat_id, sender_id) = chat(&ingest).await;
        assert!(!ingest.is_suspended(sender_id).await.unwrap());
        read_feed_at(&ingest, Instant::now() + FEED_RETENTION);
        server.proxy.fail(Fault::Cut, When::Before, usize::MAX);
        assert!(!ingest.is_suspended(sender_id).await.unwrap());
        server.proxy.heal();

        let suspend = RestrictionChange::Suspend { reason: None };
        api.restrict(sender_id, suspend, SystemClock.now()).await.unwrap().unwrap();
        assert!(api.is_suspended(sender_id).await.unwrap());
        let a_second_ago = || Instant::now().checked_sub(FRESH_FOR).unwrap();
        read_feed_at(&ingest, a_second_ago());
        let outcome = ingest.append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert_eq!(outcome, [AppendOutcome::Refused(SendRefusal::Suspended)]);

        api.restrict(sender_id, RestrictionChange::Resume, SystemClock.now()).await.unwrap().unwrap();
        read_feed_at(&ingest, a_second_ago());
        let outcome = ingest.append(vec![message(chat_id, sender_id)]).await.unwrap();
        assert!(matches!(outcome[..], [AppendOutcome::New(_)]), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_cache_that_is_older_than_the_feed_starts_again() {
        let server = DynamoServer::with_tables().await;
        let (api, ingest) = (server.store(), server.store());
        let user_id = UserId::from_bytes([7; 16]);
        assert!(!ingest.is_suspended(user_id).await.unwrap());
        let suspend = RestrictionChange::Suspend { reason: None };
        api.restrict(user_id, suspend, SystemClock.now()).await.unwrap().unwrap();
        // As if the feed had expired and the process had slept meanwhile.
        let change = ItemKey::of(Table::Restrictions, FEED, feed_place(1));
        api.db().transact(|| vec![Write::delete(change.clone())]).await.unwrap();
        lock(&ingest.restriction_cache().feed).read_at = None;
        assert!(ingest.is_suspended(user_id).await.unwrap());
    }
}
