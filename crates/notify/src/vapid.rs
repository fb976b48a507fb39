use std::path::Path;
use std::time::Duration;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use keyfile::{KeyFile, KeyFileError, Keys, MasterSecret, base64url};
use reqwest::Url;
use serde::{Deserialize, Serialize};

/// Lifetime of a VAPID token; RFC 8292 allows at most a day.
const TOKEN_TTL: Duration = Duration::from_secs(12 * 3600);

/// The VAPID keys that identify this installation to push services (RFC 8292). They are in the file `vapid.json` of the data
/// directory, or derived from the secret of a fleet.
///
/// A browser subscribes with the public key and only accepts messages signed with the private key. The keys are therefore
/// created once and kept: with new keys, every browser would have to subscribe again.
pub struct VapidKeys {
    signing: EncodingKey,
    public_key: String,
}

#[derive(Serialize, Deserialize)]
struct VapidRecord {
    /// A key pair on P-256.
    #[serde(with = "base64url")]
    pkcs8: Vec<u8>,
}

impl Keys for VapidRecord {
    const FILE: &'static str = "vapid.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "browsers then have to subscribe to notifications again";
}

#[derive(Serialize)]
struct VapidClaims<'a> {
    aud: String,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
}

impl VapidKeys {
    /// Name of the key file in a data directory.
    pub const FILE: &str = VapidRecord::FILE;

    /// Opens the keys of a data directory, or creates them. Blocks on disk I/O.
    pub fn open(directory: &Path) -> Result<Self, KeyFileError> {
        let file = KeyFile::<VapidRecord>::new(directory);
        let record = match file.read()? {
            Some(record) => record,
            None => {
                let record = generate();
                file.write(&record)?;
                record
            }
        };
        Self::load(&record.pkcs8).map_err(|error| file.damaged(error))
    }

    /// The keys of a fleet, the same in all its processes.
    pub fn derived(secret: &MasterSecret) -> Self {
        // Almost any 32 bytes are a valid private key, so the loop nearly always ends at the first attempt.
        let keys = (0..).find_map(|n| Self::load(&pkcs8(&secret.derive("web push", n))?).ok());
        keys.expect("some 32 bytes are a private key")
    }

    fn load(pkcs8: &[u8]) -> Result<Self, KeyRejected> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)?;
        let public_key = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key());
        Ok(Self { signing: EncodingKey::from_ec_der(pkcs8), public_key })
    }

    /// The public key in base64url, as a browser's `pushManager.subscribe` expects it.
    pub fn public_key(&self) -> &str {
        &self.public_key
    }

    /// The value of `Authorization` for a call to a push service.
    pub(crate) fn authorization(
        &self,
        endpoint: &Url,
        contact: Option<&str>,
        now: Timestamp,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let aud = endpoint.origin().ascii_serialization();
        let claims = VapidClaims { aud, exp: (now + TOKEN_TTL).as_secs(), sub: contact };
        let token = encode(&Header::new(Algorithm::ES256), &claims, &self.signing)?;
        Ok(format!("vapid t={token}, k={}", self.public_key))
    }
}

fn generate() -> VapidRecord {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .expect("the system has random bytes");
    VapidRecord { pkcs8: pkcs8.as_ref().to_vec() }
}

/// The key pair of a private key, if the bytes are valid.
fn pkcs8(private_key: &[u8]) -> Option<Vec<u8>> {
    let agreement = PrivateKey::from_private_key(&ECDH_P256, private_key).ok()?;
    let public_key = agreement.compute_public_key().ok()?;
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, private_key, public_key.as_ref()).ok()?;
    Some(pair.to_pkcs8v1().ok()?.as_ref().to_vec())
}
