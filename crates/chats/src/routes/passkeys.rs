use std::net::SocketAddr;

use auth::{Auth, PasskeyCreation, PasskeySignIn, RegisterPasskey};
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::limits::PASSKEY_CHALLENGE_LIFETIME;
use domain::{DisplayName, PasskeyId};
use protocol::rest::{self, Data, PublicKeyType};
use protocol::{ErrorCode, schema};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RouteState;
use super::auth::signed_in_body;
use crate::http::{Caller, Json, Path, RestError};

/// The value of several WebAuthn options.
const REQUIRED: &str = "required";

#[derive(Deserialize, IntoParams)]
pub(crate) struct PasskeyPath {
    /// The passkey.
    #[param(value_type = schema::PasskeyId)]
    passkey_id: PasskeyId,
}

/// Begins the registration of a passkey.
///
/// The answer is for `PublicKeyCredential.parseCreationOptionsFromJSON`. The challenge in it is valid for 5 minutes. A server
/// without passkeys refuses with `INVALID_OPERATION`, and so does any server for users of an external identity provider.
#[utoipa::path(
    post,
    path = "/auth/passkeys/registrations",
    tag = "auth",
    responses((status = 200, body = Data<rest::PasskeyCreationOptions>))
)]
pub(crate) async fn begin_passkey(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::PasskeyCreationOptions>>, RestError> {
    let creation = api.auth.begin_passkey(&caller).await?;
    let PasskeyCreation { challenge, user, existing } = creation;
    let party = api.auth.relying_party()?;
    let display_name = user.display_name.as_str().to_owned();
    let name = user.phone_number.map_or_else(|| display_name.clone(), |number| number.as_str().to_owned());
    let data = rest::PasskeyCreationOptions {
        rp: rest::PasskeyRelyingParty { id: party.rp_id().to_owned(), name: party.name().to_owned() },
        user: rest::PasskeyUserEntity {
            id: base64url(&user.user_id.to_bytes()),
            name: rest::Sensitive(name),
            display_name,
        },
        challenge: base64url(&challenge),
        pub_key_cred_params: Auth::PASSKEY_ALGORITHMS
            .map(|alg| rest::PasskeyAlgorithm { r#type: PublicKeyType::PublicKey, alg })
            .into(),
        timeout: timeout_ms(),
        exclude_credentials: existing
            .iter()
            .map(|id| rest::PasskeyDescriptor { r#type: PublicKeyType::PublicKey, id: base64url(id.as_bytes()) })
            .collect(),
        authenticator_selection: rest::PasskeyAuthenticatorSelection {
            resident_key: REQUIRED.to_owned(),
            require_resident_key: true,
            user_verification: REQUIRED.to_owned(),
        },
        attestation: "none".to_owned(),
    };
    Ok(Json(Data { data }))
}

/// Registers a passkey, with which the caller can sign in without a code.
///
/// A user has at most 20 passkeys. `CONFLICT` if it is registered already.
#[utoipa::path(
    post,
    path = "/auth/passkeys",
    tag = "auth",
    responses((status = 201, description = "The passkey is registered", body = Data<rest::PasskeySummary>))
)]
pub(crate) async fn add_passkey(
    State(api): RouteState,
    Caller(caller): Caller,
    Json(body): Json<rest::AddPasskey>,
) -> Result<(StatusCode, Json<Data<rest::PasskeySummary>>), RestError> {
    let name = DisplayName::try_from(body.name).map_err(|error| RestError::field("name", error))?;
    let register = RegisterPasskey {
        name,
        id: &body.credential.id,
        raw_id: &body.credential.raw_id,
        client_data_json: &body.credential.response.client_data_json,
        attestation_object: &body.credential.response.attestation_object,
    };
    let passkey = api.auth.register_passkey(&caller, register).await?;
    Ok((StatusCode::CREATED, Json(Data { data: (&passkey).into() })))
}

/// The passkeys of the caller, oldest first.
///
/// `last_used_at` is `null` before the first sign-in with it.
#[utoipa::path(get, path = "/auth/passkeys", tag = "auth", responses((status = 200, body = Data<rest::Passkeys>)))]
pub(crate) async fn passkeys(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::Passkeys>>, RestError> {
    let passkeys = api.auth.passkeys(&caller).await?.iter().map(rest::PasskeySummary::from).collect();
    Ok(Json(Data { data: rest::Passkeys { passkeys } }))
}

/// Removes a passkey of the caller.
///
/// It does not sign in any more. Sessions that it opened stay; end them with `DELETE /sessions`.
#[utoipa::path(
    delete,
    path = "/auth/passkeys/{passkey_id}",
    tag = "auth", params(PasskeyPath),
    responses((status = 204, description = "The passkey is removed"))
)]
pub(crate) async fn remove_passkey(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(PasskeyPath { passkey_id }): Path<PasskeyPath>,
) -> Result<StatusCode, RestError> {
    match api.auth.remove_passkey(&caller, passkey_id).await? {
        false => Err(RestError::new(ErrorCode::NotFound, "no such passkey of yours")),
        true => Ok(StatusCode::NO_CONTENT),
    }
}

/// Begins a sign-in with a passkey.
///
/// The answer is for `PublicKeyCredential.parseRequestOptionsFromJSON`. It is the same for everybody, apart from the
/// challenge, and names no user. A server without passkeys refuses with `INVALID_OPERATION`.
#[utoipa::path(
    post,
    path = "/auth/passkeys/challenges",
    tag = "auth",
    responses((status = 200, body = Data<rest::PasskeyRequestOptions>))
)]
pub(crate) async fn passkey_challenge(
    State(api): RouteState,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
) -> Result<Json<Data<rest::PasskeyRequestOptions>>, RestError> {
    let challenge = api.auth.passkey_challenge(address.ip()).await?;
    let data = rest::PasskeyRequestOptions {
        challenge: base64url(&challenge),
        timeout: timeout_ms(),
        rp_id: api.auth.relying_party()?.rp_id().to_owned(),
        allow_credentials: vec![],
        user_verification: REQUIRED.to_owned(),
    };
    Ok(Json(Data { data }))
}

/// Signs in with a passkey.
///
/// The answer is that of `POST /auth/verify-otp` for a known user. Wrong, unknown, removed and repeated answers of
/// authenticators are refused alike, with `UNAUTHORIZED`. Refused sign-ins from one address are limited.
#[utoipa::path(
    post,
    path = "/auth/passkeys/sessions",
    tag = "auth",
    responses((status = 200, description = "The owner of the passkey is signed in", body = Data<rest::SignedIn>))
)]
pub(crate) async fn sign_in_with_passkey(
    State(api): RouteState,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Json(body): Json<rest::SignInWithPasskey>,
) -> Result<Json<Data<rest::SignedIn>>, RestError> {
    let rest::PasskeyAuthentication { id, raw_id, response, .. } = &body.credential;
    let sign_in = PasskeySignIn {
        ip: address.ip(),
        device_id: body.device_id,
        id,
        raw_id,
        client_data_json: &response.client_data_json,
        authenticator_data: &response.authenticator_data,
        signature: &response.signature.0,
        user_handle: response.user_handle.as_deref(),
    };
    let signed_in = api.auth.sign_in_with_passkey(sign_in).await?;
    Ok(Json(Data { data: signed_in_body(&signed_in) }))
}

fn base64url(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The time after which a browser may end its dialog: that after which the challenge is void.
fn timeout_ms() -> u64 {
    PASSKEY_CHALLENGE_LIFETIME.as_millis() as u64
}
