use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::SessionId;
use jsonwebtoken::{Algorithm, EncodingKey, Header, decode_header, encode};
use serde_json::{Value, json};
use tidings_auth::{AuthError, Principal, Revoke};

use crate::world::{HOUR, PHONE, World, device, start};

/// The reason for which a token is refused.
async fn refusal(world: &World, token: &str) -> &'static str {
    match world.auth.authenticate(token).await {
        Err(AuthError::InvalidToken(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn public_key(world: &World) -> Vec<u8> {
    let jwks = world.auth.jwks();
    BASE64_URL_SAFE_NO_PAD.decode(jwks["keys"][0]["x"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn an_access_token_speaks_for_its_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let principal = Principal {
        user_id: signed_in.user.user_id,
        session_id: Some(signed_in.session.session_id),
        device_id: Some(device(1)),
        token_expires_at: start() + HOUR,
        assertion: None,
    };
    let token = signed_in.tokens.access_token.expose();
    assert_eq!(world.auth.authenticate(token).await.unwrap(), principal);
    assert_eq!(world.auth.authenticate_device(token, device(1)).await.unwrap(), principal);
}

#[tokio::test]
async fn an_access_token_has_the_claims_of_its_session() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let token = signed_in.tokens.access_token.expose();
    let header = decode_header(token).unwrap();
    assert_eq!(header.alg, Algorithm::EdDSA);
    assert_eq!(header.kid.as_deref(), world.auth.jwks()["keys"][0]["kid"].as_str());
    let claims = claims(token);
    assert_eq!(claims["iss"], "tidings");
    assert_eq!(claims["sub"], signed_in.user.user_id.to_string());
    assert_eq!(claims["sid"], signed_in.session.session_id.to_string());
    assert_eq!(claims["did"], device(1).to_string());
    assert_eq!(claims["iat"], start().as_secs());
    assert_eq!(claims["exp"], start().as_secs() + 3600);
    assert_eq!(claims["jti"].as_str().unwrap().len(), 26);
}

#[tokio::test]
async fn a_token_is_void_on_another_device() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let error = world.auth.authenticate_device(signed_in.tokens.access_token.expose(), device(2)).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken("it belongs to another device")), "{error:?}");
}

#[tokio::test]
async fn a_token_expires_to_the_second() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let token = signed_in.tokens.access_token.expose();
    world.clock.set(start() + (HOUR - std::time::Duration::from_millis(1)));
    assert_eq!(world.auth.authenticate(token).await.unwrap().user_id, signed_in.user.user_id);
    world.clock.set(start() + HOUR);
    assert_eq!(refusal(&world, token).await, "it has expired");
}

#[tokio::test]
async fn a_token_of_a_revoked_session_is_revoked() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let token = signed_in.tokens.access_token.expose();
    let principal = world.auth.authenticate(token).await.unwrap();
    assert_eq!(world.auth.revoke(&principal, Revoke::All).await.unwrap(), 1);
    let error = world.auth.authenticate(token).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRevoked), "{error:?}");
}

#[tokio::test]
async fn tampered_claims_do_not_pass() {
    let world = World::new();
    let mallory = world.sign_in("+15550100001", device(1)).await;
    let alice = world.sign_in("+15550100002", device(2)).await;
    let token = mallory.tokens.access_token.expose();
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let mut claims = claims(token);
    claims["sid"] = json!(alice.session.session_id);
    parts[1] = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    assert_eq!(refusal(&world, &parts.join(".")).await, "its signature is wrong");
}

#[tokio::test]
async fn a_token_signed_by_another_key_does_not_pass() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let claims = claims(signed_in.tokens.access_token.expose());
    let stranger = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let stranger = EncodingKey::from_ed_der(stranger.as_ref());

    let our_kid = decode_header(signed_in.tokens.access_token.expose()).unwrap().kid;
    let header = Header { kid: our_kid, ..Header::new(Algorithm::EdDSA) };
    assert_eq!(refusal(&world, &encode(&header, &claims, &stranger).unwrap()).await, "its signature is wrong");
    let header = Header { kid: Some("strange".to_owned()), ..Header::new(Algorithm::EdDSA) };
    assert_eq!(refusal(&world, &encode(&header, &claims, &stranger).unwrap()).await, "its key is unknown");
    let header = Header::new(Algorithm::EdDSA);
    assert_eq!(refusal(&world, &encode(&header, &claims, &stranger).unwrap()).await, "it names no key");
}

#[tokio::test]
async fn a_public_key_used_as_an_hmac_secret_does_not_pass() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let token = signed_in.tokens.access_token.expose();
    let header = Header { kid: decode_header(token).unwrap().kid, ..Header::new(Algorithm::HS256) };
    let forged = encode(&header, &claims(token), &EncodingKey::from_secret(&public_key(&world))).unwrap();
    assert_eq!(refusal(&world, &forged).await, "its algorithm does not match its key");
}

#[tokio::test]
async fn an_unsigned_token_does_not_pass() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    let token = signed_in.tokens.access_token.expose();
    let header = json!({"alg": "none", "typ": "JWT", "kid": decode_header(token).unwrap().kid});
    let payload = token.split('.').nth(1).unwrap();
    let unsigned = format!("{}.{payload}.", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()));
    assert_eq!(refusal(&world, &unsigned).await, "it is malformed");
}

#[tokio::test]
async fn arbitrary_text_is_a_malformed_token() {
    let world = World::new();
    for text in ["", ".", "..", "a.b.c", "eyJhbGciOiJFZERTQSJ9", "Bearer x"] {
        assert_eq!(refusal(&world, text).await, "it is malformed", "{text}");
    }
}

#[tokio::test]
async fn a_refresh_token_is_no_access_token() {
    let world = World::new();
    let signed_in = world.sign_in(PHONE, device(1)).await;
    assert_eq!(refusal(&world, signed_in.tokens.refresh_token.expose()).await, "it is malformed");
    assert!(signed_in.tokens.refresh_token.expose().starts_with(&format!("rt_{}", SessionId::PREFIX)));
}
