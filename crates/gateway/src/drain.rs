use std::sync::Arc;
use std::time::Duration;

use protocol::CloseReason;
use tokio::time;

use crate::Hub;
use crate::peer::ConnectionPeer;

/// Connections closed in one wave, and the pause between waves. Waves spread the reconnects over time, so the remaining
/// gateways are not flooded.
const WAVE_LEN: usize = 100;
const WAVE_PAUSE: Duration = Duration::from_millis(200);

impl Hub {
    /// Stops accepting connections until [`end_drain`](Self::end_drain). Open connections are closed while
    /// [`keep_drained`](Self::keep_drained) runs.
    pub fn begin_drain(&self) {
        self.draining.send_replace(true);
    }

    /// Accepts connections again. Connections that already have a close order still close.
    pub fn end_drain(&self) {
        self.draining.send_replace(false);
    }

    /// Whether new connections are rejected.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Closes connections in waves whenever the gateway drains. Runs until the task is aborted.
    pub async fn keep_drained(&self) {
        let mut draining = self.draining.subscribe();
        loop {
            // `wait_for` fails only when the sender is dropped, and `self` owns the sender.
            drop(draining.wait_for(|draining| *draining).await);
            let mut leaving: Vec<Arc<ConnectionPeer>> = vec![];
            self.for_each(|peer| leaving.push(peer.clone()));
            for wave in leaving.chunks(WAVE_LEN) {
                if !self.is_draining() {
                    break;
                }
                wave.iter().for_each(|peer| peer.mailbox.close(CloseReason::ServerShutdown));
                time::sleep(WAVE_PAUSE).await;
            }
            // Wait for any change, not for the end of the drain: a drain that ended and restarted meanwhile then starts over.
            drop(draining.changed().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::hub::{AdmissionError, Admitted};
    use crate::test_world::World;

    /// A gateway that runs `keep_drained`.
    async fn world() -> (World, JoinSet<()>) {
        let world = World::start().await;
        let hub = world.gateway.hub.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { hub.keep_drained().await });
        (world, tasks)
    }

    fn told_to_leave(connections: &[Admitted]) -> usize {
        let order = |connection: &Admitted| connection.peer.mailbox.close_order();
        connections.iter().filter(|connection| order(connection) == Some(CloseReason::ServerShutdown)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_rejects_connections_and_closes_a_hundred_every_fifth_of_a_second() {
        let (world, _tasks) = world().await;
        let connections = world.connect_many(250).await;
        assert!(!world.gateway.hub.is_draining());
        world.gateway.hub.begin_drain();
        assert_eq!(world.try_admit(), Err(AdmissionError::NoRoom));
        for told in [100, 200, 250] {
            time::sleep(Duration::from_millis(1)).await;
            assert_eq!(told_to_leave(&connections), told);
            time::sleep(WAVE_PAUSE - Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_that_is_called_off_takes_clients_in_and_leaves_the_rest_alone() {
        let (world, _tasks) = world().await;
        let connections = world.connect_many(250).await;
        world.gateway.hub.begin_drain();
        time::sleep(WAVE_PAUSE / 2).await;
        world.gateway.hub.end_drain();
        time::sleep(WAVE_PAUSE * 10).await;
        assert_eq!(told_to_leave(&connections), 100);
        assert_eq!(world.try_admit(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_made_between_two_drains_close_in_the_second() {
        let (world, _tasks) = world().await;
        let mut connections = world.connect_many(101).await;
        world.gateway.hub.begin_drain();
        time::sleep(WAVE_PAUSE / 2).await;
        world.gateway.hub.end_drain();
        connections.push(world.connect(world.user()).await);
        world.gateway.hub.begin_drain();
        time::sleep(WAVE_PAUSE * 5).await;
        assert_eq!(told_to_leave(&connections), 102);
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_is_closed_and_no_other() {
        let (world, _tasks) = world().await;
        let connections = world.connect_many(3).await;
        assert!(world.gateway.hub.close(connections[1].peer.connection_id));
        let orders: Vec<_> = connections.iter().map(|connection| connection.peer.mailbox.close_order()).collect();
        assert_eq!(orders, [None, Some(CloseReason::ServerShutdown), None]);
        assert!(!world.gateway.hub.close(domain::ConnectionId::from_bytes([7; 16])));
    }
}
