use std::net::IpAddr;

use domain::{CredentialId, DeviceId, Passkey, PasskeyUse, Timestamp};
use ports::SpentChallenge;

use super::authenticator_data::AuthenticatorData;
use super::challenge::{Challenge, ChallengePurpose};
use super::client_data::{Ceremony, ClientData};
use super::cose::CoseKey;
use super::encoding;
use super::refusal::PasskeyRefusal;
use super::relying_party::RelyingParty;
use crate::codes::CodeKey;

/// A sign-in with a passkey: a client's `AuthenticationResponseJSON` (WebAuthn Level 3, 5.1), as far as it is used. Binary
/// parts are base64url.
#[derive(Clone, Debug)]
pub struct PasskeySignIn<'a> {
    /// The client's IP address.
    pub ip: IpAddr,
    /// The device that signs in.
    pub device_id: DeviceId,
    /// `id`.
    pub id: &'a str,
    /// `rawId`.
    pub raw_id: &'a str,
    /// `response.clientDataJSON`.
    pub client_data_json: &'a str,
    /// `response.authenticatorData`.
    pub authenticator_data: &'a str,
    /// `response.signature`.
    pub signature: &'a str,
    /// `response.userHandle`; an authenticator with discoverable credentials sends it.
    pub user_handle: Option<&'a str>,
}

/// The decoded response, of which everything is checked that does not depend on the passkey.
#[derive(Debug)]
pub(super) struct PasskeyAssertion {
    pub(super) credential_id: CredentialId,
    pub(super) challenge: SpentChallenge,
    user_handle: Vec<u8>,
    data: AuthenticatorData,
    /// The bytes that the authenticator has signed: its data, and the hash of the client's data.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

impl PasskeySignIn<'_> {
    /// The procedure of WebAuthn Level 3, 7.2, up to the steps that need the passkey.
    pub(super) fn check(
        &self,
        party: &RelyingParty,
        key: &CodeKey,
        now: Timestamp,
    ) -> Result<PasskeyAssertion, PasskeyRefusal> {
        let credential_id = encoding::credential_id(self.id, self.raw_id)?;
        let user_handle = encoding::decode(self.user_handle.ok_or(PasskeyRefusal::UserHandle)?)?;
        let client_data = encoding::decode(self.client_data_json)?;
        let client_data = ClientData::parse(&client_data, Ceremony::Authentication, party)?;
        let challenge = Challenge::check(&client_data.challenge, ChallengePurpose::SignIn, key, now)?;
        let authenticator_data = encoding::decode(self.authenticator_data)?;
        let data = AuthenticatorData::parse(&authenticator_data, party)?;
        let signed = [&authenticator_data[..], &client_data.hash].concat();
        let signature = encoding::decode(self.signature)?;
        Ok(PasskeyAssertion { credential_id, challenge, user_handle, data, signed, signature })
    }
}

impl PasskeyAssertion {
    /// The other steps, with the passkey of the credential id. The store decides about the counter.
    pub(super) fn verify(&self, passkey: &Passkey, now: Timestamp) -> Result<PasskeyUse, PasskeyRefusal> {
        if self.user_handle != passkey.user_id.to_bytes() {
            return Err(PasskeyRefusal::UserHandle);
        }
        if self.data.is_backup_eligible != passkey.is_backup_eligible {
            return Err(PasskeyRefusal::BackupFlags);
        }
        CoseKey::parse(&passkey.public_key)?.verify(&self.signed, &self.signature)?;
        Ok(PasskeyUse { sign_count: self.data.sign_count, is_backed_up: self.data.is_backed_up, at: now })
    }
}
