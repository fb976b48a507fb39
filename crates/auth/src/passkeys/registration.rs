use domain::{DisplayName, Timestamp, UserId};
use ports::SpentChallenge;

use super::attestation::AttestationObject;
use super::authenticator_data::{AuthenticatorData, NewCredential};
use super::challenge::{Challenge, ChallengePurpose};
use super::client_data::{Ceremony, ClientData};
use super::cose::CoseKey;
use super::encoding;
use super::refusal::PasskeyRefusal;
use super::relying_party::RelyingParty;
use crate::codes::CodeKey;

/// A client's `RegistrationResponseJSON` (WebAuthn Level 3, 5.1), as far as it is used, with a name for the passkey.
/// Binary parts are base64url.
#[derive(Clone, Debug)]
pub struct RegisterPasskey<'a> {
    /// The name that the user gave the passkey.
    pub name: DisplayName,
    /// `id`.
    pub id: &'a str,
    /// `rawId`.
    pub raw_id: &'a str,
    /// `response.clientDataJSON`.
    pub client_data_json: &'a str,
    /// `response.attestationObject`.
    pub attestation_object: &'a str,
}

/// A registration that passed every check but one: whether its challenge is spent.
#[derive(Debug)]
pub(super) struct VerifiedRegistration {
    pub(super) challenge: SpentChallenge,
    pub(super) credential: NewCredential,
    pub(super) sign_count: u32,
    pub(super) is_backup_eligible: bool,
    pub(super) is_backed_up: bool,
}

impl RegisterPasskey<'_> {
    /// The procedure of WebAuthn Level 3, 7.1, for the attestation preference `none`.
    pub(super) fn verify(
        &self,
        user_id: UserId,
        party: &RelyingParty,
        key: &CodeKey,
        now: Timestamp,
    ) -> Result<VerifiedRegistration, PasskeyRefusal> {
        let client_data = encoding::decode(self.client_data_json)?;
        let client_data = ClientData::parse(&client_data, Ceremony::Registration, party)?;
        let challenge = Challenge::check(&client_data.challenge, ChallengePurpose::Registration(user_id), key, now)?;
        let attestation = encoding::decode(self.attestation_object)?;
        let attestation = AttestationObject::parse(&attestation)?;
        let data = AuthenticatorData::parse(attestation.authenticator_data, party)?;
        let AuthenticatorData { sign_count, is_backup_eligible, is_backed_up, credential } = data;
        let credential = credential.ok_or(PasskeyRefusal::Malformed)?;
        let public_key = CoseKey::parse(&credential.public_key)?;
        public_key.check()?;
        attestation.verify(&public_key, &client_data.hash)?;
        if encoding::credential_id(self.id, self.raw_id)? != credential.credential_id {
            return Err(PasskeyRefusal::CredentialId);
        }
        Ok(VerifiedRegistration { challenge, credential, sign_count, is_backup_eligible, is_backed_up })
    }
}
