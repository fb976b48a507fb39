use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use domain::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use keyfile::{KeyFile, KeyFileError};

use crate::Config;
use crate::codes::CodeKey;
use crate::key_file::{KeyRecords, TokenKeyRecord};

/// How much longer than the last token it signed a key is kept, for clocks that disagree.
const OVERLAP_MARGIN: Duration = Duration::from_secs(5 * 60);

/// The keys of this installation, in the file `keys.json` of its data directory.
///
/// The newest key signs access tokens. The ones before it verify until the last token they signed has expired, so a
/// rotation is noticed by nobody. A key is on the disk before it signs anything.
pub struct KeyRing {
    file: KeyFile<KeyRecords>,
    rotation: Duration,
    overlap: Duration,
    code_key: CodeKey,
    /// What the file holds; locked by whoever writes it.
    records: Mutex<KeyRecords>,
    /// The same keys ready for use, oldest first, never empty.
    token_keys: RwLock<Vec<Arc<TokenKey>>>,
}

/// A key pair of access tokens.
pub(crate) struct TokenKey {
    pub(crate) kid: String,
    pub(crate) signing: EncodingKey,
    pub(crate) verifying: DecodingKey,
    jwk: Jwk,
}

impl KeyRing {
    /// Opens the key file of a data directory, or makes one, and rotates if it is time. Blocks on the disk.
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
        if records.code_secret.len() < 32 || records.token_keys.is_empty() {
            return Err(file.damaged("a key is missing"));
        }
        let ring = Self {
            rotation: config.key_rotation,
            overlap: config.access_ttl + OVERLAP_MARGIN,
            code_key: CodeKey::new(&records.code_secret),
            token_keys: RwLock::new(load(&file, &records)?),
            records: Mutex::new(records),
            file,
        };
        ring.rotate_if_due(now)?;
        Ok(ring)
    }

    /// Makes a new signing key if the present one is too old, and drops keys that no token needs any more.
    ///
    /// Returns whether anything changed. Blocks on the disk when it did.
    pub fn rotate_if_due(&self, now: Timestamp) -> Result<bool, KeyFileError> {
        let mut records = self.records.lock().expect("no holder of this lock panics");
        let mut next = records.clone();
        if next.token_keys.last().is_none_or(|newest| now.since(newest.created_at) >= self.rotation) {
            next.token_keys.push(generate(now));
        }
        // A key was superseded when the one after it was made.
        let successors = next.token_keys.iter().skip(1);
        let needless = successors.take_while(|successor| now.since(successor.created_at) > self.overlap).count();
        next.token_keys.drain(..needless);
        if next == *records {
            return Ok(false);
        }
        let token_keys = load(&self.file, &next)?;
        self.file.write(&next)?;
        *self.token_keys.write().expect("no holder of this lock panics") = token_keys;
        *records = next;
        Ok(true)
    }

    pub(crate) fn signing_key(&self) -> Arc<TokenKey> {
        let keys = self.token_keys.read().expect("no holder of this lock panics");
        keys.last().expect("a ring has a key from the moment it opens").clone()
    }

    pub(crate) fn verifying_key(&self, kid: &str) -> Option<Arc<TokenKey>> {
        let keys = self.token_keys.read().expect("no holder of this lock panics");
        keys.iter().find(|key| key.kid == kid).cloned()
    }

    /// The public halves of all keys that verify.
    pub(crate) fn jwks(&self) -> JwkSet {
        let keys = self.token_keys.read().expect("no holder of this lock panics");
        JwkSet { keys: keys.iter().map(|key| key.jwk.clone()).collect() }
    }

    pub(crate) fn code_key(&self) -> &CodeKey {
        &self.code_key
    }
}

fn generate(now: Timestamp) -> TokenKeyRecord {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("the system has random bytes");
    TokenKeyRecord { created_at: now, pkcs8: pkcs8.as_ref().to_vec() }
}

fn load(file: &KeyFile<KeyRecords>, records: &KeyRecords) -> Result<Vec<Arc<TokenKey>>, KeyFileError> {
    let keys = records.token_keys.iter().map(|record| TokenKey::load(record).map(Arc::new));
    keys.collect::<Result<_, _>>().map_err(|error| file.damaged(error))
}

impl TokenKey {
    fn load(record: &TokenKeyRecord) -> Result<Self, KeyRejected> {
        let pair = Ed25519KeyPair::from_pkcs8(&record.pkcs8)?;
        let verifying = DecodingKey::from_ed_der(pair.public_key().as_ref());
        let mut jwk = Jwk::from_decoding_key(&verifying, Some(Algorithm::EdDSA)).expect("an Ed25519 key has a JWK");
        // The name of a key follows from the key (RFC 7638), so one key cannot have two names nor two keys one.
        let kid = jwk.thumbprint(ThumbprintHash::SHA256).expect("the JWK of an Ed25519 key has a thumbprint");
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { kid, signing: EncodingKey::from_ed_der(&record.pkcs8), verifying, jwk })
    }
}
