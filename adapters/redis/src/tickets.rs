use std::time::Duration;

use async_trait::async_trait;
use domain::{DeviceId, SessionId, Timestamp, UserId};
use ports::{SpentChallenge, StoreError, Ticket, TicketStore};
use serde::{Deserialize, Serialize};

use crate::call::SlotCommand;
use crate::client::Redis;
use crate::keys;

/// The time for which a spent challenge is remembered after its expiry.
const SPENT_MARGIN: Duration = Duration::from_secs(60);

/// The WebSocket tickets and the spent challenges of a fleet.
pub struct RedisTickets {
    redis: Redis,
}

impl RedisTickets {
    /// The tickets in this Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }
}

#[async_trait]
impl TicketStore for RedisTickets {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        // Redis refuses a time to live of 0; an expired ticket is kept for 1 ms instead.
        let life_ms = (ticket.expires_at.since(self.redis.now()).as_millis() as u64).max(1);
        let record = serde_json::to_vec(&TicketRecord::from(ticket)).map_err(unreadable)?;
        self.redis.run_one(SlotCommand::new("SET", &keys::ws_ticket(digest)).arg(record).arg("PX").arg(life_ms)).await
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        let record: Option<Vec<u8>> = self.redis.run_one(SlotCommand::new("GETDEL", &keys::ws_ticket(digest))).await?;
        let Some(record) = record else { return Ok(None) };
        let record: TicketRecord = serde_json::from_slice(&record).map_err(unreadable)?;
        // Expiry is decided by our clock, not by the clock of Redis.
        Ok(Some(Ticket::from(record)).filter(|ticket| ticket.expires_at > now))
    }

    async fn spend(&self, challenge: SpentChallenge) -> Result<bool, StoreError> {
        // Kept longer than the challenge, because the clocks of processes differ.
        let life_ms = (challenge.expires_at.since(self.redis.now()) + SPENT_MARGIN).as_millis() as u64;
        let key = keys::spent_challenge(challenge.digest);
        let set = SlotCommand::new("SET", &key).arg(1).arg("NX").arg("PX").arg(life_ms);
        // Redis answers nothing if the key exists.
        let set: Option<String> = self.redis.run_one(set).await?;
        Ok(set.is_some())
    }
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError::Corrupt { table: "ws_ticket", source: Box::new(error) }
}

/// The stored form of a ticket.
#[derive(Serialize, Deserialize)]
struct TicketRecord {
    user_id: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<DeviceId>,
    token_expires_at: Timestamp,
    expires_at: Timestamp,
}

impl From<Ticket> for TicketRecord {
    fn from(ticket: Ticket) -> Self {
        let Ticket { user_id, session_id, device_id, token_expires_at, expires_at } = ticket;
        Self { user_id, session_id, device_id, token_expires_at, expires_at }
    }
}

impl From<TicketRecord> for Ticket {
    fn from(record: TicketRecord) -> Self {
        let TicketRecord { user_id, session_id, device_id, token_expires_at, expires_at } = record;
        Self { user_id, session_id, device_id, token_expires_at, expires_at }
    }
}
