use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::Timestamp;
use ports::{Clock, StoreError, Ticket, TicketStore, lock};

use crate::expiring::ExpiringMap;

/// Maximum number of unused tickets: 30 s at more than 3,000 per second. Beyond that a new ticket replaces an older
/// one, and the client of the older one has to request another.
const TICKETS_MAX: usize = 100_000;

/// The WebSocket tickets of one process.
pub struct MemoryTickets {
    clock: Arc<dyn Clock>,
    tickets: Mutex<ExpiringMap<[u8; 32], Ticket>>,
}

impl MemoryTickets {
    /// Starts without tickets.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tickets: Mutex::new(ExpiringMap::new(TICKETS_MAX)) }
    }

    /// Loses every ticket, like a Redis that is flushed. Their clients have to request new ones.
    pub fn wipe(&self) {
        *lock(&self.tickets) = ExpiringMap::new(TICKETS_MAX);
    }
}

#[async_trait]
impl TicketStore for MemoryTickets {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        let (expires_at, now) = (ticket.expires_at, self.clock.now());
        lock(&self.tickets).insert(digest, ticket, expires_at, now);
        Ok(())
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        Ok(lock(&self.tickets).remove(&digest, now))
    }
}

#[cfg(test)]
mod tests {
    use domain::UserId;

    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn a_wiped_ticket_opens_nothing() {
        let tickets = MemoryTickets::new(Arc::new(ManualClock::default()));
        let ticket = |user: u8| Ticket {
            user_id: UserId::from_bytes([user; 16]),
            session_id: None,
            device_id: None,
            token_expires_at: Timestamp::MAX,
            expires_at: Timestamp::MAX,
        };
        tickets.put([1; 32], ticket(1)).await.unwrap();
        tickets.wipe();
        assert!(tickets.take([1; 32], Timestamp::default()).await.unwrap().is_none());
        tickets.put([1; 32], ticket(2)).await.unwrap();
        let taken = tickets.take([1; 32], Timestamp::default()).await.unwrap();
        assert_eq!(taken.map(|ticket| ticket.user_id), Some(UserId::from_bytes([2; 16])));
    }
}
