use aws_lc_rs::hmac;
use domain::{CodeDigest, PhoneNumber, Secret};
use ports::PhoneKey;

/// The HMAC key for phone numbers, codes and seals.
///
/// Six digits and phone numbers are easily guessed from a plain hash. The key is not in the store, so a stolen table of
/// codes reveals nothing.
pub(crate) struct CodeKey(hmac::Key);

impl CodeKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The store key of a phone's code.
    pub(crate) fn phone_key(&self, phone_number: &PhoneNumber) -> PhoneKey {
        self.digest(&["phone", phone_number.as_str()])
    }

    /// The stored digest of a phone's code.
    pub(crate) fn code_digest(&self, phone_number: &PhoneNumber, code: &str) -> CodeDigest {
        self.digest(&["code", phone_number.as_str(), code])
    }

    /// A MAC that only this installation can create.
    pub(crate) fn seal(&self, purpose: &str, text: &str) -> [u8; 32] {
        self.digest(&["seal", purpose, text])
    }

    /// Each part ends with a NUL, which no part contains, so different lists of parts never have the same input.
    fn digest(&self, parts: &[&str]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        context.sign().as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }
}

/// Six uniformly random digits from a cryptographic generator.
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
