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
