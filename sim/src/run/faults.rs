use std::time::Duration;

use ports::lock;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{RunState, gone};
use crate::client::DeviceCommand;
use crate::compose;
use crate::plan::{PlannedFault, ProcessVersion, RunShape};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::Dependency;

/// Maximum time for a process to drain.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Fault injection.
impl RunState {
    pub(super) async fn fail(&mut self, fault: &PlannedFault) {
        let world = self.world.clone();
        world.note(TraceActor::Nemesis, TraceEvent::Fault(format!("{fault:?}")));
        match *fault {
            // Most commits are short, and events are processed fast. To hit them with crashes, half of the kills wait.
            PlannedFault::Kill { process, .. } if self.can_wait(process) && world.streams.disk.chance(0.5) => {
                self.armed = Some(fault.clone());
            }
            PlannedFault::Kill { process, back_after } => self.die(process, back_after),
            PlannedFault::Roll { process, to } => self.roll(process, to).await,
            PlannedFault::Pause { process, lasts } => {
                if let Some(running) = world.directory.at(process) {
                    running.process.pause(true);
                    tokio::spawn(async move {
                        sleep(lasts).await;
                        running.process.pause(false);
                    });
                }
            }
            PlannedFault::Part { one, other, lasts } => world.part(one, other, lasts),
            PlannedFault::StoreAway { lasts } => world.take_away(Dependency::Store, lasts),
            PlannedFault::Throttle { lasts } => world.take_away(Dependency::Throttled, lasts),
            PlannedFault::Unreadable { lasts } => world.take_away(Dependency::Legible, lasts),
            PlannedFault::DiskFails { lasts } => world.take_away(Dependency::Disk, lasts),
            PlannedFault::LogAway { lasts } => world.take_away(Dependency::Log, lasts),
            PlannedFault::ReceiverAway { lasts } => world.take_away(Dependency::Receiver, lasts),
            PlannedFault::SharedAway { lasts } => {
                world.take_away(Dependency::Shared, lasts);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    world.lose_links();
                });
            }
            PlannedFault::Wipe => self.memory.wipe(),
            PlannedFault::Step { process, forward, by } => {
                if let Some(running) = world.directory.at(process) {
                    let by = by.as_millis() as i64;
                    running.process.clock.step(if forward { by } else { -by });
                }
            }
            PlannedFault::Cut { process } => {
                if let Some(running) = world.directory.at(process) {
                    running.cut_sockets();
                }
            }
        }
    }

    /// Whether the kill of a process can wait for a commit, or for events of the log.
    fn can_wait(&self, process: usize) -> bool {
        let size = &self.world.plan.size;
        let fanouts = size.gateways + size.ingests..size.gateways + size.ingests + size.fanouts;
        self.world.plan.shape == RunShape::Node || fanouts.contains(&process)
    }

    /// Executes a pending kill.
    pub(super) fn strike(&mut self) {
        if let Some(PlannedFault::Kill { process, back_after }) = self.armed.take() {
            self.die(process, back_after);
        }
    }

    fn die(&mut self, process: usize, back_after: Duration) {
        self.kill(process);
        // Sometimes a client loses its network at the same time and never reconnects.
        let nemesis = &self.world.streams.nemesis;
        if nemesis.chance(0.35) {
            let client = nemesis.index(self.clients.len());
            drop(self.clients[client].send(DeviceCommand::Vanish));
        }
        self.start_later(process, back_after);
    }

    fn kill(&mut self, slot: usize) {
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.note_panic(&running.process);
        // Crash the process alone, or cut the power of its machine.
        let is_power_cut = !self.world.streams.nemesis.chance(0.5);
        self.world.crash_disk(is_power_cut);
        running.process.kill();
        self.kills += 1;
        self.world.note(TraceActor::Process(running.process.name.clone()), TraceEvent::Killed);
        if !is_power_cut {
            running.cut_sockets();
        } else {
            // Its clients are not notified.
            let delay = self.world.streams.nemesis.time(Duration::from_secs(1), Duration::from_secs(20));
            tokio::spawn(async move {
                sleep(delay).await;
                running.cut_sockets();
            });
        }
        if self.world.plan.shape == RunShape::Node {
            self.memory.wipe();
        }
    }

    fn start_later(&mut self, slot: usize, after: Duration) {
        self.epochs[slot] += 1;
        let (world, memory, epoch) = (self.world.clone(), self.memory.clone(), self.epochs[slot]);
        let (leaving, version) = (self.leaving.clone(), self.versions[slot]);
        tokio::spawn(async move {
            sleep(after.max(Duration::from_millis(1))).await;
            gone(leaving).await;
            if world.directory.at(slot).is_none() {
                world.look_at_store();
                compose::start(&world, (slot, epoch, version), &memory);
            }
        });
    }

    /// Drains and replaces a process, as an update does.
    async fn roll(&mut self, slot: usize, to: ProcessVersion) {
        self.versions[slot] = to;
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.world.note(TraceActor::Process(running.process.name.clone()), TraceEvent::Drained);
        if let Some(stop) = lock(&running.stop_relay).take() {
            // The relay may have stopped already.
            let _ = stop.send(());
        }
        if self.world.plan.shape == RunShape::Node {
            self.leaving = Some(running.process.clone());
        }
        let gateway = running.services.gateway.clone();
        let (done, drained) = oneshot::channel();
        let rolled = self.world.clone();
        tokio::spawn(async move {
            if let Some(gateway) = gateway {
                // Connections that do not drain in time are cut.
                drop(timeout(DRAIN_MAX, gateway.hub.drain()).await);
            } else {
                sleep(Duration::from_millis(200)).await;
            }
            rolled.crash_disk(false);
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
                if world.plan.shape == RunShape::Node {
                    memory.wipe();
                }
                compose::start(&world, (slot, epoch, to), &memory);
            }
        });
    }
}
