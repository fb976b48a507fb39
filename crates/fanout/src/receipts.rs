use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use domain::limits::{DIRECT_MEMBERS_MAX, RECEIPT_MEMBERS_MAX};
use domain::{ChatId, Invariant, UserId, Watermarks};
use metrics::counter;
use ports::{StoreError, error_chain, holds, lock};
use protocol::frame::{ReceiptBody, ServerFrame};
use tokio::sync::Notify;
use tracing::warn;

use crate::Fanout;
use crate::pushes::{GatewayPushes, members_except, push};

/// Debounce before moved watermarks are pushed.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after each round, per delivered frame. A group of a hundred in which all members read every message takes ten
/// thousand frames per round, and messages have priority.
const PAUSE_PER_FRAME: Duration = Duration::from_micros(50);
/// Most pending receipts. Beyond it, receipts are dropped: the next receipt of the member supersedes them, and clients can
/// read the receipts of a chat over REST.
const WAITING_MAX: usize = 100_000;

/// Moved watermarks that were not pushed yet, only the latest of each member.
#[derive(Default)]
pub struct Receipts {
    moved: Mutex<MovedWatermarks>,
    woken: Notify,
}

#[derive(Default)]
struct MovedWatermarks {
    chats: BTreeMap<ChatId, BTreeMap<UserId, Watermarks>>,
    len: usize,
}

/// The receipts of one chat to push.
struct ChatReceipts {
    chat_id: ChatId,
    members: Arc<[UserId]>,
    moved: BTreeMap<UserId, Watermarks>,
    /// In a direct chat with a block, receipts go only to the devices of their own user.
    is_blocked: bool,
}

impl Receipts {
    pub(crate) fn note(&self, chat_id: ChatId, user_id: UserId, watermarks: Watermarks) {
        let mut moved = self.lock();
        let MovedWatermarks { chats, len } = &mut *moved;
        if *len < WAITING_MAX {
            let members = chats.entry(chat_id).or_default();
            // Two moves of one member may arrive out of order. Watermarks only grow, so the maximum is the latest.
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

    /// Waits for a move, then takes all moves of the debounce interval.
    async fn take_debounced(&self) -> BTreeMap<ChatId, BTreeMap<UserId, Watermarks>> {
        self.woken.notified().await;
        tokio::time::sleep(DEBOUNCE).await;
        std::mem::take(&mut *self.lock()).chats
    }

    fn lock(&self) -> MutexGuard<'_, MovedWatermarks> {
        lock(&self.moved)
    }
}

impl Fanout {
    /// Pushes receipts to the members of chats (G10), until the task is aborted. Dropping the future is safe: receipts are
    /// best effort, and the store has them.
    pub async fn push_receipts(&self) {
        loop {
            let moved = self.receipts.take_debounced().await;
            let mut frames = 0;
            for receipts in self.chat_receipts(moved).await {
                frames += self.push_chat_receipts(receipts).await;
                tokio::task::yield_now().await;
            }
            counter!("tidings_fanout_receipt_frames_total").increment(u64::from(frames));
            tokio::time::sleep(PAUSE_PER_FRAME * frames).await;
        }
    }

    /// Looks up the recipients of receipts. Chats whose lookup fails are left out.
    async fn chat_receipts(&self, moved: BTreeMap<ChatId, BTreeMap<UserId, Watermarks>>) -> Vec<ChatReceipts> {
        let mut chats = vec![];
        for (chat_id, moved) in moved {
            match self.members_now(chat_id).await {
                Ok(members) if members.is_empty() || members.len() > RECEIPT_MEMBERS_MAX => {}
                Ok(members) => chats.push(ChatReceipts { chat_id, members, moved, is_blocked: false }),
                Err(failure) => not_pushed(&failure),
            }
        }
        let mut small: Vec<&mut ChatReceipts> =
            chats.iter_mut().filter(|chat| chat.members.len() <= DIRECT_MEMBERS_MAX).collect();
        // One lookup for all chats of a round, so that it costs little for each receipt.
        let asked: Vec<_> = small.iter().map(|chat| (chat.chat_id, chat.members[0])).collect();
        if asked.is_empty() {
            return chats;
        }
        let answered = self.chats.blocked_chats(&asked).await.and_then(|blocked| {
            let answers = || format!("{} answers on {} chats", blocked.len(), asked.len());
            let is_complete = holds(Invariant::PrivacyEnforced, blocked.len() == asked.len(), answers);
            if is_complete { Ok(blocked) } else { Err(StoreError::unavailable(answers())) }
        });
        match answered {
            Ok(blocked) => {
                small.iter_mut().zip(blocked).for_each(|(chat, is_blocked)| chat.is_blocked = is_blocked);
                chats
            }
            Err(failure) => {
                not_pushed(&failure);
                chats.retain(|chat| chat.members.len() > DIRECT_MEMBERS_MAX);
                chats
            }
        }
    }

    /// Pushes the receipts of one chat and returns the number of frames.
    async fn push_chat_receipts(&self, ChatReceipts { chat_id, members, moved, is_blocked }: ChatReceipts) -> u32 {
        let recipients = match self.recipients.of(members, &[]).await {
            Ok(recipients) => recipients,
            Err(failure) => {
                not_pushed(&failure);
                return 0;
            }
        };
        let mut outgoing = GatewayPushes::new();
        // A user who has left the chat meanwhile no longer has watermarks.
        for (user_id, watermarks) in moved.into_iter().filter(|(user_id, _)| recipients.members.contains(user_id)) {
            let receipt = ServerFrame::Receipt(ReceiptBody {
                chat_id,
                user_id,
                delivered_sequence: watermarks.delivered,
                read_sequence: watermarks.read,
            });
            // Blocks are in direct chats only, which have one other member.
            let hidden_from = recipients.members.iter().copied().find(|member| is_blocked && *member != user_id);
            push(members_except(&recipients, hidden_from), None, || receipt.encode(None), &mut outgoing);
        }
        let frames = outgoing.values().flatten().map(|push| push.recipients.len() as u32).sum();
        // The next receipt supersedes a lost one, so failed deliveries are dropped.
        drop(self.deliver(outgoing).await);
        frames
    }
}

fn not_pushed(failure: &StoreError) {
    warn!(error = %error_chain(failure), "receipts could not be pushed; the next ones supersede them");
}
