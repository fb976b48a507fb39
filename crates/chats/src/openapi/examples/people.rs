use std::time::Duration;

use domain::{GroupInvites, PresenceVisibility};
use protocol::frame::{Presence, PresenceSnapshot, PresenceStatus};
use protocol::rest::{
    AccountDeletion, Contacts, Data, DeleteMe, Lookup, LookupResults, Me, OtpRequested, Paged, Pagination,
    PresenceQuery, PushKeys, PushProvider, PushRegistration, RefreshTokens, RequestOtp, Revoked, Session, Sessions,
    SignedIn, Tokens, TokensRefreshed, UpdateMe, User, VerifyOtp, WsTicket,
};
use protocol::story;
use serde_json::json;

use super::OperationExamples;
use crate::routes::service::describe;

/// The access token and the refresh token of Ada's phone.
const PHONE_TOKENS: [&str; 2] =
    ["eyJhbGciOiJFZERTQSJ9.eyJkZXZpY2UiOiJwaG9uZSJ9.c2lnbmF0dXJl", "Jb3rVt8KqX2mZs7nYpWc4hT9"];
/// The access token and the refresh token of Ada's laptop.
const LAPTOP_TOKENS: [&str; 2] =
    ["eyJhbGciOiJFZERTQSJ9.eyJkZXZpY2UiOiJsYXB0b3AifQ.c2lnbmF0dXJl", "Qm5xLt2RwC8vKp4jHs6dZf1N"];

/// Ada's profile, sign-in and contacts.
pub(super) fn examples() -> Vec<OperationExamples> {
    [service(), signing_in(), users(), sessions(), devices()].into_iter().flatten().collect()
}

