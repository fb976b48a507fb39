use std::time::Duration;

use domain::Timestamp;
use tidings_auth::{AuthError, Principal};

use crate::world::{HOUR, PHONE, World, device, start};

async fn principal(world: &World) -> Principal {
    let signed_in = world.sign_in(PHONE, device(1)).await;
    world.auth.authenticate(signed_in.tokens.access_token.expose()).await.unwrap()
}

/// Fails unless the ticket is refused as unknown, spent or expired.
async fn assert_void(world: &World, ticket: &str) {
    let error = world.auth.redeem_ticket(ticket, device(1)).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken("the ticket is unknown, spent or expired")), "{error:?}");
}

#[tokio::test]
async fn a_ticket_speaks_for_its_principal_once() {
    let world = World::new();
    let principal = principal(&world).await;
    let issued = world.auth.issue_ticket(&principal).await.unwrap();
    assert_eq!(issued.expires_at, start() + Duration::from_secs(30));
    assert_eq!(world.auth.redeem_ticket(issued.ticket.expose(), device(1)).await.unwrap(), principal);
    assert_void(&world, issued.ticket.expose()).await;
}

#[tokio::test]
async fn a_ticket_is_void_after_thirty_seconds() {
    let world = World::new();
    let issued = world.auth.issue_ticket(&principal(&world).await).await.unwrap();
    world.clock.advance(Duration::from_secs(30));
    assert_void(&world, issued.ticket.expose()).await;
}

#[tokio::test]
async fn a_ticket_does_not_outlive_its_token() {
    let world = World::new();
    let principal = principal(&world).await;
    world.clock.set(start() + (HOUR - Duration::from_secs(10)));
    let issued = world.auth.issue_ticket(&principal).await.unwrap();
    assert_eq!(issued.expires_at, start() + HOUR);
}

#[tokio::test]
async fn a_ticket_is_void_on_another_device_and_spent_by_the_try() {
    let world = World::new();
    let issued = world.auth.issue_ticket(&principal(&world).await).await.unwrap();
    let error = world.auth.redeem_ticket(issued.ticket.expose(), device(2)).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken("it belongs to another device")), "{error:?}");
    assert_void(&world, issued.ticket.expose()).await;
}

#[tokio::test]
async fn a_ticket_of_an_ended_session_is_revoked() {
    let world = World::new();
    let principal = principal(&world).await;
    let issued = world.auth.issue_ticket(&principal).await.unwrap();
    world.auth.logout(&principal).await.unwrap();
    let error = world.auth.redeem_ticket(issued.ticket.expose(), device(1)).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
}

#[tokio::test]
async fn an_invented_ticket_is_void() {
    assert_void(&World::new(), "made-up").await;
}

#[tokio::test]
async fn a_user_of_another_system_gets_tickets_for_any_device() {
    let world = World::new();
    let principal =
        Principal { session_id: None, device_id: None, token_expires_at: Timestamp::MAX, ..principal(&world).await };
    let issued = world.auth.issue_ticket(&principal).await.unwrap();
    assert_eq!(world.auth.redeem_ticket(issued.ticket.expose(), device(9)).await.unwrap(), principal);
}
