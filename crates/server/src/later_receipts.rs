use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use metrics::counter;
use ports::{Signal, Signals, StoreError};
use tokio::sync::{Mutex, mpsc};
use tracing::debug;

/// Receipts that may wait to be passed on; the next one is dropped, and whoever wants to know asks for the chat's.
const WAITING_MAX: usize = 8192;
/// Receipts on their way at the same time.
const UNDER_WAY_MAX: usize = 64;

/// Signals that go to another process, of which receipts hold up nobody: whoever has read something is answered before
/// others are told.
pub(crate) struct LaterReceipts {
    signals: Arc<dyn Signals>,
    waiting: mpsc::Sender<Signal>,
    /// Taken by the one who passes them on.
    receiver: Mutex<mpsc::Receiver<Signal>>,
}

impl LaterReceipts {
    pub(crate) fn new(signals: Arc<dyn Signals>) -> Self {
        let (waiting, receiver) = mpsc::channel(WAITING_MAX);
        Self { signals, waiting, receiver: Mutex::new(receiver) }
    }

    /// Passes receipts on, for ever. Their order does not matter: watermarks only grow.
    pub(crate) async fn run(&self) {
        let mut receiver = self.receiver.lock().await;
        let receipts = stream::poll_fn(|context| receiver.poll_recv(context));
        let passed = receipts.for_each_concurrent(UNDER_WAY_MAX, |receipt| async move {
            if let Err(failure) = self.signals.signal(receipt).await {
                counter!("tidings_receipts_dropped_total").increment(1);
                debug!(error = &failure as &dyn std::error::Error, "a receipt was lost; members find it in the chat");
            }
        });
        passed.await;
    }
}

#[async_trait]
impl Signals for LaterReceipts {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        match signal {
            Signal::Typing { .. } => self.signals.signal(signal).await,
            Signal::Receipt { .. } => {
                if self.waiting.try_send(signal).is_err() {
                    counter!("tidings_receipts_dropped_total").increment(1);
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use domain::{ChatId, Sequence, UserId, Watermarks};
    use ports::{Ids, RandomIds};
    use tokio::time::{self, Instant};

    use super::*;

    const SLOW: Duration = Duration::from_secs(1);

    /// Takes its time, hears, and says that nobody is a member of anything.
    struct Slow(mpsc::UnboundedSender<Signal>);

    #[async_trait]
    impl Signals for Slow {
        async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
            time::sleep(SLOW).await;
            self.0.send(signal).map_err(StoreError::unavailable)?;
            Ok(false)
        }
    }

    fn slow() -> (LaterReceipts, mpsc::UnboundedReceiver<Signal>) {
        let (sender, heard) = mpsc::unbounded_channel();
        (LaterReceipts::new(Arc::new(Slow(sender))), heard)
    }

    /// Hands in a receipt for each of the first messages of a chat.
    async fn read(receipts: &LaterReceipts, count: usize) {
        let (chat_id, user_id): (ChatId, UserId) = (RandomIds.ulid().into(), RandomIds.ulid().into());
        for sequence in (1..=count as u64).map(Sequence) {
            let watermarks = Watermarks { delivered: sequence, read: sequence };
            assert!(receipts.signal(Signal::Receipt { chat_id, user_id, watermarks }).await.unwrap());
        }
    }

    /// The messages whose receipts are heard, until there are no more.
    async fn all_read(heard: &mut mpsc::UnboundedReceiver<Signal>) -> BTreeSet<u64> {
        let mut read = BTreeSet::new();
        while let Ok(signal) = time::timeout(SLOW * 2, heard.recv()).await {
            let Some(Signal::Receipt { watermarks, .. }) = signal else { panic!("{signal:?} is no receipt") };
            assert!(read.insert(watermarks.read.0), "{} was heard twice", watermarks.read);
        }
        read
    }

    /// What a test does while receipts are passed on.
    async fn meanwhile<T>(receipts: &LaterReceipts, test: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = receipts.run() => panic!("receipts are passed on for ever"),
            outcome = test => outcome,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_receiver_does_not_hold_up_whoever_has_read() {
        let (receipts, mut heard) = slow();
        let test = async {
            let began = Instant::now();
            read(&receipts, UNDER_WAY_MAX + 1).await;
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert_eq!(all_read(&mut heard).await, (1..=UNDER_WAY_MAX as u64 + 1).collect());
        };
        meanwhile(&receipts, test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_receipt_that_finds_no_room_is_dropped_and_its_reader_not_troubled() {
        let (receipts, mut heard) = slow();
        read(&receipts, WAITING_MAX + 1).await;
        let passed = meanwhile(&receipts, all_read(&mut heard)).await;
        assert_eq!(passed, (1..=WAITING_MAX as u64).collect());
    }

    #[tokio::test(start_paused = true)]
    async fn typing_is_passed_on_at_once_and_answered_by_its_receiver() {
        let (receipts, mut heard) = slow();
        let typing =
            Signal::Typing { chat_id: RandomIds.ulid().into(), user_id: RandomIds.ulid().into(), is_typing: true };
        assert!(!receipts.signal(typing.clone()).await.unwrap());
        assert_eq!(heard.try_recv().unwrap(), typing);
    }
}
