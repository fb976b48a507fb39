use std::sync::Arc;
use std::time::Duration;

use protocol::CloseReason;
use tokio::time;

use crate::Hub;
use crate::peer::Peer;

/// Connections that are told to leave together, and the pause before the next ones: whoever takes them in gets them bit by
/// bit, and not all at once.
const WAVE_LEN: usize = 100;
const WAVE_PAUSE: Duration = Duration::from_millis(200);

impl Hub {
    /// Takes no more connections until [`end_drain`](Self::end_drain). Those there are leave while
    /// [`keep_drained`](Self::keep_drained) runs.
    pub fn begin_drain(&self) {
        self.draining.send_replace(true);
    }

    /// Takes connections again. Whoever was told to leave leaves.
    pub fn end_drain(&self) {
        self.draining.send_replace(false);
    }

    /// Whether no more connections are taken.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Has the clients of a gateway that drains go elsewhere, wave by wave, for ever.
    pub async fn keep_drained(&self) {
        let mut draining = self.draining.subscribe();
        loop {
            // The sender lives as long as the hub does.
            drop(draining.wait_for(|draining| *draining).await);
            let mut leaving: Vec<Arc<Peer>> = vec![];
            self.for_each(|peer| leaving.push(peer.clone()));
            for wave in leaving.chunks(WAVE_LEN) {
                if !self.is_draining() {
                    break;
                }
                wave.iter().for_each(|peer| peer.mailbox.close(CloseReason::ServerShutdown));
                time::sleep(WAVE_PAUSE).await;
            }
            // Not the end of the drain, but any change: one that has ended and begun anew meanwhile begins again here.
            drop(draining.changed().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::hub::{Admitted, Refused};
    use crate::world::World;

    /// A gateway whose clients leave when it drains.
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
    async fn a_drain_takes_nobody_in_and_tells_a_hundred_clients_to_leave_every_fifth_of_a_second() {
        let (world, _tasks) = world().await;
        let connections = world.connect_many(250).await;
        assert!(!world.gateway.hub.is_draining());
        world.gateway.hub.begin_drain();
        assert_eq!(world.try_admit(), Err(Refused::NoRoom));
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
    async fn whoever_came_between_two_drains_leaves_in_the_second() {
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
