//! Applies the retention of the service to messages that were committed without it.
//!
//! Ingest limits the lifetime of every new message. This task finds the others: messages from before the setting, with
//! a longer setting, or from an import. It walks over all chats, and shortens the lifetime of their messages in the same
//! steps as `tidings admin chat retention`. Expired messages are then hidden, announced and purged like all others.
//!
//! The messages themselves record the progress. A chat whose oldest message has a short enough lifetime is skipped after
//! one read, or a few if entries of updates are older. So a restarted pass soon arrives where the last one ended. If a
//! crash interrupted the steps of a chat, its later messages keep their lifetime until they are the oldest ones. A pass
//! then finds them: they are at most one [`PERIOD`] late.

use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, Sequence, Ttl};
use metrics::{counter, gauge};
use ports::{Clock, Expiry, MessageExpirer, MessageReader, PageBookmark, PageBounds, StoreError, error_chain};
use tokio::time::sleep;
use tracing::{error, info, warn};

/// Interval between passes over all chats.
const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// Delay before a failed pass continues.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Pause after a step that changed messages, so that sends come first.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// The first page of the search for the oldest message of a chat. Mostly it is the first entry.
const FIRST: PageBounds = PageBounds { count: 1, bytes: 0 };
/// The further pages. The bytes bound the messages of updates, which a page includes.
const FURTHER: PageBounds = PageBounds { count: 500, bytes: 64 << 10 };
/// Chats in one page of the walk.
const CHATS_MAX: usize = 100;

/// The retention of the whole service.
pub struct Retention {
    /// The longest lifetime of a message.
    pub lifetime: Ttl,
    /// Lists chats and shortens lifetimes.
    pub expirer: Arc<dyn MessageExpirer>,
    /// Reads messages.
    pub messages: Arc<dyn MessageReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// The position and the results of a pass.
#[derive(Debug, Default)]
struct Pass {
    after: Option<PageBookmark>,
    chats: u64,
    messages: u64,
}

impl Retention {
    /// Makes a pass at once and then once a day, until it is dropped, which is safe at any time. Any number of processes
    /// may run it.
    pub async fn run(&self) {
        loop {
            let mut pass = Pass::default();
            while let Err(failure) = self.proceed(&mut pass).await {
                warn!(error = %error_chain(&failure), "could not apply the retention of the service; continuing later");
                sleep(RETRY_AFTER).await;
            }
            let Pass { chats, messages, .. } = pass;
            gauge!("tidings_retention_pass_time_seconds").set(self.clock.now().as_secs() as f64);
            info!(chats, messages, "applied the retention of the service to all chats");
            sleep(PERIOD).await;
        }
    }

    /// Continues a pass to its end. After a failure it can be continued.
    async fn proceed(&self, pass: &mut Pass) -> Result<(), StoreError> {
        loop {
            let page = self.expirer.chat_ids(pass.after.as_ref(), CHATS_MAX).await?;
            for chat_id in page.chat_ids {
                match self.apply(chat_id).await {
                    Ok(messages) => pass.messages += messages,
                    // An operator has to repair the chat. It does not stop the others.
                    Err(failure @ StoreError::Corrupt { .. }) => {
                        let error = error_chain(&failure);
                        error!(%chat_id, %error, "could not apply the retention of the service to a chat");
                    }
                    Err(failure) => return Err(failure),
                }
                pass.chats += 1;
                counter!("tidings_retention_chats_total").increment(1);
            }
            pass.after = page.next;
            if pass.after.is_none() {
                return Ok(());
            }
        }
    }

