//! Every step of the verification, with the authenticator of `crates/authenticator`. Each refusal is named.

mod fuzz;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use authenticator::{
    BACKED_UP, BACKUP_ELIGIBLE, HAS_EXTENSIONS, KeyKind, SoftwarePasskey, USER_PRESENT, USER_VERIFIED, attestation,
    bytes, client_data, encode, int, map, text,
};
use aws_lc_rs::digest::{SHA256, digest};
use domain::{DeviceId, Passkey, PasskeyId, PasskeyUse, Timestamp, UserId};
use serde_json::Value;

use super::authenticator_data::AUTHENTICATOR_DATA_BYTES_MAX;
use super::challenge::{Challenge, ChallengePurpose};
use super::client_data::CLIENT_DATA_BYTES_MAX;
use super::registration::VerifiedRegistration;
use super::{PasskeyRefusal, PasskeySignIn, RegisterPasskey, RelyingParty};
use crate::codes::CodeKey;

const RP_ID: &str = "chat.example.com";
const ORIGIN: &str = "https://chat.example.com";
const KINDS: [KeyKind; 3] = [KeyKind::Es256, KeyKind::EdDsa, KeyKind::Rs256];

fn party() -> RelyingParty {
    RelyingParty::new(RP_ID.to_owned(), "Tidings".to_owned(), vec![ORIGIN.to_owned()]).unwrap()
}

fn key() -> CodeKey {
    CodeKey::new(&[1; 32])
}

fn user(n: u8) -> UserId {
    UserId::from_bytes([n; 16])
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_769_783_400_000)
}

fn passkey(kind: KeyKind) -> SoftwarePasskey {
    SoftwarePasskey::new(kind, RP_ID, &user(1).to_bytes())
}

fn challenge(purpose: ChallengePurpose) -> String {
    encode(Challenge::issue(purpose, &key(), now()).as_bytes())
}

fn registering() -> Vec<u8> {
    client_data("webauthn.create", &challenge(ChallengePurpose::Registration(user(1))), ORIGIN)
}

fn signing_in() -> Vec<u8> {
    client_data("webauthn.get", &challenge(ChallengePurpose::SignIn), ORIGIN)
}

fn register_at(response: &Value, at: Timestamp) -> Result<VerifiedRegistration, PasskeyRefusal> {
    let part = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let register = RegisterPasskey {
        name: "Phone".to_owned().try_into().unwrap(),
        id: &part(&response["id"]),
        raw_id: &part(&response["rawId"]),
        client_data_json: &part(&response["response"]["clientDataJSON"]),
        attestation_object: &part(&response["response"]["attestationObject"]),
    };
    register.verify(user(1), &party(), &key(), at)
}

fn register(response: &Value) -> Result<VerifiedRegistration, PasskeyRefusal> {
    register_at(response, now())
}

/// The passkey as the server stores it after a registration.
fn stored(software: &SoftwarePasskey) -> Passkey {
    let verified = register(&software.registration(&registering())).unwrap();
    Passkey {
        passkey_id: PasskeyId::from_bytes([9; 16]),
        user_id: user(1),
        credential_id: verified.credential.credential_id,
        public_key: verified.credential.public_key,
        sign_count: verified.sign_count,
        is_backup_eligible: verified.is_backup_eligible,
        is_backed_up: verified.is_backed_up,
        name: "Phone".to_owned().try_into().unwrap(),
        created_at: now(),
        last_used_at: None,
    }
}

fn sign_in_at(response: &Value, stored: &Passkey, at: Timestamp) -> Result<PasskeyUse, PasskeyRefusal> {
    let part = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let response_part = |name: &str| part(&response["response"][name]);
    let user_handle = response["response"]["userHandle"].as_str();
    let sign_in = PasskeySignIn {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        device_id: DeviceId::from_bytes([1; 16]),
        id: &part(&response["id"]),
        raw_id: &part(&response["rawId"]),
        client_data_json: &response_part("clientDataJSON"),
        authenticator_data: &response_part("authenticatorData"),
        signature: &response_part("signature"),
        user_handle,
    };
    sign_in.check(&party(), &key(), at)?.verify(stored, at)
}

