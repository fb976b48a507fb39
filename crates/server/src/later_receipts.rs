use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use metrics::counter;
use ports::{Signal, SignalSender, StoreError, error_chain};
use tokio::sync::{Mutex, mpsc};
use tracing::debug;

/// Receipts that may be queued. Beyond that a receipt is dropped; clients can still read the watermarks of the chat.
const WAITING_MAX: usize = 8192;
/// Receipts that are sent concurrently.
const UNDER_WAY_MAX: usize = 64;

/// Signals to another process. Receipts are queued, so that the reader is answered before other members are notified.
pub(crate) struct LaterReceipts {
    signals: Arc<dyn SignalSender>,
    waiting: mpsc::Sender<Signal>,
    /// Locked by the task that sends them.
    receiver: Mutex<mpsc::Receiver<Signal>>,
}

impl LaterReceipts {
    pub(crate) fn new(signals: Arc<dyn SignalSender>) -> Self {
        let (waiting, receiver) = mpsc::channel(WAITING_MAX);
        Self { signals, waiting, receiver: Mutex::new(receiver) }
    }

    /// Sends queued receipts until it is stopped. Their order does not matter, because watermarks only grow.
    pub(crate) async fn run(&self) {
        let mut receiver = self.receiver.lock().await;
        let receipts = stream::poll_fn(|context| receiver.poll_recv(context));
        let passed = receipts.for_each_concurrent(UNDER_WAY_MAX, |receipt| async move {
            if let Err(failure) = self.signals.signal(receipt).await {
                counter!("tidings_receipts_dropped_total").increment(1);
                debug!(
                    error = %error_chain(&failure),
                    "a receipt was dropped; members can read the watermark in the chat"
                );
            }
        });
        passed.await;
    }
}

#[async_trait]
impl SignalSender for LaterReceipts {
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

    /// Records signals after a delay, and answers that the user is not a member.
    struct Slow(mpsc::UnboundedSender<Signal>);

    #[async_trait]
    impl SignalSender for Slow {
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

    /// Submits a receipt for each of the first messages of a chat.
    async fn read(receipts: &LaterReceipts, count: usize) {
        let (chat_id, user_id): (ChatId, UserId) = (RandomIds.ulid().into(), RandomIds.ulid().into());
        for sequence in (1..=count as u64).map(Sequence) {
            let watermarks = Watermarks { delivered: sequence, read: sequence };
            assert!(receipts.signal(Signal::Receipt { chat_id, user_id, watermarks }).await.unwrap());
        }
    }

    /// Collects the sequences of all receipts that arrive.
    async fn all_read(heard: &mut mpsc::UnboundedReceiver<Signal>) -> BTreeSet<u64> {
        let mut read = BTreeSet::new();
        while let Ok(signal) = time::timeout(SLOW * 2, heard.recv()).await {
            let Some(Signal::Receipt { watermarks, .. }) = signal else { panic!("{signal:?} is no receipt") };
            assert!(read.insert(watermarks.read.0), "{} was received twice", watermarks.read);
        }
        read
    }

    /// Runs a test while receipts are sent.
    async fn meanwhile<T>(receipts: &LaterReceipts, test: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = receipts.run() => panic!("receipts are sent until the test ends"),
            outcome = test => outcome,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_receiver_does_not_delay_the_reader() {
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
    async fn a_receipt_beyond_the_queue_is_dropped_without_an_error() {
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
