use std::time::Duration;

use domain::RestrictionChange;
use ports::{ConnectionHolder, Identity, Revocation};
use tidings_auth::{AuthError, VerifyOtp};

use crate::world::{HOUR, IP, PHONE, World, device, start};

fn suspend() -> RestrictionChange {
    RestrictionChange::Suspend { reason: None }
}

#[tokio::test]
async fn a_suspended_user_is_refused_and_keeps_the_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let (user_id, token) = (signed_in.user.user_id, signed_in.tokens.access_token.expose());
    let principal = world.auth.authenticate(token).await.unwrap();
    let ticket = world.auth.issue_ticket(&principal).await.unwrap();
    world.auth.restrict(user_id, suspend()).await.unwrap().unwrap();
    assert_eq!(world.sockets.revoked(), [Revocation::User(user_id)]);

    let refresh = || world.auth.refresh(signed_in.tokens.refresh_token.expose(), device(1));
    assert!(matches!(world.auth.authenticate(token).await, Err(AuthError::Suspended)));
    assert!(matches!(refresh().await, Err(AuthError::Suspended)));
    let redeemed = world.auth.redeem_ticket(ticket.ticket.expose(), device(1)).await;
    assert!(matches!(redeemed, Err(AuthError::Suspended)), "{redeemed:?}");
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    let verify = VerifyOtp { phone: PHONE, otp: &otp, ip: IP, device_id: device(2), display_name: None };
    assert!(matches!(world.auth.verify_otp(verify).await, Err(AuthError::Suspended)));

    world.auth.restrict(user_id, RestrictionChange::Resume).await.unwrap().unwrap();
    assert_eq!(world.auth.authenticate(token).await.unwrap(), principal);
    refresh().await.unwrap();
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_session_of_before() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let (user_id, token) = (signed_in.user.user_id, signed_in.tokens.access_token.expose());
    world.clock.advance(Duration::from_millis(1));
    world.auth.restrict(user_id, RestrictionChange::SignOut).await.unwrap().unwrap();
    assert_eq!(world.sockets.closed(), [signed_in.session.session_id]);
    assert!(matches!(world.auth.authenticate(token).await, Err(AuthError::TokenRevoked)));
    // In the same second, in which `iat` does not tell before from after.
    let again = world.sign_in(PHONE, device(1)).await;
    world.auth.authenticate(again.tokens.access_token.expose()).await.unwrap();
}

#[tokio::test]
async fn a_ticket_of_a_denied_token_admits_nobody() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let principal = world.auth.authenticate(signed_in.tokens.access_token.expose()).await.unwrap();
    let ticket = world.auth.issue_ticket(&principal).await.unwrap();
    let deny = RestrictionChange::DenyToken { token_id: tidings_auth::token_id("any"), lifetime: HOUR };
    world.auth.restrict(signed_in.user.user_id, deny).await.unwrap().unwrap();
    assert_eq!(world.sockets.revoked(), [Revocation::Token(signed_in.user.user_id)]);
    let redeemed = world.auth.redeem_ticket(ticket.ticket.expose(), device(1)).await;
    assert!(matches!(redeemed, Err(AuthError::TokenRevoked)), "{redeemed:?}");
}

#[tokio::test]
async fn a_connection_stays_until_its_user_is_restricted() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let user_id = signed_in.user.user_id;
    let of_session =
        ConnectionHolder { user_id, session_id: Some(signed_in.session.session_id), connected_at: start() };
    let external = ConnectionHolder { session_id: None, ..of_session };
    let later = ConnectionHolder { connected_at: start() + HOUR, ..external };
    let unknown = ConnectionHolder { session_id: Some(domain::SessionId::from_bytes([9; 16])), ..of_session };
    let holders = [of_session, external, later, unknown];
    let live = async || world.auth.live(&holders).await.unwrap();
    assert_eq!(live().await, [true, true, true, false]);
    world.clock.advance(HOUR);
    world.auth.restrict(user_id, suspend()).await.unwrap().unwrap();
    assert_eq!(live().await, [false; 4]);
    world.auth.restrict(user_id, RestrictionChange::Resume).await.unwrap().unwrap();
    assert_eq!(live().await, [true, true, true, false]);
    world.auth.restrict(user_id, RestrictionChange::SignOut).await.unwrap().unwrap();
    assert_eq!(live().await, [false, false, true, false]);
}
