//! Tests of [`TicketStore`].

use std::sync::Arc;
use std::time::Duration;

use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{Ticket, TicketStore};

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
