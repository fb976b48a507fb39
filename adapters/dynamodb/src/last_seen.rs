use async_trait::async_trait;
use domain::{Timestamp, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{LastSeenStore, StoreError};

use crate::DynamoStore;
use crate::db::CONCURRENCY_MAX;
use crate::item::text;
use crate::users::{LAST_SEEN_AT, user_row};
use crate::write::{AttributeChange, Condition, Write};

#[async_trait]
impl LastSeenStore for DynamoStore {
    async fn update_last_seen(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError> {
        let sightings = users.iter().copied().map(|(user_id, at)| async move {
            let write = || {
                let changes = vec![AttributeChange::Set(LAST_SEEN_AT, Some(text(at)))];
                let later = Condition::UnsetOrBelow(LAST_SEEN_AT, text(at));
                Write::update(user_row(user_id), changes).if_there().when(later)
            };
            // The condition fails if the user does not exist or was seen later; both are fine.
            self.db().update(write).await.map(drop)
        });
        stream::iter(sightings).buffer_unordered(CONCURRENCY_MAX).try_collect().await
    }
}
