use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use domain::{DeviceId, Timestamp, TraceContext, UserId};
use http::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;
use metrics::{counter, histogram};
use ports::{IdentityError, LimitKey, Principal, Route, StoreError};
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::{Instrument, debug, error, warn};

use crate::Gateway;
use crate::driver::Driver;
use crate::hub::{Admitted, Refused};
use crate::peer::Peer;
use crate::socket::Socket;
use crate::spans;
use crate::turns;
use crate::wire::Wire;

/// What browsers, which cannot set headers, say in the query. Never logged: it holds secrets.
#[derive(Deserialize)]
pub(crate) struct Parameters {
    ticket: Option<String>,
    token: Option<String>,
    device_id: Option<String>,
}

/// `GET /v1/ws`: admits a client and hands its socket to a driver.
pub(crate) async fn handle(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let begun = Instant::now();
    let inbound = spans::inbound(request.headers());
    let span = spans::handshake(inbound);
    let admitted = admit(&gateway, request, inbound).instrument(span.clone()).await;
    histogram!("tidings_gateway_handshake_seconds").record(begun.elapsed());
    match admitted {
        Ok(response) => {
            counter!("tidings_gateway_handshakes_total").increment(1);
            response
        }
        Err(refusal) => {
            counter!("tidings_gateway_handshakes_refused_total", "error" => refusal.error).increment(1);
            span.record("refused", refusal.error);
            if refusal.status.is_server_error() {
                span.record("error", &*refusal.message);
            }
            refusal.into_response()
        }
    }
}

async fn admit(
    gateway: &Arc<Gateway>,
    mut request: Request,
    inbound: Option<TraceContext>,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    if !gateway.config.origins.permit(headers) {
        return Err(Refusal::foreign_page());
    }
    let Query(parameters) =
        Query::try_from_uri(request.uri()).map_err(|rejection| Refusal::invalid_request(rejection.body_text()))?;
    let device_id = device(&parameters, headers)?;
    let principal = gateway.identify(credential(&parameters, headers)?, device_id).await?;
    let response = create_response_with_body(&request, Body::empty)
        .map_err(|error| Refusal::invalid_request(format!("this is no WebSocket handshake: {error}")))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let entrant = Entrant { inbound, ..gateway.admit(principal, device_id).await? };
    let (turns, peer) = (gateway.hub.turns.clone(), entrant.admitted.peer.clone());
    turns::spawn(turns, peer, async move {
        match upgrade.await {
            Ok(stream) => entrant.converse(Wire::new(TokioIo::new(stream)).await).await,
            // The client is gone, and the place it had in the hub with it.
            Err(error) => debug!(error = &error as &dyn std::error::Error, "a handshake came to nothing"),
        }
    });
    Ok(response)
}

