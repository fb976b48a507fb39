use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};

use crate::cbor::{bytes, int, map};

/// The kind of a key pair, by its signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256 with SHA-256, COSE algorithm -7.
    Es256,
    /// Ed25519, COSE algorithm -8.
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256, COSE algorithm -257.
    Rs256,
}

/// A key pair.
pub(crate) enum SigningKey {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

const GENERATES: &str = "the system has random bytes";

impl SigningKey {
    pub(crate) fn generate(kind: KeyKind) -> Self {
        match kind {
            KeyKind::Es256 => Self::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect(GENERATES)),
            KeyKind::EdDsa => Self::EdDsa(Ed25519KeyPair::generate().expect(GENERATES)),
            KeyKind::Rs256 => Self::Rs256(RsaKeyPair::generate(KeySize::Rsa2048).expect(GENERATES)),
        }
    }

    pub(crate) fn cose(&self) -> Vec<u8> {
        match self {
            Self::Es256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                map(&[(int(1), int(2)), (int(3), int(-7)), (int(-1), int(1)), (int(-2), bytes(x)), (int(-3), bytes(y))])
            }
            Self::EdDsa(pair) => {
                let x = bytes(pair.public_key().as_ref());
                map(&[(int(1), int(1)), (int(3), int(-8)), (int(-1), int(6)), (int(-2), x)])
            }
            Self::Rs256(pair) => {
                let modulus = pair.public_key().modulus().big_endian_without_leading_zero().to_vec();
                let exponent = pair.public_key().exponent().big_endian_without_leading_zero().to_vec();
                map(&[(int(1), int(3)), (int(3), int(-257)), (int(-1), bytes(&modulus)), (int(-2), bytes(&exponent))])
            }
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        const SIGNS: &str = "the key signs";
        match self {
            Self::Es256(pair) => pair.sign(&SystemRandom::new(), message).expect(SIGNS).as_ref().to_vec(),
            Self::EdDsa(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).expect(SIGNS);
                signature
            }
        }
    }
}
