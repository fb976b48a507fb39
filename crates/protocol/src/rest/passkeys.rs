//! The bodies of passkeys. Options and responses have the names of the JSON forms of WebAuthn Level 3, 5.1, so that
//! `PublicKeyCredential.parseCreationOptionsFromJSON`, `parseRequestOptionsFromJSON` and `toJSON` work on them.

use domain::{DeviceId, PasskeyId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Sensitive;
use crate::schema;

/// A passkey of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct PasskeySummary {
    #[schema(value_type = schema::PasskeyId)]
    pub passkey_id: PasskeyId,
    pub name: String,
    /// Whether its provider has copied it to other devices.
    pub is_backed_up: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// `null` before the first sign-in.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub last_used_at: Option<Timestamp>,
}

impl From<&domain::Passkey> for PasskeySummary {
    fn from(passkey: &domain::Passkey) -> Self {
        Self {
            passkey_id: passkey.passkey_id,
            name: passkey.name.as_str().to_owned(),
            is_backed_up: passkey.is_backed_up,
            created_at: passkey.created_at,
            last_used_at: passkey.last_used_at,
        }
    }
}

/// The passkeys of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Passkeys {
    pub passkeys: Vec<PasskeySummary>,
}

/// `PublicKeyCredentialCreationOptionsJSON`: for `navigator.credentials.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyCreationOptions {
    pub rp: PasskeyRelyingParty,
    pub user: PasskeyUserEntity,
    /// Base64url; valid once, for 5 minutes.
    pub challenge: String,
    pub pub_key_cred_params: Vec<PasskeyAlgorithm>,
    /// In milliseconds.
    pub timeout: u64,
    pub exclude_credentials: Vec<PasskeyDescriptor>,
    pub authenticator_selection: PasskeyAuthenticatorSelection,
    /// `none`.
    pub attestation: String,
}

/// The service as a relying party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyRelyingParty {
    pub id: String,
    pub name: String,
}

/// The user, as authenticators store and show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyUserEntity {
    /// Base64url.
    pub id: String,
    /// The phone number, or else the display name.
    #[schema(value_type = String)]
    pub name: Sensitive,
    pub display_name: String,
}

/// A signature algorithm that the service accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyAlgorithm {
    pub r#type: PublicKeyType,
    /// The number of the algorithm in the COSE registry.
    pub alg: i64,
}

/// A credential by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyDescriptor {
    pub r#type: PublicKeyType,
    /// Base64url.
    pub id: String,
}

/// The requirements of the service for an authenticator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyAuthenticatorSelection {
    /// `required`.
    pub resident_key: String,
    pub require_resident_key: bool,
    /// `required`.
    pub user_verification: String,
}

/// `PublicKeyCredentialRequestOptionsJSON`: for `navigator.credentials.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyRequestOptions {
    /// Base64url; valid once, for 5 minutes.
    pub challenge: String,
    /// In milliseconds.
    pub timeout: u64,
    pub rp_id: String,
    /// Empty: the user chooses one of their passkeys for the site.
    pub allow_credentials: Vec<PasskeyDescriptor>,
    /// `required`.
    pub user_verification: String,
}

/// The only type of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the name is WebAuthn's and says it")]
pub enum PublicKeyType {
    PublicKey,
}

/// Body of POST `/auth/passkeys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddPasskey {
    /// A name for the list of passkeys.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// The `toJSON` of the new credential.
    pub credential: PasskeyRegistration,
}

/// `RegistrationResponseJSON`, as far as the service uses it. Other members are allowed and ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyRegistration {
    /// Base64url.
    pub id: String,
    /// The same as `id`.
    pub raw_id: String,
    pub response: PasskeyAttestation,
    pub r#type: PublicKeyType,
}

/// The part of the authenticator in a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasskeyAttestation {
    /// Base64url.
    #[serde(rename = "clientDataJSON")]
    pub client_data_json: String,
    /// Base64url.
    #[serde(rename = "attestationObject")]
    pub attestation_object: String,
}

/// Body of POST `/auth/passkeys/sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInWithPasskey {
    /// The device that signs in.
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    /// The `toJSON` of the credential.
    pub credential: PasskeyAuthentication,
}

/// `AuthenticationResponseJSON`, as far as the service uses it. Other members are allowed and ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are WebAuthn's and say it")]
pub struct PasskeyAuthentication {
    /// Base64url.
    pub id: String,
    /// The same as `id`.
    pub raw_id: String,
    pub response: PasskeySignature,
    pub r#type: PublicKeyType,
}

/// The part of the authenticator in a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasskeySignature {
    /// Base64url.
    #[serde(rename = "clientDataJSON")]
    pub client_data_json: String,
    /// Base64url.
    pub authenticator_data: String,
    /// Base64url.
    #[schema(value_type = String)]
    pub signature: Sensitive,
    /// Base64url. A passkey has one; without it the sign-in is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_handle: Option<String>,
}
