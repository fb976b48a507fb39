use std::sync::Mutex;

use ports::lock;
use tokio::sync::oneshot;

/// Gives the signals of a connection effect in the order in which its client sent them.
///
/// Commands of a connection run concurrently, and the lookups of a later one may be quicker. An indicator that starts
/// after its stop would be shown until it times out.
#[derive(Default)]
pub(crate) struct SignalOrder(Mutex<Option<oneshot::Receiver<()>>>);

impl SignalOrder {
    /// The turn of the next signal.
    pub(crate) fn next_turn(&self) -> SignalTurn {
        let (ends, end) = oneshot::channel();
        SignalTurn { previous: lock(&self.0).replace(end), _ends: ends }
    }
}

/// The turn of one signal, which ends when it is dropped.
pub(crate) struct SignalTurn {
    previous: Option<oneshot::Receiver<()>>,
    _ends: oneshot::Sender<()>,
}

impl SignalTurn {
    /// Waits until the previous turn has ended.
    pub(crate) async fn begin(&mut self) {
        if let Some(previous) = self.previous.take() {
            // Nothing is ever sent: the error says that the turn has ended.
            drop(previous.await);
        }
    }
}
