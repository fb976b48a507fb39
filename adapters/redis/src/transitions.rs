use async_trait::async_trait;
use domain::{ConnectionId, OnlineStatus, Timestamp, UserId};
use ports::{GatewayId, PresenceTransition, PresenceTransitions, StoreError, SweepResult};

use crate::call::{ANNOUNCED, FORGET_CONNECTION, FORGET_MEMBERS, FORGET_SERVER, SlotCommand};
use crate::due::SettledClaim;
use crate::keys;
use crate::registration::{BATCH_LEN, LIFE, forget_route};
use crate::routes::RedisRoutes;

/// Limit of dead gateways per sweep.
const DEAD_LEN_MAX: usize = 16;

#[async_trait]
impl PresenceTransitions for RedisRoutes {
    async fn claim(&self, limit: usize) -> Result<Vec<PresenceTransition>, StoreError> {
        // Skips users without a record. If all claimed users are skipped, the next ones are claimed.
        while let Some(claimed) = self.due.claim(limit).await? {
            let (mut transitions, mut unknown) = (vec![], vec![]);
            let records = self.records(&claimed.user_ids).await?;
            for (user_id, record) in claimed.user_ids.into_iter().zip(records) {
                let claim = claimed.mark;
                match record {
                    Some(PresenceRecord { standing, is_announced }) => {
                        transitions.push(PresenceTransition { user_id, standing, is_change: !is_announced, claim });
                    }
                    None => unknown.push(SettledClaim { user_id, mark: claim, has_changed: false }),
                }
            }
            self.due.settle(&unknown).await?;
            if !transitions.is_empty() {
                return Ok(transitions);
            }
        }
        Ok(vec![])
    }

