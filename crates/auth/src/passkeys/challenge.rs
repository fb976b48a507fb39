use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::limits::PASSKEY_CHALLENGE_LIFETIME;
use domain::{Timestamp, UserId};
use ports::SpentChallenge;

use super::refusal::PasskeyRefusal;
use crate::codes::CodeKey;

const RANDOM_LEN: usize = 32;
const TIME_LEN: usize = 8;
const MAC_LEN: usize = 32;
const CHALLENGE_LEN: usize = RANDOM_LEN + TIME_LEN + MAC_LEN;

/// The purpose of a challenge. The MAC covers it, so a challenge for one purpose is void for every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChallengePurpose {
    /// The registration of a passkey by this user.
    Registration(UserId),
    /// A sign-in; the user is not known yet.
    SignIn,
}

impl ChallengePurpose {
    fn seal(self, random: &[u8], issued_at: Timestamp, key: &CodeKey) -> [u8; MAC_LEN] {
        let random = BASE64_URL_SAFE_NO_PAD.encode(random);
        let issued_at = issued_at.as_millis();
        match self {
            Self::Registration(user_id) => key.seal("passkey_registration", &format!("{user_id} {issued_at} {random}")),
            Self::SignIn => key.seal("passkey_sign_in", &format!("{issued_at} {random}")),
        }
    }
}

/// A challenge that an authenticator signs: 32 random bytes, the issue time, and a MAC over both and the purpose.
///
/// The server keeps no state for it until it is answered with a valid signature. So unauthenticated requests for
/// challenges need no memory, and every process of a fleet accepts it.
pub(super) struct Challenge([u8; CHALLENGE_LEN]);

impl Challenge {
    pub(super) fn issue(purpose: ChallengePurpose, key: &CodeKey, now: Timestamp) -> Self {
        let random: [u8; RANDOM_LEN] = rand::random();
        let mac = purpose.seal(&random, now, key);
        let bytes = [&random[..], &now.as_millis().to_be_bytes(), &mac].concat();
        Self(bytes.try_into().expect("the parts have fixed lengths"))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Checks a returned challenge: this installation issued it for the purpose, and it has not expired. Whether it is
    /// spent is known to the ticket store.
    pub(super) fn check(
        bytes: &[u8],
        purpose: ChallengePurpose,
        key: &CodeKey,
        now: Timestamp,
    ) -> Result<SpentChallenge, PasskeyRefusal> {
        let (random, rest) = bytes.split_at_checked(RANDOM_LEN).ok_or(PasskeyRefusal::Challenge)?;
        let (time, mac) = rest.split_at_checked(TIME_LEN).ok_or(PasskeyRefusal::Challenge)?;
        let time: [u8; TIME_LEN] = time.try_into().map_err(|_| PasskeyRefusal::Challenge)?;
        let issued_at = Timestamp::from_millis(u64::from_be_bytes(time));
        let expected = purpose.seal(random, issued_at, key);
        verify_slices_are_equal(mac, &expected).map_err(|_| PasskeyRefusal::Challenge)?;
        let expires_at = issued_at + PASSKEY_CHALLENGE_LIFETIME;
        if expires_at <= now {
            return Err(PasskeyRefusal::ChallengeExpired);
        }
        let digest = digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(SpentChallenge { digest, issued_at, expires_at })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn user(n: u8) -> UserId {
        UserId::from_bytes([n; 16])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_769_783_400_000) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_challenge_is_valid_for_its_purpose_until_it_expires() {
        let key = CodeKey::new(&[1; 32]);
        let purposes = [
            ChallengePurpose::SignIn,
            ChallengePurpose::Registration(user(1)),
            ChallengePurpose::Registration(user(2)),
        ];
        for purpose in purposes {
            let challenge = Challenge::issue(purpose, &key, at(0));
            let check = |purpose, key: &CodeKey, now| Challenge::check(challenge.as_bytes(), purpose, key, now);
            let accepted = check(purpose, &key, at(299)).unwrap();
            assert_eq!((accepted.issued_at, accepted.expires_at), (at(0), at(300)));
            assert_eq!(check(purpose, &key, at(300)), Err(PasskeyRefusal::ChallengeExpired));
            assert_eq!(check(purpose, &CodeKey::new(&[2; 32]), at(0)), Err(PasskeyRefusal::Challenge));
            for other in purposes.into_iter().filter(|other| *other != purpose) {
                assert_eq!(check(other, &key, at(0)), Err(PasskeyRefusal::Challenge), "{purpose:?} as {other:?}");
            }
        }
    }

    #[test]
    fn every_byte_of_a_challenge_counts() {
        let key = CodeKey::new(&[1; 32]);
        let challenge = Challenge::issue(ChallengePurpose::SignIn, &key, at(0));
        let check = |bytes: &[u8]| Challenge::check(bytes, ChallengePurpose::SignIn, &key, at(0));
        for index in 0..CHALLENGE_LEN {
            let mut bytes = challenge.0;
            bytes[index] ^= 1;
            assert_eq!(check(&bytes), Err(PasskeyRefusal::Challenge), "byte {index}");
            assert_eq!(check(&challenge.0[..index]), Err(PasskeyRefusal::Challenge), "{index} bytes");
        }
        assert_eq!(check(&[&challenge.0[..], &[0]].concat()), Err(PasskeyRefusal::Challenge));
        let other = Challenge::issue(ChallengePurpose::SignIn, &key, at(0));
        assert_ne!(check(&other.0).unwrap().digest, check(&challenge.0).unwrap().digest);
    }
}
