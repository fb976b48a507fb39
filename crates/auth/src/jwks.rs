use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use ports::{BoxError, StoreError, error_chain};
use reqwest::Url;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::{AuthError, JwksSource};

/// Timeout of a fetch.
const TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Minimum interval between fetches, however many tokens name unknown keys.
const FETCH_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum age of the keys. Older keys are fetched again even if the needed one is present, because it may be
/// withdrawn.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The public keys of an external provider, fetched on first use and cached.
pub(crate) struct ExternalKeys {
    source: JwksSource,
    http: reqwest::Client,
    cache: RwLock<JwksCache>,
    /// Held by the one request that fetches; concurrent requests wait for its result.
    last_attempt: tokio::sync::Mutex<Option<FetchAttempt>>,
}

#[derive(Default)]
struct JwksCache {
    keys: HashMap<String, Arc<ExternalKey>>,
    fetched_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct FetchAttempt {
    at: Instant,
    succeeded: bool,
}

/// A public key and its only algorithm. The `alg` header of a token must match it.
pub(crate) struct ExternalKey {
    pub(crate) key: DecodingKey,
    pub(crate) algorithm: Algorithm,
}

impl ExternalKeys {
    pub(crate) fn new(source: JwksSource) -> Result<Self, reqwest::Error> {
        let http = webhook::client(TIMEOUT).build()?;
        Ok(Self { source, http, cache: RwLock::default(), last_attempt: tokio::sync::Mutex::default() })
    }

    /// The key with this id. If a refetch fails, cached keys stay valid; if no fetch has ever succeeded, the error is
    /// an outage.
    pub(crate) async fn key(&self, kid: &str) -> Result<Arc<ExternalKey>, AuthError> {
        if let Some(key) = self.known(kid, AGE_MAX) {
            return Ok(key);
        }
        let mut last_attempt = self.last_attempt.lock().await;
        let latest = match *last_attempt {
            Some(recent) if recent.at.elapsed() < FETCH_INTERVAL => recent,
            _ => *last_attempt.insert(self.fetch().await),
        };
        match self.known(kid, Duration::MAX) {
            Some(key) => Ok(key),
            None if latest.succeeded => Err(AuthError::InvalidToken("its key is unknown")),
            None => Err(StoreError::unavailable("the keys of the external issuer are unavailable").into()),
        }
    }

    fn known(&self, kid: &str, age_max: Duration) -> Option<Arc<ExternalKey>> {
        let known = self.cache.read().expect("no holder of this lock panics");
        let fresh = known.fetched_at.is_some_and(|at| at.elapsed() < age_max);
        known.keys.get(kid).filter(|_| fresh).cloned()
    }

    async fn fetch(&self) -> FetchAttempt {
        let at = Instant::now();
        match self.try_fetch().await {
            Ok(keys) => {
                *self.cache.write().expect("no holder of this lock panics") = JwksCache { keys, fetched_at: Some(at) };
                FetchAttempt { at, succeeded: true }
            }
            Err(error) => {
                let error = error_chain(&*error);
                tracing::warn!(%error, "could not fetch the keys of the external issuer; cached keys stay in use");
                FetchAttempt { at, succeeded: false }
            }
        }
    }

    async fn try_fetch(&self) -> Result<HashMap<String, Arc<ExternalKey>>, BoxError> {
        let body = match &self.source {
            JwksSource::File(path) => {
                let mut body = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut body).await?;
                body
            }
            JwksSource::Url(url) => self.get(url.clone()).await?,
            JwksSource::Discovery(issuer) => self.get(self.discover(issuer).await?).await?,
        };
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("the key set is over {BODY_BYTES_MAX} bytes").into());
        }
        let set: JwkSet = serde_json::from_slice(&body)?;
        Ok(set.keys.iter().filter_map(usable).collect())
    }

    /// The URL of the key set that an issuer publishes. The document has to name the same issuer, so that one cannot
    /// publish keys for another (OpenID Connect Discovery 1.0, 4.3).
    async fn discover(&self, issuer: &str) -> Result<Url, BoxError> {
        let document = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')).parse::<Url>()?;
        let is_encrypted = document.scheme() == "https";
        let body = self.get(document).await?;
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("the discovery document is over {BODY_BYTES_MAX} bytes").into());
        }
        let found: Discovered = serde_json::from_slice(&body)?;
        if found.issuer != issuer {
            return Err(format!("the discovery document is of the issuer `{}`", found.issuer).into());
        }
        let jwks_uri: Url = found.jwks_uri.parse()?;
        if is_encrypted && jwks_uri.scheme() != "https" {
            return Err(format!("the discovered key set `{jwks_uri}` is not encrypted").into());
        }
        Ok(jwks_uri)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, BoxError> {
        let response = webhook::send(self.http.get(url)).await?;
        Ok(webhook::read(response, BODY_BYTES_MAX + 1).await?)
    }
}

/// The fields of a discovery document that are used.
#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

/// A signature key of a supported type, by its id. Other keys of the set are ignored.
fn usable(jwk: &Jwk) -> Option<(String, Arc<ExternalKey>)> {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let as_declared = jwk.common.key_algorithm.is_none_or(|declared| declared == KeyAlgorithm::from(algorithm));
    let for_signatures = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    if !(as_declared && for_signatures) {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some((jwk.common.key_id.clone()?, Arc::new(ExternalKey { key, algorithm })))
}