fn sign_in(response: &Value, stored: &Passkey) -> Result<PasskeyUse, PasskeyRefusal> {
    sign_in_at(response, stored, now())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, PasskeyRefusal>, expected: PasskeyRefusal) {
    assert_eq!(outcome.unwrap_err(), expected);
}

#[test]
fn a_passkey_of_each_algorithm_registers_and_signs_in() {
    for kind in KINDS {
        let mut software = passkey(kind);
        software.flags |= BACKUP_ELIGIBLE;
        let stored = stored(&software);
        assert_eq!(stored.credential_id.as_bytes(), software.credential_id);
        assert_eq!(stored.public_key, software.cose_key());
        assert!(stored.is_backup_eligible && !stored.is_backed_up);
        software.sign_count = 7;
        software.flags |= BACKED_UP;
        let expected = PasskeyUse { sign_count: 7, is_backed_up: true, at: now() };
        assert_eq!(sign_in(&software.assertion(&signing_in()), &stored), Ok(expected), "{kind:?}");
    }
}

#[test]
fn the_response_of_another_procedure_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    for kind in ["webauthn.get", "payment.get", ""] {
        let data = client_data(kind, &challenge(ChallengePurpose::Registration(user(1))), ORIGIN);
        refused(register(&software.registration(&data)), PasskeyRefusal::Type);
    }
    let data = client_data("webauthn.create", &challenge(ChallengePurpose::SignIn), ORIGIN);
    refused(sign_in(&software.assertion(&data), &stored), PasskeyRefusal::Type);
}

#[test]
fn a_challenge_of_another_purpose_or_user_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    for purpose in [ChallengePurpose::SignIn, ChallengePurpose::Registration(user(2))] {
        let data = client_data("webauthn.create", &challenge(purpose), ORIGIN);
        refused(register(&software.registration(&data)), PasskeyRefusal::Challenge);
    }
    let data = client_data("webauthn.get", &challenge(ChallengePurpose::Registration(user(1))), ORIGIN);
    refused(sign_in(&software.assertion(&data), &stored), PasskeyRefusal::Challenge);
    let invented = client_data("webauthn.get", &encode(&[7; 72]), ORIGIN);
    refused(sign_in(&software.assertion(&invented), &stored), PasskeyRefusal::Challenge);
}

#[test]
fn an_expired_challenge_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let (last, expired) = (now() + Duration::from_millis(299_999), now() + Duration::from_secs(300));
    let (registration, assertion) = (software.registration(&registering()), software.assertion(&signing_in()));
    assert!(register_at(&registration, last).is_ok());
    refused(register_at(&registration, expired), PasskeyRefusal::ChallengeExpired);
    assert!(sign_in_at(&assertion, &stored, last).is_ok());
    refused(sign_in_at(&assertion, &stored, expired), PasskeyRefusal::ChallengeExpired);
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let origins =
        ["https://chat.example.com.evil.net", "http://chat.example.com", "https://chat.example.com:8443", "null"];
    for origin in origins {
        let challenge_of = |purpose| challenge(purpose);
        let data = client_data("webauthn.create", &challenge_of(ChallengePurpose::Registration(user(1))), origin);
        refused(register(&software.registration(&data)), PasskeyRefusal::Origin);
        let data = client_data("webauthn.get", &challenge_of(ChallengePurpose::SignIn), origin);
        refused(sign_in(&software.assertion(&data), &stored), PasskeyRefusal::Origin);
    }
}

