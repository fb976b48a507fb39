use async_trait::async_trait;
use domain::Timestamp;
use domain::limits::REQUEST_KEY_RETENTION;
use ports::{Begun, RequestKey, RequestStore, StoreError, StoredResponse};
use ulid::Ulid;

use crate::DynamoStore;
use crate::db;
use crate::item::{DynamoItem, ItemKey, ItemReader, bytes, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::{AttributeChange, Condition, Write};

#[async_trait]
impl RequestStore for DynamoStore {
    async fn begin(
        &self,
        key: RequestKey,
        fingerprint: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        let key = &request_key(key);
        db::undisturbed(|| async move {
            let remembered = self.db().get(key).await?.map(|item| read_request(&item)).transpose()?;
            let begun_at = remembered.as_ref().map(|request| request.begun_at);
            match remembered.filter(|request| now < request.begun_at + REQUEST_KEY_RETENTION) {
                Some(request) if request.fingerprint != fingerprint => return Ok(Some(Begun::Mismatch)),
                Some(StoredRequest { response: Some(response), .. }) => return Ok(Some(Begun::Replay(response))),
                Some(request) => return Ok(Some(Begun::Run { reserved: request.reserved, resumed: true })),
                None => {}
            }
            let writes = || {
                let request = item([
                    ("fingerprint", Some(bytes(&fingerprint))),
                    ("reserved", Some(text(reserve))),
                    ("begun_at", Some(text(now))),
                    (TTL, Some(ttl(now + REQUEST_KEY_RETENTION))),
                ]);
                vec![Write::put(key.clone(), request).when(Condition::is("begun_at", begun_at.map(text)))]
            };
            let begun = self.db().transact(writes).await?.is_committed();
            Ok(begun.then_some(Begun::Run { reserved: reserve, resumed: false }))
        })
        .await
    }

    async fn finish(&self, key: RequestKey, response: StoredResponse) -> Result<(), StoreError> {
        let writes = || {
            let changes = vec![
                AttributeChange::Set("status", Some(number(response.status.into()))),
                AttributeChange::Set("body", Some(bytes(&response.body))),
            ];
            vec![Write::update(request_key(key), changes).if_there()]
        };
        // A request that expired meanwhile needs no stored response.
        self.db().transact(writes).await.map(drop)
    }
}

/// The stored state of a request.
pub(crate) struct StoredRequest {
    fingerprint: [u8; 32],
    reserved: Ulid,
    begun_at: Timestamp,
    response: Option<StoredResponse>,
}

fn request_key(key: RequestKey) -> ItemKey {
    ItemKey::of(Table::Requests, key.user_id, key.key)
}

pub(crate) fn read_request(item: &DynamoItem) -> Result<StoredRequest, StoreError> {
    let row = ItemReader { table: Table::Requests, item };
    let response = match row.maybe_number("status")? {
        None => None,
        Some(status) => Some(StoredResponse {
            status: status.try_into().map_err(|error| row.unreadable(error))?,
            body: row.bytes("body")?.to_vec(),
        }),
    };
    let reserved = Ulid::from_string(row.text("reserved")?).map_err(|error| row.unreadable(error.to_string()))?;
    Ok(StoredRequest { fingerprint: row.array("fingerprint")?, reserved, begun_at: row.parsed("begun_at")?, response })
}
