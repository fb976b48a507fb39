//! Fills a store in steps, to measure the cost of a server on a growing store and the speed under sustained load.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use domain::{ChatId, UserId};
use embedded::EmbeddedStore;
use ports::{AppendOutcome, EventLog, Ids, MessageWriter, Position, RandomIds, Start};
use tokio::task::JoinSet;

use super::limit::{new_chat, new_message, open};

/// Messages per call of the port, and chats created at once.
const BATCH: usize = 500;
/// A batch that takes more than this many medians counts as a stall.
const STALL_MEDIANS: u32 = 10;

/// A store that grows. It must not be open elsewhere while a step fills it; between two steps a server may open it.
pub(crate) struct Filling {
    directory: PathBuf,
    consumers: Vec<String>,
    sender_id: UserId,
    chats: Vec<ChatId>,
    messages: u64,
}

/// Speed of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Filled {
    /// Messages per second, in batches of 500, each durable before the next.
    pub(crate) messages_per_second: f64,
    /// Median duration of a batch.
    pub(crate) batch_median: Duration,
    /// Duration of the slowest batch.
    pub(crate) batch_longest: Duration,
    /// Batches that took more than ten medians.
    pub(crate) stalls: usize,
}

impl Filling {
    /// Starts empty. `consumers` are groups of the event log, and their offsets move to the end after each step.
    /// Otherwise a server would first process millions of events, a backlog that no running server has.
    pub(crate) fn new(directory: &Path, consumers: &[&str]) -> Self {
        Self {
            directory: directory.to_owned(),
            consumers: consumers.iter().map(|group| (*group).to_owned()).collect(),
            sender_id: RandomIds.ulid().into(),
            chats: vec![],
            messages: 0,
        }
    }

    /// Adds chats, and messages spread over all of them, up to these totals over all steps.
    ///
    /// `progress` is called after every batch with the number of chats or messages added.
    pub(crate) async fn fill_up_to(
        &mut self,
        chats: usize,
        messages: u64,
        mut progress: impl FnMut(u64),
    ) -> anyhow::Result<Filled> {
        let store = open(&self.directory)?;
        self.add_chats(&store, chats, &mut progress).await?;
        let filled = self.add_messages(&store, messages, &mut progress).await?;
        for group in &self.consumers {
            // The offset is clamped to the end of the log.
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
    ) -> anyhow::Result<()> {
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
    ) -> anyhow::Result<Filled> {
        let mut times = vec![];
        let (before, started) = (self.messages, Instant::now());
        while self.messages < up_to {
            let len = (up_to - self.messages).min(BATCH as u64);
            let batch = (self.messages..self.messages + len).map(|n| new_message(self.chat_of(n), self.sender_id));
            let batch = batch.collect();
            let sent = Instant::now();
            let outcomes = store.append(batch).await?;
            times.push(sent.elapsed());
            if let Some(refused) = outcomes.into_iter().find(|outcome| !matches!(outcome, AppendOutcome::New(_))) {
                bail!("a send was answered with {refused:?}");
            }
            self.messages += len;
            progress(len);
        }
        Ok(Filled::of(times, self.messages - before, started.elapsed()))
    }

    /// The chat of the message with this number. The prime stride visits all chats and keeps consecutive messages far
    /// apart.
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
    async fn each_step_fills_up_to_the_totals_and_spreads_messages_over_all_chats() {
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
