use async_trait::async_trait;
use domain::{ConnectionId, Standing, Timestamp, UserId};
use ports::{GatewayId, StoreError, Swept, Transition, Transitions};

use crate::call::{ANNOUNCED, Call, FORGET_CONNECTION, FORGET_MEMBERS, FORGET_SERVER};
use crate::due::Settled;
use crate::keys;
use crate::registration::{BATCH_LEN, LIFE, forget_route};
use crate::routes::RedisRoutes;

/// Dead gateways that one sweep looks at.
const DEAD_LEN_MAX: usize = 16;

#[async_trait]
impl Transitions for RedisRoutes {
    async fn claim(&self, limit: usize) -> Result<Vec<Transition>, StoreError> {
        // Those of whom nothing is known any more are passed over. A page full of them hides nobody behind it.
        while let Some(claimed) = self.due.claim(limit).await? {
            let (mut transitions, mut unknown) = (vec![], vec![]);
            let records = self.records(&claimed.user_ids).await?;
            for (user_id, record) in claimed.user_ids.into_iter().zip(records) {
                let claim = claimed.mark;
                match record {
                    Some(Record { standing, is_announced }) => {
                        transitions.push(Transition { user_id, standing, is_news: !is_announced, claim });
                    }
                    None => unknown.push(Settled { user_id, mark: claim, has_changed: false }),
                }
            }
            self.due.settle(&unknown).await?;
            if !transitions.is_empty() {
                return Ok(transitions);
            }
        }
        Ok(vec![])
    }

    async fn gone_since(&self, user_ids: &[UserId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let gone_since = |record: Record| match record.standing {
            Standing::Online => None,
            Standing::Offline { last_seen } => Some(last_seen),
        };
        Ok(self.records(user_ids).await?.into_iter().map(|record| record.and_then(gone_since)).collect())
    }

    async fn settle(&self, announced: &[Transition]) -> Result<(), StoreError> {
        for announced in announced.chunks(BATCH_LEN) {
            let calls = announced.iter().map(|transition| {
                ANNOUNCED.call([&keys::user_presence(transition.user_id)]).arg(status(transition.standing))
            });
            let have_changed: Vec<bool> = self.redis.run(&calls.collect::<Vec<_>>()).await?;
            let settled = announced.iter().zip(have_changed).map(|(transition, has_changed)| Settled {
                user_id: transition.user_id,
                mark: transition.claim,
                has_changed,
            });
            self.due.settle(&settled.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn sweep(&self, limit: usize) -> Result<Swept, StoreError> {
        let now = self.redis.now();
        let past = Call::new("ZRANGEBYSCORE", keys::SERVERS).arg("-inf").arg(now.as_millis());
        let past = past.arg("WITHSCORES").arg("LIMIT").arg(0).arg(DEAD_LEN_MAX);
        let servers: Vec<(String, f64)> = self.redis.run_one(past).await?;
        let mut swept = Swept::default();
        for (server, expiry) in servers {
            // Scores are whole milliseconds, far below what a float holds exactly.
            let expired_at = Timestamp::from_millis(expiry as u64);
            let dead = DeadGateway { gateway: GatewayId(server.into()), expired_at };
            let Swept { forgotten, left } = self.sweep_gateway(&dead, now, limit - swept.forgotten).await?;
            swept = Swept { forgotten: swept.forgotten + forgotten, left: swept.left + left };
        }
        Ok(swept)
    }
}

/// What is known of a user.
struct Record {
    standing: Standing,
    is_announced: bool,
}

/// A gateway whose last beat holds no more.
struct DeadGateway {
    gateway: GatewayId,
    expired_at: Timestamp,
}

impl RedisRoutes {
    /// What is known of users, in the order asked.
    async fn records(&self, user_ids: &[UserId]) -> Result<Vec<Option<Record>>, StoreError> {
        let asked = user_ids.iter().map(|user_id| {
            Call::new("HMGET", &keys::user_presence(*user_id)).arg("status").arg("announced").arg("last_seen")
        });
        let found: Vec<[Option<String>; 3]> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        Ok(found.into_iter().map(parse_record).collect())
    }

    async fn sweep_gateway(&self, dead: &DeadGateway, now: Timestamp, limit: usize) -> Result<Swept, StoreError> {
        let inventory = keys::server_connections(&dead.gateway);
        // A gateway that is back writes behind its last beat, by its own clock. One that wrote then and died before it
        // could beat is found by ours.
        let since = dead.expired_at.max(now.minus(self.leases.expiry()));
        let written_before = Call::new("ZRANGEBYSCORE", &inventory).arg("-inf").arg(format!("({}", expiry_ms(since)));
        let members: Vec<String> = self.redis.run_one(written_before.arg("LIMIT").arg(0).arg(limit)).await?;
        let mut forgotten = 0;
        for members in members.chunks(BATCH_LEN) {
            forgotten += self.forget_connections(dead, members, since, now).await?;
        }
        let left = self.redis.run_one(Call::new("ZCARD", &inventory)).await?;
        if left == 0 {
            let forget = FORGET_SERVER.call([keys::SERVERS]).arg(&*dead.gateway.0).arg(dead.expired_at.as_millis());
            self.redis.run_one::<()>(forget).await?;
        }
        Ok(Swept { forgotten, left })
    }

    /// Forgets connections of a dead gateway, members of its inventory, that were not written since. Says how many.
    async fn forget_connections(
        &self,
        dead: &DeadGateway,
        members: &[String],
        since: Timestamp,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        // What is no id is no connection, and goes with the others.
        let connection_ids: Vec<ConnectionId> = members.iter().filter_map(|member| member.parse().ok()).collect();
        let asked = connection_ids.iter().map(|id| Call::new("HGET", &keys::connection(*id)).arg("user_id"));
        let users: Vec<Option<String>> = self.redis.run(&asked.collect::<Vec<_>>()).await?;
        // Nobody can tell whose a connection was of which no details are left. Its user's entry ends by itself.
        let known = connection_ids.into_iter().zip(users);
        let known: Vec<(ConnectionId, UserId)> =
            known.filter_map(|(id, user)| Some((id, user?.parse().ok()?))).collect();
        let last_beat = dead.expired_at.minus(self.leases.expiry());
        let calls = known.iter().map(|(connection_id, user_id)| {
            forget_route(*user_id, *connection_id, &dead.gateway, now, last_beat).arg(expiry_ms(since))
        });
        let outcomes: Vec<(bool, bool)> = self.redis.run(&calls.collect::<Vec<_>>()).await?;
        let gone = known.iter().zip(&outcomes).filter(|(_, (_, is_due))| *is_due);
        self.due.go(&gone.map(|((_, user_id), _)| *user_id).collect::<Vec<_>>(), now).await?;

        // One that was kept has details that are as old as they were, so they are not judged by their age.
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

/// The expiry of a route that was written at this moment.
fn expiry_ms(written_at: Timestamp) -> u64 {
    (written_at + LIFE).as_millis()
}

/// A record that is gone or cannot be read says nothing.
fn parse_record([status, announced, last_seen]: [Option<String>; 3]) -> Option<Record> {
    let standing = match status.as_deref()? {
        "online" => Standing::Online,
        "offline" => Standing::Offline { last_seen: last_seen?.parse().ok()? },
        _ => return None,
    };
    Some(Record { standing, is_announced: announced == status })
}

fn status(standing: Standing) -> &'static str {
    match standing {
        Standing::Online => "online",
        Standing::Offline { .. } => "offline",
    }
}
