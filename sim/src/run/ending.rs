use std::time::Duration;

use audit::history::{Entry, HistoryOp, Page, Seen, fingerprint};
use contract::Violations;
use domain::{ChatId, ConnectionId, Invariant, Sequence, UserId};
use ports::{ChatReader, Clock, EventLog, MessageReader, PageBounds, Position, PresenceTransitions, Record, Routes};
use tokio::sync::oneshot;

use super::{RunOutcome, RunState};
use crate::client::{DeviceCommand, DeviceState};
use crate::copies::{CopyState, update_fingerprint};
use crate::plan::{PlannedFault, RunShape};
use crate::world::World;

/// Time within which a client notices that its connection was closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// Checks at the end of a run.
impl RunState {
    /// Checks everything once more, now that nothing is in progress.
    pub(super) async fn end(mut self, asserted: &Violations) -> RunOutcome {
        let world = self.world.clone();
        let standings = self.standings().await;
        world.look_at_store();
        let all = PageBounds { count: usize::MAX, bytes: usize::MAX };
        for chat_id in &self.chats {
            self.note_stored(*chat_id, all).await;
        }
        self.look_at_clients(&standings).await;
        world.look_at_deletions(&self.chats).await;
        world.look_at_connections();
        let settled = Entry { at: world.milliseconds(), client: self.client(0), op: HistoryOp::Settled };
        world.observe(&settled);
        world.end_history();
        let records = match world.plan.shape {
            RunShape::Fleet => world.log.records(),
            RunShape::Node => node_log(&world).await,
        };
        world.look_at_log(&records);
        world.look_at_outward(&records);
        self.audit().await;
        self.note_asserted(asserted);
        let mut busy = 0;
        for running in world.directory.all() {
            self.note_panic(&running.process);
            busy += running.services.gateway.as_ref().map_or(0, |gateway| gateway.hub.became_busy());
        }
        let messages = world.checks.message_count() as u64;
        let lasted = world.began.elapsed();
        let trace = std::mem::take(&mut *world.trace());
        let findings = world.checks.findings().clone();
        let (plan, kills) = (world.plan.clone(), self.kills);
        RunOutcome { plan, trace, findings, lasted, kills, messages, busy, panic: self.panic }
    }

    /// Records the stored messages of a chat in the history.
    async fn note_stored(&self, chat_id: ChatId, all: PageBounds) {
        let world = &self.world;
        let now = world.clock.now();
        let began_at = world.milliseconds();
        let Ok(page) = world.store.after(chat_id, Sequence::ZERO, all, now).await else { return };
        let messages = page.messages.iter().map(|message| Seen {
            sequence: message.sequence,
            message_id: message.message_id,
            sender_id: message.sender_id,
            client_message_id: Some(message.client_message_id),
            content: fingerprint(message.body.content.as_str()),
        });
        let updates = page.updates.iter().map(|update| Seen {
            sequence: update.sequence,
            message_id: update.update_id,
            sender_id: update.user_id,
            client_message_id: Some(update.client_message_id),
            content: update_fingerprint((&update.kind).into(), update.target, update.kind.reaction()),
        });
        let mut entries: Vec<Seen> = messages.chain(updates).collect();
        entries.sort_by_key(|seen| seen.sequence);
        let page = Page { after: Sequence::ZERO, through: page.head, is_last: true, messages: entries };
        world.observe(&Entry {
            at: began_at,
            client: self.client(0),
            op: HistoryOp::Stored { chat_id, began_at, page },
        });
    }

    async fn standings(&self) -> Vec<DeviceState> {
        let mut standings = vec![];
        for client in &self.clients {
            let (report, reported) = oneshot::channel();
            drop(client.send(DeviceCommand::Report(report)));
            standings.extend(reported.await.ok());
        }
        standings
    }

