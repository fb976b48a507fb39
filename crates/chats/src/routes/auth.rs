use std::net::SocketAddr;

use auth::{SignedIn, Tokens, VerifyOtp};
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use domain::DisplayName;
use protocol::rest::{self, Data};

use super::RouteState;
use crate::http::{Caller, Json, Limited, RestError};

/// Sends a one-time code to a phone.
///
/// The response is the same whether or not the number is known. Codes are limited per number, per client address, per
/// country and in total. A
/// server whose users sign in elsewhere refuses with `INVALID_OPERATION`.
#[utoipa::path(
    post,
    path = "/auth/request-otp",
    tag = "auth",
    responses((status = 200, description = "A code is on its way", body = Data<rest::OtpRequested>))
)]
pub(crate) async fn request_otp(
    State(api): RouteState,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Json(body): Json<rest::RequestOtp>,
) -> Result<Limited<Json<Data<rest::OtpRequested>>>, RestError> {
    let requested = api.auth.request_otp(&body.phone_number.0, address.ip()).await?;
    let data = rest::OtpRequested {
        phone_number: requested.phone_number.as_str().into(),
        expires_at: requested.expires_at,
        retry_after_seconds: requested.retry_after().as_millis().div_ceil(1000) as u64,
    };
    Ok(Limited(requested.decision, Json(Data { data })))
}

/// Signs in with a one-time code.
///
/// The first sign-in of a number creates its user, with `display_name`. A code is valid once. After 5 wrong attempts
/// the number is locked for 15 minutes, except for devices on which its user is signed in; a new code does not renew the
/// attempts. Wrong codes from one address are limited across all numbers.
#[utoipa::path(
    post,
    path = "/auth/verify-otp",
    tag = "auth",
    responses(
        (status = 200, description = "A known user is signed in", body = Data<rest::SignedIn>),
        (status = 201, description = "A new user is signed in", body = Data<rest::SignedIn>)
    )
)]
pub(crate) async fn verify_otp(
    State(api): RouteState,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Json(body): Json<rest::VerifyOtp>,
) -> Result<(StatusCode, Json<Data<rest::SignedIn>>), RestError> {
    let display_name = body.display_name.map(DisplayName::try_from).transpose();
    let verify = VerifyOtp {
        phone: &body.phone_number.0,
        otp: &body.otp.0,
        ip: address.ip(),
        device_id: body.device_id,
        display_name: display_name.map_err(|error| RestError::field("display_name", error))?,
    };
    let signed_in = api.auth.verify_otp(verify).await?;
    let status = if signed_in.is_new_user { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Data { data: signed_in_body(&signed_in) })))
}

/// Exchanges a refresh token for a new pair of tokens.
///
/// A refresh token is valid once. A second use within 10 s from the same device is accepted once, because the first
/// response may have been lost. Any other reuse ends the session.
#[utoipa::path(
    post,
    path = "/auth/refresh",
    tag = "auth",
    responses((status = 200, body = Data<rest::TokensRefreshed>))
)]
pub(crate) async fn refresh(
    State(api): RouteState,
    Json(body): Json<rest::RefreshTokens>,
) -> Result<Limited<Json<Data<rest::TokensRefreshed>>>, RestError> {
    let (refreshed, decision) = api.auth.refresh(&body.refresh_token.0, body.device_id).await?;
    Ok(Limited(decision, Json(Data { data: rest::TokensRefreshed { tokens: tokens(&refreshed) } })))
}

/// Ends the session of this request.
///
/// Its tokens are void at once, its sockets are closed, and its device gets no more notifications.
#[utoipa::path(post, path = "/auth/logout", tag = "auth", responses((status = 204, description = "Signed out")))]
pub(crate) async fn logout(State(api): RouteState, Caller(caller): Caller) -> Result<StatusCode, RestError> {
    api.auth.logout(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Issues a ticket for one WebSocket, for clients that cannot set headers.
///
/// It is valid once, for 30 s, and goes into the query of the handshake: `/v1/ws?ticket=…&device_id=…`.
#[utoipa::path(post, path = "/auth/ws-ticket", tag = "auth", responses((status = 200, body = Data<rest::WsTicket>)))]
pub(crate) async fn ws_ticket(
    State(api): RouteState,
    Caller(caller): Caller,
) -> Result<Json<Data<rest::WsTicket>>, RestError> {
    let issued = api.auth.issue_ticket(&caller).await?;
    let data = rest::WsTicket { ticket: issued.ticket.expose().into(), expires_at: issued.expires_at };
    Ok(Json(Data { data }))
}

/// The body of a successful sign-in.
pub(super) fn signed_in_body(signed_in: &SignedIn) -> rest::SignedIn {
    rest::SignedIn {
        user: (&signed_in.user).into(),
        session: rest::Session::new(&signed_in.session, Some(signed_in.session.session_id)),
        tokens: tokens(&signed_in.tokens),
        is_new_user: signed_in.is_new_user,
    }
}

fn tokens(tokens: &Tokens) -> rest::Tokens {
    rest::Tokens {
        access_token: tokens.access_token.expose().into(),
        refresh_token: tokens.refresh_token.expose().into(),
        token_type: "Bearer".to_owned(),
        expires_in: tokens.expires_in.as_secs(),
    }
}
