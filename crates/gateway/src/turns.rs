//! Who is served when: connections that are written much take turns among themselves, and nobody else waits for them.
//!
//! tokio serves tasks in the order in which they were woken. Where a busy chat always has hundreds of connections to
//! write to, a client that says a word now and then waits for all of them, at every step of its message's way. So a
//! connection that is written much leaves tokio's queue for [`Turns`], and comes back when it has become quiet. No more
//! than one task for each thread serves those that wait there, and gives way after each of them: in tokio's queue all
//! busy connections together are no longer than that.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::Runnable;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::peer::Peer;

/// Who is written more than this in a second is busy: two hundred messages of ordinary length.
const BUSY_BYTES_PER_SECOND: f64 = 65_536.0;
/// How long is looked before that is said.
const WINDOW: Duration = Duration::from_millis(100);

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a connection to its end, among the quiet or among the busy, as it is written little or much.
pub(crate) fn spawn(turns: Arc<Turns>, peer: Arc<Peer>, connection: impl Future<Output = ()> + Send + 'static) {
    let pace = Pace { peer, since: Instant::now(), is_busy: false };
    be_quiet(turns, Stay { connection: Some(Box::pin(connection)), pace });
}

fn be_quiet(turns: Arc<Turns>, stay: Stay) {
    tokio::spawn(async move {
        if let Some(stay) = stay.await {
            be_busy(turns, stay);
        }
    });
}

fn be_busy(turns: Arc<Turns>, stay: Stay) {
    let (queue, runtime) = (turns.clone(), Handle::current());
    let work = async move {
        if let Some(stay) = stay.await {
            be_quiet(turns, stay);
        }
    };
    // A connection that panics ends alone, as it would among the quiet.
    let (first, task) = async_task::Builder::new()
        .propagate_panic(true)
        .spawn(|()| work, move |runnable| queue.push(runnable, &runtime));
    first.schedule();
    task.detach();
}

/// A connection as long as its pace does not change. Then it is returned, to be run elsewhere; `None` is its end.
struct Stay {
    /// Absent once it has ended or was returned.
    connection: Option<Connection>,
    pace: Pace,
}

impl Future for Stay {
    type Output = Option<Self>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        if connection.as_mut().poll(cx).is_ready() {
            self.connection = None;
            return Poll::Ready(None);
        }
        if !self.pace.handle_turn(Instant::now()) {
            return Poll::Pending;
        }
        // Whatever it waits for learns by the first poll over there whom to wake.
        Poll::Ready(Some(Self { connection: self.connection.take(), pace: self.pace.clone() }))
    }
}

/// How much a connection is written.
#[derive(Clone)]
struct Pace {
    peer: Arc<Peer>,
    since: Instant,
    is_busy: bool,
}

impl Pace {
    /// Takes note that the connection was served; `true` if it is no longer what it was, busy or quiet.
    fn handle_turn(&mut self, now: Instant) -> bool {
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

/// Busy connections that wait for their turn.
#[derive(Default)]
pub(crate) struct Turns {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// As many as there are busy connections, at the most.
    waiting: VecDeque<Runnable>,
    /// Tasks that serve them now.
    servers: usize,
}

impl Turns {
    fn push(self: &Arc<Self>, runnable: Runnable, runtime: &Handle) {
        let mut queue = self.lock();
        queue.waiting.push_back(runnable);
        if queue.servers < runtime.metrics().num_workers() {
            queue.servers += 1;
            drop(queue);
            runtime.spawn(self.clone().serve());
        }
    }

    /// Serves whoever waits, until nobody does.
    async fn serve(self: Arc<Self>) {
        while let Some(runnable) = self.pop() {
            runnable.run();
            tokio::task::yield_now().await;
        }
    }

    /// Who is next. The task that is told that nobody is ends.
    fn pop(&self) -> Option<Runnable> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.servers -= usize::from(next.is_none());
        next
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that runs under the lock can leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use domain::{ConnectionId, DeviceId, Timestamp, UserId};
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    use super::*;

    fn peer() -> Arc<Peer> {
        let (connection_id, device_id) = (ConnectionId::from_bytes([1; 16]), DeviceId::from_bytes([2; 16]));
        Arc::new(Peer::new(connection_id, UserId::from_bytes([3; 16]), device_id, None, Timestamp::from_millis(0)))
    }

    fn pace(is_busy: bool) -> Pace {
        Pace { peer: peer(), since: Instant::now(), is_busy }
    }

    /// A connection among the busy, always ready for another turn, that ends in a panic with the last of so many.
    fn busy(turns: &Arc<Turns>, turns_max: usize) -> Arc<AtomicUsize> {
        let served = Arc::new(AtomicUsize::new(0));
        let counted = served.clone();
        let connection = async move {
            while counted.fetch_add(1, Ordering::Relaxed) < turns_max {
                yield_now().await;
            }
            panic!("it was to panic");
        };
        be_busy(turns.clone(), Stay { connection: Some(Box::pin(connection)), pace: pace(true) });
        served
    }

    fn turns_of(served: &[Arc<AtomicUsize>]) -> Vec<usize> {
        served.iter().map(|served| served.load(Ordering::Relaxed)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_busy_while_it_is_written_much() {
        let mut pace = pace(false);
        let mut after = |bytes: usize, time: Duration| {
            pace.peer.handle_written(bytes);
            (pace.handle_turn(pace.since + time), pace.is_busy)
        };
        assert_eq!(after(1 << 30, WINDOW / 2), (false, false), "a moment says nothing");
        assert_eq!(after(0, WINDOW), (true, true));
        assert_eq!(after(65_537, Duration::from_secs(1)), (false, true));
        assert_eq!(after(65_536, Duration::from_secs(1)), (true, false));
        assert_eq!(after(1 << 20, Duration::from_secs(60)), (false, false), "much after a long silence is not much");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_quiet_waits_for_more_than_one_busy_connection_and_these_are_served_alike() {
        let turns = Arc::new(Turns::default());
        let served: Vec<_> = (0..50).map(|_| busy(&turns, usize::MAX)).collect();
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
    async fn a_busy_connection_that_panics_takes_nobody_along() {
        let turns = Arc::new(Turns::default());
        let served = [busy(&turns, 3), busy(&turns, usize::MAX)];
        for _ in 0..100 {
            yield_now().await;
        }
        let each = turns_of(&served);
        assert!(each[0] == 4 && each[1] > 50, "{each:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_goes_on_where_it_was_when_it_is_busy_and_when_it_is_quiet_again() {
        const STEPS: u32 = 30;
        let turns = Arc::new(Turns::default());
        let (peer, (told, mut heard)) = (peer(), mpsc::unbounded_channel());
        let of_connection = peer.clone();
        spawn(turns.clone(), peer, async move {
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
            // Among the busy, whoever wakes it knows the queue.
            was_busy.push(Arc::strong_count(&turns) > 2);
        }
        assert_eq!(heard.recv().await, None, "it has ended");
        was_busy.dedup();
        assert_eq!(was_busy, [false, true, false]);
    }
}
