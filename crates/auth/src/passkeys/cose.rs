use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use minicbor::Decoder;

use super::attestation::{malformed, map_len};
use super::refusal::PasskeyRefusal;

/// The signature algorithms that are requested and accepted, in order of preference: their COSE numbers (RFC 9053).
pub(super) const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];
const ES256: i64 = -7;
const EDDSA: i64 = -8;
const RS256: i64 = -257;

// The labels and values of COSE keys (RFC 9052, 7.1; RFC 9053, 7; RFC 8230, 4).
const KEY_TYPE: i64 = 1;
const ALGORITHM: i64 = 3;
const OCTET_KEY_PAIR: i64 = 1;
const ELLIPTIC_CURVE: i64 = 2;
const RSA: i64 = 3;
const CURVE: i64 = -1;
const X: i64 = -2;
const Y: i64 = -3;
const RSA_N: i64 = -1;
const RSA_E: i64 = -2;
const P256: i64 = 1;
const CURVE_ED25519: i64 = 6;

/// Bytes of an RSA modulus: 2048 to 4096 bits.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
/// Maximum bytes of an RSA exponent.
const RSA_EXPONENT_BYTES_MAX: usize = 4;
/// The most entries that a key of an accepted kind has.
const ENTRIES_MAX: u64 = 5;

/// The public key of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CoseKey<'a> {
    /// An uncompressed point on P-256.
    Es256([u8; 65]),
    EdDsa(&'a [u8; 32]),
    Rs256 {
        modulus: &'a [u8],
        exponent: &'a [u8],
    },
}

/// A value of an entry; other kinds do not occur in accepted keys.
#[derive(Clone, Copy)]
enum CoseValue<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

impl<'a> CoseKey<'a> {
    /// A key that uses all of `bytes`.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, PasskeyRefusal> {
        match Self::parse_prefix(bytes)? {
            (key, length) if length == bytes.len() => Ok(key),
            _ => Err(PasskeyRefusal::Malformed),
        }
    }

    /// The key at the beginning of `bytes`, and its length.
    pub(super) fn parse_prefix(bytes: &'a [u8]) -> Result<(Self, usize), PasskeyRefusal> {
        let mut decoder = Decoder::new(bytes);
        let entries = read_entries(&mut decoder)?;
        let number = |label| match find(&entries, label) {
            Some(CoseValue::Number(number)) => Ok(number),
            _ => Err(PasskeyRefusal::PublicKey),
        };
        let octets = |label| match find(&entries, label) {
            Some(CoseValue::Bytes(octets)) => Ok(octets),
            _ => Err(PasskeyRefusal::PublicKey),
        };
        let key = match (number(KEY_TYPE)?, number(ALGORITHM)?) {
            (ELLIPTIC_CURVE, ES256) if number(CURVE)? == P256 && entries.len() == 5 => {
                let (x, y) = (octets(X)?, octets(Y)?);
                if [x.len(), y.len()] != [32, 32] {
                    return Err(PasskeyRefusal::PublicKey);
                }
                Self::Es256([&[4], x, y].concat().try_into().expect("the parts have fixed lengths"))
            }
            (OCTET_KEY_PAIR, EDDSA) if number(CURVE)? == CURVE_ED25519 && entries.len() == 4 => {
                Self::EdDsa(octets(X)?.try_into().map_err(|_| PasskeyRefusal::PublicKey)?)
            }
            (RSA, RS256) if entries.len() == 4 => {
                let (modulus, exponent) = (octets(RSA_N)?, octets(RSA_E)?);
                let fits = RSA_MODULUS_BYTES.contains(&modulus.len())
                    && modulus.first() != Some(&0)
                    && (1..=RSA_EXPONENT_BYTES_MAX).contains(&exponent.len());
                if !fits {
                    return Err(PasskeyRefusal::PublicKey);
                }
                Self::Rs256 { modulus, exponent }
            }
            _ => return Err(PasskeyRefusal::PublicKey),
        };
        Ok((key, decoder.position()))
    }

    /// The COSE number of its algorithm.
    pub(super) fn algorithm(&self) -> i64 {
        match self {
            Self::Es256(_) => ES256,
            Self::EdDsa(_) => EDDSA,
            Self::Rs256 { .. } => RS256,
        }
    }

    /// Whether the library accepts the key: a point is on its curve, an RSA key has allowed parameters.
    pub(super) fn check(&self) -> Result<(), PasskeyRefusal> {
        let is_valid = match self {
            Self::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).parse().is_ok(),
            Self::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).parse().is_ok(),
            Self::Rs256 { exponent, .. } => exponent.last().is_some_and(|last| last & 1 == 1),
        };
        if is_valid { Ok(()) } else { Err(PasskeyRefusal::PublicKey) }
    }

    /// Verifies a signature over `message`.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), PasskeyRefusal> {
        let verified = match self {
            Self::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature),
            Self::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::Rs256 { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
        };
        verified.map_err(|_| PasskeyRefusal::Signature)
    }
}

/// The entries of a map with numbers as labels. A label that occurs twice is refused.
fn read_entries<'a>(decoder: &mut Decoder<'a>) -> Result<Vec<(i64, CoseValue<'a>)>, PasskeyRefusal> {
    let mut entries: Vec<(i64, CoseValue<'_>)> = vec![];
    for _ in 0..map_len(decoder, ENTRIES_MAX)? {
        let label = decoder.i64().map_err(malformed)?;
        let value = match decoder.probe().i64() {
            Ok(_) => decoder.i64().map(CoseValue::Number),
            Err(_) => decoder.bytes().map(CoseValue::Bytes),
        };
        let value = value.map_err(malformed)?;
        if find(&entries, label).is_some() {
            return Err(PasskeyRefusal::Malformed);
        }
        entries.push((label, value));
    }
    Ok(entries)
}

fn find<'a>(entries: &[(i64, CoseValue<'a>)], label: i64) -> Option<CoseValue<'a>> {
    entries.iter().find(|(one, _)| *one == label).map(|(_, value)| *value)
}
