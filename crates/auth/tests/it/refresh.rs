use std::time::Duration;

use tidings_auth::{AuthError, Tokens};

use crate::world::{DAY, MINUTE, PHONE, World, device, start};

async fn refresh(world: &World, tokens: &Tokens) -> Result<Tokens, AuthError> {
    world.auth.refresh(tokens.refresh_token.expose(), device(1)).await.map(|(tokens, _)| tokens)
}

#[tokio::test]
async fn a_refresh_gives_a_new_pair_and_prolongs_the_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    world.clock.advance(29 * DAY);
    let tokens = refresh(&world, &signed_in.tokens).await.unwrap();
    assert_ne!(tokens.refresh_token, signed_in.tokens.refresh_token);
    let principal = world.auth.authenticate(tokens.access_token.expose()).await.unwrap();
    assert_eq!(principal.session_id, Some(signed_in.session.session_id));
    let sessions = world.auth.sessions(&principal).await.unwrap();
    assert_eq!(sessions[0].expires_at, start() + 59 * DAY);
    assert_eq!(sessions[0].last_active_at, start() + 29 * DAY);
}

#[tokio::test]
async fn a_spent_token_that_comes_back_ends_the_session_and_closes_its_sockets() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let tokens = refresh(&world, &signed_in.tokens).await.unwrap();
    world.clock.advance(MINUTE);
    let error = refresh(&world, &signed_in.tokens).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
    assert_eq!(world.sockets.closed(), [signed_in.session.session_id]);

    let error = refresh(&world, &tokens).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
    let error = world.auth.authenticate(tokens.access_token.expose()).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
}

#[tokio::test]
async fn a_lost_answer_is_forgiven_once_within_ten_seconds() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    refresh(&world, &signed_in.tokens).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    let tokens = refresh(&world, &signed_in.tokens).await.unwrap();
    assert_eq!(world.sockets.closed(), []);
    assert_ne!(refresh(&world, &tokens).await.unwrap().refresh_token, tokens.refresh_token);
}

#[tokio::test]
async fn two_tabs_that_refresh_at_once_both_go_on() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let mut tabs =
        [refresh(&world, &signed_in.tokens).await.unwrap(), refresh(&world, &signed_in.tokens).await.unwrap()];
    for _ in 0..3 {
        world.clock.advance(55 * MINUTE);
        for tab in &mut tabs {
            let before = tab.clone();
            *tab = refresh(&world, tab).await.unwrap();
            assert_ne!(tab.refresh_token, before.refresh_token);
            world.auth.authenticate(tab.access_token.expose()).await.unwrap();
            world.clock.advance(7 * MINUTE);
        }
    }
    assert_eq!(world.sockets.closed(), []);
    // A copy of an earlier token of either tab still ends the session.
    let error = refresh(&world, &signed_in.tokens).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
    assert_eq!(world.sockets.closed(), [signed_in.session.session_id]);
}

#[tokio::test]
async fn another_device_cannot_refresh_and_does_no_harm() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let error = world.auth.refresh(signed_in.tokens.refresh_token.expose(), device(2)).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken(_)), "{error:?}");
    assert_ne!(refresh(&world, &signed_in.tokens).await.unwrap().refresh_token, signed_in.tokens.refresh_token);
}

#[tokio::test]
async fn a_malformed_token_is_refused_and_keeps_the_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let text = signed_in.tokens.refresh_token.expose();
    for bad in ["", "rt_", &text[..text.len() - 1], &text[3..], signed_in.tokens.access_token.expose()] {
        let error = world.auth.refresh(bad, device(1)).await.unwrap_err();
        assert!(matches!(error, AuthError::InvalidToken("it is not a refresh token")), "{bad}: {error:?}");
    }
    assert_ne!(refresh(&world, &signed_in.tokens).await.unwrap().refresh_token, signed_in.tokens.refresh_token);
}

/// The id of a session is in its access tokens, and not secret.
#[tokio::test]
async fn a_forged_token_with_a_known_session_id_is_refused_and_keeps_the_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    for filling in ['A', 'x'] {
        let forged = format!("rt_{}_{}", signed_in.session.session_id, filling.to_string().repeat(42) + "A");
        let error = world.auth.refresh(&forged, device(1)).await.unwrap_err();
        assert!(matches!(error, AuthError::InvalidToken(_)), "{error:?}");
    }
    assert_eq!(world.sockets.closed(), []);
    assert_ne!(refresh(&world, &signed_in.tokens).await.unwrap().refresh_token, signed_in.tokens.refresh_token);
}

#[tokio::test]
async fn a_session_without_a_refresh_expires_after_thirty_days() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    world.clock.advance(30 * DAY);
    let error = refresh(&world, &signed_in.tokens).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken(_) | AuthError::TokenRevoked), "{error:?}");
}

#[tokio::test]
async fn a_session_refreshes_thirty_times_a_minute() {
    let world = World::new();
    let mut tokens = world.sign_in(PHONE, device(1)).await.tokens;
    for _ in 0..30 {
        tokens = refresh(&world, &tokens).await.unwrap();
    }
    let error = refresh(&world, &tokens).await.unwrap_err();
    assert!(
        matches!(error, AuthError::RateLimited { limit: "refresh", decision } if decision.limit == 30),
        "{error:?}"
    );
    world.clock.advance(Duration::from_secs(2));
    assert_ne!(refresh(&world, &tokens).await.unwrap().refresh_token, tokens.refresh_token);
}
