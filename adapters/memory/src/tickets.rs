use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::Timestamp;
use ports::{Clock, StoreError, Ticket, TicketStore};

use crate::expiring::ExpiringMap;

/// Tickets waiting to be used, at the most; 30 s of them at over 3,000 in each second. When so many wait, a new one takes
/// the place of an older one, whose client asks for another.
const TICKETS_MAX: usize = 100_000;

/// The WebSocket tickets of one process.
pub struct MemoryTickets {
    clock: Arc<dyn Clock>,
    tickets: Mutex<ExpiringMap<[u8; 32], Ticket>>,
}

impl MemoryTickets {
    /// No tickets yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tickets: Mutex::new(ExpiringMap::new(TICKETS_MAX)) }
    }
}

#[async_trait]
impl TicketStore for MemoryTickets {
    async fn put(&self, digest: [u8; 32], ticket: Ticket) -> Result<(), StoreError> {
        let (expires_at, now) = (ticket.expires_at, self.clock.now());
        self.tickets.lock().expect("no holder of the lock panics").insert(digest, ticket, expires_at, now);
        Ok(())
    }

    async fn take(&self, digest: [u8; 32], now: Timestamp) -> Result<Option<Ticket>, StoreError> {
        Ok(self.tickets.lock().expect("no holder of the lock panics").remove(&digest, now))
    }
}
