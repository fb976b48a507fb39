use async_trait::async_trait;
use domain::Timestamp;
use ports::{
    AuditLog, AuditPage, AuditedRecord, AuditedRow, Clock, ConsumerOffset, End, LoggedChange, PageBookmark, Position,
    StoreError,
};

use crate::world::World;

/// The log of a fleet, with a sign of each update that expired before a relay could publish it. No real log has one, and
/// an audit reports the sequence of such an update as missing (`docs/reliability.md`).
pub(super) struct LogWithExpiredUpdates<'a> {
    pub(super) world: &'a World,
}

#[async_trait]
impl AuditLog for LogWithExpiredUpdates<'_> {
    async fn records(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<AuditedRecord>, StoreError> {
        let mut page = AuditLog::records(&*self.world.log, after, count).await?;
        if page.next.is_none() {
            let expired = self.world.checks.expired_updates(self.world.clock.now());
            page.rows.extend(expired.into_iter().map(|(chat_id, sequence)| AuditedRow {
                table: "log",
                key: format!("{chat_id} {sequence}"),
                bytes: 0,
                end: End::Timed,
                row: Ok(AuditedRecord {
                    position: Position(u64::MAX),
                    time: Timestamp::default(),
                    chat_id,
                    what: LoggedChange::Expired(vec![sequence]),
                    came_since: true,
                }),
            }));
        }
        Ok(page)
    }

    fn has_each_once(&self) -> bool {
        self.world.log.has_each_once()
    }

    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError> {
        AuditLog::consumers(&*self.world.log).await
    }
}
