use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_auth::{AuthError, Config, ExternalConfig, JwksSource, Principal};
use tokio::time::advance;

use crate::local_http::{StubReply, serve, serve_one};
use crate::world::{HOUR, World, device, start};

const FETCH_INTERVAL: Duration = Duration::from_secs(30);
const KEYS_AGE_MAX: Duration = Duration::from_secs(600);

/// A signing key of the external provider.
pub(crate) struct ProviderKey {
    signing: EncodingKey,
    algorithm: Algorithm,
    jwk: Jwk,
}

impl ProviderKey {
    pub(crate) fn new(kid: &str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let signing = match algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_der(Ed25519KeyPair::generate_pkcs8v1(&random).unwrap().as_ref()),
            Algorithm::ES256 => EncodingKey::from_ec_der(
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref(),
            ),
            _ => {
                let der = KeyPair::generate(KeySize::Rsa2048).unwrap().as_der().unwrap();
                let text = BASE64_STANDARD.encode(der.as_ref());
                let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
                EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap()
            }
        };
        let mut jwk = Jwk::from_encoding_key(&signing, algorithm).unwrap();
        jwk.common.key_id = Some(kid.to_owned());
        Self { signing, algorithm, jwk }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(Some("JWT"), claims)
    }

    /// Signs a token with a `typ` header of its own.
    fn sign_as(&self, kind: Option<&str>, claims: &Value) -> String {
        let (kid, typ) = (self.jwk.common.key_id.clone(), kind.map(str::to_owned));
        encode(&Header { kid, typ, ..Header::new(self.algorithm) }, claims, &self.signing).unwrap()
    }
}

pub(crate) fn key_set(keys: &[&ProviderKey]) -> String {
    serde_json::to_string(&JwkSet { keys: keys.iter().map(|key| key.jwk.clone()).collect() }).unwrap()
}

/// A world that trusts the key set in a file.
pub(crate) struct TrustingWorld {
    world: World,
    file: PathBuf,
    _directory: TempDir,
}

impl TrustingWorld {
    pub(crate) fn new(keys: &[&ProviderKey]) -> Self {
        Self::with_file(&key_set(keys))
    }

    pub(crate) fn with_file(text: &str) -> Self {
        Self::with(text, |config| config)
    }

    fn with(text: &str, change: impl FnOnce(ExternalConfig) -> ExternalConfig) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("jwks.json");
        fs::write(&file, text).unwrap();
        let world = trusting(change(external(JwksSource::File(file.clone()))));
        Self { world, file, _directory: directory }
    }

    pub(crate) async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        self.world.auth.authenticate(token).await
    }

    async fn refusal(&self, token: &str) -> &'static str {
        match self.authenticate(token).await {
            Err(AuthError::InvalidToken(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }
}

fn world(jwks: JwksSource) -> World {
    trusting(external(jwks))
}

fn trusting(external: ExternalConfig) -> World {
    World::with(Config { external: Some(external), ..Config::default() })
}

fn external(jwks: JwksSource) -> ExternalConfig {
    ExternalConfig {
        jwks,
        issuer: "https://id.example".to_owned(),
        audience: "tidings".to_owned(),
        user_claim: "sub".to_owned(),
        name_claim: Some("name".to_owned()),
        name_from_issuer: false,
        clients: Vec::new(),
    }
}

pub(crate) fn claims() -> Value {
    let exp = (start() + HOUR).as_secs();
    json!({"iss": "https://id.example", "aud": "tidings", "sub": "ada", "name": "Ada Lovelace", "exp": exp})
}

fn but(claim: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[claim] = value;
    claims
}

fn without(claim: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(claim);
    claims
}

#[tokio::test]
async fn a_user_of_another_system_is_made_on_first_sight_and_known_after() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let first = trusting.authenticate(&key.sign(&claims())).await.unwrap();
    assert_eq!((first.session_id, first.device_id), (None, None));
    assert_eq!(first.token_expires_at, start() + HOUR + Duration::from_secs(60));
    let again = but("exp", json!((start() + HOUR * 2).as_secs()));
    assert_eq!(trusting.authenticate(&key.sign(&again)).await.unwrap().user_id, first.user_id);
    let other = trusting.authenticate(&key.sign(&but("sub", json!("bob")))).await.unwrap();
    assert_ne!(other.user_id, first.user_id);
    assert_eq!(trusting.world.display_name(first.user_id).await, "Ada Lovelace");
}

