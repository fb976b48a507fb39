use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use domain::{DeviceId, SessionId, Timestamp, UserId};
use metrics::counter;
use ports::{Assertion, Clock, ConnectionHolder, Principal};
use prost::Message;
use tracing::warn;

use crate::{proto, wire};

/// Separates these MACs from all others that might be made with the same key.
const PURPOSE: &[u8] = b"tidings assertion 1\0";
/// Longest proof that is read, in bytes. Ours have about 150.
const PROOF_BYTES_MAX: usize = 512;

/// The key that authenticates assertions. Only the roles `api`, which issues them, and `ingest`, which verifies them, have
/// it. `Debug` does not reveal it.
///
/// A MAC suffices: an ingest process that forged assertions could as well write the messages to the store itself.
#[derive(Clone)]
pub struct AssertionKey(hmac::Key);

impl fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssertionKey(***)")
    }
}

/// The facts that an assertion states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) user_id: UserId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) device_id: Option<DeviceId>,
    /// When the user presented the token.
    pub(crate) authenticated_at: Timestamp,
    /// Expiry of that token, the limit of all renewals.
    pub(crate) token_expires_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

impl Claims {
    /// The connection of the user, to check it again.
    pub(crate) fn holder(&self) -> ConnectionHolder {
        ConnectionHolder { user_id: self.user_id, session_id: self.session_id, connected_at: self.authenticated_at }
    }
}

/// Why an assertion is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AssertionError {
    #[error("it has no assertion")]
    Missing,
    #[error("its assertion was not issued by this fleet; give `api` and `ingest` the same `rpc.assertion_secret_file`")]
    Forged,
    #[error("its assertion has expired")]
    Expired,
    #[error("its assertion is of another user")]
    OtherUser,
}

impl AssertionKey {
    /// A key of 32 secret bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    fn seal(&self, claims: &Claims) -> Arc<[u8]> {
        let claims = wire::to_claims(claims).encode_to_vec();
        let mac = self.mac(&claims).as_ref().to_vec();
        proto::Proof { claims, mac }.encode_to_vec().into()
    }

    /// The claims of a proof that was made with this key, expired or not.
    pub(crate) fn open(&self, proof: &[u8]) -> Result<Claims, AssertionError> {
        let forged = AssertionError::Forged;
        if proof.len() > PROOF_BYTES_MAX {
            return Err(forged);
        }
        let proto::Proof { claims, mac } = proto::Proof::decode(proof).map_err(|_| forged)?;
        hmac::verify(&self.0, &[PURPOSE, &claims].concat(), &mac).map_err(|_| forged)?;
        let claims = proto::Claims::decode(&*claims).map_err(|_| forged)?;
        wire::read_claims(claims).map_err(|_| forged)
    }

    fn mac(&self, claims: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &[PURPOSE, claims].concat())
    }
}

/// Issues assertions, in the role `api`.
#[derive(Clone)]
pub struct Asserter {
    key: AssertionKey,
    lifetime: Duration,
    clock: Arc<dyn Clock>,
}

impl Asserter {
    /// Issues assertions that expire after `lifetime`.
    pub fn new(key: AssertionKey, lifetime: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { key, lifetime, clock }
    }

    /// An assertion for a user who has just presented a token on a device.
    pub fn assert(&self, principal: &Principal, device_id: Option<DeviceId>) -> Assertion {
        self.issue(Claims {
            user_id: principal.user_id,
            session_id: principal.session_id,
            device_id,
            authenticated_at: self.now(),
            token_expires_at: principal.token_expires_at,
            expires_at: Timestamp::MAX,
        })
    }

    /// An assertion for a call that this process makes itself. It cannot be renewed.
    pub fn assert_user(&self, user_id: UserId) -> Assertion {
        let now = self.now();
        self.issue(Claims {
            user_id,
            session_id: None,
            device_id: None,
            authenticated_at: now,
            token_expires_at: now + self.lifetime,
            expires_at: Timestamp::MAX,
        })
    }

