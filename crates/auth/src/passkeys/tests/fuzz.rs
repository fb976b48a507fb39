//! Damaged responses: none of them panics, registers or signs in.

use authenticator::{KeyKind, SoftwarePasskey, attestation, encode};
use proptest::prelude::*;

use super::super::attestation::AttestationObject;
use super::super::authenticator_data::AuthenticatorData;
use super::super::challenge::{Challenge, ChallengePurpose};
use super::super::client_data::{Ceremony, ClientData};
use super::super::cose::CoseKey;
use super::{key, now, party, passkey, sign_in, signing_in, stored};

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = AttestationObject::parse(&bytes);
        let _ = AuthenticatorData::parse(&bytes, &party());
        let _ = ClientData::parse(&bytes, Ceremony::Registration, &party());
        let _ = Challenge::check(&bytes, ChallengePurpose::SignIn, &key(), now());
        if let Ok(key) = CoseKey::parse(&bytes) {
            let _ = key.check();
            let _ = key.verify(b"message", &bytes);
        }
    }
}

#[test]
fn a_damaged_attestation_is_parsed_or_refused_without_a_panic() {
    let sample = |kind| {
        let software: SoftwarePasskey = passkey(kind);
        attestation(&software.new_credential_data())
    };
    let samples = vec![sample(KeyKind::Es256), sample(KeyKind::EdDsa), sample(KeyKind::Rs256)];
    proptest!(|(bytes in damage::bytes(proptest::sample::select(samples)))| {
        if let Ok(object) = AttestationObject::parse(&bytes)
            && let Ok(data) = AuthenticatorData::parse(object.authenticator_data, &party())
            && let Some(credential) = data.credential
        {
            let _ = CoseKey::parse(&credential.public_key).and_then(|key| key.check());
        }
    });
}

/// A changed byte of the authenticator data or of the client's data is not accepted: both are signed.
#[test]
fn a_damaged_assertion_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let (client_data, data) = (signing_in(), software.use_data());
    let sound = software.assertion_with(&client_data, &data);
    assert!(sign_in(&sound, &stored).is_ok());
    for (part, bytes) in [("clientDataJSON", client_data), ("authenticatorData", data)] {
        let sound = sound.clone();
        let stored = stored.clone();
        proptest!(|(damaged in damage::bytes(Just(bytes.clone())))| {
            prop_assume!(damaged != bytes);
            let mut response = sound.clone();
            response["response"][part] = encode(&damaged).into();
            prop_assert!(sign_in(&response, &stored).is_err());
        });
    }
}
