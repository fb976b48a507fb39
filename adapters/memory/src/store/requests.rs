use async_trait::async_trait;
use domain::Timestamp;
use domain::limits::REQUEST_KEY_RETENTION;
use ports::{Begun, RequestKey, RequestStore, StoreError, StoredResponse};
use ulid::Ulid;

use super::MemoryStore;

/// The record of a request with an idempotency key.
#[derive(Clone)]
pub(super) struct IdempotencyEntry {
    fingerprint: [u8; 32],
    reserved: Ulid,
    begun_at: Timestamp,
    response: Option<StoredResponse>,
}

#[async_trait]
impl RequestStore for MemoryStore {
    async fn begin(
        &self,
        key: RequestKey,
        fingerprint: [u8; 32],
        reserve: Ulid,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        Ok(self.transaction(|state| {
            let remembered = state.requests.get(&key).filter(|request| now < request.begun_at + REQUEST_KEY_RETENTION);
            match remembered {
                Some(request) if request.fingerprint != fingerprint => Begun::Mismatch,
                Some(IdempotencyEntry { response: Some(response), .. }) => Begun::Replay(response.clone()),
                Some(request) => Begun::Run { reserved: request.reserved, resumed: true },
                None => {
                    let request = IdempotencyEntry { fingerprint, reserved: reserve, begun_at: now, response: None };
                    state.requests.insert(key, request);
                    Begun::Run { reserved: reserve, resumed: false }
                }
            }
        }))
    }

    async fn finish(&self, key: RequestKey, response: StoredResponse) -> Result<(), StoreError> {
        self.transaction(|state| {
            if let Some(request) = state.requests.get_mut(&key) {
                request.response = Some(response);
            }
        });
        Ok(())
    }
}
