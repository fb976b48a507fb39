use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use ports::{BoxError, StoreError};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::{AuthError, JwksSource};

/// How long a fetch may take.
const TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 256 * 1024;
/// At most this often the source is asked, however many tokens name keys we do not know.
const FETCH_INTERVAL: Duration = Duration::from_secs(30);
/// After this long the keys are asked for again even if we know the one we need: it may have been withdrawn.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The public keys of another system, fetched when first needed and kept.
pub(crate) struct ExternalKeys {
    source: JwksSource,
    http: reqwest::Client,
    known: RwLock<Known>,
    /// Held by the one request that fetches; the others wait for what it brings.
    last_try: tokio::sync::Mutex<Option<Try>>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<String, Arc<ExternalKey>>,
    fetched_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Try {
    at: Instant,
    succeeded: bool,
}

/// A public key and the one algorithm it is used with: a token's own word on its algorithm counts for nothing.
pub(crate) struct ExternalKey {
    pub(crate) key: DecodingKey,
    pub(crate) algorithm: Algorithm,
}

impl ExternalKeys {
    pub(crate) fn new(source: JwksSource) -> Result<Self, reqwest::Error> {
        let http = webhook::client(TIMEOUT).build()?;
        Ok(Self { source, http, known: RwLock::default(), last_try: tokio::sync::Mutex::default() })
    }

    /// The key of a name. Keys that cannot be renewed stay good; keys that could never be had are an outage.
    pub(crate) async fn key(&self, kid: &str) -> Result<Arc<ExternalKey>, AuthError> {
        if let Some(key) = self.known(kid, AGE_MAX) {
            return Ok(key);
        }
        let mut last_try = self.last_try.lock().await;
        let latest = match *last_try {
            Some(recent) if recent.at.elapsed() < FETCH_INTERVAL => recent,
            _ => *last_try.insert(self.fetch().await),
        };
        match self.known(kid, Duration::MAX) {
            Some(key) => Ok(key),
            None if latest.succeeded => Err(AuthError::InvalidToken("its key is unknown")),
            None => Err(StoreError::unavailable("the keys of the external issuer cannot be had").into()),
        }
    }

    fn known(&self, kid: &str, age_max: Duration) -> Option<Arc<ExternalKey>> {
        let known = self.known.read().expect("no holder of this lock panics");
        let fresh = known.fetched_at.is_some_and(|at| at.elapsed() < age_max);
        known.keys.get(kid).filter(|_| fresh).cloned()
    }

    async fn fetch(&self) -> Try {
        let at = Instant::now();
        match self.try_fetch().await {
            Ok(keys) => {
                *self.known.write().expect("no holder of this lock panics") = Known { keys, fetched_at: Some(at) };
                Try { at, succeeded: true }
            }
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = error.as_ref();
                tracing::warn!(error, "keys of the external issuer not fetched");
                Try { at, succeeded: false }
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
            JwksSource::Url(url) => {
                let response = webhook::send(self.http.get(url.clone())).await?;
                webhook::read(response, BODY_BYTES_MAX + 1).await?
            }
        };
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("the key set is over {BODY_BYTES_MAX} bytes").into());
        }
        let set: JwkSet = serde_json::from_slice(&body)?;
        Ok(set.keys.iter().filter_map(usable).collect())
    }
}

/// A key for signatures of a kind we take, by its name. A set may hold others, which are nothing to us.
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
