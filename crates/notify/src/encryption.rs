//! Message encryption for Web Push (RFC 8291): one `aes128gcm` record (RFC 8188) for one browser.
//!
//! It uses the crypto library of everything else here. The tests decrypt with an independent implementation and compare with the
//! example of the RFC.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, ParsedPublicKeyFormat, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;

const SALT_LEN: usize = 16;
const KEY_LEN: usize = 16;
const IKM_LEN: usize = 32;
/// Bytes of an uncompressed point on P-256.
const PUBLIC_KEY_LEN: usize = 65;
/// The largest record, which every push service accepts.
const RECORD_LEN: u32 = 4096;
/// Ends the plaintext of the last record.
const LAST_RECORD: u8 = 2;

/// Bytes that encryption adds: the header (salt, record size, length of the key, key), the delimiter and the tag.
pub(crate) const OVERHEAD: usize = SALT_LEN + size_of::<u32>() + 1 + PUBLIC_KEY_LEN + 1 + 16;

/// The public key of a browser's subscription, a valid point on P-256.
pub(crate) struct SubscriberKey(ParsedPublicKey);

impl SubscriberKey {
    /// Checks the key `p256dh` of a subscription.
    pub(crate) fn parse(p256dh: &[u8]) -> Option<Self> {
        let key = ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, p256dh)).ok()?;
        (key.format() == ParsedPublicKeyFormat::Uncompressed).then_some(Self(key))
    }
}

/// Encrypts a notification for a browser, with a new key pair and a new salt.
pub(crate) fn encrypt(plaintext: &[u8], key: SubscriberKey, auth: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let mut salt = [0; SALT_LEN];
    rand::fill(&mut salt)?;
    seal(plaintext, key, auth, &PrivateKey::generate(&ECDH_P256)?, salt)
}

fn seal(
    plaintext: &[u8],
    SubscriberKey(theirs): SubscriberKey,
    auth: &[u8],
    ours: &PrivateKey,
    salt: [u8; SALT_LEN],
) -> Result<Vec<u8>, Unspecified> {
    let public_key = ours.compute_public_key()?;
    let info = [b"WebPush: info\0", theirs.as_ref(), public_key.as_ref()].concat();
    let ikm = agree(ours, theirs, Unspecified, |secret| {
        let prk = Salt::new(HKDF_SHA256, auth).extract(secret);
        expand::<IKM_LEN>(&prk, &info)
    })?;
    let prk = Salt::new(HKDF_SHA256, &salt).extract(&ikm);
    let content_key: [u8; KEY_LEN] = expand(&prk, b"Content-Encoding: aes128gcm\0")?;
    let nonce: [u8; NONCE_LEN] = expand(&prk, b"Content-Encoding: nonce\0")?;

    let mut record = [plaintext, &[LAST_RECORD]].concat();
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &content_key)?);
    cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)?;
    let public_key_len = [PUBLIC_KEY_LEN as u8];
    Ok([&salt[..], &RECORD_LEN.to_be_bytes(), &public_key_len, public_key.as_ref(), &record].concat())
}

fn expand<const N: usize>(prk: &Prk, info: &[u8]) -> Result<[u8; N], Unspecified> {
    let mut bytes = [0; N];
    prk.expand(&[info], OutputLen(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

/// How many bytes an expansion yields.
struct OutputLen(usize);

impl KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    #[test]
    fn the_example_of_rfc_8291_comes_out_byte_by_byte() {
        let ours = bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let ours = PrivateKey::from_private_key(&ECDH_P256, &ours).unwrap();
        let theirs = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let theirs = SubscriberKey::parse(&bytes(theirs)).unwrap();
        let auth = bytes("BTBZMqHH6r4Tts7J_aSIgg");
        let salt = bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let plaintext = b"When I grow up, I want to be a watermelon";
        let sealed = seal(plaintext, theirs, &auth, &ours, salt).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl\
                        7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(sealed, bytes(expected));
        assert_eq!(sealed.len(), plaintext.len() + OVERHEAD);
    }

    #[test]
    fn a_key_that_is_not_a_point_is_refused() {
        for key in [&[4; PUBLIC_KEY_LEN][..], &[0; PUBLIC_KEY_LEN], &[4; 64], &[]] {
            assert!(SubscriberKey::parse(key).is_none(), "{key:?}");
        }
    }
}
