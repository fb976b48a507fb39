//! Damaged tokens, tickets and key sets: none of them authenticates.

use domain::SessionId;
use proptest::prelude::*;
use tidings_auth::AuthError;
use tokio::runtime::{Builder, Runtime};

use crate::external::{ProviderKey, TrustingWorld, claims};
use crate::world::{PHONE, World, device};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Texts derived from a token that differ from it.
fn damaged(token: &str) -> impl Strategy<Value = String> + use<> {
    let token = token.to_owned();
    damage::text(Just(token.clone())).prop_filter("it is another", move |text| *text != token)
}

#[test]
fn a_damaged_access_token_is_refused() {
    let (runtime, world) = (runtime(), World::new());
    let signed_in = runtime.block_on(world.sign_in(PHONE, device(1)));
    let token = signed_in.tokens.access_token.expose();
    proptest!(|(text in damaged(token))| {
        let refused = runtime.block_on(world.auth.authenticate(&text));
        prop_assert!(matches!(refused, Err(AuthError::InvalidToken(_))), "{:?}", refused);
    });
}

/// A damaged token must not count as a spent one either, which would revoke the session.
#[test]
fn a_damaged_refresh_token_refreshes_nothing_and_ends_no_session_that_it_does_not_name() {
    let (runtime, world) = (runtime(), World::new());
    let signed_in = runtime.block_on(world.sign_in(PHONE, device(1)));
    let other = runtime.block_on(world.sign_in("+15551234568", device(2)));
    let token = signed_in.tokens.refresh_token.expose();
    proptest!(|(text in damaged(token))| {
        let refused = runtime.block_on(world.auth.refresh(&text, device(1)));
        prop_assert!(refused.is_err(), "{:?}", refused);
        let alive = runtime.block_on(world.auth.authenticate(other.tokens.access_token.expose()));
        prop_assert_eq!(alive.unwrap().session_id, Some::<SessionId>(other.session.session_id));
    });
}

#[test]
fn a_damaged_ticket_is_void_and_does_not_spend_the_sound_one() {
    let (runtime, world) = (runtime(), World::new());
    let signed_in = runtime.block_on(world.sign_in(PHONE, device(1)));
    let principal = runtime.block_on(world.auth.authenticate(signed_in.tokens.access_token.expose())).unwrap();
    let issued = runtime.block_on(world.auth.issue_ticket(&principal)).unwrap();
    let ticket = issued.ticket.expose();
    proptest!(|(text in damaged(ticket))| {
        let refused = runtime.block_on(world.auth.redeem_ticket(&text, device(1)));
        prop_assert!(matches!(refused, Err(AuthError::InvalidToken(_))), "{:?}", refused);
    });
    assert_eq!(runtime.block_on(world.auth.redeem_ticket(ticket, device(1))).unwrap(), principal);
}

#[test]
fn a_damaged_external_token_is_refused() {
    let runtime = runtime();
    let keys = [jsonwebtoken::Algorithm::EdDSA, jsonwebtoken::Algorithm::ES256]
        .map(|algorithm| ProviderKey::new("k1", algorithm));
    for key in &keys {
        let trusting = TrustingWorld::new(&[key]);
        let token = key.sign(&claims());
        runtime.block_on(trusting.authenticate(&token)).unwrap();
        proptest!(|(text in damaged(&token))| {
            let refused = runtime.block_on(trusting.authenticate(&text));
            prop_assert!(matches!(refused, Err(AuthError::InvalidToken(_))), "{:?}", refused);
        });
    }
}

#[test]
fn a_damaged_set_of_keys_of_another_system_is_read_or_refused() {
    let runtime = runtime();
    let key = ProviderKey::new("k1", jsonwebtoken::Algorithm::EdDSA);
    let token = key.sign(&claims());
    let sound = crate::external::key_set(&[&key]);
    proptest!(|(text in damage::text(Just(sound)))| {
        let trusting = TrustingWorld::with_file(&text);
        let outcome = runtime.block_on(trusting.authenticate(&token));
        prop_assert!(matches!(outcome, Ok(_) | Err(AuthError::InvalidToken(_) | AuthError::Unavailable(_))), "{:?}", outcome);
    });
}