#[tokio::test]
async fn a_name_that_does_not_fit_is_cut_cleaned_or_left_out() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    for (subject, name, expected) in [
        ("a", json!("é".repeat(65)), "é".repeat(64)),
        ("b", json!("a\nb\u{202E}"), "ab".to_owned()),
        ("d", json!("\u{200B}"), String::new()),
        ("c", json!(7), String::new()),
    ] {
        let mut claims = but("sub", json!(subject));
        claims["name"] = name;
        let principal = trusting.authenticate(&key.sign(&claims)).await.unwrap();
        let id = principal.user_id.to_string();
        let expected = if expected.is_empty() { format!("User {}", &id[id.len() - 4..]) } else { expected };
        assert_eq!(trusting.world.display_name(principal.user_id).await, expected);
    }
}

#[tokio::test]
async fn a_user_of_another_system_may_use_any_device_and_has_no_session_to_end() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let token = key.sign(&claims());
    let principal = trusting.world.auth.authenticate_device(&token, device(7)).await.unwrap();
    trusting.world.auth.logout(&principal).await.unwrap();
    assert_eq!(trusting.authenticate(&token).await.unwrap(), principal);
    assert_eq!(trusting.world.sockets.closed(), []);
}

#[tokio::test]
async fn each_key_verifies_with_its_own_algorithm() {
    let keys = [
        ProviderKey::new("rsa", Algorithm::RS256),
        ProviderKey::new("ec", Algorithm::ES256),
        ProviderKey::new("ed", Algorithm::EdDSA),
    ];
    let trusting = TrustingWorld::new(&keys.each_ref());
    let mut users = Vec::new();
    for key in &keys {
        users.push(trusting.authenticate(&key.sign(&claims())).await.unwrap().user_id);
    }
    assert_eq!(users, [users[0]; 3]);
}

#[tokio::test]
async fn a_token_of_another_algorithm_than_its_key_is_refused() {
    let (key, rsa) = (ProviderKey::new("k1", Algorithm::EdDSA), ProviderKey::new("rsa", Algorithm::RS256));
    let trusting = TrustingWorld::new(&[&key, &rsa]);
    // A public key is not secret, so it must not be accepted as an HMAC key.
    let public = serde_json::to_value(&key.jwk).unwrap()["x"].as_str().unwrap().to_owned();
    let public = EncodingKey::from_secret(&BASE64_URL_SAFE_NO_PAD.decode(public).unwrap());
    let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::HS256) };
    let forged = encode(&header, &claims(), &public).unwrap();
    assert_eq!(trusting.refusal(&forged).await, "its algorithm does not match its key");

    let stronger = ProviderKey { algorithm: Algorithm::RS512, ..rsa };
    assert_eq!(trusting.refusal(&stronger.sign(&claims())).await, "its algorithm does not match its key");
}

#[tokio::test]
async fn keys_that_are_not_for_our_signatures_are_not_used() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    for (field, value) in [("use", "enc"), ("alg", "RS256"), ("kty", "oct")] {
        let mut jwk = serde_json::to_value(&key.jwk).unwrap();
        jwk[field] = json!(value);
        jwk["k"] = jwk["x"].clone();
        let trusting = TrustingWorld::new(&[]);
        fs::write(&trusting.file, json!({"keys": [jwk]}).to_string()).unwrap();
        assert_eq!(trusting.refusal(&key.sign(&claims())).await, "its key is unknown", "{field}");
    }
}

