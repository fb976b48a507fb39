use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::limits::RECEIPT_MEMBERS_MAX;
use domain::{ChatId, UserId, Watermarks};
use metrics::counter;
use ports::StoreError;
use protocol::frame::{ReceiptBody, ServerFrame};
use tokio::sync::Notify;
use tracing::warn;

use crate::Fanout;
use crate::fanout::Outgoing;

/// How long moves are gathered before the members are told.
const GATHER: Duration = Duration::from_millis(100);
/// The pause that each frame delivered puts before the next round: a group of a hundred in which everybody reads every
/// message tells ten thousand at a time, and messages come first.
const PAUSE_PER_FRAME: Duration = Duration::from_micros(50);
/// Moves that wait, at the most. Beyond them moves of other members are dropped: the next one says it all, and whoever
/// wants to know now asks for the receipts of a chat.
const WAITING_MAX: usize = 100_000;

/// Watermarks that have moved and that nobody was told of: of each member the last.
#[derive(Default)]
pub struct Receipts {
    moved: Mutex<Moved>,
    woken: Notify,
}

#[derive(Default)]
struct Moved {
    chats: BTreeMap<ChatId, BTreeMap<UserId, Watermarks>>,
    len: usize,
}

impl Receipts {
    pub(crate) fn note(&self, chat_id: ChatId, user_id: UserId, watermarks: Watermarks) {
        let mut moved = self.lock();
        let Moved { chats, len } = &mut *moved;
        if *len < WAITING_MAX {
            let members = chats.entry(chat_id).or_default();
            // Two moves of one member may come in the wrong order; watermarks only grow, so the higher is the later.
            let last = members.entry(user_id).or_insert_with(|| {
                *len += 1;
                watermarks
            });
            last.delivered = last.delivered.max(watermarks.delivered);
            last.read = last.read.max(watermarks.read);
        } else {
            counter!("tidings_fanout_receipts_dropped_total").increment(1);
        }
        drop(moved);
        self.woken.notify_one();
    }

    /// Waits for a move and takes all that have gathered since.
    async fn gathered(&self) -> BTreeMap<ChatId, BTreeMap<UserId, Watermarks>> {
        self.woken.notified().await;
        tokio::time::sleep(GATHER).await;
        std::mem::take(&mut *self.lock()).chats
    }

    fn lock(&self) -> MutexGuard<'_, Moved> {
        // Each change leaves the maps whole.
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fanout {
    /// Tells the members of chats how far others have come (G10), for ever. It may be dropped at any moment: receipts
    /// are told as well as can be, and the store knows them.
    pub async fn tell_receipts(&self) {
        loop {
            let mut frames = 0;
            for (chat_id, moved) in self.receipts.gathered().await {
                match self.tell_chat(chat_id, moved).await {
                    Ok(told) => frames += told,
                    Err(failure) => {
                        warn!(error = &failure as &dyn std::error::Error, "receipts of a chat were not told");
                    }
                }
                tokio::task::yield_now().await;
            }
            counter!("tidings_fanout_receipt_frames_total").increment(u64::from(frames));
            tokio::time::sleep(PAUSE_PER_FRAME * frames).await;
        }
    }

    /// Tells the members of one chat, and returns how many frames that took.
    async fn tell_chat(&self, chat_id: ChatId, moved: BTreeMap<UserId, Watermarks>) -> Result<u32, StoreError> {
        let members = self.members_now(chat_id).await?;
        if members.len() > RECEIPT_MEMBERS_MAX {
            return Ok(0);
        }
        let mut outgoing = Outgoing::new();
        // Whoever has left meanwhile has no watermarks any more.
        for (user_id, watermarks) in moved.into_iter().filter(|(user_id, _)| members.contains(user_id)) {
            let receipt = ServerFrame::Receipt(ReceiptBody {
                chat_id,
                user_id,
                delivered_sequence: watermarks.delivered,
                read_sequence: watermarks.read,
            });
            self.push(&members, None, || receipt.encode(None), &mut outgoing).await;
        }
        let frames = outgoing.values().flatten().map(|push| push.recipients.len() as u32).sum();
        // What is lost of these nobody misses for long.
        drop(self.deliver(outgoing).await);
        Ok(frames)
    }
}
