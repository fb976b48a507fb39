//! Passkeys: sign-in with WebAuthn credentials (`docs/adr/021-passkeys.md`).
//!
//! The modules verify responses by the procedures of WebAuthn Level 3 and do no I/O. The methods of [`Auth`] here combine
//! them with the stores.

mod assertion;
mod attestation;
mod authenticator_data;
mod challenge;
mod client_data;
mod cose;
mod encoding;
mod refusal;
mod registration;
mod relying_party;
#[cfg(test)]
mod tests;

pub use assertion::PasskeySignIn;
pub use refusal::PasskeyRefusal;
pub use registration::RegisterPasskey;
pub use relying_party::{RelyingParty, RelyingPartyError};

use std::net::IpAddr;

use domain::limits::PASSKEYS_MAX;
use domain::{CredentialId, Passkey, PasskeyId, SessionId, User, UserId, network};
use ports::{LimitKey, PasskeyAddition, PasskeyUseOutcome, SecurityEvent, SecurityEventKind};

use self::challenge::{Challenge, ChallengePurpose};
use crate::restrictions::RestrictionAge;
use crate::{Auth, AuthError, Principal, SignedIn};

/// The values with which a client asks an authenticator for a new passkey.
#[derive(Clone, Debug)]
pub struct PasskeyCreation {
    /// The challenge to sign.
    pub challenge: Vec<u8>,
    /// The user who registers it.
    pub user: User,
    /// The user's passkeys; an authenticator with one of them creates no other.
    pub existing: Vec<CredentialId>,
}

/// The name of the limit on refused sign-ins with a passkey per IP address.
const VERIFY_LIMIT: &str = "passkey_verify_per_ip";

impl Auth {
    /// The COSE numbers of the signature algorithms of passkeys, in order of preference.
    pub const PASSKEY_ALGORITHMS: [i64; 3] = cose::ALGORITHMS;

    /// The relying party of this server's passkeys, unless they are off.
    pub fn relying_party(&self) -> Result<&RelyingParty, AuthError> {
        self.config().passkeys.as_ref().ok_or(AuthError::PasskeysOff)
    }

    /// Begins the registration of a passkey.
    ///
    /// Only users with a session can register one. A passkey of a user of an external provider would outlive their account
    /// there.
    pub async fn begin_passkey(&self, principal: &Principal) -> Result<PasskeyCreation, AuthError> {
        self.relying_party()?;
        session_of(principal)?;
        let user_id = principal.user_id;
        let (key, quota) = (LimitKey::PasskeyRegistration(user_id), self.config().limits.passkey_registration);
        self.take("passkey_registration", key, quota).await?;
        let (users, passkeys) = tokio::try_join!(
            self.ports().user_reader.users(std::slice::from_ref(&user_id)),
            self.ports().passkeys.passkeys(user_id)
        )?;
        let user = users.into_iter().flatten().next().ok_or(AuthError::TokenRevoked)?;
        if passkeys.len() >= PASSKEYS_MAX {
            return Err(AuthError::TooManyPasskeys);
        }
        let purpose = ChallengePurpose::Registration(user_id);
        let challenge = Challenge::issue(purpose, self.keys().code_key(), self.now()).as_bytes().to_vec();
        let existing = passkeys.into_iter().map(|passkey| passkey.credential_id).collect();
        Ok(PasskeyCreation { challenge, user, existing })
    }

    /// Completes the registration of a passkey.
    pub async fn register_passkey(
        &self,
        principal: &Principal,
        register: RegisterPasskey<'_>,
    ) -> Result<Passkey, AuthError> {
        let session_id = session_of(principal)?;
        let registered = self.add_passkey(principal.user_id, register).await;
        let event = SecurityEvent::of(SecurityEventKind::PasskeyAdded);
        let event = match &registered {
            Ok(passkey) => event.with("passkey_id", passkey.passkey_id),
            Err(refusal) => event.failed(refusal.reason()),
        };
        self.record(event.user(principal.user_id).session(session_id));
        registered
    }

    async fn add_passkey(&self, user_id: UserId, register: RegisterPasskey<'_>) -> Result<Passkey, AuthError> {
        let now = self.now();
        let verified = register
            .verify(user_id, self.relying_party()?, self.keys().code_key(), now)
            .map_err(AuthError::PasskeyNotRegistered)?;
        // A passkey outlives the token of this request by far.
        self.restrictions(user_id, RestrictionAge::Current).await?.check(now, None)?;
        if !self.ports().tickets.spend(verified.challenge).await? {
            return Err(AuthError::PasskeyNotRegistered(PasskeyRefusal::ChallengeSpent));
        }
        let passkey = Passkey {
            passkey_id: self.ports().ids.ulid().into(),
            user_id,
            credential_id: verified.credential.credential_id,
            public_key: verified.credential.public_key,
            sign_count: verified.sign_count,
            is_backup_eligible: verified.is_backup_eligible,
            is_backed_up: verified.is_backed_up,
            name: register.name,
            created_at: now,
            last_used_at: None,
        };
        match self.ports().passkeys.add(passkey.clone()).await? {
            PasskeyAddition::Added => Ok(passkey),
            PasskeyAddition::CredentialTaken => Err(AuthError::PasskeyTaken),
            PasskeyAddition::TooMany => Err(AuthError::TooManyPasskeys),
        }
    }