    async fn offline_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let offline_since = |record: PresenceRecord| match record.standing {
            OnlineStatus::Online => None,
            OnlineStatus::Offline { last_seen } => Some(last_seen),
        };
        Ok(self.records(user_ids).await?.into_iter().map(|record| record.and_then(offline_since)).collect())
    }

    async fn settle(&self, announced: &[PresenceTransition]) -> Result<(), StoreError> {
        for announced in announced.chunks(BATCH_LEN) {
            let calls = announced.iter().map(|transition| {
                ANNOUNCED.call([&keys::user_presence(transition.user_id)]).arg(status(transition.standing))
            });
            let have_changed: Vec<bool> = self.redis.run(&calls.collect::<Vec<_>>()).await?;
            let settled = announced.iter().zip(have_changed).map(|(transition, has_changed)| SettledClaim {
                user_id: transition.user_id,
                mark: transition.claim,
                has_changed,
            });
            self.due.settle(&settled.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn sweep(&self, limit: usize) -> Result<SweepResult, StoreError> {
        let now = self.redis.now();
        let past = SlotCommand::new("ZRANGEBYSCORE", keys::SERVERS).arg("-inf").arg(now.as_millis());
        let past = past.arg("WITHSCORES").arg("LIMIT").arg(0).arg(DEAD_LEN_MAX);
        let servers: Vec<(String, f64)> = self.redis.run_one(past).await?;
        let mut swept = SweepResult::default();
        for (server, expiry) in servers {
            // Scores are whole milliseconds, far below the limit up to which a float is exact.
            let expired_at = Timestamp::from_millis(expiry as u64);
            let dead = DeadGateway { gateway: GatewayId(server.into()), expired_at };
            let SweepResult { deleted, remaining } = self.sweep_gateway(&dead, now, limit - swept.deleted).await?;
            swept = SweepResult { deleted: swept.deleted + deleted, remaining: swept.remaining + remaining };
        }
        Ok(swept)
    }
}

/// The presence record of a user.
struct PresenceRecord {
    standing: OnlineStatus,
    is_announced: bool,
}

/// A gateway with an expired heartbeat.
struct DeadGateway {
    gateway: GatewayId,
    expired_at: Timestamp,
}

impl RedisRoutes {
    /// Reads the presence records of users, in the given order.
    async fn records(&self, user_ids: &[UserId]) -> Result<Vec<Option<PresenceRecord>>, StoreError> {
        let asked = user_ids.iter().map(|user_id| {
            SlotCommand::new("HMGET", &keys::user_presence(*user_id)).arg("status").arg("announced").arg("last_seen")
        });
        let found: Vec<[Option<String>; 3]> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        Ok(found.into_iter().map(parse_record).collect())
    }

    async fn sweep_gateway(&self, dead: &DeadGateway, now: Timestamp, limit: usize) -> Result<SweepResult, StoreError> {
        let inventory = keys::server_connections(&dead.gateway);
        // Routes written at or after this time are kept. A gateway that is back writes after the expiry of its last
        // heartbeat, by its own clock. Our clock covers a gateway that wrote routes again but died before its next
        // heartbeat.
        let since = dead.expired_at.max(now.minus(self.leases.expiry()));
        let written_before =
            SlotCommand::new("ZRANGEBYSCORE", &inventory).arg("-inf").arg(format!("({}", expiry_ms(since)));
        let members: Vec<String> = self.redis.run_one(written_before.arg("LIMIT").arg(0).arg(limit)).await?;
        let mut deleted = 0;
        for members in members.chunks(BATCH_LEN) {
            deleted += self.forget_connections(dead, members, since, now).await?;
        }
        let remaining = self.redis.run_one(SlotCommand::new("ZCARD", &inventory)).await?;
        if remaining == 0 {
            let forget = FORGET_SERVER.call([keys::SERVERS]).arg(&*dead.gateway.0).arg(dead.expired_at.as_millis());
            self.redis.run_one::<()>(forget).await?;
        }
        Ok(SweepResult { deleted, remaining })
    }

    /// Removes connections of a dead gateway, members of its inventory, that were not written since. Returns their
    /// number.
    async fn forget_connections(
        &self,
        dead: &DeadGateway,
        members: &[String],
        since: Timestamp,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        // Invalid ids are not connections, and are removed from the inventory with the others.
        let connection_ids: Vec<ConnectionId> = members.iter().filter_map(|member| member.parse().ok()).collect();
        let asked = connection_ids.iter().map(|id| SlotCommand::new("HGET", &keys::connection(*id)).arg("user_id"));
        let users: Vec<Option<String>> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        // The user of a connection without details is unknown. The entry of that user expires.
        let known = connection_ids.into_iter().zip(users);
        let known: Vec<(ConnectionId, UserId)> =
            known.filter_map(|(id, user)| Some((id, user?.parse().ok()?))).collect();
        let last_beat = dead.expired_at.minus(self.leases.expiry());
        let calls = known.iter().map(|(connection_id, user_id)| {
            forget_route(*user_id, *connection_id, &dead.gateway, now, last_beat).arg(expiry_ms(since))
        });
        let outcomes: Vec<(bool, bool)> = self.redis.run(&calls.collect::<Vec<_>>()).await?;
        let gone = known.iter().zip(&outcomes).filter(|(_, (_, is_due))| *is_due);
        self.due.went_offline(&gone.map(|((_, user_id), _)| *user_id).collect::<Vec<_>>(), now).await?;

        // The details of a kept connection may be older than its route, so age is no reason to delete them.
        let forgotten = known.iter().zip(&outcomes).filter(|(_, (is_forgotten, _))| *is_forgotten);
        let details: Vec<_> = forgotten
            .map(|((id, _), _)| FORGET_CONNECTION.call([&keys::connection(*id)]).arg(since.to_string()))
            .collect();
        self.redis.run::<()>(&details).await?;
        let inventory = FORGET_MEMBERS.call([&keys::server_connections(&dead.gateway)]);
        self.redis.run_one::<()>(inventory.arg(expiry_ms(since)).arg(members)).await?;
        let kept = known.len() - details.len();
        Ok(members.len() - kept)
    }
}

/// The expiry of a route that was written at this time.
fn expiry_ms(written_at: Timestamp) -> u64 {
    (written_at + LIFE).as_millis()
}

/// `None` if the record is missing or unreadable.
fn parse_record([status, announced, last_seen]: [Option<String>; 3]) -> Option<PresenceRecord> {
    let standing = match status.as_deref()? {
        "online" => OnlineStatus::Online,
        "offline" => OnlineStatus::Offline { last_seen: last_seen?.parse().ok()? },
        _ => return None,
    };
    Some(PresenceRecord { standing, is_announced: announced == status })
}

fn status(standing: OnlineStatus) -> &'static str {
    match standing {
        OnlineStatus::Online => "online",
        OnlineStatus::Offline { .. } => "offline",
    }
}
