//! Schedules high-throughput connections on a separate run queue, so that they do not delay the others.
//!
//! tokio runs tasks in the order in which they were woken. A busy chat keeps hundreds of connections ready to write. On
//! tokio's queue, a client that sends an occasional message would wait for all of them at every step of that message.
//! A connection with high output therefore moves from tokio's queue to [`RunQueue`], and returns when its output drops.
//! At most one task per worker thread serves [`RunQueue`] and yields after each connection. All busy connections together
//! thus occupy at most that many entries in tokio's queue.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::Runnable;
use ports::lock;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::peer::ConnectionPeer;

/// Output above which a connection is busy: about two hundred messages of ordinary length.
const BUSY_BYTES_PER_SECOND: f64 = 65_536.0;
/// Shortest time over which the output is measured.
const WINDOW: Duration = Duration::from_millis(100);

type ConnectionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a connection to its end, on tokio's queue while it is quiet and on `run_queue` while it is busy.
pub(crate) fn spawn(
    run_queue: Arc<RunQueue>,
    peer: Arc<ConnectionPeer>,
    connection: impl Future<Output = ()> + Send + 'static,
) {
    let output_rate = OutputRate { peer, since: Instant::now(), is_busy: false };
    run_quiet(run_queue, ScheduledConnection { connection: Some(Box::pin(connection)), output_rate });
}

fn run_quiet(run_queue: Arc<RunQueue>, scheduled: ScheduledConnection) {
    tokio::spawn(async move {
        if let Some(scheduled) = scheduled.await {
            run_busy(run_queue, scheduled);
        }
    });
}

fn run_busy(run_queue: Arc<RunQueue>, scheduled: ScheduledConnection) {
    run_queue.entered.fetch_add(1, Ordering::Relaxed);
    let (queue, runtime) = (run_queue.clone(), Handle::current());
    let work = async move {
        if let Some(scheduled) = scheduled.await {
            run_quiet(run_queue, scheduled);
        }
    };
    // A panic ends only its own connection, as it does on tokio's queue.
    let (first, task) = async_task::Builder::new()
        .propagate_panic(true)
        .spawn(|()| work, move |runnable| queue.push(runnable, &runtime));
    first.schedule();
    task.detach();
}

/// A connection that runs on one queue. It resolves when the connection must move to the other queue; `None` means it ended.
struct ScheduledConnection {
    /// `None` once the connection has ended or moved.
    connection: Option<ConnectionFuture>,
    output_rate: OutputRate,
}

impl Future for ScheduledConnection {
    type Output = Option<Self>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        if connection.as_mut().poll(cx).is_ready() {
            self.connection = None;
            return Poll::Ready(None);
        }
        if !self.output_rate.handle_poll(Instant::now()) {
            return Poll::Pending;
        }
        // The first poll on the other queue registers the new waker with all pending futures.
        Poll::Ready(Some(Self { connection: self.connection.take(), output_rate: self.output_rate.clone() }))
    }
}

/// Measures the output of a connection.
#[derive(Clone)]
struct OutputRate {
    peer: Arc<ConnectionPeer>,
    since: Instant,
    is_busy: bool,
}

impl OutputRate {
    /// Updates the measurement after a poll. Returns `true` if the connection changed between busy and quiet.
    fn handle_poll(&mut self, now: Instant) -> bool {
        let elapsed = now - self.since;
        if elapsed < WINDOW {
            return false;
        }
        let was_busy = self.is_busy;
        self.is_busy = self.peer.take_written() as f64 / elapsed.as_secs_f64() > BUSY_BYTES_PER_SECOND;
        self.since = now;
        self.is_busy != was_busy
    }
}

/// Run queue of the busy connections.
#[derive(Default)]
pub(crate) struct RunQueue {
    queue: Mutex<RunQueueState>,
    /// How often a connection has become busy.
    entered: AtomicU64,
}

#[derive(Default)]
struct RunQueueState {
    /// At most one entry per busy connection.
    waiting: VecDeque<Runnable>,
    /// Tasks that serve the queue now.
    servers: usize,
}

