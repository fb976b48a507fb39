use aws_lc_rs::hmac;
use domain::{CodeDigest, PhoneNumber};
use ports::PhoneKey;

use crate::Secret;

/// The key under which phones, codes and whatever else is ours alone to make are digested.
///
/// Six digits are guessed in no time from a plain hash, and so are phone numbers. Without the key, which is not in the
/// store, a stolen table of codes says nothing.
pub(crate) struct CodeKey(hmac::Key);

impl CodeKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The key under which a phone's code is kept.
    pub(crate) fn phone_key(&self, phone_number: &PhoneNumber) -> PhoneKey {
        self.digest(&["phone", phone_number.as_str()])
    }

    /// What is kept of a phone's code.
    pub(crate) fn code_digest(&self, phone_number: &PhoneNumber, code: &str) -> CodeDigest {
        self.digest(&["code", phone_number.as_str(), code])
    }

    /// A mark that only this installation can make.
    pub(crate) fn seal(&self, purpose: &str, text: &str) -> [u8; 32] {
        self.digest(&["seal", purpose, text])
    }

    /// Each part ends in a NUL, which none of them has, so no two lists of parts read the same.
    fn digest(&self, parts: &[&str]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        context.sign().as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }
}

/// Six random digits, all equally likely, from a cryptographic generator.
pub(crate) fn random_code() -> Secret {
    format!("{:06}", rand::random_range(0..1_000_000_u32)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_the_key_the_phone_and_the_code() {
        let (key, other_key) = (CodeKey::new(&[1; 32]), CodeKey::new(&[2; 32]));
        let (phone, other_phone) = ("+15551234567".parse().unwrap(), "+15551234568".parse().unwrap());
        let digest = key.code_digest(&phone, "123456");
        assert_eq!(key.code_digest(&phone, "123456"), digest);
        assert_ne!(key.code_digest(&phone, "123457"), digest);
        assert_ne!(key.code_digest(&other_phone, "123456"), digest);
        assert_ne!(other_key.code_digest(&phone, "123456"), digest);
        assert_ne!(key.phone_key(&phone), key.phone_key(&other_phone));
        assert_ne!(key.phone_key(&phone), other_key.phone_key(&phone));
    }

    #[test]
    fn a_random_code_has_six_digits() {
        for _ in 0..1000 {
            let code = random_code();
            assert!(code.expose().len() == 6 && code.expose().bytes().all(|b| b.is_ascii_digit()));
        }
    }
}
