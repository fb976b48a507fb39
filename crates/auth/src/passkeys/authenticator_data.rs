use domain::CredentialId;
use domain::limits::PASSKEY_KEY_BYTES_MAX;
use minicbor::Decoder;
use minicbor::data::Type;

use super::cose::CoseKey;
use super::refusal::PasskeyRefusal;
use super::relying_party::RelyingParty;

/// Maximum bytes of the authenticator data: its header, the longest id and key, and 1 KiB of extensions.
pub(super) const AUTHENTICATOR_DATA_BYTES_MAX: usize = 3 * 1024;

const USER_PRESENT: u8 = 1 << 0;
const USER_VERIFIED: u8 = 1 << 2;
const BACKUP_ELIGIBLE: u8 = 1 << 3;
const BACKED_UP: u8 = 1 << 4;
const HAS_CREDENTIAL: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;

/// The checked authenticator data of a response (WebAuthn Level 3, 6.1).
#[derive(Debug)]
pub(super) struct AuthenticatorData {
    pub(super) sign_count: u32,
    pub(super) is_backup_eligible: bool,
    pub(super) is_backed_up: bool,
    /// Present in a registration.
    pub(super) credential: Option<NewCredential>,
}

/// The credential that an authenticator has created.
#[derive(Debug)]
pub(super) struct NewCredential {
    pub(super) credential_id: CredentialId,
    pub(super) public_key: Vec<u8>,
}

impl AuthenticatorData {
    /// Checks relying party and flags: WebAuthn Level 3, 7.1 steps 13 to 17 and 7.2 steps 15 to 19. All bytes have to be
    /// used.
    pub(super) fn parse(bytes: &[u8], party: &RelyingParty) -> Result<Self, PasskeyRefusal> {
        if bytes.len() > AUTHENTICATOR_DATA_BYTES_MAX {
            return Err(PasskeyRefusal::Malformed);
        }
        let (rp_id_hash, rest) = take(bytes, 32)?;
        let (flags, rest) = take(rest, 1)?;
        let (sign_count, mut rest) = take_array::<4>(rest)?;
        let has = |flag: u8| flags[0] & flag != 0;
        if !party.is_rp_id_hash(rp_id_hash) {
            return Err(PasskeyRefusal::RpId);
        }
        if !has(USER_PRESENT) {
            return Err(PasskeyRefusal::UserPresence);
        }
        if !has(USER_VERIFIED) {
            return Err(PasskeyRefusal::UserVerification);
        }
        if has(BACKED_UP) && !has(BACKUP_ELIGIBLE) {
            return Err(PasskeyRefusal::BackupFlags);
        }
        let mut credential = None;
        if has(HAS_CREDENTIAL) {
            let (parsed, after) = NewCredential::parse(rest)?;
            (credential, rest) = (Some(parsed), after);
        }
        if has(HAS_EXTENSIONS) {
            // None was requested, and none is used.
            let mut decoder = Decoder::new(rest);
            if decoder.datatype().ok() != Some(Type::Map) || decoder.skip().is_err() {
                return Err(PasskeyRefusal::Malformed);
            }
            rest = rest.get(decoder.position()..).ok_or(PasskeyRefusal::Malformed)?;
        }
        if !rest.is_empty() {
            return Err(PasskeyRefusal::Malformed);
        }
        Ok(Self {
            sign_count: u32::from_be_bytes(sign_count),
            is_backup_eligible: has(BACKUP_ELIGIBLE),
            is_backed_up: has(BACKED_UP),
            credential,
        })
    }
}

impl NewCredential {
    /// The attested credential data at the beginning of `bytes` (WebAuthn Level 3, 6.5.1), and the bytes after it.
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), PasskeyRefusal> {
        let (_aaguid, rest) = take(bytes, 16)?;
        let (length, rest) = take_array::<2>(rest)?;
        let (credential_id, rest) = take(rest, usize::from(u16::from_be_bytes(length)))?;
        let credential_id = credential_id.to_vec().try_into().map_err(|_| PasskeyRefusal::CredentialId)?;
        // The key has no length of its own: it ends where its map ends.
        let (_, length) = CoseKey::parse_prefix(rest)?;
        let (public_key, rest) = take(rest, length)?;
        if public_key.len() > PASSKEY_KEY_BYTES_MAX {
            return Err(PasskeyRefusal::PublicKey);
        }
        Ok((Self { credential_id, public_key: public_key.to_vec() }, rest))
    }
}

fn take(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), PasskeyRefusal> {
    bytes.split_at_checked(count).ok_or(PasskeyRefusal::Malformed)
}

fn take_array<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), PasskeyRefusal> {
    let (array, rest) = bytes.split_first_chunk().ok_or(PasskeyRefusal::Malformed)?;
    Ok((*array, rest))
}