    /// Checks the state of the clients: all have every message and can be reached.
    async fn look_at_clients(&self, standings: &[DeviceState]) {
        let world = &self.world;
        let wiped = world.plan.faults.iter().any(|fault| matches!(fault.what, PlannedFault::Wipe));
        for user_id in &self.users {
            let routes = self.memory.routes.routes(*user_id).await.unwrap_or_default();
            let offline_since = self.memory.routes.offline_since(&[*user_id]).await.unwrap_or_default();
            // A wipe also loses the offline state of users who do not reconnect.
            if routes.is_empty() && !wiped && world.plan.shape == RunShape::Fleet {
                world.check(
                    Invariant::PresenceStalenessBounded,
                    offline_since.first().is_some_and(Option::is_some),
                    || format!("{user_id} has no live route and was not announced as offline"),
                );
            }
        }
        let mut unrouted = vec![];
        for standing in standings.iter().filter(|standing| !standing.is_stopped) {
            let user_id = standing.user_id;
            for chat_id in &self.chats {
                let Ok(Some(_)) = world.store.member(*chat_id, user_id).await else { continue };
                let Ok(Some(head)) = world.store.head(*chat_id).await else { continue };
                let Some(watermark) = standing.watermarks.get(chat_id) else { continue };
                // Messages that expired before their push are not announced.
                let now = world.clock.now();
                let holds = *watermark <= head.sequence && !world.checks.has_beyond(*chat_id, *watermark, now);
                world.check(Invariant::ConflictResolution, holds, || {
                    format!("a client of {user_id} is at {watermark} of {chat_id}, the store at {}", head.sequence)
                });
                if holds {
                    self.look_at_copies(*chat_id, standing).await;
                }
                if standing.connections > 1 {
                    world.check(Invariant::ReconnectHeals, holds, || {
                        format!("a client of {user_id} came back and is at {watermark} of {chat_id}")
                    });
                }
            }
            let routes = self.memory.routes.routes(user_id).await.unwrap_or_default();
            let is_routed = |connection| routes.iter().any(|route| route.connection_id == connection);
            if wiped && let Some(connection) = standing.connection {
                if is_routed(connection) {
                    world.check(Invariant::SharedStateIsEphemeral, true, String::new);
                } else {
                    unrouted.push((user_id, connection));
                }
            }
            for (watched, is_online) in &standing.watched {
                world.shown_last(user_id, *watched, *is_online);
            }
        }
        self.look_at_unrouted(&unrouted).await;
    }

    /// Checks that a client with all entries of a chat has the stored state of each message that it has shown.
    async fn look_at_copies(&self, chat_id: ChatId, standing: &DeviceState) {
        let world = &self.world;
        let Some(copies) = standing.copies.get(&chat_id) else { return };
        let all = PageBounds { count: usize::MAX, bytes: usize::MAX };
        let Ok(page) = world.store.after(chat_id, Sequence::ZERO, all, world.clock.now()).await else { return };
        for (sequence, copy) in copies {
            let stored = page.messages.iter().find(|message| message.sequence == *sequence);
            let known = world.checks.committed(chat_id, *sequence);
            let state = match (stored, known) {
                (_, Some(known)) if known.is_deleted => CopyState::Deleted,
                (Some(message), _) => CopyState::of_stored(message),
                (None, _) => continue,
            };
            world.check(Invariant::ConvergentState, copy.state == state, || {
                let user_id = standing.user_id;
                format!("a client of {user_id} has {sequence} of {chat_id} as {:?}, and it is {state:?}", copy.state)
            });
        }
    }

    /// Checks connections without a route again. A connection that the server is closing has no route, and its client
    /// may not have noticed yet.
    async fn look_at_unrouted(&self, unrouted: &[(UserId, ConnectionId)]) {
        if unrouted.is_empty() {
            return;
        }
        tokio::time::sleep(CLOSED_WITHIN).await;
        let standings = self.standings().await;
        for (user_id, connection) in unrouted {
            let is_closed = standings.iter().all(|standing| standing.connection != Some(*connection));
            self.world.check(Invariant::SharedStateIsEphemeral, is_closed, || {
                format!("a connection of {user_id} has no route, long after a wipe")
            });
        }
    }

    /// Records violations that the planes detected and refused at run time.
    fn note_asserted(&self, asserted: &Violations) {
        for (name, times) in asserted.seen() {
            let invariant = Invariant::ALL.iter().copied().find(|invariant| invariant.name() == name);
            let invariant = invariant.expect("every counted name is an invariant");
            self.world.violated(invariant, format!("a plane detected it at run time, {times} times"));
        }
    }

    /// Audits the store with the auditor for real stores.
    async fn audit(&self) {
        let findings = crate::checks::audit_store(&self.world).await;
        for violation in findings.violations() {
            self.world.note_violation(violation.invariant, violation.detail.clone());
        }
        self.world.checks.findings().merge(findings);
    }
}

/// All events in the log of a node.
async fn node_log(world: &World) -> Vec<Record> {
    let mut records = vec![];
    let end = world.store.lag("nobody").await.unwrap_or_default();
    for place in 0..end {
        let position = Position(place);
        if let Ok(Some(event)) = world.store.event(position).await {
            records.push(Record { position, event });
        }
    }
    records
}