#[tokio::test]
async fn a_token_for_others_or_from_others_or_of_another_time_is_refused() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let now = start().as_secs();
    for (claims, reason) in [
        (but("iss", json!("https://evil.example")), "it has the wrong issuer"),
        (without("iss"), "it lacks a claim"),
        (but("aud", json!("somebody else")), "it has the wrong audience"),
        (but("aud", json!(["one", "two"])), "it has the wrong audience"),
        (without("aud"), "it lacks a claim"),
        (but("exp", json!(now - 60)), "it has expired"),
        (but("nbf", json!(now + 61)), "it is not valid yet"),
        (but("exp", json!("tomorrow")), "it is malformed"),
        (without("exp"), "it is malformed"),
        (without("sub"), "its user claim is missing or not a valid id"),
        (but("sub", json!("")), "its user claim is missing or not a valid id"),
        (but("sub", json!("x".repeat(256))), "its user claim is missing or not a valid id"),
        (but("sub", json!(1.5)), "its user claim is missing or not a valid id"),
        (but("sub", json!(true)), "its user claim is missing or not a valid id"),
    ] {
        assert_eq!(trusting.refusal(&key.sign(&claims)).await, reason, "{claims}");
    }
}

#[tokio::test]
async fn clocks_may_disagree_by_a_minute_and_audiences_may_be_many() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let now = start().as_secs();
    let user_id = trusting.authenticate(&key.sign(&claims())).await.unwrap().user_id;
    for claims in [
        but("exp", json!(now - 59)),
        but("exp", json!(now as f64 + 0.5)),
        but("nbf", json!(now + 60)),
        but("aud", json!(["other", "tidings"])),
    ] {
        assert_eq!(trusting.authenticate(&key.sign(&claims)).await.unwrap().user_id, user_id, "{claims}");
    }
}

#[tokio::test]
async fn a_token_of_a_stranger_or_with_a_critical_header_is_refused() {
    let (key, stranger) = (ProviderKey::new("k1", Algorithm::EdDSA), ProviderKey::new("k1", Algorithm::EdDSA));
    let trusting = TrustingWorld::new(&[&key]);
    assert_eq!(trusting.refusal(&stranger.sign(&claims())).await, "its signature is wrong");
    let crit = Some(vec!["b64".to_owned()]);
    let header = Header { kid: Some("k1".to_owned()), crit, ..Header::new(Algorithm::EdDSA) };
    let token = encode(&header, &claims(), &key.signing).unwrap();
    assert_eq!(trusting.refusal(&token).await, "it has a critical header");
}

