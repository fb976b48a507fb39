use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use domain::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use keyfile::{KeyFile, KeyFileError, Keys, MasterSecret};
use ports::lock;

use crate::Config;
use crate::codes::CodeKey;
use crate::key_file::{KeyRecords, TokenKeyRecord};

/// The extra time for which a key is kept after its last token has expired, to allow for clock skew.
const OVERLAP_MARGIN: Duration = Duration::from_secs(5 * 60);

/// The keys of this installation.
///
/// One key signs access tokens for a limited time. Earlier keys still verify until the last token that they signed has
/// expired, so a rotation does not invalidate any token.
pub struct KeyRing {
    source: KeySource,
    rotation: Duration,
    overlap: Duration,
    code_key: CodeKey,
    token_keys: RwLock<TokenKeys>,
}

/// The source of the keys.
enum KeySource {
    /// The file `keys.json` in a data directory. A new key is on disk before it signs a token.
    File {
        file: KeyFile<KeyRecords>,
        /// The content of the file; locked while the file is written.
        records: Mutex<KeyRecords>,
    },
    /// The shared secret of a fleet. Every process derives the same key for each rotation period.
    Secret(MasterSecret),
}

/// The keys of access tokens.
struct TokenKeys {
    /// The keys that verify, oldest first.
    verifying: Vec<Arc<TokenKey>>,
    /// The key that signs.
    signing: Arc<TokenKey>,
}

/// A key pair for access tokens.
pub(crate) struct TokenKey {
    pub(crate) kid: String,
    pub(crate) signing: EncodingKey,
    pub(crate) verifying: DecodingKey,
    jwk: Jwk,
}

impl KeyRing {
    /// The name of the key file in a data directory.
    pub const FILE: &str = KeyRecords::FILE;

    /// Opens the key file of a data directory, or creates one, and rotates the key if due. Blocks on disk I/O.
    pub fn open(directory: &Path, config: &Config, now: Timestamp) -> Result<Self, KeyFileError> {
        let file = KeyFile::new(directory);
        let records = match file.read()? {
            Some(records) => records,
            None => {
                let code_secret = rand::random::<[u8; 32]>().to_vec();
                let records = KeyRecords { code_secret, token_keys: vec![generate(now)] };
                file.write(&records)?;
                records
            }
        };
        if records.code_secret.len() < 32 {
            return Err(file.damaged("a key is missing"));
        }
        let ring = Self {
            rotation: config.key_rotation,
            overlap: config.access_ttl + OVERLAP_MARGIN,
            code_key: CodeKey::new(&records.code_secret),
            token_keys: RwLock::new(load(&file, &records)?),
            source: KeySource::File { file, records: Mutex::new(records) },
        };
        ring.rotate_if_due(now)?;
        Ok(ring)
    }

    /// The keys of a fleet at `now`.
    pub fn derived(secret: MasterSecret, config: &Config, now: Timestamp) -> Self {
        Self {
            rotation: config.key_rotation,
            overlap: config.access_ttl + OVERLAP_MARGIN,
            code_key: CodeKey::new(&secret.derive("one-time codes", 0)),
            token_keys: RwLock::new(derive(&secret, config.key_rotation, now)),
            source: KeySource::Secret(secret),
        }
    }

    /// Starts signing with a new key if the current one is too old, and drops keys that no valid token needs.
    ///
    /// Returns whether the signing key or the key file changed. Blocks on disk I/O if the file changed.
    pub fn rotate_if_due(&self, now: Timestamp) -> Result<bool, KeyFileError> {
        match &self.source {
            KeySource::File { file, records } => self.rotate_file(file, records, now),
            KeySource::Secret(secret) => Ok(self.replace(derive(secret, self.rotation, now))),
        }
    }

