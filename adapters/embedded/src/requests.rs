use async_trait::async_trait;
use domain::Timestamp;
use domain::limits::REQUEST_KEY_RETENTION;
use ports::{Begun, RequestKey, RequestStore, StoreError, StoredResponse};
use ulid::Ulid;

use crate::EmbeddedStore;
use crate::keys::{self, Expiring};
use crate::records::IdempotentRequest;
use crate::tables::Table;

#[async_trait]
impl RequestStore for EmbeddedStore {
    async fn begin(
        &self,
        key: RequestKey,
        fingerprint: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        self.write(move |tx| {
            let row_key = keys::request(key);
            let known = tx.get::<IdempotentRequest>(Table::Requests, &row_key)?;
            match known.filter(|request| now.since(request.begun_at) < REQUEST_KEY_RETENTION) {
                Some(request) if request.fingerprint != fingerprint => Ok(Begun::Mismatch),
                Some(IdempotentRequest { response: Some(response), .. }) => Ok(Begun::Replay(response)),
                Some(request) => Ok(Begun::Run { reserved: request.reserved, resumed: true }),
                None => {
                    let request = IdempotentRequest { fingerprint, reserved: reserve, begun_at: now, response: None };
                    tx.put(Table::Requests, &row_key, &request);
                    tx.expire(now + REQUEST_KEY_RETENTION, Expiring::Request(key));
                    Ok(Begun::Run { reserved: reserve, resumed: false })
                }
            }
        })
        .await
    }

    async fn finish(&self, key: RequestKey, response: StoredResponse) -> Result<(), StoreError> {
        self.write(move |tx| {
            let row_key = keys::request(key);
            // If the request has been purged meanwhile, there is nothing to store the answer for.
            if let Some(request) = tx.get::<IdempotentRequest>(Table::Requests, &row_key)? {
                tx.put(Table::Requests, &row_key, &IdempotentRequest { response: Some(response), ..request });
            }
            Ok(())
        })
        .await
    }
}