    /// Applies the retention to one chat, and returns the number of messages that now expire earlier.
    async fn apply(&self, chat_id: ChatId) -> Result<u64, StoreError> {
        if self.is_applied(chat_id).await? {
            return Ok(0);
        }
        let which = Expiry { sender: None, lifetime: Some(self.lifetime) };
        let (mut from, mut messages) = (Sequence::ZERO, 0);
        loop {
            let step = self.expirer.expire(chat_id, from, which, self.clock.now()).await?;
            messages += step.messages as u64;
            counter!("tidings_retention_messages_total").increment(step.messages as u64);
            match step.next {
                Some(next) => from = next,
                None => return Ok(messages),
            }
            if step.messages > 0 {
                sleep(STEP_PAUSE).await;
            }
        }
    }

    /// Whether the oldest message of a chat expires in time. Older entries of updates, and messages that wait for their
    /// purge, say nothing about it.
    async fn is_applied(&self, chat_id: ChatId) -> Result<bool, StoreError> {
        let (mut after, mut bounds) = (Sequence::ZERO, FIRST);
        loop {
            let page = self.messages.after(chat_id, after, bounds, self.clock.now()).await?;
            if let Some(oldest) = page.messages.first() {
                let end = oldest.created_at + self.lifetime.as_duration();
                return Ok(oldest.expires_at.is_some_and(|expires_at| expires_at <= end));
            }
            if page.examined >= page.head {
                return Ok(true);
            }
            (after, bounds) = (page.examined, FURTHER);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ClientMessageId, ContentType, Timestamp, UpdateAction, UserId};
    use memory::{ManualClock, MemoryStore};
    use ports::{AppendOutcome, ChatWriter, Ids, MessageWriter, NewGroup, NewMessage, NewUpdate, RandomIds};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const UNBOUNDED: PageBounds = PageBounds { count: usize::MAX, bytes: usize::MAX };

    fn react() -> UpdateAction {
        UpdateAction::React("👍".parse().unwrap())
    }

    fn unreact() -> UpdateAction {
        UpdateAction::Unreact("👍".parse().unwrap())
    }

    struct World {
        store: Arc<MemoryStore>,
        clock: Arc<ManualClock>,
        retention: Retention,
    }

    impl World {
        fn new() -> Self {
            let store = Arc::new(MemoryStore::new(Arc::new(RandomIds)));
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
            let retention = Retention {
                lifetime: Ttl::from_secs(2 * DAY.as_secs()).unwrap(),
                expirer: store.clone(),
                messages: store.clone(),
                clock: clock.clone(),
            };
            Self { store, clock, retention }
        }

        async fn group(&self) -> (ChatId, UserId) {
            let (chat_id, created_by): (ChatId, UserId) = (RandomIds.ulid().into(), RandomIds.ulid().into());
            let name = "group".to_owned().try_into().unwrap();
            let group = NewGroup { chat_id, name, created_by, members: vec![], created_at: self.clock.now() };
            self.store.create_group(group).await.unwrap();
            (chat_id, created_by)
        }

        async fn send(&self, (chat_id, sender_id): (ChatId, UserId), count: usize) {
            let send = || NewMessage {
                chat_id,
                sender_id,
                client_message_id: ClientMessageId::from_bytes(RandomIds.ulid().to_bytes()),
                message_id: RandomIds.ulid().into(),
                body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
                ttl: None,
                ttl_max: None,
                created_at: self.clock.now(),
                origin_connection_id: None,
            };
            let outcomes = self.store.append((0..count).map(|_| send()).collect()).await.unwrap();
            assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))));
        }

        async fn update(&self, (chat_id, user_id): (ChatId, UserId), target: u64, action: UpdateAction) {
            let update = NewUpdate {
                chat_id,
                user_id,
                client_message_id: ClientMessageId::from_bytes(RandomIds.ulid().to_bytes()),
                update_id: RandomIds.ulid().into(),
                target: Sequence(target),
                action,
                window: None,
                ttl_max: None,
                created_at: self.clock.now(),
            };
            let outcomes = self.store.commit(vec![update.into()]).await.unwrap();
            assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");
        }

        async fn pass(&self) -> (u64, u64) {
            let mut pass = Pass::default();
            self.retention.proceed(&mut pass).await.unwrap();
            (pass.chats, pass.messages)
        }

        /// The sequences that a reader sees, with the time at which each expires, in days from now.
        async fn read(&self, chat_id: ChatId) -> Vec<(u64, Option<f64>)> {
            let now = self.clock.now();
            let page = self.store.after(chat_id, Sequence::ZERO, UNBOUNDED, now).await.unwrap();
            let end = |end: Timestamp| end.since(now).as_secs_f64() / DAY.as_secs_f64();
            page.messages.iter().map(|message| (message.sequence.0, message.expires_at.map(end))).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_from_before_the_retention_expire_when_they_would_have_with_it() {
        let world = World::new();
        let (first, second) = (world.group().await, world.group().await);
        world.send(first, 1).await;
        world.clock.advance(3 * DAY);
        world.send(first, 1).await;
        world.clock.advance(DAY);
        world.send(second, 1).await;
        assert_eq!(world.pass().await, (2, 3));
        assert_eq!(world.read(first.0).await, [(2, Some(1.0))]);
        assert_eq!(world.read(second.0).await, [(1, Some(2.0))]);
        assert_eq!(world.pass().await, (2, 0), "a second pass changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn every_chat_and_every_message_is_reached() {
        let world = World::new();
        let mut chats = vec![];
        for _ in 0..2 * CHATS_MAX + 1 {
            chats.push(world.group().await);
        }
        for chat in &chats {
            world.send(*chat, 2).await;
        }
        world.send(chats[0], 1200).await;
        world.clock.advance(3 * DAY);
        assert_eq!(world.pass().await, (chats.len() as u64, 2 * chats.len() as u64 + 1200));
        for (chat_id, _) in chats {
            assert_eq!(world.read(chat_id).await, []);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_after_an_interrupted_step_are_found_when_they_are_the_oldest() {
        let world = World::new();
        let chat = world.group().await;
        world.send(chat, 700).await;
        let which = Expiry { sender: None, lifetime: Some(world.retention.lifetime) };
        let step = world.store.expire(chat.0, Sequence::ZERO, which, world.clock.now()).await.unwrap();
        assert!(step.next.is_some());
        assert_eq!(world.pass().await, (1, 0), "the chat looks done");
        world.clock.advance(2 * DAY);
        world.store.purge_expired(world.clock.now());
        assert_eq!(world.pass().await, (1, 700 - step.messages as u64));
        assert_eq!(world.read(chat.0).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn messages_after_entries_of_updates_expire_in_time() {
        let world = World::new();
        let chat = world.group().await;
        world.send(chat, 1).await;
        for n in 0..2 * FURTHER.count {
            world.update(chat, 1, if n % 2 == 0 { react() } else { unreact() }).await;
        }
        world.update(chat, 1, UpdateAction::Delete).await;
        world.send(chat, 1).await;
        world.store.purge_expired(world.clock.now());
        assert_eq!(world.pass().await, (1, 1));
        let sequence = 2 * FURTHER.count as u64 + 3;
        assert_eq!(world.read(chat.0).await, [(sequence, Some(2.0))]);
        assert_eq!(world.pass().await, (1, 0), "a second pass changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_chat_of_updates_alone_has_nothing_to_expire() {
        let world = World::new();
        let chat = world.group().await;
        world.send(chat, 1).await;
        world.update(chat, 1, UpdateAction::Delete).await;
        world.store.purge_expired(world.clock.now());
        assert_eq!(world.pass().await, (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn passes_repeat() {
        let world = World::new();
        let chat = world.group().await;
        let running = world.retention.run();
        tokio::select! {
            () = running => unreachable!("it does not end"),
            () = async {
                sleep(Duration::from_secs(1)).await;
                world.send(chat, 1).await;
                assert_eq!(world.read(chat.0).await, [(1, None)]);
                sleep(PERIOD).await;
                assert_eq!(world.read(chat.0).await, [(1, Some(2.0))]);
            } => {}
        }
    }
}