/// What a client shows to be let in.
pub enum Credential<'a> {
    /// An access token.
    Token(&'a str),
    /// A ticket, which is good once.
    Ticket(&'a str),
}

/// A client that has its place and its route, and waits for its socket. Dropped, it gives them back.
pub struct Entrant {
    gateway: Arc<Gateway>,
    admitted: Admitted,
    token_expires_at: Timestamp,
    inbound: Option<TraceContext>,
}

impl Entrant {
    /// Runs the connection to its end.
    pub async fn converse(self, socket: impl Socket) {
        Driver::new(socket, self.gateway, self.admitted, self.token_expires_at, self.inbound).run().await;
    }
}

impl Gateway {
    /// Says who a client is.
    pub async fn identify(&self, credential: Credential<'_>, device_id: DeviceId) -> Result<Principal, Refusal> {
        let principal = match credential {
            Credential::Token(token) => self.identity.identify(token, device_id).await,
            Credential::Ticket(ticket) => self.identity.redeem(ticket, device_id).await,
        };
        principal.map_err(Refusal::from)
    }

    /// Takes a client in: gives it its place and its route, and has older connections of the same device end.
    pub async fn admit(self: &Arc<Self>, principal: Principal, device_id: DeviceId) -> Result<Entrant, Refusal> {
        let limits = &self.config.limits;
        if let Some(quota) = limits.connections_new {
            let decision = self.limiter.take(LimitKey::ConnectionsNew(principal.user_id), quota).await?;
            if !decision.allowed {
                return Err(Refusal::rate_limited("connections_new", decision.retry_after));
            }
        }
        let (older, others): (Vec<_>, Vec<_>) =
            elsewhere(self, principal.user_id).await.into_iter().partition(|route| route.device_id == device_id);
        let connection_id = self.ids.ulid().into();
        let peer = Peer::new(connection_id, principal.user_id, device_id, principal.session_id, self.now());
        let admitted =
            self.hub.admit(peer, limits.connections_live, others.len()).map_err(|refused| match refused {
                Refused::TooManyOfUser => Refusal::rate_limited("connections_live", Duration::from_secs(5)),
                Refused::NoRoom => Refusal::unavailable(),
            })?;
        // A session revoked before the hub knew of this connection had nothing to close: it is looked up once more now.
        // Who has no session here cannot lose it.
        if let Some(session_id) = principal.session_id
            && self.identity.live(&[session_id]).await? != [true]
        {
            return Err(IdentityError::TokenRevoked.into());
        }
        // The route is there before the client hears that it is connected: what it does not sync then, it is pushed.
        self.register_route(&admitted.peer).await;
        for route in &older {
            let displaced = self.displacement.displace(&route.gateway, route.user_id, route.connection_id);
            if let Err(failure) = displaced.await {
                warn!(
                    error = &failure as &dyn std::error::Error,
                    "an older connection of a device stays until it is silent"
                );
            }
        }
        Ok(Entrant { gateway: self.clone(), admitted, token_expires_at: principal.token_expires_at, inbound: None })
    }
}

/// The connections that a user has at other gateways. Where they cannot be looked up, there are none.
async fn elsewhere(gateway: &Gateway, user_id: UserId) -> Vec<Route> {
    match gateway.routes.routes(user_id).await {
        Ok(routes) => routes.into_iter().filter(|route| route.gateway != *gateway.hub.id()).collect(),
        Err(failure) => {
            warn!(error = &failure as &dyn std::error::Error, "a user's other connections are unknown");
            vec![]
        }
    }
}

fn device(parameters: &Parameters, headers: &HeaderMap) -> Result<DeviceId, Refusal> {
    let text = match (headers.get("x-device-id"), &parameters.device_id) {
        (Some(header), _) => header.to_str().map_err(|_| Refusal::invalid_request("X-Device-ID is not text"))?,
        (None, Some(parameter)) => parameter,
        (None, None) => return Err(Refusal::invalid_request("X-Device-ID or ?device_id= is missing")),
    };
    text.parse().map_err(|error| Refusal::invalid_request(format!("device id: {error}")))
}

fn credential<'a>(parameters: &'a Parameters, headers: &'a HeaderMap) -> Result<Credential<'a>, Refusal> {
    let bearer = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(|header| {
        let (scheme, token) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match (bearer, parameters.ticket.as_deref(), parameters.token.as_deref()) {
        (Some(token), _, _) | (None, None, Some(token)) => Ok(Credential::Token(token)),
        (None, Some(ticket), _) => Ok(Credential::Ticket(ticket)),
        (None, None, None) => Err(IdentityError::InvalidToken("there is none".into()).into()),
    }
}

/// A handshake that fails is answered in plain HTTP.
#[derive(Debug)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    error: &'static str,
    message: String,
    /// How long the client is asked to wait.
    pub retry_after: Option<Duration>,
    limit: Option<&'static str>,
}

#[derive(Serialize)]
struct RefusalBody {
    error: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<RefusalDetails>,
}

#[derive(Serialize)]
struct RefusalDetails {
    retry_after_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
}

impl Refusal {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), retry_after: None, limit: None }
    }

    fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A browser says whose page has opened the socket, and it is nobody's who was let in.
    fn foreign_page() -> Self {
        let message = "pages of this origin may not connect; the operator names those that may in `allowed_origins`";
        Self::new(StatusCode::FORBIDDEN, "forbidden_origin", message)
    }

    fn rate_limited(limit: &'static str, retry_after: Duration) -> Self {
        let message = format!("limit `{limit}` is reached");
        Self {
            retry_after: Some(retry_after),
            limit: Some(limit),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
        }
    }

    fn unavailable() -> Self {
        let message = "the service cannot take connections now";
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message)
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(failure: StoreError) -> Self {
        error!(error = &failure as &dyn std::error::Error, "a handshake could not be checked");
        Self::unavailable()
    }
}

impl From<IdentityError> for Refusal {
    fn from(failure: IdentityError) -> Self {
        match failure {
            IdentityError::Unavailable(failure) => failure.into(),
            IdentityError::TokenRevoked => Self::new(StatusCode::UNAUTHORIZED, "token_revoked", failure.to_string()),
            IdentityError::InvalidToken(_) => Self::new(StatusCode::UNAUTHORIZED, "invalid_token", failure.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let seconds = self.retry_after.map(|duration| duration.as_secs_f64().ceil().max(1.0) as u64);
        let details = seconds.map(|retry_after_seconds| RefusalDetails { retry_after_seconds, limit: self.limit });
        let body = RefusalBody { error: self.error, message: self.message, details };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
