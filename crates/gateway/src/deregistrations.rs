use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use metrics::counter;
use ports::{Route, error_chain, lock};
use tokio::sync::watch;
use tracing::warn;

use crate::Gateway;

/// Routes deregistered in one call.
const BATCH_LEN: usize = 256;
/// Grace period between the end of a user's last connection and the offline announcement. A client that loses its socket
/// reconnects immediately.
const RECONNECT_GRACE: Duration = Duration::from_millis(250);

/// Queue of routes to deregister, one for each ended connection. Connections do not wait for it.
///
/// The queue holds at most as many routes as the gateway has connections. When it is full, the oldest route is dropped
/// and left to expire.
pub(crate) struct Deregistrations {
    len_max: usize,
    queue: Mutex<VecDeque<Deregistration>>,
    /// Routes not deregistered yet, including those of the batch in progress. Tasks wait for it to become nonzero or zero.
    left: watch::Sender<usize>,
}

#[derive(Debug, PartialEq, Eq)]
struct Deregistration {
    route: Route,
    ending: ConnectionEnding,
}

/// Whether the client of an ended connection is expected to reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    /// The client may be offline.
    Left,
    /// The client was sent to another gateway and is expected to reconnect there.
    Drained,
}

/// Routes that are deregistered in one call.
struct DeregistrationBatch {
    routes: Vec<Route>,
    ending: ConnectionEnding,
}

