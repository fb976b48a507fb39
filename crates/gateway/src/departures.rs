use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::counter;
use ports::Route;
use tokio::sync::watch;
use tracing::warn;

use crate::Gateway;

/// Routes taken back in one call.
const BATCH_LEN: usize = 256;
/// How long a user whose last connection has ended may take to come back before others are told: a client that loses its
/// socket opens the next one at once.
const BACK_WITHIN: Duration = Duration::from_millis(250);

/// Routes of connections that have ended, on their way to be forgotten. No connection waits for that.
///
/// When there are as many as a gateway has connections, the oldest is given up: it expires by itself.
pub(crate) struct Departures {
    len_max: usize,
    queue: Mutex<VecDeque<Departure>>,
    /// How many are not taken back yet, with those that are being taken back; watched for the first and the last.
    left: watch::Sender<usize>,
}

#[derive(Debug, PartialEq, Eq)]
struct Departure {
    route: Route,
    ending: Ending,
}

/// What becomes of the client of a connection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It may be gone.
    Left,
    /// It was sent to another gateway, and is on its way.
    Drained,
}

/// Routes that are taken back together.
struct Batch {
    routes: Vec<Route>,
    ending: Ending,
}

impl Departures {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { len_max, queue: Mutex::default(), left: watch::Sender::new(0) }
    }

    pub(crate) fn push(&self, route: Route, ending: Ending) {
        let mut queue = self.lock();
        if queue.len() >= self.len_max && queue.pop_front().is_some() {
            counter!("tidings_gateway_departures_dropped_total").increment(1);
        } else {
            self.left.send_modify(|left| *left += 1);
        }
        queue.push_back(Departure { route, ending });
    }

    /// Waits until there are some.
    pub(crate) async fn some(&self) {
        // The sender lives as long as this does.
        drop(self.left.subscribe().wait_for(|left| *left > 0).await);
    }

    /// Waits until all are taken back.
    pub(crate) async fn none(&self) {
        drop(self.left.subscribe().wait_for(|left| *left == 0).await);
    }

    /// The oldest of them that ended alike. Each batch is either settled or put back.
    fn take(&self) -> Option<Batch> {
        let mut queue = self.lock();
        let ending = queue.front()?.ending;
        let alike = queue.iter().take(BATCH_LEN).take_while(|departure| departure.ending == ending).count();
        Some(Batch { routes: queue.drain(..alike).map(|departure| departure.route).collect(), ending })
    }

    fn settle(&self, batch: &Batch) {
        self.left.send_modify(|left| *left -= batch.routes.len());
    }

    fn put_back(&self, Batch { routes, ending }: Batch) {
        let mut queue = self.lock();
        for route in routes.into_iter().rev() {
            if queue.len() < self.len_max {
                queue.push_front(Departure { route, ending });
            } else {
                counter!("tidings_gateway_departures_dropped_total").increment(1);
                self.left.send_modify(|left| *left -= 1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Departure>> {
        // Nothing that runs under the lock can leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// Takes back the routes of one batch of departures; `false` if that failed and it has to be tried again.
    pub(crate) async fn take_back_routes(&self) -> bool {
        let departures = &self.hub.departures;
        let Some(batch) = departures.take() else { return true };
        let back_within = match batch.ending {
            Ending::Left => BACK_WITHIN,
            Ending::Drained => self.config.expiry,
        };
        match self.route_writer.unregister(&batch.routes, back_within).await {
            Ok(()) => {
                departures.settle(&batch);
                true
            }
            Err(failure) => {
                let (error, routes) = (&failure as &dyn std::error::Error, batch.routes.len());
                warn!(error, routes, "routes were not taken back; the next beat tries again");
                departures.put_back(batch);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ConnectionId;
    use tokio::time::{self, Instant};

    use super::*;
    use crate::hub::Admitted;
    use crate::world::{BEAT, EXPIRY, World};

    const MOMENT: Duration = Duration::from_millis(1);

    fn id(connection: &Admitted) -> ConnectionId {
        connection.peer.connection_id
    }

    #[tokio::test(start_paused = true)]
    async fn the_route_of_a_connection_that_ends_is_taken_back_at_once() {
        let world = World::start().await;
        let connections = world.connect_many(2).await;
        let (first, second) = (id(&connections[0]), id(&connections[1]));
        connections[0].handle_end();
        time::sleep(MOMENT).await;
        assert_eq!(world.routes.take_unregistered(), [(vec![first], BACK_WITHIN)]);
        assert!(!world.is_routed(&connections[0].peer).await);
        drop(connections);
        time::sleep(MOMENT).await;
        assert_eq!(world.routes.take_unregistered(), [(vec![second], BACK_WITHIN)], "the first has ended before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_had_a_route_leaves_none() {
        let world = World::start().await;
        drop(world.admit(world.user(), None));
        time::sleep(BEAT).await;
        assert_eq!(world.routes.take_unregistered(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn departures_that_cannot_be_written_are_with_the_next_beat_in_order_and_in_batches() {
        let world = World::start().await;
        let connections = world.connect_many(600).await;
        let ended: Vec<_> = connections.iter().map(id).collect();
        world.routes.leave();
        for connection in connections {
            drop(connection);
        }
        time::sleep(MOMENT).await;
        world.routes.come_back();
        time::timeout(BEAT, world.gateway.hub.departures.none()).await.expect("the next beat tries again");
        let unregistered = world.routes.take_unregistered();
        assert_eq!(unregistered.iter().map(|(routes, _)| routes.len()).collect::<Vec<_>>(), [256, 256, 88]);
        assert_eq!(unregistered.into_iter().flat_map(|(routes, _)| routes).collect::<Vec<_>>(), ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_route_that_is_taken_back_is_not_brought_back_by_a_refresh_that_was_under_way() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        *world.routes.refresh_takes.lock().unwrap() = 2 * MOMENT;
        time::sleep(BEAT).await;
        connection.handle_end();
        time::sleep(4 * MOMENT).await;
        assert_eq!(world.routes.take_refreshed(), [[id(&connection)]], "it was under way when the connection ended");
        assert!(!world.is_routed(&connection.peer).await);
        time::sleep(BEAT).await;
        assert!(!world.is_routed(&connection.peer).await);
    }

    #[tokio::test(start_paused = true)]
    async fn whom_a_drain_sends_away_has_until_the_expiry_to_come_back_and_the_drain_waits_for_the_routes() {
        let world = World::start().await;
        let connections = world.connect_many(3).await;
        let ended: Vec<_> = connections.iter().map(id).collect();
        let hub = world.gateway.hub.clone();
        let draining = tokio::spawn(async move { hub.drain().await });
        time::sleep(MOMENT).await;
        for connection in connections {
            drop(connection);
        }
        draining.await.unwrap();
        let unregistered = world.routes.take_unregistered();
        assert!(unregistered.iter().all(|(_, back_within)| *back_within == EXPIRY));
        assert_eq!(unregistered.into_iter().flat_map(|(routes, _)| routes).collect::<Vec<_>>(), ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_does_not_wait_for_ever_for_what_keeps_routes() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        world.routes.leave();
        drop(connection);
        let began = Instant::now();
        world.gateway.hub.drain().await;
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_their_bound_the_oldest_departures_are_given_up() {
        let world = World::start().await;
        let connections = world.connect_many(4).await;
        let route = |n: usize| world.gateway.hub.route(&connections[n].peer);
        let departures = Departures::new(2);
        departures.push(route(0), Ending::Left);
        departures.push(route(1), Ending::Left);
        let batch = departures.take().unwrap();
        departures.push(route(2), Ending::Drained);
        departures.put_back(batch);
        assert_eq!(*departures.left.borrow(), 2);
        departures.push(route(3), Ending::Drained);
        let batch = departures.take().unwrap();
        assert_eq!((&batch.routes, batch.ending), (&vec![route(2), route(3)], Ending::Drained));
        assert_eq!(*departures.left.borrow(), 2, "until it is known what became of them");
        departures.settle(&batch);
        departures.none().await;
    }
}
