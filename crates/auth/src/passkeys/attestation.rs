use minicbor::Decoder;

use super::cose::CoseKey;
use super::refusal::PasskeyRefusal;

/// Maximum bytes of an attestation object: the authenticator data, a signature and a few bytes of framing.
const ATTESTATION_BYTES_MAX: usize = 4 * 1024;

/// An attestation object (WebAuthn Level 3, 6.5): a map of `fmt`, `attStmt` and `authData`, and nothing after it.
#[derive(Debug)]
pub(super) struct AttestationObject<'a> {
    pub(super) authenticator_data: &'a [u8],
    statement: AttestationStatement<'a>,
}

/// The statement about the origin of a key. A client that is asked for `none` sends one of these two: it keeps a statement
/// that the new key itself has signed, because that reveals nothing (WebAuthn Level 3, 5.1.3).
#[derive(Debug)]
enum AttestationStatement<'a> {
    Absent,
    SelfSigned { algorithm: i64, signature: &'a [u8] },
}

impl<'a> AttestationObject<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, PasskeyRefusal> {
        if bytes.len() > ATTESTATION_BYTES_MAX {
            return Err(PasskeyRefusal::Malformed);
        }
        let mut decoder = Decoder::new(bytes);
        let (mut format, mut statement, mut data) = (None, None, None);
        for _ in 0..map_len(&mut decoder, 3)? {
            match text(&mut decoder)? {
                "fmt" if format.is_none() => format = Some(text(&mut decoder)?),
                "attStmt" if statement.is_none() => {
                    let start = decoder.position();
                    decoder.skip().map_err(malformed)?;
                    statement = bytes.get(start..decoder.position());
                }
                "authData" if data.is_none() => data = Some(decoder.bytes().map_err(malformed)?),
                _ => return Err(PasskeyRefusal::Malformed),
            }
        }
        let (Some(format), Some(statement), Some(authenticator_data)) = (format, statement, data) else {
            return Err(PasskeyRefusal::Malformed);
        };
        if decoder.position() != bytes.len() {
            return Err(PasskeyRefusal::Malformed);
        }
        Ok(Self { authenticator_data, statement: AttestationStatement::parse(format, statement)? })
    }

    /// Verifies the statement with the key that it is about (WebAuthn Level 3, 8.2 and 8.7).
    pub(super) fn verify(&self, key: &CoseKey<'_>, client_data_hash: &[u8]) -> Result<(), PasskeyRefusal> {
        match self.statement {
            AttestationStatement::Absent => Ok(()),
            AttestationStatement::SelfSigned { algorithm, signature } if algorithm == key.algorithm() => {
                key.verify(&[self.authenticator_data, client_data_hash].concat(), signature)
            }
            AttestationStatement::SelfSigned { .. } => Err(PasskeyRefusal::Attestation),
        }
    }
}

impl<'a> AttestationStatement<'a> {
    fn parse(format: &str, bytes: &'a [u8]) -> Result<Self, PasskeyRefusal> {
        let mut decoder = Decoder::new(bytes);
        match format {
            "none" if map_len(&mut decoder, 3)? == 0 => Ok(Self::Absent),
            "packed" if map_len(&mut decoder, 3)? == 2 => {
                let (mut algorithm, mut signature) = (None, None);
                for _ in 0..2 {
                    match text(&mut decoder)? {
                        "alg" => algorithm = Some(decoder.i64().map_err(malformed)?),
                        "sig" => signature = Some(decoder.bytes().map_err(malformed)?),
                        _ => return Err(PasskeyRefusal::Attestation),
                    }
                }
                match (algorithm, signature) {
                    (Some(algorithm), Some(signature)) => Ok(Self::SelfSigned { algorithm, signature }),
                    _ => Err(PasskeyRefusal::Attestation),
                }
            }
            _ => Err(PasskeyRefusal::Attestation),
        }
    }
}

/// The number of entries of a map. Maps of indefinite length are refused; CTAP2 does not allow them.
pub(super) fn map_len(decoder: &mut Decoder<'_>, len_max: u64) -> Result<u64, PasskeyRefusal> {
    let len = decoder.map().map_err(malformed)?;
    len.filter(|len| *len <= len_max).ok_or(PasskeyRefusal::Malformed)
}

fn text<'a>(decoder: &mut Decoder<'a>) -> Result<&'a str, PasskeyRefusal> {
    decoder.str().map_err(malformed)
}

pub(super) fn malformed(_: minicbor::decode::Error) -> PasskeyRefusal {
    PasskeyRefusal::Malformed
}