#[test]
fn an_embedded_page_is_refused() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let plain = String::from_utf8(signing_in()).unwrap();
    let embedded = plain.replace(r#""crossOrigin":false"#, r#""crossOrigin":true"#);
    let topped = plain.replace(r#""crossOrigin":false"#, r#""topOrigin":"https://evil.net""#);
    for data in [embedded, topped] {
        refused(sign_in(&software.assertion(data.as_bytes()), &stored), PasskeyRefusal::CrossOrigin);
    }
    let absent = plain.replace(r#","crossOrigin":false"#, r#","further":{"member":1}"#);
    assert!(sign_in(&software.assertion(absent.as_bytes()), &stored).is_ok(), "further members are allowed");
}

#[test]
fn a_passkey_of_another_site_is_refused() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    software.rp_id = "example.com".to_owned();
    refused(register(&software.registration(&registering())), PasskeyRefusal::RpId);
    refused(sign_in(&software.assertion(&signing_in()), &stored), PasskeyRefusal::RpId);
}

#[test]
fn a_user_who_is_not_present_or_not_verified_is_refused() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    for (flags, refusal) in
        [(USER_VERIFIED, PasskeyRefusal::UserPresence), (USER_PRESENT, PasskeyRefusal::UserVerification)]
    {
        software.flags = flags;
        refused(register(&software.registration(&registering())), refusal);
        refused(sign_in(&software.assertion(&signing_in()), &stored), refusal);
    }
}

#[test]
fn backup_flags_are_consistent_and_eligibility_never_changes() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let verified = USER_PRESENT | USER_VERIFIED;
    software.flags = verified | BACKED_UP;
    refused(register(&software.registration(&registering())), PasskeyRefusal::BackupFlags);
    refused(sign_in(&software.assertion(&signing_in()), &stored), PasskeyRefusal::BackupFlags);
    software.flags = verified | BACKUP_ELIGIBLE;
    refused(sign_in(&software.assertion(&signing_in()), &stored), PasskeyRefusal::BackupFlags);
}

#[test]
fn a_credential_id_is_bounded_and_the_same_everywhere() {
    for (length, is_accepted) in [(0, false), (1, true), (1023, true), (1024, false)] {
        let mut software = passkey(KeyKind::Es256);
        software.credential_id = vec![7; length];
        let outcome = register(&software.registration(&registering()));
        assert_eq!(outcome.map(drop), if is_accepted { Ok(()) } else { Err(PasskeyRefusal::CredentialId) });
    }
    let software = passkey(KeyKind::Es256);
    for name in ["id", "rawId"] {
        let mut response = software.registration(&registering());
        response[name] = encode(&[1, 2, 3]).into();
        refused(register(&response), PasskeyRefusal::CredentialId);
    }
    let mut response = software.registration(&registering());
    response["id"] = encode(&[1, 2, 3]).into();
    response["rawId"] = response["id"].clone();
    refused(register(&response), PasskeyRefusal::CredentialId);
}

#[test]
fn keys_of_other_types_are_refused() {
    let software = passkey(KeyKind::Es256);
    let (x, y) = (bytes(&[1; 32]), bytes(&[2; 32]));
    let entry = |label: i64, value: Vec<u8>| (int(label), value);
    let ec = |algorithm, curve, x: &[u8], y: &[u8]| {
        map(&[
            entry(1, int(2)),
            entry(3, int(algorithm)),
            entry(-1, int(curve)),
            entry(-2, bytes(x)),
            entry(-3, bytes(y)),
        ])
    };
    let rsa =
        |n: &[u8], e: &[u8]| map(&[entry(1, int(3)), entry(3, int(-257)), entry(-1, bytes(n)), entry(-2, bytes(e))]);
    let odd = |length: usize| [&[0x80], &vec![1; length - 1][..]].concat();
    let keys = [
        ("ES384", ec(-35, 2, &[1; 48], &[2; 48])),
        ("another curve", ec(-7, 2, &[1; 32], &[2; 32])),
        ("a point that is not on the curve", ec(-7, 1, &[1; 32], &[2; 32])),
        ("coordinates of other lengths", ec(-7, 1, &[1; 31], &[2; 33])),
        ("the algorithm of another type", ec(-8, 1, &[1; 32], &[2; 32])),
        ("no algorithm", map(&[entry(1, int(2)), entry(-1, int(1)), entry(-2, x.clone()), entry(-3, y.clone())])),
        (
            "a text as algorithm",
            map(&[
                entry(1, int(2)),
                entry(3, bytes(b"ES256")),
                entry(-1, int(1)),
                entry(-2, x.clone()),
                entry(-3, y.clone()),
            ]),
        ),
        ("a symmetric key", map(&[entry(1, int(4)), entry(3, int(5)), entry(-1, x.clone())])),
        (
            "a short Ed25519 key",
            map(&[entry(1, int(1)), entry(3, int(-8)), entry(-1, int(6)), entry(-2, bytes(&[1; 31]))]),
        ),
        ("a short RSA key", rsa(&odd(128), &[1, 0, 1])),
        ("a long RSA key", rsa(&odd(513), &[1, 0, 1])),
        ("an RSA modulus with a leading zero", rsa(&[&[0], &odd(256)[..]].concat(), &[1, 0, 1])),
        ("an even RSA exponent", rsa(&odd(256), &[2])),
        ("a long RSA exponent", rsa(&odd(256), &[1, 0, 0, 0, 1])),
        ("no entries", map(&[])),
    ];
    for (name, key) in keys {
        let response = software.registration_with(&registering(), &attestation(&software.credential_data(&key)));
        assert_eq!(register(&response).unwrap_err(), PasskeyRefusal::PublicKey, "{name}");
    }
    let twice = map(&[entry(1, int(2)), entry(1, int(2)), entry(3, int(-7)), entry(-1, int(1)), entry(-2, x)]);
    let response = software.registration_with(&registering(), &attestation(&software.credential_data(&twice)));
    refused(register(&response), PasskeyRefusal::Malformed);
}

