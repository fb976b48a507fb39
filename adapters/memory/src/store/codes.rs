use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::{CodeAttempt, CodeDevice, CodeDigest, PendingCode, Timestamp};
use ports::{CodeStore, PhoneKey, StoreError};

use super::MemoryStore;

#[async_trait]
impl CodeStore for MemoryStore {
    async fn issue(&self, phone: PhoneKey, code: PendingCode) -> Result<(), StoreError> {
        self.transaction(|state| state.codes.entry(phone).or_default().issue(code));
        Ok(())
    }

    async fn attempt(
        &self,
        phone: PhoneKey,
        digest: CodeDigest,
        device: CodeDevice,
        now: Timestamp,
    ) -> Result<CodeAttempt, StoreError> {
        let matches = |pending: &CodeDigest| verify_slices_are_equal(pending, &digest).is_ok();
        Ok(self.transaction(|state| match state.codes.get_mut(&phone) {
            Some(code) => code.attempt(matches, device, now),
            None => CodeAttempt::Wrong,
        }))
    }
}
