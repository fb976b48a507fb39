//! Fills a store by itself, step by step: what a server is started on to see how its cost grows, and a sustained load.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::{ChatId, UserId};
use ports::{Appended, EventLog, Ids, MessageWriter, Position, RandomIds, Start};
use tokio::task::JoinSet;

use crate::limit::{new_chat, new_message, open};
use crate::{EmbeddedStore, LimitError};

/// Messages in one call of the port, and chats that are made at once.
const BATCH: usize = 500;
/// How many medians a batch may take before it counts as a stall.
const STALL_MEDIANS: u32 = 10;

/// A store that grows. Nobody else has it open while it is filled; between two steps a server may.
pub struct Filling {
    directory: PathBuf,
    consumers: Vec<String>,
    sender_id: UserId,
    chats: Vec<ChatId>,
    messages: u64,
}

/// How fast a step of filling was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filled {
    /// Messages in a second, in batches of 500, each durable before the next.
    pub messages_per_second: f64,
    /// What half of the batches took at the most.
    pub batch_median: Duration,
    /// What the longest one took.
    pub batch_longest: Duration,
    /// Batches that took more than ten medians.
    pub stalls: usize,
}

impl Filling {
    /// Nothing is filled yet. `consumers` are groups of the event log that count as having read what is filled in: a server
    /// would otherwise begin by working off millions of events, which no server that was there meanwhile has before it.
    pub fn new(directory: &Path, consumers: &[&str]) -> Self {
        Self {
            directory: directory.to_owned(),
            consumers: consumers.iter().map(|group| (*group).to_owned()).collect(),
            sender_id: RandomIds.ulid().into(),
            chats: vec![],
            messages: 0,
        }
    }

    /// Adds chats, and messages spread over all of them, until so many of each were added in all steps together.
    ///
    /// `progress` is told of every batch how many chats or messages it has added.
    pub async fn fill_up_to(
        &mut self,
        chats: usize,
        messages: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Filled, LimitError> {
        let store = open(&self.directory)?;
        self.add_chats(&store, chats, &mut progress).await?;
        let filled = self.add_messages(&store, messages, &mut progress).await?;
        for group in &self.consumers {
            // No event has this place, and none is behind it.
            store.seek(group, Start::At(Position(u64::MAX))).await?;
        }
        store.close().await;
        Ok(filled)
    }

    async fn add_chats(
        &mut self,
        store: &EmbeddedStore,
        up_to: usize,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), LimitError> {
        while self.chats.len() < up_to {
            let mut batch = JoinSet::new();
            for _ in 0..BATCH.min(up_to - self.chats.len()) {
                let (store, owner) = (store.clone(), self.sender_id);
                batch.spawn(async move { new_chat(&store, owner).await });
            }
            let added = batch.len() as u64;
            while let Some(chat_id) = batch.join_next().await {
                self.chats.push(chat_id??);
            }
            progress(added);
        }
        Ok(())
    }

    async fn add_messages(
        &mut self,
        store: &EmbeddedStore,
        up_to: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<Filled, LimitError> {
        let mut times = vec![];
        let (before, started) = (self.messages, Instant::now());
        while self.messages < up_to {
            let len = (up_to - self.messages).min(BATCH as u64);
            let batch = (self.messages..self.messages + len).map(|n| new_message(self.chat_of(n), self.sender_id));
            let batch = batch.collect();
            let sent = Instant::now();
            let outcomes = store.append(batch).await?;
            times.push(sent.elapsed());
            if let Some(refused) = outcomes.into_iter().find(|outcome| !matches!(outcome, Appended::New(_))) {
                return Err(LimitError::Refused(refused));
            }
            self.messages += len;
            progress(len);
        }
        Ok(Filled::of(times, self.messages - before, started.elapsed()))
    }

    /// The chat of the message with this number. Neighbours are far apart, and all chats have their turn: a prime step.
    fn chat_of(&self, number: u64) -> ChatId {
        self.chats[(number * 104_729 % self.chats.len() as u64) as usize]
    }
}

impl Filled {
    fn of(mut batches: Vec<Duration>, messages: u64, took: Duration) -> Self {
        batches.sort_unstable();
        let (Some(longest), Some(median)) = (batches.last(), batches.get(batches.len() / 2)) else {
            return Self::default();
        };
        Self {
            messages_per_second: messages as f64 / took.as_secs_f64(),
            batch_median: *median,
            batch_longest: *longest,
            stalls: batches.iter().filter(|time| **time > STALL_MEDIANS * *median).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Sequence;
    use ports::MessageReader;

    use super::*;

    #[tokio::test]
    async fn each_step_adds_what_is_missing_and_spreads_it_over_all_chats() {
        let directory = tempfile::tempdir().unwrap();
        let mut filling = Filling::new(directory.path(), &["fanout"]);
        let mut told = 0;
        let none = filling.fill_up_to(2, 0, |added| told += added).await.unwrap();
        assert_eq!((none, told), (Filled::default(), 2));
        let filled = filling.fill_up_to(3, 600, |added| told += added).await.unwrap();
        assert!(filled.messages_per_second > 0.0 && filled.batch_longest >= filled.batch_median);
        assert_eq!(told, 603);
        filling.fill_up_to(3, 900, |added| told += added).await.unwrap();
        assert_eq!(told, 903);

        let store = open(directory.path()).unwrap();
        for chat_id in &filling.chats {
            assert_eq!(store.head(*chat_id).await.unwrap().unwrap().sequence, Sequence(300));
        }
        assert_eq!(store.lag("fanout").await.unwrap(), 0);
        assert!(store.lag("another").await.unwrap() >= 900);
        store.close().await;
    }

    #[test]
    fn a_stall_is_a_batch_of_more_than_ten_medians() {
        let batches = [1, 1, 101, 10, 10, 100].map(Duration::from_millis).to_vec();
        let filled = Filled::of(batches, 3000, Duration::from_secs(2));
        assert_eq!((filled.messages_per_second, filled.stalls), (1500.0, 1));
        assert_eq!(
            (filled.batch_median, filled.batch_longest),
            (Duration::from_millis(10), Duration::from_millis(101))
        );
    }
}
