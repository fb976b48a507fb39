use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::{CodeAttempt, CodeDevice, CodeDigest, OneTimeCode, PendingCode, Timestamp};
use ports::{CodeStore, PhoneKey, StoreError};

use crate::DynamoStore;
use crate::db;
use crate::item::{DynamoItem, ItemKey, ItemReader, bytes, hex, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::{Condition, Write};

#[async_trait]
impl CodeStore for DynamoStore {
    async fn issue(&self, phone: PhoneKey, issued: PendingCode) -> Result<(), StoreError> {
        self.change_code(phone, |code| code.issue(issued.clone())).await
    }

    async fn attempt(
        &self,
        phone: PhoneKey,
        digest: CodeDigest,
        device: CodeDevice,
        now: Timestamp,
    ) -> Result<CodeAttempt, StoreError> {
        let matches = |stored: &CodeDigest| verify_slices_are_equal(stored, &digest).is_ok();
        self.change_code(phone, |code| code.attempt(matches, device, now)).await
    }
}

impl DynamoStore {
    /// Changes the code of a phone atomically.
    async fn change_code<T>(&self, phone: PhoneKey, change: impl Fn(&mut OneTimeCode) -> T) -> Result<T, StoreError> {
        let (key, change) = (&code_key(phone), &change);
        db::undisturbed(|| async move {
            let (before, version) = match self.db().get(key).await? {
                None => (OneTimeCode::default(), None),
                Some(item) => read_code(&item).map(|(code, version)| (code, Some(version)))?,
            };
            let mut code = before.clone();
            let answer = change(&mut code);
            if code == before {
                return Ok(Some(answer));
            }
            let writes = || {
                let item = code_item(&code, version.map_or(1, |version| version + 1), self.clock().now());
                vec![Write::put(key.clone(), item).when(Condition::is("version", version.map(number)))]
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(answer))
        })
        .await
    }
}

fn code_key(phone: PhoneKey) -> ItemKey {
    ItemKey::one(Table::OneTimeCodes, hex(&phone))
}

/// An obsolete code is left to expire by TTL from `now` on. If it were deleted at once, the next code would start with
/// the same version, and a slow attempt at this code would count there.
fn code_item(code: &OneTimeCode, version: u64, now: Timestamp) -> DynamoItem {
    let pending = code.pending.as_ref();
    item([
        ("digest", pending.map(|pending| bytes(&pending.digest))),
        ("pending_until", pending.map(|pending| text(pending.expires_at))),
        ("tries_left", pending.map(|pending| number(pending.tries_left.into()))),
        ("locked_until", code.locked_until.map(text)),
        ("version", Some(number(version))),
        (TTL, Some(ttl(code.forgettable_at().max(now)))),
    ])
}

pub(crate) fn read_code(item: &DynamoItem) -> Result<(OneTimeCode, u64), StoreError> {
    let row = ItemReader { table: Table::OneTimeCodes, item };
    let pending = if row.has("digest") {
        Some(PendingCode {
            digest: row.array("digest")?,
            expires_at: row.parsed("pending_until")?,
            tries_left: row.count("tries_left")?,
        })
    } else {
        None
    };
    Ok((OneTimeCode { pending, locked_until: row.maybe_parsed("locked_until")? }, row.number("version")?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engines::{Fault, When};
    use ports::{Clock, SystemClock};

    use super::*;
    use crate::testing::DynamoServer;

    #[tokio::test]
    async fn a_right_code_whose_answer_was_lost_is_right() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let expires_at = SystemClock.now() + Duration::from_secs(300);
        store.issue([1; 32], PendingCode { digest: [2; 32], expires_at, tries_left: 5 }).await.unwrap();
        // One for the read, one for the write.
        server.proxy.fail(Fault::Cut, When::After, 2);
        let attempt = store.attempt([1; 32], [2; 32], CodeDevice::Unknown, SystemClock.now()).await.unwrap();
        assert_eq!((attempt, server.proxy.faults_left()), (CodeAttempt::Correct, 0));
    }
}