fn service() -> Vec<OperationExamples> {
    let key = json!({
        "alg": "EdDSA",
        "crv": "Ed25519",
        "kid": "3q2-7wAAAAEkR0hJSktMTU5PUFFSU1RVVldYWVphYmM",
        "kty": "OKP",
        "use": "sig",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    let web_push_public_key = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    vec![
        OperationExamples::of("service").answered(Data {
            data: describe(Some(web_push_public_key.to_owned()), true, Some(Duration::from_secs(172_800))),
        }),
        OperationExamples::of("jwks").answered(json!({ "keys": [key] })),
    ]
}

fn signing_in() -> Vec<OperationExamples> {
    let verify = VerifyOtp {
        phone_number: story::ADA_PHONE.into(),
        otp: "000000".into(),
        device_id: story::device(),
        display_name: Some("Ada".to_owned()),
    };
    let signed_in = SignedIn {
        user: ada(PresenceVisibility::ContactsOnly),
        session: session(),
        tokens: tokens(),
        is_new_user: true,
    };
    let on_laptop = VerifyOtp { device_id: story::other_device(), display_name: None, ..verify.clone() };
    let signed_in_on_laptop = SignedIn {
        session: Session { is_current: true, ..laptop() },
        tokens: laptop_tokens(),
        is_new_user: false,
        ..signed_in.clone()
    };
    let requested = OtpRequested {
        phone_number: story::ADA_PHONE.into(),
        expires_at: story::first_moment(),
        retry_after_seconds: 0,
    };
    let refresh = RefreshTokens { refresh_token: tokens().refresh_token, device_id: story::device() };
    let ticket = WsTicket { ticket: "7hT2kVq9XcW4mB1rZs8nYp".into(), expires_at: story::now() };
    vec![
        OperationExamples::of("request_otp").case(
            "example",
            RequestOtp { phone_number: story::ADA_PHONE.into() },
            200,
            Data { data: requested },
        ),
        OperationExamples::of("verify_otp").case("first_sign_in", verify, 201, Data { data: signed_in }).case(
            "next_sign_in",
            on_laptop,
            200,
            Data { data: signed_in_on_laptop },
        ),
        OperationExamples::of("refresh").case(
            "example",
            refresh,
            200,
            Data { data: TokensRefreshed { tokens: tokens() } },
        ),
        OperationExamples::of("ws_ticket").answered(Data { data: ticket }),
        OperationExamples::of("logout").done(()),
    ]
}

fn users() -> Vec<OperationExamples> {
    let everyone = UpdateMe { presence_visibility: Some(PresenceVisibility::Everyone), ..UpdateMe::default() };
    let deleted =
        Data { data: AccountDeletion { user_id: story::ada(), begun_at: story::now(), erase_messages: true } };
    let numbers = vec![story::BOB_PHONE.into(), "+14155550199".into()];
    let online = Presence { user_id: story::bob(), status: PresenceStatus::Online, last_seen: None };
    let query = PresenceQuery { user_ids: vec![story::bob()] };
    let contacts = Paged { data: Contacts { contacts: vec![bob()] }, pagination: Pagination::new(None) };
    vec![
        OperationExamples::of("me").answered(Data { data: ada(PresenceVisibility::ContactsOnly) }),
        OperationExamples::of("update_me").case(
            "example",
            everyone,
            200,
            Data { data: ada(PresenceVisibility::Everyone) },
        ),
        OperationExamples::of("delete_me").case(
            "example",
            DeleteMe { confirm: story::ada(), erase_messages: true },
            202,
            deleted,
        ),
        OperationExamples::of("user").with("user_id", story::bob()).answered(Data { data: bob() }),
        OperationExamples::of("lookup").case(
            "example",
            Lookup { phone_numbers: numbers },
            200,
            Data { data: LookupResults { results: vec![Some(bob()), None] } },
        ),
        OperationExamples::of("add_contact").with("user_id", story::bob()).answered(Data { data: bob() }),
        OperationExamples::of("contacts").with("limit", 100).answered(contacts),
        OperationExamples::of("remove_contact").with("user_id", story::bob()).done(()),
        OperationExamples::of("presence").with("user_id", story::bob()).answered(Data { data: online.clone() }),
        OperationExamples::of("query_presence").case(
            "example",
            query,
            200,
            Data { data: PresenceSnapshot { presences: vec![online] } },
        ),
    ]
}

fn sessions() -> Vec<OperationExamples> {
    vec![
        OperationExamples::of("sessions").answered(Data { data: Sessions { sessions: vec![session(), laptop()] } }),
        OperationExamples::of("revoke_session").with("session_id", story::other_session()).done(()),
        OperationExamples::of("revoke_sessions")
            .with("include_current", false)
            .answered(Data { data: Revoked { revoked_count: 1 } }),
    ]
}

fn devices() -> Vec<OperationExamples> {
    let keys = PushKeys {
        p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4".into(),
        auth: "BTBZMqHH6r4Tts7J_aSIgg".into(),
    };
    let browser = PushRegistration {
        provider: PushProvider::Webpush,
        token: None,
        endpoint: Some("https://push.example.com/send/7hT2kVq9XcW4".into()),
        keys: Some(keys),
    };
    vec![
        OperationExamples::of("register_push").with("device_id", story::device()).done(browser),
        OperationExamples::of("unregister_push").with("device_id", story::device()).done(()),
    ]
}

pub(super) fn bob() -> User {
    User { user_id: story::bob(), display_name: "Bob".to_owned(), created_at: story::morning() }
}

pub(super) fn ada(presence_visibility: PresenceVisibility) -> Me {
    Me {
        user: User { user_id: story::ada(), display_name: "Ada".to_owned(), created_at: story::morning() },
        phone_number: Some(story::ADA_PHONE.into()),
        external_id: None,
        presence_visibility,
        group_invites: GroupInvites::Everyone,
        updated_at: story::morning(),
    }
}

pub(super) fn session() -> Session {
    Session {
        session_id: story::session(),
        device_id: story::device(),
        created_at: story::morning(),
        last_active_at: story::now(),
        expires_at: story::session_end(),
        is_current: true,
    }
}

pub(super) fn laptop() -> Session {
    Session { session_id: story::other_session(), device_id: story::other_device(), is_current: false, ..session() }
}

pub(super) fn laptop_tokens() -> Tokens {
    Tokens { access_token: LAPTOP_TOKENS[0].into(), refresh_token: LAPTOP_TOKENS[1].into(), ..tokens() }
}

fn tokens() -> Tokens {
    Tokens {
        access_token: PHONE_TOKENS[0].into(),
        refresh_token: PHONE_TOKENS[1].into(),
        token_type: "Bearer".to_owned(),
        expires_in: 3600,
    }
}
