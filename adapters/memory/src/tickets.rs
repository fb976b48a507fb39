use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::Timestamp;
use ports::{Clock, SpentChallenge, StoreError, Ticket, TicketStore, lock};

use crate::expiring::ExpiringMap;

/// Maximum number of unused tickets: 30 s at more than 3,000 per second. Beyond that a new ticket replaces an older
/// one, and the client of the older one has to request another.
const TICKETS_MAX: usize = 100_000;

/// Maximum number of spent challenges: 5 minutes at more than 300 sign-ins per second. Beyond that, sign-ins fail.
const SPENT_MAX: usize = 100_000;

/// The WebSocket tickets and the spent challenges of one process.
pub struct MemoryTickets {
    clock: Arc<dyn Clock>,
    /// The process has no marks from before.
    started_at: Timestamp,
    tickets: Mutex<ExpiringMap<[u8; 32], Ticket>>,
    spent: Mutex<SpentChallenges>,
}

/// Digests of spent challenges, and the same in order of their expiry.
#[derive(Default)]
struct SpentChallenges {
    digests: HashSet<[u8; 32]>,
    by_expiry: BTreeSet<(Timestamp, [u8; 32])>,
}

impl SpentChallenges {
    /// `None` if there is no room for another mark.
    fn spend(&mut self, challenge: SpentChallenge, now: Timestamp) -> Option<bool> {
        while let Some(oldest) = self.by_expiry.first().copied().filter(|(expires_at, _)| *expires_at <= now) {
            self.by_expiry.remove(&oldest);
            self.digests.remove(&oldest.1);
        }
        if self.digests.contains(&challenge.digest) {
            return Some(false);
        }
        if self.digests.len() >= SPENT_MAX {
            return None;
        }
        self.by_expiry.insert((challenge.expires_at, challenge.digest));
        Some(self.digests.insert(challenge.digest))
    }
}

impl MemoryTickets {
    /// Starts without tickets.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let started_at = clock.now();
        let tickets = Mutex::new(ExpiringMap::new(TICKETS_MAX));
        Self { clock, started_at, tickets, spent: Mutex::default() }
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

    async fn spend(&self, challenge: SpentChallenge) -> Result<bool, StoreError> {
        if challenge.issued_at < self.started_at {
            return Ok(false);
        }
        let spent = lock(&self.spent).spend(challenge, self.clock.now());
        spent.ok_or_else(|| StoreError::unavailable("too many challenges were answered in the last minutes"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    fn challenge(n: u64, issued_at: Timestamp) -> SpentChallenge {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&n.to_be_bytes());
        SpentChallenge { digest, issued_at, expires_at: issued_at + Duration::from_secs(300) }
    }

    #[tokio::test]
    async fn a_challenge_from_before_the_start_is_refused() {
        let started_at = Timestamp::from_millis(1_000_000);
        let tickets = MemoryTickets::new(Arc::new(ManualClock::at(started_at)));
        assert!(!tickets.spend(challenge(1, started_at.minus(Duration::from_millis(1)))).await.unwrap());
        assert!(tickets.spend(challenge(1, started_at)).await.unwrap());
    }

    #[tokio::test]
    async fn no_mark_is_displaced_and_expired_ones_make_room() {
        let clock = Arc::new(ManualClock::default());
        let tickets = MemoryTickets::new(clock.clone());
        let start = clock.now();
        for n in 0..SPENT_MAX as u64 {
            assert!(tickets.spend(challenge(n, start)).await.unwrap());
        }
        assert!(tickets.spend(challenge(u64::MAX, start)).await.is_err());
        assert!(!tickets.spend(challenge(0, start)).await.unwrap());
        clock.set(start + Duration::from_secs(300));
        assert!(tickets.spend(challenge(u64::MAX, clock.now())).await.unwrap());
        assert_eq!(lock(&tickets.spent).digests.len(), 1);
        assert_eq!(lock(&tickets.spent).by_expiry.len(), 1);
    }
}
