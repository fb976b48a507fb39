//! Every record of the topics of events, for whoever checks them. It reads partitions by offset, as no group, and commits
//! nothing.
//!
//! An audit goes round twice. The first time it reads up to what was the end when it began, the second time what has come
//! since: a record that explains an earlier one may have got into a partition that was read already.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use domain::EventKind;
use ports::{AuditLog, AuditPage, Audited, Bookmark, Clock, ConsumerPlace, End, LogRow, StoreError};
use rdkafka::Message;

use crate::client::OpenError;
use crate::config::Config;
use crate::log::KafkaLog;
use crate::place::{Partition, Place};
use crate::record::read;
use crate::topics::Topic;

/// The group that reads. It has no members and commits nothing.
const AUDIT_GROUP: &str = "audit";
/// How often an audit goes round.
const ROUNDS: u32 = 2;

/// Shows the log to whoever checks it, and where some groups are.
pub struct KafkaAudit {
    log: KafkaLog,
    groups: Vec<String>,
}

impl KafkaAudit {
    /// The topics that `config` names, and these groups of consumers.
    pub fn open(config: Config, clock: Arc<dyn Clock>, groups: Vec<String>) -> Result<Self, OpenError> {
        Ok(Self { log: KafkaLog::reading(config, clock)?, groups })
    }
}

/// How far an audit is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Round {
    number: u32,
    /// Of each partition the next offset, and the one to read up to.
    partitions: BTreeMap<Partition, (i64, i64)>,
}

#[async_trait]
impl AuditLog for KafkaAudit {
    async fn records(&self, after: Option<&Bookmark>, count: usize) -> Result<AuditPage<LogRow>, StoreError> {
        let round = after.map(|Bookmark(text)| text.parse::<Round>()).transpose()?;
        let read = self.log.ask(AUDIT_GROUP, move |offsets| {
            let mut round = match round {
                Some(round) => round,
                None => Round { number: 1, partitions: offsets.bounds()? },
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
            let next = offsets.records(Place { partition, offset: from }, end, count, |record| {
                let place = Place { partition, offset: record.offset() };
                let event = read(partition.kind, record.key(), record.payload());
                rows.push(Audited {
                    table: Topic::of(partition.kind).name(),
                    key: format!("partition {} offset {}", partition.number, record.offset()),
                    bytes: record.payload().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len),
                    end: End::Timed,
                    row: match event {
                        Ok(event) => Ok(LogRow { came_since, ..LogRow::of(place.position(), &event) }),
                        Err(reason) => Err(reason.to_string()),
                    },
                });
            })?;
            round.partitions.insert(partition, (next, end));
            Ok(AuditPage { rows, next: Some(Bookmark(round.to_string())) })
        });
        read.await
    }

    fn has_each_once(&self) -> bool {
        false
    }

    async fn consumers(&self) -> Result<Vec<ConsumerPlace>, StoreError> {
        let mut places = vec![];
        for group in &self.groups {
            let found = self.log.ask(group, |offsets| offsets.places()).await?;
            places.extend(found.into_iter().map(|(partition, next, end)| ConsumerPlace {
                group: group.clone(),
                part: format!("partition {} of {}", partition.number, Topic::of(partition.kind).name()),
                next: u64::try_from(next).unwrap_or(0),
                end: u64::try_from(end).unwrap_or(0),
            }));
        }
        Ok(places)
    }
}

impl Round {
    /// The first partition that is not read up to its end.
    fn unread(&self) -> Option<(Partition, i64, i64)> {
        let mut partitions = self.partitions.iter();
        partitions.find(|(_, (next, end))| next < end).map(|(partition, (next, end))| (*partition, *next, *end))
    }
}

impl fmt::Display for Round {
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

impl FromStr for Round {
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
        parse().ok_or_else(|| StoreError::unavailable(format!("`{text}` is no bookmark of this log")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_says_where_each_partition_goes_on() {
        let at = |kind, number| Partition { kind, number };
        let partitions = BTreeMap::from([
            (at(EventKind::Message, 3), (7, 9)),
            (at(EventKind::Member, 0), (0, 0)),
            (at(EventKind::Chat, 11), (5, 5)),
        ]);
        let round = Round { number: 1, partitions };
        assert_eq!(round.to_string().parse::<Round>().unwrap(), round);
        assert_eq!(round.unread(), Some((at(EventKind::Message, 3), 7, 9)));
        for text in ["", "x", "1 m", "1 q0:1:2", "1 m0:1", "1 é"] {
            assert!(text.parse::<Round>().is_err(), "{text}");
        }
    }
}
