use std::net::SocketAddr;

use auth::{Tokens, VerifyOtp};
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use domain::DisplayName;
use protocol::rest::{self, Data};

use super::App;
use crate::http::{ApiError, Caller, Json, Limited};

/// Sends a one-time code to a phone.
///
/// The answer is the same whether or not the number is known. Codes for one number, and codes asked for from one
/// address, are limited.
#[utoipa::path(
    post,
    path = "/auth/request-otp",
    tag = "auth",
    responses((status = 200, description = "A code is on its way", body = Data<rest::OtpRequested>))
)]
pub(crate) async fn request_otp(
    State(api): App,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Json(body): Json<rest::RequestOtp>,
) -> Result<Limited<Json<Data<rest::OtpRequested>>>, ApiError> {
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
/// The first sign-in of a number makes its user, with `display_name`. A code is good once and dies after 5 wrong tries;
/// the number is then locked for 15 minutes. Wrong codes from one address are limited over all numbers.
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
    State(api): App,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Json(body): Json<rest::VerifyOtp>,
) -> Result<(StatusCode, Json<Data<rest::SignedIn>>), ApiError> {
    let display_name = body.display_name.map(DisplayName::try_from).transpose();
    let verify = VerifyOtp {
        phone: &body.phone_number.0,
        otp: &body.otp.0,
        ip: address.ip(),
        device_id: body.device_id,
        display_name: display_name.map_err(|error| ApiError::field("display_name", error))?,
    };
    let signed_in = api.auth.verify_otp(verify).await?;
    let status = if signed_in.is_new_user { StatusCode::CREATED } else { StatusCode::OK };
    let data = rest::SignedIn {
        user: (&signed_in.user).into(),
        session: rest::Session::new(&signed_in.session, Some(signed_in.session.session_id)),
        tokens: tokens(&signed_in.tokens),
        is_new_user: signed_in.is_new_user,
    };
    Ok((status, Json(Data { data })))
}

/// Changes a refresh token for a new pair of tokens.
///
/// A refresh token is good once. One that comes again within 10 s from the same device, because its answer was lost, is
/// forgiven once; otherwise it ends the session.
#[utoipa::path(
    post,
    path = "/auth/refresh",
    tag = "auth",
    responses((status = 200, body = Data<rest::TokensRefreshed>))
)]
pub(crate) async fn refresh(
    State(api): App,
    Json(body): Json<rest::RefreshTokens>,
) -> Result<Limited<Json<Data<rest::TokensRefreshed>>>, ApiError> {
    let (refreshed, decision) = api.auth.refresh(&body.refresh_token.0, body.device_id).await?;
    Ok(Limited(decision, Json(Data { data: rest::TokensRefreshed { tokens: tokens(&refreshed) } })))
}

/// Ends the session that asks.
///
/// Its tokens are void at once, its sockets are closed, and the device is no longer told of messages.
#[utoipa::path(post, path = "/auth/logout", tag = "auth", responses((status = 204, description = "Signed out")))]
pub(crate) async fn logout(State(api): App, Caller(caller): Caller) -> Result<StatusCode, ApiError> {
    api.auth.logout(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a ticket for one WebSocket, for clients that cannot set headers.
///
/// It is good once and for 30 s, and goes into the query of the handshake: `/v1/ws?ticket=…&device_id=…`.
#[utoipa::path(post, path = "/auth/ws-ticket", tag = "auth", responses((status = 200, body = Data<rest::WsTicket>)))]
pub(crate) async fn ws_ticket(State(api): App, Caller(caller): Caller) -> Result<Json<Data<rest::WsTicket>>, ApiError> {
    let issued = api.auth.issue_ticket(&caller).await?;
    let data = rest::WsTicket { ticket: issued.ticket.expose().into(), expires_at: issued.expires_at };
    Ok(Json(Data { data }))
}

fn tokens(tokens: &Tokens) -> rest::Tokens {
    rest::Tokens {
        access_token: tokens.access_token.expose().into(),
        refresh_token: tokens.refresh_token.expose().into(),
        token_type: "Bearer".to_owned(),
        expires_in: tokens.expires_in.as_secs(),
    }
}
