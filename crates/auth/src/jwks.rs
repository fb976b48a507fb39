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
use webhook::HttpCallError;

use crate::{AuthError, ExternalConfig, JwksSource};

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

/// The keys of an external provider cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// The provider does not answer now. It may later.
    #[error("the keys of the external issuer cannot be fetched now")]
    Unavailable(#[source] BoxError),
    /// The settings are wrong, or the documents of the provider.
    #[error("the external issuer has no usable keys")]
    Unusable(#[source] BoxError),
}

impl From<HttpCallError> for KeySetError {
    fn from(error: HttpCallError) -> Self {
        match error {
            HttpCallError::Gone(_) | HttpCallError::Refused(_) => Self::Unusable(error.into()),
            HttpCallError::Unavailable { .. } | HttpCallError::Unanswered(_) => Self::Unavailable(error.into()),
        }
    }
}

impl KeySetError {
    fn unusable(cause: impl Into<BoxError>) -> Self {
        Self::Unusable(cause.into())
    }
}

impl ExternalConfig {
    /// Fetches the keys once, to find wrong settings before the first token. Returns their number, which is not zero.
    pub async fn check(&self) -> Result<usize, KeySetError> {
        let keys = ExternalKeys::new(self.jwks.clone()).map_err(KeySetError::unusable)?;
        match keys.try_fetch().await?.len() {
            0 => {
                Err(KeySetError::unusable("no key of the set has a `kid` and is for RS256, ES256 or EdDSA signatures"))
            }
            count => Ok(count),
        }
    }
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
                let error = error_chain(&error);
                tracing::warn!(%error, "could not fetch the keys of the external issuer; cached keys stay in use");
                FetchAttempt { at, succeeded: false }
            }
        }
    }

    async fn try_fetch(&self) -> Result<HashMap<String, Arc<ExternalKey>>, KeySetError> {
        let body = match &self.source {
            JwksSource::File(path) => {
                let unreadable = |error| KeySetError::unusable(format!("cannot read `{}`: {error}", path.display()));
                let mut body = Vec::new();
                let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
                file.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut body).await.map_err(unreadable)?;
                body
            }
            JwksSource::Url(url) => self.get(url.clone()).await?,
            JwksSource::Discovery(issuer) => self.get(self.discover(issuer).await?).await?,
        };
        if body.len() > BODY_BYTES_MAX {
            return Err(KeySetError::unusable(format!("the key set is over {BODY_BYTES_MAX} bytes")));
        }
        let set: JwkSet = serde_json::from_slice(&body)
            .map_err(|error| KeySetError::unusable(format!("the key set is not a JSON Web Key Set: {error}")))?;
        Ok(set.keys.iter().filter_map(usable).collect())
    }

    /// The URL of the key set that an issuer publishes. The document has to name the same issuer, so that one cannot
    /// publish keys for another (OpenID Connect Discovery 1.0, 4.3).
    async fn discover(&self, issuer: &str) -> Result<Url, KeySetError> {
        let unusable = |cause: String| KeySetError::unusable(format!("the discovery document of `{issuer}` {cause}"));
        let document = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document: Url = document.parse().map_err(|error| unusable(format!("has no address: {error}")))?;
        let is_encrypted = document.scheme() == "https";
        let body = self.get(document).await.map_err(|error| match error {
            KeySetError::Unusable(cause) => unusable(format!("cannot be read: {cause}")),
            unavailable => unavailable,
        })?;
        if body.len() > BODY_BYTES_MAX {
            return Err(unusable(format!("is over {BODY_BYTES_MAX} bytes")));
        }
        let found: Discovered =
            serde_json::from_slice(&body).map_err(|error| unusable(format!("is not of OpenID Connect: {error}")))?;
        if found.issuer != issuer {
            return Err(unusable(format!("is of the issuer `{}`", found.issuer)));
        }
        let jwks_uri: Url = found.jwks_uri.parse().map_err(|error| unusable(format!("names no key set: {error}")))?;
        if is_encrypted && jwks_uri.scheme() != "https" {
            return Err(unusable(format!("names the key set `{jwks_uri}`, which is not encrypted")));
        }
        Ok(jwks_uri)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, KeySetError> {
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
