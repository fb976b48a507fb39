//! Exposes every record of the event topics to audits. It reads partitions by offset, joins no consumer group, and
//! commits no offsets.
//!
//! An audit makes two passes. The first reads up to the end offsets recorded at the start; the second reads the records
//! appended since. The second pass is needed because a record that explains an earlier one may land in a partition that
//! was already read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use domain::EventKind;
use ports::{AuditLog, AuditPage, AuditedRecord, AuditedRow, Clock, ConsumerOffset, End, PageBookmark, StoreError};
use rdkafka::Message;

use crate::client::KafkaOpenError;
use crate::config::Config;
use crate::location::{Partition, RecordLocation};
use crate::log::KafkaLog;
use crate::record::read;
use crate::topics::Topic;

/// Group id of the audit client. The group has no members and commits no offsets.
const AUDIT_GROUP: &str = "audit";
/// Number of passes over the log.
const ROUNDS: u32 = 2;

/// Exposes the log and the committed offsets of some consumer groups to audits.
pub struct KafkaAudit {
    log: KafkaLog,
    groups: Vec<String>,
}

impl KafkaAudit {
    /// Opens the topics that `config` names and the given consumer groups.
    pub fn open(config: Config, clock: Arc<dyn Clock>, groups: Vec<String>) -> Result<Self, KafkaOpenError> {
        Ok(Self { log: KafkaLog::reading(config, clock)?, groups })
    }
}

/// Progress of an audit, encoded in its bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AuditPass {
    number: u32,
    /// Per partition: the next offset to read, and the offset at which to stop.
    partitions: BTreeMap<Partition, (i64, i64)>,
}

#[async_trait]
impl AuditLog for KafkaAudit {
    async fn records(
        &self,
        after: Option<&PageBookmark>,
        count: usize,
    ) -> Result<AuditPage<AuditedRecord>, StoreError> {
        let round = after.map(|PageBookmark(text)| text.parse::<AuditPass>()).transpose()?;
        let read = self.log.call(AUDIT_GROUP, move |offsets| {
            let mut round = match round {
                Some(round) => round,
                None => AuditPass { number: 1, partitions: offsets.bounds()? },
            };
            while round.unread().is_none() && round.number < ROUNDS {
                round.number += 1;
                for (partition, (_, end)) in offsets.bounds()? {
                    round.partitions.entry(partition).or_insert((0, 0)).1 = end;
                }
            }
            let Some((partition, from, end)) = round.unread() else {
                return Ok(AuditPage { rows: vec![], next: None });
            };
            let (mut rows, came_since) = (vec![], round.number > 1);
            let next = offsets.records(RecordLocation { partition, offset: from }, end, count, |record| {
                let location = RecordLocation { partition, offset: record.offset() };
                let event = read(partition.kind, record.key(), record.payload());
                rows.push(AuditedRow {
                    table: Topic::of(partition.kind).name(),
                    key: format!("partition {} offset {}", partition.number, record.offset()),
                    bytes: record.payload().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len),
                    end: End::Timed,
                    row: match event {
                        Ok(event) => Ok(AuditedRecord { came_since, ..AuditedRecord::of(location.position(), &event) }),
                        Err(reason) => Err(reason.to_string()),
                    },
                });
            })?;
            round.partitions.insert(partition, (next, end));
            Ok(AuditPage { rows, next: Some(PageBookmark(round.to_string())) })
        });
        read.await
    }

    fn has_each_once(&self) -> bool {
        false
    }

    async fn consumers(&self) -> Result<Vec<ConsumerOffset>, StoreError> {
        let mut offsets = vec![];
        for group in &self.groups {
            let found = self.log.call(group, |offsets| offsets.progress()).await?;
            offsets.extend(found.into_iter().map(|(partition, next, end)| ConsumerOffset {
                group: group.clone(),
                part: format!("partition {} of {}", partition.number, Topic::of(partition.kind).name()),
                next: u64::try_from(next).unwrap_or(0),
                end: u64::try_from(end).unwrap_or(0),
            }));
        }
        Ok(offsets)
    }
}

impl AuditPass {
    /// The first partition that is not yet read up to its stop offset.
    fn unread(&self) -> Option<(Partition, i64, i64)> {
        let mut partitions = self.partitions.iter();
        partitions.find(|(_, (next, end))| next < end).map(|(partition, (next, end))| (*partition, *next, *end))
    }
}

impl fmt::Display for AuditPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        for (Partition { kind, number }, (next, end)) in &self.partitions {
            let kind = match kind {
                EventKind::Message => 'm',
                EventKind::Member => 'u',
                EventKind::Chat => 'c',
            };
            write!(f, " {kind}{number}:{next}:{end}")?;
        }
        Ok(())
    }
}

impl FromStr for AuditPass {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let parse = || {
            let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
            let partition = |word: &str| {
                let kind = match word.get(..1)? {
                    "m" => EventKind::Message,
                    "u" => EventKind::Member,
                    "c" => EventKind::Chat,
                    _ => return None,
                };
                let mut numbers = word[1..].split(':');
                let mut number = || numbers.next();
                let partition = Partition { kind, number: number()?.parse().ok()? };
                Some((partition, (number()?.parse().ok()?, number()?.parse().ok()?)))
            };
            let partitions: Option<BTreeMap<_, _>> = rest.split_whitespace().map(partition).collect();
            Some(Self { number: number.parse().ok()?, partitions: partitions? })
        };
        parse().ok_or_else(|| StoreError::unavailable(format!("`{text}` is not a bookmark of this log")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_has_the_position_of_each_partition() {
        let at = |kind, number| Partition { kind, number };
        let partitions = BTreeMap::from([
            (at(EventKind::Message, 3), (7, 9)),
            (at(EventKind::Member, 0), (0, 0)),
            (at(EventKind::Chat, 11), (5, 5)),
        ]);
        let round = AuditPass { number: 1, partitions };
        assert_eq!(round.to_string().parse::<AuditPass>().unwrap(), round);
        assert_eq!(round.unread(), Some((at(EventKind::Message, 3), 7, 9)));
        for text in ["", "x", "1 m", "1 q0:1:2", "1 m0:1", "1 é"] {
            assert!(text.parse::<AuditPass>().is_err(), "{text}");
        }
    }
}
