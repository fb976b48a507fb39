use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{Stage, gone};
use crate::client::Command;
use crate::compose;
use crate::plan::{Fault, Shape};
use crate::trace::{Actor, What};
use crate::world::Part;

/// How long a process that goes in good order has.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What goes wrong.
impl Stage {
    pub(super) async fn fail(&mut self, fault: &Fault) {
        let world = self.world.clone();
        world.note(Actor::Nemesis, What::Fault(format!("{fault:?}")));
        match *fault {
            Fault::Kill { process, back_after } => {
                self.kill(process);
                // Now and then somebody is gone with what they were connected to, and nobody is left to say so.
                if world.streams.nemesis.chance(0.35) {
                    let client = world.streams.nemesis.index(self.clients.len());
                    drop(self.clients[client].send(Command::Vanish));
                }
                self.start_later(process, back_after);
            }
            Fault::Roll { process } => self.roll(process).await,
            Fault::Pause { process, lasts } => {
                if let Some(running) = world.directory.at(process) {
                    running.process.pause(true);
                    tokio::spawn(async move {
                        sleep(lasts).await;
                        running.process.pause(false);
                    });
                }
            }
            Fault::Part { one, other, lasts } => world.part(one, other, lasts),
            Fault::StoreAway { lasts } => world.take_away(Part::Store, lasts),
            Fault::Throttle { lasts } => world.take_away(Part::Throttled, lasts),
            Fault::DiskFails { lasts } => world.take_away(Part::Disk, lasts),
            Fault::LogAway { lasts } => world.take_away(Part::Log, lasts),
            Fault::SharedAway { lasts } => {
                world.take_away(Part::Shared, lasts);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    world.lose_links();
                });
            }
            Fault::Wipe => self.memory.wipe(),
            Fault::Step { process, forward, by } => {
                if let Some(running) = world.directory.at(process) {
                    let by = by.as_millis() as i64;
                    running.process.clock.step(if forward { by } else { -by });
                }
            }
            Fault::Cut { process } => {
                if let Some(running) = world.directory.at(process) {
                    running.cut_sockets();
                }
            }
        }
    }

    fn kill(&mut self, slot: usize) {
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.note_panic(&running.process);
        running.process.kill();
        self.kills += 1;
        self.world.note(Actor::Process(running.process.name.clone()), What::Killed);
        if self.world.streams.nemesis.chance(0.5) {
            running.cut_sockets();
        } else {
            // The machine is gone too, and its clients hear nothing.
            let delay = self.world.streams.nemesis.time(Duration::from_secs(1), Duration::from_secs(20));
            tokio::spawn(async move {
                sleep(delay).await;
                running.cut_sockets();
            });
        }
        if self.world.plan.shape == Shape::Node {
            self.memory.wipe();
        }
    }

    fn start_later(&mut self, slot: usize, after: Duration) {
        self.epochs[slot] += 1;
        let (world, memory, epoch) = (self.world.clone(), self.memory.clone(), self.epochs[slot]);
        let leaving = self.leaving.clone();
        tokio::spawn(async move {
            sleep(after.max(Duration::from_millis(1))).await;
            gone(leaving).await;
            if world.directory.at(slot).is_none() {
                world.look_at_store();
                compose::start(&world, slot, epoch, &memory);
            }
        });
    }

    /// Replaces a process in good order, as an upgrade does.
    async fn roll(&mut self, slot: usize) {
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.world.note(Actor::Process(running.process.name.clone()), What::Drained);
        if let Some(stop) = running.stop_relay.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The relay may have ended by itself.
            let _ = stop.send(());
        }
        if self.world.plan.shape == Shape::Node {
            self.leaving = Some(running.process.clone());
        }
        let gateway = running.services.gateway.clone();
        let (done, drained) = oneshot::channel();
        tokio::spawn(async move {
            if let Some(gateway) = gateway {
                // Who does not go is cut.
                drop(timeout(DRAIN_MAX, gateway.hub.drain()).await);
            } else {
                sleep(Duration::from_millis(200)).await;
            }
            running.process.kill();
            running.cut_sockets();
            let _ = done.send(());
        });
        self.epochs[slot] += 1;
        let (world, memory, epoch) = (self.world.clone(), self.memory.clone(), self.epochs[slot]);
        tokio::spawn(async move {
            drop(drained.await);
            sleep(Duration::from_millis(50)).await;
            if world.directory.at(slot).is_none() {
                if world.plan.shape == Shape::Node {
                    memory.wipe();
                }
                compose::start(&world, slot, epoch, &memory);
            }
        });
    }
}
