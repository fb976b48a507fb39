use std::time::Duration;

use domain::RestrictionChange;
use futures_util::FutureExt;
use ports::{ConnectionHolder, Identity, Revocation};
use tidings_auth::{AuthError, Revoke, VerifyOtp};

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
async fn a_ticket_of_a_denied_token_is_refused() {
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

/// A thief who presents a stolen refresh token closes the connection at once, to keep an open socket.
#[tokio::test]
async fn sockets_are_closed_even_if_the_request_that_ends_the_session_is_cancelled() {
    let world = World::new();
    let cancelled = |is_done: bool| assert!(!is_done, "the request was cancelled while it ran");
    let until_closed = async |count: usize| {
        while world.sockets.revoked().len() < count {
            tokio::task::yield_now().await;
        }
        world.sockets.revoked()
    };
    let stolen = world.sign_in(PHONE, device(1)).await;
    let spent = stolen.tokens.refresh_token.expose();
    world.auth.refresh(spent, device(1)).await.unwrap();
    world.clock.advance(HOUR);
    cancelled(world.auth.refresh(spent, device(1)).now_or_never().is_some());
    let expected = [Revocation::Session(stolen.session.session_id)];
    assert_eq!(soon(until_closed(1)).await, expected);

    let lost = world.sign_in(PHONE, device(2)).await;
    let principal = world.auth.authenticate(lost.tokens.access_token.expose()).await.unwrap();
    cancelled(world.auth.revoke(&principal, Revoke::All).now_or_never().is_some());
    assert_eq!(soon(until_closed(2)).await[1..], [Revocation::Session(lost.session.session_id)]);

    cancelled(world.auth.restrict(lost.user.user_id, suspend()).now_or_never().is_some());
    assert_eq!(soon(until_closed(3)).await[2..], [Revocation::User(lost.user.user_id)]);
}

async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), event).await.expect("it happens soon")
}