impl Deregistrations {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { len_max, queue: Mutex::default(), left: watch::Sender::new(0) }
    }

    pub(crate) fn push(&self, route: Route, ending: ConnectionEnding) {
        let mut queue = self.lock();
        if queue.len() >= self.len_max && queue.pop_front().is_some() {
            counter!("tidings_gateway_departures_dropped_total").increment(1);
        } else {
            self.left.send_modify(|left| *left += 1);
        }
        queue.push_back(Deregistration { route, ending });
    }

    /// Waits until the queue has an entry.
    pub(crate) async fn some(&self) {
        // `wait_for` fails only when the sender is dropped, and `self` owns the sender.
        drop(self.left.subscribe().wait_for(|left| *left > 0).await);
    }

    /// Waits until all routes are deregistered.
    pub(crate) async fn none(&self) {
        drop(self.left.subscribe().wait_for(|left| *left == 0).await);
    }

    /// Takes the oldest routes that share one ending. The caller either settles each batch or puts it back.
    fn take(&self) -> Option<DeregistrationBatch> {
        let mut queue = self.lock();
        let ending = queue.front()?.ending;
        let alike = queue.iter().take(BATCH_LEN).take_while(|deregistration| deregistration.ending == ending).count();
        Some(DeregistrationBatch {
            routes: queue.drain(..alike).map(|deregistration| deregistration.route).collect(),
            ending,
        })
    }

    fn settle(&self, batch: &DeregistrationBatch) {
        self.left.send_modify(|left| *left -= batch.routes.len());
    }

    fn put_back(&self, DeregistrationBatch { routes, ending }: DeregistrationBatch) {
        let mut queue = self.lock();
        for route in routes.into_iter().rev() {
            if queue.len() < self.len_max {
                queue.push_front(Deregistration { route, ending });
            } else {
                counter!("tidings_gateway_departures_dropped_total").increment(1);
                self.left.send_modify(|left| *left -= 1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Deregistration>> {
        lock(&self.queue)
    }
}

impl Gateway {
    /// Deregisters one batch of routes. Returns `false` if that failed and needs a retry.
    pub(crate) async fn deregister_routes(&self) -> bool {
        let deregistrations = &self.hub.deregistrations;
        let Some(batch) = deregistrations.take() else { return true };
        let back_within = match batch.ending {
            ConnectionEnding::Left => RECONNECT_GRACE,
            ConnectionEnding::Drained => self.config.expiry,
        };
        match self.route_writer.unregister(&batch.routes, back_within).await {
            Ok(()) => {
                deregistrations.settle(&batch);
                true
            }
            Err(failure) => {
                let (error, routes) = (error_chain(&failure), batch.routes.len());
                warn!(%error, routes, "route deregistration failed; retrying at next heartbeat");
                deregistrations.put_back(batch);
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
    use crate::test_world::{EXPIRY, HEARTBEAT_INTERVAL, World};

    const MOMENT: Duration = Duration::from_millis(1);

    fn id(connection: &Admitted) -> ConnectionId {
        connection.peer.connection_id
    }

    #[tokio::test(start_paused = true)]
    async fn the_route_of_an_ended_connection_is_deregistered_immediately() {
        let world = World::start().await;
        let connections = world.connect_many(2).await;
        let (first, second) = (id(&connections[0]), id(&connections[1]));
        connections[0].handle_end();
        time::sleep(MOMENT).await;
        assert_eq!(world.routes.take_unregistered(), [(vec![first], RECONNECT_GRACE)]);
        assert!(!world.is_routed(&connections[0].peer).await);
        drop(connections);
        time::sleep(MOMENT).await;
        assert_eq!(world.routes.take_unregistered(), [(vec![second], RECONNECT_GRACE)], "the first has ended before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_had_a_route_leaves_none() {
        let world = World::start().await;
        drop(world.admit(world.user(), None));
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert_eq!(world.routes.take_unregistered(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_deregistrations_are_retried_at_the_next_heartbeat_in_order_and_in_batches() {
        let world = World::start().await;
        let connections = world.connect_many(600).await;
        let ended: Vec<_> = connections.iter().map(id).collect();
        world.routes.leave();
        for connection in connections {
            drop(connection);
        }
        time::sleep(MOMENT).await;
        world.routes.come_back();
        time::timeout(HEARTBEAT_INTERVAL, world.gateway.hub.deregistrations.none())
            .await
            .expect("the next heartbeat retries");
        let unregistered = world.routes.take_unregistered();
        assert_eq!(unregistered.iter().map(|(routes, _)| routes.len()).collect::<Vec<_>>(), [256, 256, 88]);
        assert_eq!(unregistered.into_iter().flat_map(|(routes, _)| routes).collect::<Vec<_>>(), ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deregistered_route_is_not_restored_by_a_refresh_in_progress() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        *world.routes.refresh_takes.lock().unwrap() = 2 * MOMENT;
        time::sleep(HEARTBEAT_INTERVAL).await;
        connection.handle_end();
        time::sleep(4 * MOMENT).await;
        assert_eq!(world.routes.take_refreshed(), [[id(&connection)]], "it was under way when the connection ended");
        assert!(!world.is_routed(&connection.peer).await);
        time::sleep(HEARTBEAT_INTERVAL).await;
        assert!(!world.is_routed(&connection.peer).await);
    }

    #[tokio::test(start_paused = true)]
    async fn drained_users_have_until_the_expiry_to_reconnect_and_the_drain_waits_for_deregistration() {
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
    async fn a_drain_does_not_wait_forever_for_the_routing_table() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        world.routes.leave();
        drop(connection);
        let began = Instant::now();
        world.gateway.hub.drain().await;
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_the_oldest_deregistrations_are_dropped() {
        let world = World::start().await;
        let connections = world.connect_many(4).await;
        let route = |n: usize| world.gateway.hub.route(&connections[n].peer);
        let deregistrations = Deregistrations::new(2);
        deregistrations.push(route(0), ConnectionEnding::Left);
        deregistrations.push(route(1), ConnectionEnding::Left);
        let batch = deregistrations.take().unwrap();
        deregistrations.push(route(2), ConnectionEnding::Drained);
        deregistrations.put_back(batch);
        assert_eq!(*deregistrations.left.borrow(), 2);
        deregistrations.push(route(3), ConnectionEnding::Drained);
        let batch = deregistrations.take().unwrap();
        assert_eq!((&batch.routes, batch.ending), (&vec![route(2), route(3)], ConnectionEnding::Drained));
        assert_eq!(*deregistrations.left.borrow(), 2, "until it is known what became of them");
        deregistrations.settle(&batch);
        deregistrations.none().await;
    }
}
