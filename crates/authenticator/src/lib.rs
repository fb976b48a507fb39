//! A WebAuthn authenticator in software, for tests of passkeys.
//!
//! It writes CBOR by hand, so that a test does not encode with the library with which the server decodes. The parts of a
//! response are public, so that a test can forge each of them.
#![warn(missing_docs)]

mod cbor;
mod key;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub use cbor::{bytes, int, map, text};
pub use key::KeyKind;

/// Flag of the authenticator data: a user was present.
pub const USER_PRESENT: u8 = 1 << 0;
/// Flag: the user was verified.
pub const USER_VERIFIED: u8 = 1 << 2;
/// Flag: the passkey may be copied to other devices.
pub const BACKUP_ELIGIBLE: u8 = 1 << 3;
/// Flag: the passkey was copied.
pub const BACKED_UP: u8 = 1 << 4;
/// Flag: the data of a new credential follow.
pub const HAS_CREDENTIAL: u8 = 1 << 6;
/// Flag: extensions follow.
pub const HAS_EXTENSIONS: u8 = 1 << 7;

/// One passkey with its private key.
pub struct SoftwarePasskey {
    /// The id of the credential.
    pub credential_id: Vec<u8>,
    /// The user whom the passkey signs in.
    pub user_handle: Vec<u8>,
    /// The domain of the passkey.
    pub rp_id: String,
    /// The counter of the last signature; 0 for an authenticator without one.
    pub sign_count: u32,
    /// The flags of each response, apart from [`HAS_CREDENTIAL`].
    pub flags: u8,
    key: key::SigningKey,
}

impl SoftwarePasskey {
    /// A new passkey of a user.
    pub fn new(kind: KeyKind, rp_id: &str, user_handle: &[u8]) -> Self {
        Self {
            credential_id: rand::random::<[u8; 32]>().to_vec(),
            user_handle: user_handle.to_vec(),
            rp_id: rp_id.to_owned(),
            sign_count: 0,
            flags: USER_PRESENT | USER_VERIFIED,
            key: key::SigningKey::generate(kind),
        }
    }

    /// Answers `PublicKeyCredentialCreationOptionsJSON` on a page of an origin: the passkey, and a
    /// `RegistrationResponseJSON`.
    pub fn create(kind: KeyKind, options: &Value, origin: &str) -> (Self, Value) {
        let rp_id = options["rp"]["id"].as_str().expect("the options have an rp.id");
        let user_handle = options["user"]["id"].as_str().expect("the options have a user.id");
        let passkey = Self::new(kind, rp_id, &decode(user_handle));
        let response = passkey.registration(&client_data("webauthn.create", challenge(options), origin));
        (passkey, response)
    }

    /// Answers `PublicKeyCredentialRequestOptionsJSON` on a page of an origin with an `AuthenticationResponseJSON`.
    pub fn get(&self, options: &Value, origin: &str) -> Value {
        self.assertion(&client_data("webauthn.get", challenge(options), origin))
    }

    /// The COSE form of the public key.
    pub fn cose_key(&self) -> Vec<u8> {
        self.key.cose()
    }

    /// The authenticator data of a registration: with the credential.
    pub fn new_credential_data(&self) -> Vec<u8> {
        self.credential_data(&self.cose_key())
    }

    /// The authenticator data of a registration with these bytes as its key.
    pub fn credential_data(&self, key: &[u8]) -> Vec<u8> {
        let length = u16::try_from(self.credential_id.len()).expect("a credential id is short");
        let credential = [&[0; 16], &length.to_be_bytes()[..], &self.credential_id, key].concat();
        [self.header(HAS_CREDENTIAL), credential].concat()
    }

    /// The authenticator data of a sign-in.
    pub fn use_data(&self) -> Vec<u8> {
        self.header(0)
    }

    fn header(&self, more: u8) -> Vec<u8> {
        let hash = digest(&SHA256, self.rp_id.as_bytes());
        [hash.as_ref(), &[self.flags | more], &self.sign_count.to_be_bytes()].concat()
    }

    /// Signs bytes with the private key.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.key.sign(message)
    }

    /// A `RegistrationResponseJSON` for a client's data.
    pub fn registration(&self, client_data: &[u8]) -> Value {
        self.registration_with(client_data, &attestation(&self.new_credential_data()))
    }

    /// A `RegistrationResponseJSON` with this attestation object.
    pub fn registration_with(&self, client_data: &[u8], attestation: &[u8]) -> Value {
        let response = json!({
            "clientDataJSON": encode(client_data),
            "attestationObject": encode(attestation),
            "transports": ["internal"],
        });
        self.credential(response)
    }

    /// An `AuthenticationResponseJSON` for a client's data.
    pub fn assertion(&self, client_data: &[u8]) -> Value {
        self.assertion_with(client_data, &self.use_data())
    }

    /// An `AuthenticationResponseJSON` with this authenticator data, signed.
    pub fn assertion_with(&self, client_data: &[u8], data: &[u8]) -> Value {
        let hash = digest(&SHA256, client_data);
        let response = json!({
            "clientDataJSON": encode(client_data),
            "authenticatorData": encode(data),
            "signature": encode(&self.sign(&[data, hash.as_ref()].concat())),
            "userHandle": encode(&self.user_handle),
        });
        self.credential(response)
    }

    fn credential(&self, response: Value) -> Value {
        let id = encode(&self.credential_id);
        json!({
            "id": id,
            "rawId": id,
            "response": response,
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "type": "public-key",
        })
    }
}

/// The bytes of `clientDataJSON`, as a browser writes them.
pub fn client_data(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
    format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#).into_bytes()
}

/// An attestation object of format `none`.
pub fn attestation(authenticator_data: &[u8]) -> Vec<u8> {
    map(&[(text("fmt"), text("none")), (text("attStmt"), map(&[])), (text("authData"), bytes(authenticator_data))])
}

/// Base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The inverse of [`encode`].
pub fn decode(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).expect("a test decodes valid base64url")
}

fn challenge(options: &Value) -> &str {
    options["challenge"].as_str().expect("the options have a challenge")
}