#[test]
fn trailing_bytes_are_refused_everywhere() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let attested =
        |software: &SoftwarePasskey, object: &[u8]| register(&software.registration_with(&registering(), object));
    let data = software.new_credential_data();
    assert!(attested(&software, &attestation(&data)).is_ok());
    refused(attested(&software, &[attestation(&data), vec![0]].concat()), PasskeyRefusal::Malformed);
    refused(attested(&software, &attestation(&[data.clone(), vec![0]].concat())), PasskeyRefusal::Malformed);
    refused(attested(&software, &attestation(&data[..data.len() - 1])), PasskeyRefusal::Malformed);
    let with_more = software.assertion_with(&signing_in(), &[software.use_data(), vec![0]].concat());
    refused(sign_in(&with_more, &stored), PasskeyRefusal::Malformed);
    refused(sign_in(&software.assertion(&[signing_in(), vec![b'{']].concat()), &stored), PasskeyRefusal::Malformed);

    software.flags |= HAS_EXTENSIONS;
    refused(sign_in(&software.assertion(&signing_in()), &stored), PasskeyRefusal::Malformed);
    for (extensions, is_accepted) in [
        (map(&[(text("credProtect"), int(2))]), true),
        ([map(&[]), vec![0]].concat(), false),
        (int(7), false),
        (vec![0xbf, 0xff], false),
    ] {
        let data = [software.use_data(), extensions].concat();
        let outcome = sign_in(&software.assertion_with(&signing_in(), &data), &stored);
        assert_eq!(outcome.map(drop), if is_accepted { Ok(()) } else { Err(PasskeyRefusal::Malformed) });
    }
}

#[test]
fn parts_beyond_their_bounds_are_malformed() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let outcome = |is_accepted: bool| if is_accepted { Ok(()) } else { Err(PasskeyRefusal::Malformed) };
    for (length, is_accepted) in [(CLIENT_DATA_BYTES_MAX, true), (CLIENT_DATA_BYTES_MAX + 1, false)] {
        let mut client_data = signing_in();
        client_data.resize(length, b' ');
        assert_eq!(sign_in(&software.assertion(&client_data), &stored).map(drop), outcome(is_accepted), "{length}");
    }
    software.flags |= HAS_EXTENSIONS;
    let extensions = |length: usize| map(&[(text("x"), bytes(&vec![0; length]))]);
    let overhead = software.use_data().len() + extensions(1000).len() - 1000;
    for (length, is_accepted) in [(AUTHENTICATOR_DATA_BYTES_MAX, true), (AUTHENTICATOR_DATA_BYTES_MAX + 1, false)] {
        let data = [software.use_data(), extensions(length - overhead)].concat();
        assert_eq!(data.len(), length);
        let signed = software.assertion_with(&signing_in(), &data);
        assert_eq!(sign_in(&signed, &stored).map(drop), outcome(is_accepted), "{length}");
    }
}

