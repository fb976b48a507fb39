use async_trait::async_trait;
use ports::{AuditLog, AuditPage, Audited, Bookmark, ConsumerPlace, End, LogRow, Position, Record, StoreError};

use super::MemoryLog;
use super::place::Lane;

#[async_trait]
impl AuditLog for MemoryLog {
    async fn records(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<LogRow>, StoreError> {
        let after = match after.map(|Bookmark(text)| text.parse().map(Position)).transpose() {
            Ok(after) => after,
            Err(error) => return Err(StoreError::unavailable(error)),
        };
        let state = self.shared.lock();
        let all = Lane::all().flat_map(|lane| state.records(lane, 0).collect::<Vec<_>>());
        let behind = all.filter(|record| after.is_none_or(|after| record.position > after));
        let audited = |Record { position, event }: Record| Audited {
            table: "log",
            key: position.0.to_string(),
            bytes: size_of::<LogRow>(),
            end: End::Timed,
            row: Ok(LogRow::of(position, &event)),
        };
        let rows: Vec<_> = behind.take(count).map(audited).collect();
        let next = rows.last().filter(|_| rows.len() == count).map(|last| Bookmark(last.key.clone()));
        Ok(AuditPage { rows, next })
    }

    fn has_each_once(&self) -> bool {
        false
    }

    async fn consumers(&self) -> Result<Vec<ConsumerPlace>, StoreError> {
        let state = self.shared.lock();
        let mut places = vec![];
        for (group, of_group) in &state.groups {
            for (lane, (next, end)) in of_group.committed().into_iter().zip(state.ends()).enumerate() {
                places.push(ConsumerPlace { group: group.clone(), part: format!("lane {lane}"), next, end });
            }
        }
        Ok(places)
    }
}