    /// The passkeys of the caller, oldest first.
    pub async fn passkeys(&self, principal: &Principal) -> Result<Vec<Passkey>, AuthError> {
        self.relying_party()?;
        Ok(self.ports().passkeys.passkeys(principal.user_id).await?)
    }

    /// Removes a passkey of the caller; `false` if there is no such passkey. Sessions that it opened stay.
    pub async fn remove_passkey(&self, principal: &Principal, passkey_id: PasskeyId) -> Result<bool, AuthError> {
        self.relying_party()?;
        let removed = self.ports().passkeys.remove(principal.user_id, passkey_id).await?;
        if removed {
            let event = SecurityEvent::of(SecurityEventKind::PasskeyRemoved).user(principal.user_id);
            let event = event.with("passkey_id", passkey_id);
            self.record(match principal.session_id {
                Some(session_id) => event.session(session_id),
                None => event,
            });
        }
        Ok(removed)
    }

    /// A challenge for a sign-in with a passkey.
    pub async fn passkey_challenge(&self, ip: IpAddr) -> Result<Vec<u8>, AuthError> {
        self.relying_party()?;
        let quota = self.config().limits.passkey_challenge_per_ip;
        self.take("passkey_challenge_per_ip", LimitKey::PasskeyChallengeIp(network(ip)), quota).await?;
        let challenge = Challenge::issue(ChallengePurpose::SignIn, self.keys().code_key(), self.now());
        Ok(challenge.as_bytes().to_vec())
    }

    /// Signs the owner of a passkey in on a device. Earlier sessions of the device end.
    pub async fn sign_in_with_passkey(&self, sign_in: PasskeySignIn<'_>) -> Result<SignedIn, AuthError> {
        let device_id = sign_in.device_id;
        let signed_in = self.verify_passkey(sign_in).await;
        let event = match &signed_in {
            Ok(SignedIn { session, .. }) => {
                let event = SecurityEvent::of(SecurityEventKind::SignIn).session(session.session_id);
                event.user(session.user_id).because("passkey")
            }
            Err(refusal) => SecurityEvent::of(SecurityEventKind::SignInFailed).failed(refusal.reason()),
        };
        self.record(event.device(device_id));
        signed_in
    }

    async fn verify_passkey(&self, sign_in: PasskeySignIn<'_>) -> Result<SignedIn, AuthError> {
        self.relying_party()?;
        // Only refused sign-ins count, so many users behind one address can sign in.
        let (from_there, per_ip) =
            (LimitKey::PasskeyVerifyIp(network(sign_in.ip)), self.config().limits.passkey_verify_per_ip);
        let look = self.take(VERIFY_LIMIT, from_there, per_ip.map(|quota| quota.weighing(0))).await?;
        if let Some(decision) = look.filter(|decision| decision.remaining == 0) {
            return Err(AuthError::RateLimited { limit: VERIFY_LIMIT, decision });
        }
        let user = match self.owner_of_assertion(&sign_in).await {
            Err(AuthError::PasskeyRefused(refusal)) => {
                self.take(VERIFY_LIMIT, from_there, per_ip).await?;
                return Err(AuthError::PasskeyRefused(refusal));
            }
            outcome => outcome?,
        };
        let now = self.now();
        self.restrictions(user.user_id, RestrictionAge::Current).await?.check(now, None)?;
        let (session, tokens) = self.open_session(user.user_id, sign_in.device_id, now).await?;
        Ok(SignedIn { user, session, tokens, is_new_user: false })
    }

    /// Verifies a sign-in, spends its challenge and records the use of the passkey.
    async fn owner_of_assertion(&self, sign_in: &PasskeySignIn<'_>) -> Result<User, AuthError> {
        let now = self.now();
        let assertion = sign_in.check(self.relying_party()?, self.keys().code_key(), now)?;
        let passkey = self.ports().passkeys.by_credential(&assertion.credential_id).await?;
        let passkey = passkey.ok_or(PasskeyRefusal::UnknownCredential)?;
        let used = assertion.verify(&passkey, now)?;
        // Only a valid signature spends a challenge, so the marks are bounded by real sign-ins.
        if !self.ports().tickets.spend(assertion.challenge).await? {
            return Err(PasskeyRefusal::ChallengeSpent.into());
        }
        match self.ports().passkeys.record_use(&passkey.credential_id, used).await? {
            PasskeyUseOutcome::Recorded(_) => {}
            PasskeyUseOutcome::NotFound => return Err(PasskeyRefusal::UnknownCredential.into()),
            PasskeyUseOutcome::CounterNotGrown => {
                tracing::warn!(user_id = %passkey.user_id, passkey_id = %passkey.passkey_id,
                    "signature counter of a passkey has not grown; sign-in refused");
                let event = SecurityEvent::of(SecurityEventKind::PasskeyCopyDetected).failed("counter");
                let event = event.user(passkey.user_id).device(sign_in.device_id);
                self.record(event.with("passkey_id", passkey.passkey_id));
                return Err(PasskeyRefusal::Counter.into());
            }
        }
        let users = self.ports().user_reader.users(std::slice::from_ref(&passkey.user_id)).await?;
        let user = users.into_iter().flatten().next().filter(|user| user.deleted_at.is_none());
        Ok(user.ok_or(PasskeyRefusal::UnknownCredential)?)
    }
}

fn session_of(principal: &Principal) -> Result<SessionId, AuthError> {
    principal.session_id.ok_or(AuthError::PasskeyWithoutSession)
}