impl RunQueue {
    /// How often a connection has become busy.
    pub(crate) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }

    fn push(self: &Arc<Self>, runnable: Runnable, runtime: &Handle) {
        let mut queue = self.lock();
        queue.waiting.push_back(runnable);
        if queue.servers < runtime.metrics().num_workers() {
            queue.servers += 1;
            drop(queue);
            runtime.spawn(self.clone().serve());
        }
    }

    /// Runs queued connections until the queue is empty.
    async fn serve(self: Arc<Self>) {
        while let Some(runnable) = self.pop() {
            runnable.run();
            tokio::task::yield_now().await;
        }
    }

    /// Takes the next connection. On `None`, the calling task must end, because it no longer counts as a server.
    fn pop(&self) -> Option<Runnable> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.servers -= usize::from(next.is_none());
        next
    }

    fn lock(&self) -> MutexGuard<'_, RunQueueState> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use domain::{ConnectionId, DeviceId, Timestamp, UserId};
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    use super::*;

    fn peer() -> Arc<ConnectionPeer> {
        let (connection_id, device_id) = (ConnectionId::from_bytes([1; 16]), DeviceId::from_bytes([2; 16]));
        Arc::new(ConnectionPeer::new(
            connection_id,
            UserId::from_bytes([3; 16]),
            device_id,
            None,
            Timestamp::from_millis(0),
            None,
        ))
    }

    fn output_rate(is_busy: bool) -> OutputRate {
        OutputRate { peer: peer(), since: Instant::now(), is_busy }
    }

    /// A busy connection that is always ready to run, and panics after `turns_max` polls.
    fn busy(run_queue: &Arc<RunQueue>, turns_max: usize) -> Arc<AtomicUsize> {
        let served = Arc::new(AtomicUsize::new(0));
        let counted = served.clone();
        let connection = async move {
            while counted.fetch_add(1, Ordering::Relaxed) < turns_max {
                yield_now().await;
            }
            panic!("it was to panic");
        };
        run_busy(
            run_queue.clone(),
            ScheduledConnection { connection: Some(Box::pin(connection)), output_rate: output_rate(true) },
        );
        served
    }

    fn turns_of(served: &[Arc<AtomicUsize>]) -> Vec<usize> {
        served.iter().map(|served| served.load(Ordering::Relaxed)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_busy_while_its_output_is_high() {
        let mut output_rate = output_rate(false);
        let mut after = |bytes: usize, time: Duration| {
            output_rate.peer.handle_written(bytes);
            (output_rate.handle_poll(output_rate.since + time), output_rate.is_busy)
        };
        assert_eq!(after(1 << 30, WINDOW / 2), (false, false), "a moment says nothing");
        assert_eq!(after(0, WINDOW), (true, true));
        assert_eq!(after(65_537, Duration::from_secs(1)), (false, true));
        assert_eq!(after(65_536, Duration::from_secs(1)), (true, false));
        assert_eq!(after(1 << 20, Duration::from_secs(60)), (false, false), "much after a long silence is not much");
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_connections_wait_for_at_most_one_busy_one_and_busy_ones_are_scheduled_fairly() {
        let run_queue = Arc::new(RunQueue::default());
        let served: Vec<_> = (0..50).map(|_| busy(&run_queue, usize::MAX)).collect();
        let mut seen = 0;
        for _ in 0..1000 {
            yield_now().await;
            let now = turns_of(&served).iter().sum();
            assert!(now - seen <= 1, "there is one thread, so one is served in between");
            seen = now;
        }
        let mut each = turns_of(&served);
        each.sort_unstable();
        assert!(each[0] > 10 && each[49] - each[0] <= 1, "{each:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_a_busy_connection_ends_only_that_connection() {
        let run_queue = Arc::new(RunQueue::default());
        let served = [busy(&run_queue, 3), busy(&run_queue, usize::MAX)];
        for _ in 0..100 {
            yield_now().await;
        }
        let each = turns_of(&served);
        assert!(each[0] == 4 && each[1] > 50, "{each:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_keeps_its_output_when_it_changes_run_queues() {
        const STEPS: u32 = 30;
        let run_queue = Arc::new(RunQueue::default());
        let (peer, (told, mut heard)) = (peer(), mpsc::unbounded_channel());
        let of_connection = peer.clone();
        spawn(run_queue.clone(), peer, async move {
            for step in 0..STEPS {
                if (10..20).contains(&step) {
                    of_connection.handle_written(1 << 20);
                }
                tokio::time::sleep(WINDOW / 4).await;
                told.send(step).unwrap();
            }
        });
        let mut was_busy = vec![];
        for step in 0..STEPS {
            assert_eq!(heard.recv().await, Some(step));
            // A waker of a busy connection holds the run queue, so the reference count shows whether it is busy.
            was_busy.push(Arc::strong_count(&run_queue) > 2);
        }
        assert_eq!(heard.recv().await, None, "it has ended");
        was_busy.dedup();
        assert_eq!(was_busy, [false, true, false]);
    }
}
