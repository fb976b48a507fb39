use domain::SessionId;
use tidings_auth::{AuthError, Principal, Revoke, SignedIn};

use crate::world::{PHONE, World, device};

async fn principal(world: &World, signed_in: &SignedIn) -> Principal {
    world.auth.authenticate(signed_in.tokens.access_token.expose()).await.unwrap()
}

async fn session_ids(world: &World, principal: &Principal) -> Vec<SessionId> {
    world.auth.sessions(principal).await.unwrap().into_iter().map(|session| session.session_id).collect()
}

#[tokio::test]
async fn signing_in_again_on_a_device_ends_its_session_and_closes_its_sockets() {
    let world = World::new();
    let first = world.sign_in(PHONE, device(1)).await;
    let second = world.sign_in(PHONE, device(1)).await;
    assert_eq!(world.sockets.closed(), [first.session.session_id]);
    let error = world.auth.authenticate(first.tokens.access_token.expose()).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
    let principal = principal(&world, &second).await;
    assert_eq!(session_ids(&world, &principal).await, [second.session.session_id]);
}

#[tokio::test]
async fn logout_ends_the_session_that_asks_and_no_other() {
    let world = World::new();
    let (phone, laptop) = (world.sign_in(PHONE, device(1)).await, world.sign_in(PHONE, device(2)).await);
    world.auth.logout(&principal(&world, &phone).await).await.unwrap();
    assert_eq!(world.sockets.closed(), [phone.session.session_id]);
    let error = world.auth.authenticate(phone.tokens.access_token.expose()).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
    let principal = principal(&world, &laptop).await;
    assert_eq!(session_ids(&world, &principal).await, [laptop.session.session_id]);
}

#[tokio::test]
async fn one_others_or_all_sessions_can_be_ended() {
    let world = World::new();
    let mut ids = Vec::new();
    let mut signed_in = world.sign_in(PHONE, device(0)).await;
    ids.push(signed_in.session.session_id);
    world.clock.advance(crate::world::HOUR);
    for n in 1..=2 {
        signed_in = world.sign_in(PHONE, device(n)).await;
        ids.push(signed_in.session.session_id);
    }
    let principal = principal(&world, &signed_in).await;
    assert_eq!(session_ids(&world, &principal).await, ids);

    assert_eq!(world.auth.revoke(&principal, Revoke::One(ids[0])).await.unwrap(), 1);
    assert_eq!(world.auth.revoke(&principal, Revoke::One(ids[0])).await.unwrap(), 0);
    assert_eq!(session_ids(&world, &principal).await, ids[1..]);
    assert_eq!(world.auth.revoke(&principal, Revoke::Others).await.unwrap(), 1);
    assert_eq!(session_ids(&world, &principal).await, ids[2..]);
    assert_eq!(world.auth.revoke(&principal, Revoke::All).await.unwrap(), 1);
    assert_eq!(session_ids(&world, &principal).await, []);
    assert_eq!(world.sockets.closed(), ids);
}

#[tokio::test]
async fn a_user_cannot_revoke_another_users_session() {
    let world = World::new();
    let alice = world.sign_in("+15550100001", device(1)).await;
    let mallory = world.sign_in("+15550100002", device(2)).await;
    let mallory = principal(&world, &mallory).await;
    assert_eq!(world.auth.revoke(&mallory, Revoke::One(alice.session.session_id)).await.unwrap(), 0);
    assert_eq!(world.sockets.closed(), []);
    assert_eq!(principal(&world, &alice).await.user_id, alice.user.user_id);
}