    /// An assertion with these claims and a new expiry. It is due for renewal after half its lifetime, so that sends
    /// continue for the other half while no `api` process answers.
    pub(crate) fn issue(&self, claims: Claims) -> Assertion {
        let now = self.now();
        let full = now + self.lifetime;
        let (renew_at, expires_at) = if full < claims.token_expires_at {
            (now + self.lifetime / 2, full)
        } else {
            (claims.token_expires_at, claims.token_expires_at)
        };
        Assertion { proof: self.key.seal(&Claims { expires_at, ..claims }), renew_at, expires_at }
    }

    pub(crate) fn open(&self, proof: &[u8]) -> Result<Claims, AssertionError> {
        self.key.open(proof)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Whether ingest requires assertions.
#[derive(Clone, Debug)]
pub enum AssertionPolicy {
    /// Calls without a valid assertion are refused.
    Required(AssertionKey),
    /// Calls without a valid assertion are counted. For the time of an upgrade from a release without assertions.
    Counted(Option<AssertionKey>),
}

/// Checks the assertions of calls to ingest.
pub(crate) struct AssertionCheck {
    policy: AssertionPolicy,
    clock: Arc<dyn Clock>,
    was_refused: AtomicBool,
}

impl AssertionCheck {
    pub(crate) fn new(policy: AssertionPolicy, clock: Arc<dyn Clock>) -> Self {
        Self { policy, clock, was_refused: AtomicBool::new(false) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Checks the proof of a call for a user.
    pub(crate) fn check(
        &self,
        method: &'static str,
        user_id: UserId,
        proof: Option<&[u8]>,
    ) -> Result<(), AssertionError> {
        let verified = proof.ok_or(AssertionError::Missing).and_then(|proof| self.verify(user_id, proof)).map(drop);
        self.decide(method, verified)
    }

    /// The expiry of a valid proof.
    pub(crate) fn verify(&self, user_id: UserId, proof: &[u8]) -> Result<Timestamp, AssertionError> {
        let (AssertionPolicy::Required(key) | AssertionPolicy::Counted(Some(key))) = &self.policy else {
            return Err(AssertionError::Missing);
        };
        let claims = key.open(proof)?;
        if claims.user_id != user_id {
            return Err(AssertionError::OtherUser);
        }
        if claims.expires_at <= self.now() {
            return Err(AssertionError::Expired);
        }
        Ok(claims.expires_at)
    }

    /// Applies the policy to the outcome of a verification.
    pub(crate) fn decide(
        &self,
        method: &'static str,
        verified: Result<(), AssertionError>,
    ) -> Result<(), AssertionError> {
        let Err(error) = verified else { return Ok(()) };
        let is_refused = matches!(self.policy, AssertionPolicy::Required(_));
        let outcome = if is_refused { "refused" } else { "accepted" };
        counter!("tidings_rpc_unasserted_total", "method" => method, "outcome" => outcome).increment(1);
        if !is_refused {
            return Ok(());
        }
        // Logged once: a caller of an earlier release, or an intruder, calls again for as long as it runs.
        if !self.was_refused.swap(true, Ordering::Relaxed) {
            warn!(method, %error, "refused a call for a user; further ones are counted in tidings_rpc_unasserted_total");
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use memory::ManualClock;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(600);
    const HOUR: Duration = Duration::from_secs(3600);

    fn start() -> Timestamp {
        Timestamp::from_millis(1_769_783_400_000)
    }

    fn user(n: u8) -> UserId {
        UserId::from_bytes([n; 16])
    }

    fn key(n: u8) -> AssertionKey {
        AssertionKey::new(&[n; 32])
    }

    fn principal() -> Principal {
        Principal {
            user_id: user(1),
            session_id: Some(SessionId::from_bytes([2; 16])),
            device_id: None,
            token_expires_at: start() + HOUR,
            assertion: None,
        }
    }

    fn asserter(key: AssertionKey, clock: &Arc<ManualClock>) -> Asserter {
        Asserter::new(key, LIFETIME, clock.clone())
    }

    #[test]
    fn an_assertion_is_accepted_for_its_user_until_it_expires() {
        let clock = Arc::new(ManualClock::at(start()));
        let assertion = asserter(key(1), &clock).assert(&principal(), None);
        assert_eq!((assertion.renew_at, assertion.expires_at), (start() + LIFETIME / 2, start() + LIFETIME));
        let check = AssertionCheck::new(AssertionPolicy::Required(key(1)), clock.clone());
        let checked = |user_id| check.check("send", user_id, Some(&assertion.proof));
        assert_eq!(checked(user(1)), Ok(()));
        assert_eq!(checked(user(9)), Err(AssertionError::OtherUser));
        assert_eq!(check.check("send", user(1), None), Err(AssertionError::Missing));
        clock.advance(LIFETIME - Duration::from_millis(1));
        assert_eq!(checked(user(1)), Ok(()));
        clock.advance(Duration::from_millis(1));
        assert_eq!(checked(user(1)), Err(AssertionError::Expired));
    }

    #[test]
    fn an_assertion_of_another_key_is_forged_and_one_without_a_mac_too() {
        let clock = Arc::new(ManualClock::at(start()));
        let check = AssertionCheck::new(AssertionPolicy::Required(key(1)), clock.clone());
        let foreign = asserter(key(2), &clock).assert(&principal(), None);
        let proto::Proof { claims, .. } = proto::Proof::decode(&*foreign.proof).unwrap();
        let bare = proto::Proof { claims: claims.clone(), mac: vec![] }.encode_to_vec();
        // The MAC of the claims alone, as another use of the key might make it.
        let mac = hmac::sign(&key(1).0, &claims).as_ref().to_vec();
        let unseparated = proto::Proof { claims, mac }.encode_to_vec();
        for proof in [&*foreign.proof, &bare, &unseparated, &[], &[0; PROOF_BYTES_MAX + 1]] {
            assert_eq!(check.check("send", user(1), Some(proof)), Err(AssertionError::Forged), "{proof:?}");
        }
    }

    #[test]
    fn during_an_upgrade_calls_without_an_assertion_are_accepted() {
        let clock = Arc::new(ManualClock::at(start()));
        let foreign = asserter(key(2), &clock).assert(&principal(), None);
        for policy in [AssertionPolicy::Counted(None), AssertionPolicy::Counted(Some(key(1)))] {
            let check = AssertionCheck::new(policy, clock.clone());
            assert_eq!(check.check("send", user(1), None), Ok(()));
            assert_eq!(check.check("send", user(1), Some(&foreign.proof)), Ok(()));
        }
    }

    #[test]
    fn no_assertion_outlives_the_token_of_its_user() {
        let clock = Arc::new(ManualClock::at(start()));
        let asserter = asserter(key(1), &clock);
        clock.advance(HOUR - LIFETIME / 2);
        let last = asserter.assert(&principal(), None);
        let end = start() + HOUR;
        assert_eq!((last.renew_at, last.expires_at), (end, end), "a renewal would not last longer");
        assert_eq!(asserter.open(&last.proof).unwrap().expires_at, end);
        let own = asserter.assert_user(user(1));
        assert_eq!(own.renew_at, own.expires_at);
    }

    fn proofs() -> Vec<Vec<u8>> {
        let clock = Arc::new(ManualClock::at(start()));
        let asserter = asserter(key(1), &clock);
        let device_id = Some(DeviceId::from_bytes([3; 16]));
        [asserter.assert(&principal(), device_id), asserter.assert_user(user(1))].map(|one| one.proof.to_vec()).into()
    }

    proptest! {
        #[test]
        fn a_damaged_proof_is_refused_or_states_the_same(bytes in damage::bytes(select(proofs()))) {
            let stated: Vec<Claims> = proofs().iter().map(|proof| key(1).open(proof).unwrap()).collect();
            let is_original = |claims: &Claims| stated.iter().any(|known| {
                // Proofs of two runs differ in nothing: the clock stands still.
                known == claims
            });
            if let Ok(claims) = key(1).open(&bytes) {
                prop_assert!(is_original(&claims), "{claims:?}");
            }
        }
    }
}