#[tokio::test]
async fn own_tokens_work_beside_tokens_of_another_system() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let signed_in = trusting.world.sign_in("+15551234567", device(1)).await;
    let principal = trusting.authenticate(signed_in.tokens.access_token.expose()).await.unwrap();
    assert_eq!(principal.session_id, Some(signed_in.session.session_id));
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_found_within_thirty_seconds_and_not_sought_more_often() {
    let (old, new) = (ProviderKey::new("old", Algorithm::EdDSA), ProviderKey::new("new", Algorithm::EdDSA));
    let trusting = TrustingWorld::new(&[&old]);
    assert_eq!(trusting.refusal(&new.sign(&claims())).await, "its key is unknown");
    fs::write(&trusting.file, key_set(&[&old, &new])).unwrap();
    advance(FETCH_INTERVAL - Duration::from_millis(1)).await;
    assert_eq!(trusting.refusal(&new.sign(&claims())).await, "its key is unknown");
    advance(Duration::from_millis(1)).await;
    let user_id = trusting.authenticate(&new.sign(&claims())).await.unwrap().user_id;
    assert_eq!(trusting.authenticate(&old.sign(&claims())).await.unwrap().user_id, user_id);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_key_is_forgotten_within_ten_minutes() {
    let (withdrawn, kept) =
        (ProviderKey::new("withdrawn", Algorithm::EdDSA), ProviderKey::new("kept", Algorithm::EdDSA));
    let trusting = TrustingWorld::new(&[&withdrawn, &kept]);
    let token = withdrawn.sign(&claims());
    let user_id = trusting.authenticate(&token).await.unwrap().user_id;
    fs::write(&trusting.file, key_set(&[&kept])).unwrap();
    assert_eq!(trusting.authenticate(&token).await.unwrap().user_id, user_id);
    advance(KEYS_AGE_MAX).await;
    assert_eq!(trusting.refusal(&token).await, "its key is unknown");
}

#[tokio::test(start_paused = true)]
async fn keys_stay_good_while_they_cannot_be_renewed() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    let token = key.sign(&claims());
    let user_id = trusting.authenticate(&token).await.unwrap().user_id;
    fs::remove_file(&trusting.file).unwrap();
    advance(KEYS_AGE_MAX).await;
    assert_eq!(trusting.authenticate(&token).await.unwrap().user_id, user_id);
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_never_fetched_are_an_outage() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[]);
    let token = key.sign(&claims());
    for unusable in ["not json".to_owned(), format!("{{\"keys\": []{}}}", " ".repeat(256 * 1024))] {
        fs::write(&trusting.file, unusable).unwrap();
        for _ in 0..2 {
            let error = trusting.authenticate(&token).await.unwrap_err();
            assert!(matches!(error, AuthError::Unavailable(_)), "{error:?}");
        }
        advance(FETCH_INTERVAL).await;
    }
    fs::write(&trusting.file, key_set(&[&key])).unwrap();
    assert_eq!(trusting.authenticate(&token).await.unwrap().session_id, None);
}

#[tokio::test]
async fn concurrent_requests_fetch_the_keys_once() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let (url, served) = serve([StubReply::Respond(200, key_set(&[&key]))]).await;
    let auth = world(JwksSource::Url(url.parse().unwrap())).auth;
    let token = key.sign(&claims());
    let (one, two) = tokio::join!(auth.authenticate(&token), auth.authenticate(&token));
    assert_eq!(one.unwrap(), two.unwrap());
    let requests = served.await.unwrap();
    assert_eq!(requests.iter().map(|request| request.line.as_str()).collect::<Vec<_>>(), ["GET /hook HTTP/1.1"]);
}

#[tokio::test]
async fn a_redirect_to_other_keys_is_not_followed() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let (url, served) = serve([StubReply::Respond(302, key_set(&[&key]))]).await;
    let world = world(JwksSource::Url(url.parse().unwrap()));
    let error = world.auth.authenticate(&key.sign(&claims())).await.unwrap_err();
    assert!(matches!(error, AuthError::Unavailable(_)), "{error:?}");
    assert_eq!(served.await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_access_tokens_and_tokens_without_a_type_are_accepted() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::new(&[&key]);
    for kind in [None, Some("JWT"), Some("jwt"), Some("at+jwt"), Some("application/at+jwt")] {
        trusting.authenticate(&key.sign_as(kind, &claims())).await.unwrap();
    }
    for kind in ["logout+jwt", "secevent+jwt", "dpop+jwt", "application/logout+jwt", ""] {
        let refusal = trusting.refusal(&key.sign_as(Some(kind), &claims())).await;
        assert_eq!(refusal, "its type is neither JWT nor at+jwt", "{kind}");
    }
}

