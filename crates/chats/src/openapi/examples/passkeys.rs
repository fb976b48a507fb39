use auth::Auth;
use domain::PresenceVisibility;
use protocol::rest::{
    AddPasskey, Data, PasskeyAlgorithm, PasskeyAttestation, PasskeyAuthentication, PasskeyAuthenticatorSelection,
    PasskeyCreationOptions, PasskeyRegistration, PasskeyRelyingParty, PasskeyRequestOptions, PasskeySignature,
    PasskeySummary, PasskeyUserEntity, Passkeys, PublicKeyType, Session, SignInWithPasskey, SignedIn,
};
use protocol::story;

use super::OperationExamples;
use super::people::{ada, laptop, laptop_tokens};

const CREDENTIAL_ID: &str = "q8PqsZ4T7VwXn1Lk5yRb0g";
const REQUIRED: &str = "required";

/// Ada's passkey.
pub(super) fn examples() -> Vec<OperationExamples> {
    let options = PasskeyCreationOptions {
        rp: PasskeyRelyingParty { id: "localhost".to_owned(), name: "Tidings".to_owned() },
        user: PasskeyUserEntity {
            id: "AZpaLfaLfkqn2R2pYrWpTQ".to_owned(),
            name: story::ADA_PHONE.into(),
            display_name: "Ada".to_owned(),
        },
        challenge: "Zm9yLWEtbmV3LXBhc3NrZXktb2YtQWRh".to_owned(),
        pub_key_cred_params: Auth::PASSKEY_ALGORITHMS
            .map(|alg| PasskeyAlgorithm { r#type: PublicKeyType::PublicKey, alg })
            .into(),
        timeout: 300_000,
        exclude_credentials: vec![],
        authenticator_selection: PasskeyAuthenticatorSelection {
            resident_key: REQUIRED.to_owned(),
            require_resident_key: true,
            user_verification: REQUIRED.to_owned(),
        },
        attestation: "none".to_owned(),
    };
    let add = AddPasskey {
        name: "Ada's phone".to_owned(),
        credential: PasskeyRegistration {
            id: CREDENTIAL_ID.to_owned(),
            raw_id: CREDENTIAL_ID.to_owned(),
            response: PasskeyAttestation {
                client_data_json: "eyJ0eXBlIjoid2ViYXV0aG4uY3JlYXRlIn0".to_owned(),
                attestation_object: "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YVg".to_owned(),
            },
            r#type: PublicKeyType::PublicKey,
        },
    };
    let passkey = PasskeySummary {
        passkey_id: story::passkey(),
        name: "Ada's phone".to_owned(),
        is_backed_up: false,
        created_at: story::now(),
        last_used_at: None,
    };
    let challenge = PasskeyRequestOptions {
        challenge: "Zm9yLWEtc2lnbi1pbg".to_owned(),
        timeout: 300_000,
        rp_id: "localhost".to_owned(),
        allow_credentials: vec![],
        user_verification: REQUIRED.to_owned(),
    };
    let sign_in = SignInWithPasskey {
        device_id: story::other_device(),
        credential: PasskeyAuthentication {
            id: CREDENTIAL_ID.to_owned(),
            raw_id: CREDENTIAL_ID.to_owned(),
            response: PasskeySignature {
                client_data_json: "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0".to_owned(),
                authenticator_data: "SZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2MFAAAAAQ".to_owned(),
                signature: "MEUCIQDh3u8Xc0eWl0N4vGmYFf2nQAIgT1w9x2Vb7Zr".into(),
                user_handle: Some("AZpaLfaLfkqn2R2pYrWpTQ".to_owned()),
            },
            r#type: PublicKeyType::PublicKey,
        },
    };
    let signed_in = SignedIn {
        user: ada(PresenceVisibility::Everyone),
        session: Session { session_id: story::passkey_session(), is_current: true, ..laptop() },
        tokens: laptop_tokens(),
        is_new_user: false,
    };
    vec![
        OperationExamples::of("begin_passkey").answered(Data { data: options }),
        OperationExamples::of("add_passkey").case("example", add, 201, Data { data: passkey.clone() }),
        OperationExamples::of("passkeys").answered(Data { data: Passkeys { passkeys: vec![passkey] } }),
        OperationExamples::of("passkey_challenge").answered(Data { data: challenge }),
        OperationExamples::of("sign_in_with_passkey").case("example", sign_in, 200, Data { data: signed_in }),
        OperationExamples::of("remove_passkey").with("passkey_id", story::passkey()).done(()),
    ]
}
