/// The step of a WebAuthn procedure that a response does not pass. It is for logs and security events; clients of a
/// sign-in get one answer for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyRefusal {
    /// A part is not base64url, JSON or CBOR of the expected form, or exceeds its bound.
    #[error("the response is malformed")]
    Malformed,
    /// `clientDataJSON.type` is that of another procedure.
    #[error("the response is of another kind")]
    Type,
    /// The challenge was not issued here, or for another purpose or user.
    #[error("the challenge is unknown")]
    Challenge,
    /// The challenge is too old.
    #[error("the challenge has expired")]
    ChallengeExpired,
    /// The challenge was answered before.
    #[error("the challenge was answered before")]
    ChallengeSpent,
    /// The page that asked the authenticator is not one of the configured origins.
    #[error("the origin is not allowed")]
    Origin,
    /// The page was embedded in a page of another origin.
    #[error("the page is embedded in another one")]
    CrossOrigin,
    /// The credential is of another relying party.
    #[error("the passkey is of another site")]
    RpId,
    /// The authenticator did not check that a user is present.
    #[error("the user was not present")]
    UserPresence,
    /// The authenticator did not verify the user, by a PIN or a biometric feature.
    #[error("the user was not verified")]
    UserVerification,
    /// The backup flags contradict each other or the registration.
    #[error("the backup flags are inconsistent")]
    BackupFlags,
    /// The attestation has a format other than `none`, which was requested.
    #[error("the attestation is not `none`")]
    Attestation,
    /// The key has an algorithm or type that was not requested, or is not valid.
    #[error("the public key is not supported")]
    PublicKey,
    /// The credential id is empty, too long or differs between the parts of the response.
    #[error("the credential id is not valid")]
    CredentialId,
    /// No passkey has this credential id.
    #[error("the passkey is unknown")]
    UnknownCredential,
    /// The user handle is absent, or of another user.
    #[error("the passkey is of another user")]
    UserHandle,
    /// The signature is wrong.
    #[error("the signature is wrong")]
    Signature,
    /// The signature counter has not grown.
    #[error("the signature counter has not grown")]
    Counter,
}

impl PasskeyRefusal {
    /// The word for it in security events.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "passkey_malformed",
            Self::Type => "passkey_type",
            Self::Challenge => "passkey_challenge",
            Self::ChallengeExpired => "passkey_challenge_expired",
            Self::ChallengeSpent => "passkey_challenge_spent",
            Self::Origin => "passkey_origin",
            Self::CrossOrigin => "passkey_cross_origin",
            Self::RpId => "passkey_rp_id",
            Self::UserPresence => "passkey_user_presence",
            Self::UserVerification => "passkey_user_verification",
            Self::BackupFlags => "passkey_backup_flags",
            Self::Attestation => "passkey_attestation",
            Self::PublicKey => "passkey_public_key",
            Self::CredentialId => "passkey_credential_id",
            Self::UnknownCredential => "passkey_unknown",
            Self::UserHandle => "passkey_user_handle",
            Self::Signature => "passkey_signature",
            Self::Counter => "passkey_counter",
        }
    }
}
