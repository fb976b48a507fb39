//! An external identity provider for tests.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::server::TestServer;

/// An issuer that publishes one key by OpenID Connect Discovery.
pub(crate) struct Issuer {
    pub(crate) url: String,
    key: Ed25519KeyPair,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        Self::publishing(|key| json!({ "keys": [key] })).await
    }

    /// An issuer with this key set around its key.
    pub(crate) async fn publishing(key_set: impl FnOnce(Value) -> Value) -> Self {
        let key = Ed25519KeyPair::generate().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let x = BASE64_URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
        let keys = key_set(json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x }));
        let discovery = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let answers = |body: Value| get(move || std::future::ready(Json(body.clone())));
        let routes =
            Router::new().route("/.well-known/openid-configuration", answers(discovery)).route("/keys", answers(keys));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, key }
    }

    /// A token of the subject `ann`, with more claims or other ones.
    pub(crate) fn token(&self, kind: &str, more: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({ "iss": self.url, "aud": "tidings", "sub": "ann", "iat": now, "exp": now + 600 });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": "k1", "typ": kind })), part(&claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// A server that accepts tokens of this issuer.
    pub(crate) async fn server(&self, more: &[(&str, &str)]) -> TestServer {
        let external = [
            ("TIDINGS_AUTH__EXTERNAL__ISSUER", self.url.as_str()),
            ("TIDINGS_AUTH__EXTERNAL__AUDIENCE", "tidings"),
            ("TIDINGS_AUTH__EXTERNAL__NAME_CLAIM", "name"),
        ];
        TestServer::start_with(&[&external, more].concat()).await
    }
}

/// A server that accepts the tokens of an issuer. Each rule has users of its own there.
pub(crate) struct IssuerServer {
    pub(crate) issuer: Issuer,
    pub(crate) server: TestServer,
}

impl IssuerServer {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let issuer = Issuer::start().await;
        let server = issuer.server(settings).await;
        Self { issuer, server }
    }
}
