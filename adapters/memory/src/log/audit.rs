use async_trait::async_trait;
use ports::{
    AuditLog, AuditPage, AuditedRecord, AuditedRow, ConsumerOffset, End, PageBookmark, Position, Record, StoreError,
};

use super::MemoryLog;
use super::place::LogLane;

#[async_trait]
impl AuditLog for MemoryLog {
    async fn records(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<AuditedRecord>, StoreError> {
        let after = match after.map(|PageBookmark(text)| text.parse().map(Position)).transpose() {
            Ok(after) => after,
            Err(error) => return Err(StoreError::unavailable(error)),
        };
        let state = self.shared.lock();
        let all = LogLane::all().flat_map(|lane| state.records(lane, 0).collect::<Vec<_>>());
        let behind = all.filter(|record| after.is_none_or(|after| record.position > after));
        let audited = |Record { position, event }: Record| AuditedRow {
            table: "log",
            key: position.0.to_string(),
            bytes: size_of::<AuditedRecord>(),
            end: End::Timed,
            row: Ok(AuditedRecord::of(position, &event)),
        };
        let rows: Vec<_> = behind.take(count).map(audited).collect();
        let next = rows.last().filter(|_| rows.len() == count).map(|last| PageBookmark(last.key.clone()));
        Ok(AuditPage { rows, next })
    }

    fn has_each_once(&self) -> bool {
        false
    }

    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError> {
        let state = self.shared.lock();
        let mut places = vec![];
        for (group, of_group) in &state.groups {
            for (lane, (next, end)) in of_group.committed().into_iter().zip(state.ends()).enumerate() {
                places.push(ConsumerOffset { group: group.clone(), part: format!("lane {lane}"), next, end });
            }
        }
        Ok(places)
    }
}