    fn rotate_file(
        &self,
        file: &KeyFile<KeyRecords>,
        records: &Mutex<KeyRecords>,
        now: Timestamp,
    ) -> Result<bool, KeyFileError> {
        let mut records = lock(records);
        let mut next = records.clone();
        if next.token_keys.last().is_none_or(|newest| now.since(newest.created_at) >= self.rotation) {
            next.token_keys.push(generate(now));
        }
        // A key was superseded when the next one was created.
        let successors = next.token_keys.iter().skip(1);
        let needless = successors.take_while(|successor| now.since(successor.created_at) > self.overlap).count();
        next.token_keys.drain(..needless);
        if next == *records {
            return Ok(false);
        }
        let token_keys = load(file, &next)?;
        file.write(&next)?;
        self.replace(token_keys);
        *records = next;
        Ok(true)
    }

    /// Replaces the keys; `false` if the signing key stays the same.
    fn replace(&self, next: TokenKeys) -> bool {
        let mut keys = self.token_keys.write().expect("no holder of this lock panics");
        let changed = keys.signing.kid != next.signing.kid;
        *keys = next;
        changed
    }

    pub(crate) fn signing_key(&self) -> Arc<TokenKey> {
        self.token_keys.read().expect("no holder of this lock panics").signing.clone()
    }

    pub(crate) fn verifying_key(&self, kid: &str) -> Option<Arc<TokenKey>> {
        let keys = self.token_keys.read().expect("no holder of this lock panics");
        keys.verifying.iter().find(|key| key.kid == kid).cloned()
    }

    /// The public keys that verify.
    pub(crate) fn jwks(&self) -> JwkSet {
        let keys = self.token_keys.read().expect("no holder of this lock panics");
        JwkSet { keys: keys.verifying.iter().map(|key| key.jwk.clone()).collect() }
    }

    pub(crate) fn code_key(&self) -> &CodeKey {
        &self.code_key
    }
}

fn generate(now: Timestamp) -> TokenKeyRecord {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("the system has random bytes");
    TokenKeyRecord { created_at: now, pkcs8: pkcs8.as_ref().to_vec() }
}

/// The keys of a fleet at `now`. Each rotation period has its own key. The previous key verifies the tokens that it has
/// signed; the next key verifies tokens of processes with a fast clock.
fn derive(secret: &MasterSecret, rotation: Duration, now: Timestamp) -> TokenKeys {
    let stretch = now.as_millis() / (rotation.as_millis() as u64).max(1);
    let key = |stretch| {
        let pair = Ed25519KeyPair::from_seed_unchecked(&secret.derive("access tokens", stretch));
        let pkcs8 = pair.and_then(|pair| Ok(pair.to_pkcs8()?.as_ref().to_vec())).expect("every seed has a key");
        Arc::new(TokenKey::load(&pkcs8).expect("a key that was just made can be read"))
    };
    let [before, signing, after] = [stretch.saturating_sub(1), stretch, stretch + 1].map(key);
    TokenKeys { verifying: vec![before, signing.clone(), after], signing }
}

/// The keys of a key file, decoded. The newest key signs.
fn load(file: &KeyFile<KeyRecords>, records: &KeyRecords) -> Result<TokenKeys, KeyFileError> {
    let keys = records.token_keys.iter().map(|record| TokenKey::load(&record.pkcs8).map(Arc::new));
    let verifying: Vec<_> = keys.collect::<Result<_, _>>().map_err(|error| file.damaged(error))?;
    let signing = verifying.last().ok_or_else(|| file.damaged("a key is missing"))?.clone();
    Ok(TokenKeys { verifying, signing })
}

impl TokenKey {
    fn load(pkcs8: &[u8]) -> Result<Self, KeyRejected> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8)?;
        let verifying = DecodingKey::from_ed_der(pair.public_key().as_ref());
        let mut jwk = Jwk::from_decoding_key(&verifying, Some(Algorithm::EdDSA)).expect("an Ed25519 key has a JWK");
        // The id of a key is its thumbprint (RFC 7638), so a key has one id and an id has one key.
        let kid = jwk.thumbprint(ThumbprintHash::SHA256).expect("the JWK of an Ed25519 key has a thumbprint");
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { kid, signing: EncodingKey::from_ed_der(pkcs8), verifying, jwk })
    }
}
