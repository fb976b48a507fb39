//! Tests of [`TicketStore`].

use std::sync::Arc;
use std::time::Duration;

use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{SpentChallenge, Ticket, TicketStore};

const DIGEST: [u8; 32] = [1; 32];

/// A ticket is taken once, by its digest.
pub async fn a_ticket_is_taken_once(tickets: Arc<dyn TicketStore>) {
    let ticket = new_ticket();
    tickets.put(DIGEST, ticket.clone()).await.expect(WORKS);
    assert_eq!(tickets.take([2; 32], now()).await.expect(WORKS), None);
    assert_eq!(tickets.take(DIGEST, now()).await.expect(WORKS), Some(ticket));
    assert_eq!(tickets.take(DIGEST, now()).await.expect(WORKS), None);
}

/// Of concurrent callers, one takes the ticket.
pub async fn of_concurrent_takers_one_gets_the_ticket(tickets: Arc<dyn TicketStore>) {
    tickets.put(DIGEST, new_ticket()).await.expect(WORKS);
    let taken = at_once((0..8).map(|_| {
        let tickets = tickets.clone();
        async move { tickets.take(DIGEST, now()).await.expect(WORKS) }
    }))
    .await;
    assert_eq!(taken.iter().flatten().count(), 1);
}

/// A ticket is invalid from its expiry time on.
pub async fn a_ticket_is_void_once_it_expires(tickets: Arc<dyn TicketStore>) {
    let ticket = new_ticket();
    let before = ticket.expires_at.minus(Duration::from_millis(1));
    for (at, expected) in [(before, Some(ticket.clone())), (ticket.expires_at, None)] {
        tickets.put(DIGEST, ticket.clone()).await.expect(WORKS);
        assert_eq!(tickets.take(DIGEST, at).await.expect(WORKS), expected);
    }
}

/// A challenge is spent once, and others are independent of it and of tickets.
pub async fn a_challenge_is_spent_once(tickets: Arc<dyn TicketStore>) {
    tickets.put(DIGEST, new_ticket()).await.expect(WORKS);
    for (digest, is_first) in [(DIGEST, true), (DIGEST, false), ([2; 32], true), (DIGEST, false)] {
        assert_eq!(tickets.spend(new_challenge(digest)).await.expect(WORKS), is_first);
    }
    assert!(tickets.take(DIGEST, now()).await.expect(WORKS).is_some());
}

/// Of concurrent callers, one spends the challenge.
pub async fn of_concurrent_spenders_one_succeeds(tickets: Arc<dyn TicketStore>) {
    let challenge = new_challenge(DIGEST);
    let spent = at_once((0..8).map(|_| {
        let tickets = tickets.clone();
        async move { tickets.spend(challenge).await.expect(WORKS) }
    }))
    .await;
    assert_eq!(spent.iter().filter(|is_first| **is_first).count(), 1);
}

fn new_challenge(digest: [u8; 32]) -> SpentChallenge {
    let issued_at = now();
    SpentChallenge { digest, issued_at, expires_at: issued_at + Duration::from_secs(300) }
}

fn new_ticket() -> Ticket {
    let now = now();
    Ticket {
        user_id: fresh(),
        session_id: Some(fresh()),
        device_id: None,
        token_expires_at: now + Duration::from_secs(900),
        expires_at: now + Duration::from_secs(30),
    }
}