#[test]
fn a_registration_without_a_credential_is_refused() {
    let software = passkey(KeyKind::Es256);
    let response = software.registration_with(&registering(), &attestation(&software.use_data()));
    refused(register(&response), PasskeyRefusal::Malformed);
}

#[test]
fn an_attestation_is_absent_or_signed_by_the_key_itself() {
    for kind in KINDS {
        let software = passkey(kind);
        let (data, client_data) = (software.new_credential_data(), registering());
        let signed = [&data[..], digest(&SHA256, &client_data).as_ref()].concat();
        let object = |format: &str, statement: Vec<u8>| {
            map(&[(text("fmt"), text(format)), (text("attStmt"), statement), (text("authData"), bytes(&data))])
        };
        let packed = |algorithm, signature: &[u8]| {
            object("packed", map(&[(text("alg"), int(algorithm)), (text("sig"), bytes(signature))]))
        };
        let algorithm = [-7, -8, -257][KINDS.iter().position(|one| *one == kind).unwrap()];
        let check = |object: &[u8]| register(&software.registration_with(&client_data, object)).map(drop);
        assert_eq!(check(&packed(algorithm, &software.sign(&signed))), Ok(()), "{kind:?}");
        assert_eq!(check(&packed(algorithm, &software.sign(b"other"))), Err(PasskeyRefusal::Signature));
        assert_eq!(check(&packed(-47, &software.sign(&signed))), Err(PasskeyRefusal::Attestation));
        let with_certificate = map(&[(text("alg"), int(-7)), (text("sig"), bytes(&[1])), (text("x5c"), bytes(&[1]))]);
        for (format, statement) in
            [("packed", with_certificate), ("tpm", map(&[])), ("none", map(&[(text("sig"), bytes(&[1]))]))]
        {
            assert_eq!(check(&object(format, statement)), Err(PasskeyRefusal::Attestation), "{format}");
        }
    }
}

#[test]
fn the_user_handle_is_required_and_names_the_owner() {
    let mut software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    let mut without = software.assertion(&signing_in());
    without["response"]["userHandle"] = Value::Null;
    refused(sign_in(&without, &stored), PasskeyRefusal::UserHandle);
    for handle in [&user(2).to_bytes()[..], &[]] {
        software.user_handle = handle.to_vec();
        refused(sign_in(&software.assertion(&signing_in()), &stored), PasskeyRefusal::UserHandle);
    }
}

#[test]
fn the_signature_covers_all_data_and_is_of_the_stored_key() {
    for kind in KINDS {
        let (software, other) = (passkey(kind), passkey(kind));
        let stored = stored(&software);
        let (data, client_data) = (software.use_data(), signing_in());
        let sound = software.assertion_with(&client_data, &data);
        assert!(sign_in(&sound, &stored).is_ok());
        let mut forged = sound.clone();
        forged["response"]["signature"] = other.assertion_with(&client_data, &data)["response"]["signature"].clone();
        refused(sign_in(&forged, &stored), PasskeyRefusal::Signature);
        let mut counted = sound.clone();
        counted["response"]["authenticatorData"] = encode(&[&data[..36], &[9]].concat()).into();
        refused(sign_in(&counted, &stored), PasskeyRefusal::Signature);
        let mut challenged = sound.clone();
        challenged["response"]["clientDataJSON"] = encode(&signing_in()).into();
        refused(sign_in(&challenged, &stored), PasskeyRefusal::Signature);
        let mut unsigned = sound.clone();
        unsigned["response"]["signature"] = "".into();
        refused(sign_in(&unsigned, &stored), PasskeyRefusal::Signature);
    }
}

#[test]
fn padding_other_alphabets_and_excess_are_malformed() {
    let software = passkey(KeyKind::Es256);
    let stored = stored(&software);
    for text in ["AA==", "+/+/", "A", "AB", "é", &"A".repeat(7000)] {
        for part in ["clientDataJSON", "authenticatorData", "signature", "userHandle"] {
            let mut response = software.assertion(&signing_in());
            response["response"][part] = text.into();
            refused(sign_in(&response, &stored), PasskeyRefusal::Malformed);
        }
    }
}