#[tokio::test]
async fn a_token_that_was_issued_to_another_client_is_refused() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let of = |audience: Value, client: Value| {
        let mut claims = but("aud", audience);
        claims["azp"] = client;
        key.sign(&claims)
    };
    let (one, several) = (json!("tidings"), json!(["tidings", "shop"]));
    let open = TrustingWorld::new(&[&key]);
    let named =
        TrustingWorld::with(&key_set(&[&key]), |config| ExternalConfig { clients: vec!["app".to_owned()], ..config });
    for (audience, client, with_open, with_named) in [
        (&one, json!("app"), true, true),
        (&one, json!("other"), true, false),
        (&several, json!("tidings"), true, false),
        (&several, json!("app"), false, true),
        (&several, json!("other"), false, false),
        (&several, json!(7), false, false),
    ] {
        for (trusting, accepted) in [(&open, with_open), (&named, with_named)] {
            let token = of(audience.clone(), client.clone());
            match accepted {
                true => drop(trusting.authenticate(&token).await.unwrap()),
                false => assert_eq!(trusting.refusal(&token).await, "it was issued to another client"),
            }
        }
    }
    open.authenticate(&key.sign(&but("aud", several.clone()))).await.unwrap();
}

#[tokio::test]
async fn the_name_of_the_latest_token_wins_if_names_come_from_the_issuer() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let trusting = TrustingWorld::with(&key_set(&[&key]), |config| ExternalConfig { name_from_issuer: true, ..config });
    let named = |name: &str, issued_at: u64| {
        let mut claims = but("name", json!(name));
        claims["iat"] = json!(start().as_secs() + issued_at);
        key.sign(&claims)
    };
    let sign_in = async |name: &str, issued_at: u64| {
        let user = trusting.authenticate(&named(name, issued_at)).await.unwrap();
        assert!(trusting.world.auth.is_name_from_issuer(&user));
        trusting.world.display_name(user.user_id).await
    };
    assert_eq!(sign_in("Ada", 1).await, "Ada");
    assert_eq!(sign_in("Ada Lovelace", 2).await, "Ada Lovelace");
    assert_eq!(sign_in("Ada", 1).await, "Ada Lovelace", "an older token has an older name");
    trusting.world.clock.advance(Duration::from_secs(61));
    assert_eq!(sign_in("Ada", 1).await, "Ada Lovelace", "also when its user is looked up again");
    assert_eq!(sign_in("Ada\u{202e} King", 3).await, "Ada King", "a name is cleaned");
    assert_eq!(sign_in("\u{202e}", 4).await, "Ada King", "a name of which nothing is left changes nothing");
}

#[tokio::test]
async fn the_keys_of_an_issuer_are_discovered() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let (jwks_url, keys_served) = serve([StubReply::Respond(200, key_set(&[&key]))]).await;
    let (issuer, discovery) = issuer(|issuer| json!({ "issuer": issuer, "jwks_uri": jwks_url })).await;
    let config = ExternalConfig { issuer: issuer.clone(), ..external(JwksSource::Discovery(issuer.clone())) };
    let world = trusting(config);
    world.auth.authenticate(&key.sign(&but("iss", json!(issuer)))).await.unwrap();
    assert_eq!(discovery.await.unwrap(), "GET /hook/.well-known/openid-configuration HTTP/1.1");
    assert_eq!(keys_served.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_discovery_document_of_another_issuer_is_not_used() {
    let key = ProviderKey::new("k1", Algorithm::EdDSA);
    let (issuer, _) = issuer(|_| json!({ "issuer": "https://id.example", "jwks_uri": "http://127.0.0.1:1/" })).await;
    let config = ExternalConfig { issuer: issuer.clone(), ..external(JwksSource::Discovery(issuer.clone())) };
    let refused = trusting(config).auth.authenticate(&key.sign(&but("iss", json!(issuer)))).await.unwrap_err();
    assert!(matches!(refused, AuthError::Unavailable(_)), "{refused:?}");
}

/// An issuer that serves one discovery document; returns its URL and the line of the request.
async fn issuer(document: impl FnOnce(&str) -> Value) -> (String, tokio::task::JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let answer = StubReply::Respond(200, document(&url).to_string());
    let served = tokio::spawn(async move { serve_one(&listener, &answer).await.line });
    (url, served)
}
