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
use ports::{ConnectionHolder, IdentityError, LimitKey, Principal, Route, StoreError, error_chain};
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::{Instrument, debug, error, warn};

use crate::Gateway;
use crate::driver::ConnectionDriver;
use crate::hub::{AdmissionError, Admitted};
use crate::mailbox::Mailbox;
use crate::peer::ConnectionPeer;
use crate::run_queue;
use crate::socket::Socket;
use crate::spans;
use crate::wire::WebSocketWire;

/// Query parameters for browsers, which cannot set headers. Never logged: they hold secrets.
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
) -> Result<Response, HandshakeRefusal> {
    let headers = request.headers();
    if !gateway.config.origins.permit(headers) {
        return Err(HandshakeRefusal::foreign_page());
    }
    let Query(parameters) = Query::try_from_uri(request.uri())
        .map_err(|rejection| HandshakeRefusal::invalid_request(rejection.body_text()))?;
    let device_id = device(&parameters, headers)?;
    let principal = gateway.identify(credential(&parameters, headers)?, device_id).await?;
    let response = create_response_with_body(&request, Body::empty)
        .map_err(|error| HandshakeRefusal::invalid_request(format!("this is no WebSocket handshake: {error}")))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let entrant = Entrant { inbound, ..gateway.admit(principal, device_id).await? };
    entrant.schedule(|entrant| async move {
        match upgrade.await {
            Ok(stream) => entrant.converse(WebSocketWire::new(TokioIo::new(stream)).await).await,
            // The client has disconnected; dropping `entrant` frees its slot in the hub.
            Err(error) => debug!(
                error = %error_chain(&error),
                "WebSocket upgrade failed; the client has disconnected"
            ),
        }
    });
    Ok(response)
}

/// Credential of a client in the handshake.
pub enum Credential<'a> {
    /// An access token.
    Token(&'a str),
    /// A single-use ticket.
    Ticket(&'a str),
}

/// A client that is registered in the hub and has a route, but no socket yet. Dropping it releases both.
pub struct Entrant {
    gateway: Arc<Gateway>,
    admitted: Admitted,
    token_expires_at: Timestamp,
    inbound: Option<TraceContext>,
}

impl Entrant {
    /// Spawns the connection, which [`converse`](Self::converse)s. It moves to the run queue of busy connections while its
    /// output is high.
    pub fn schedule<C: Future<Output = ()> + Send + 'static>(self, connection: impl FnOnce(Self) -> C) {
        let (run_queue, peer) = (self.gateway.hub.run_queue.clone(), self.admitted.peer.clone());
        run_queue::spawn(run_queue, peer, connection(self));
    }

    /// Runs the connection to its end.
    pub async fn converse(self, socket: impl Socket) {
        ConnectionDriver::new(socket, self.gateway, self.admitted, self.token_expires_at, self.inbound).run().await;
    }
}

impl Gateway {
    /// Authenticates a client.
    pub async fn identify(
        &self,
        credential: Credential<'_>,
        device_id: DeviceId,
    ) -> Result<Principal, HandshakeRefusal> {
        let principal = match credential {
            Credential::Token(token) => self.identity.identify(token, device_id).await,
            Credential::Ticket(ticket) => self.identity.redeem(ticket, device_id).await,
        };
        principal.map_err(HandshakeRefusal::from)
    }

    /// Registers a client in the hub, registers its route, and closes older connections of the same device.
    pub async fn admit(
        self: &Arc<Self>,
        principal: Principal,
        device_id: DeviceId,
    ) -> Result<Entrant, HandshakeRefusal> {
        let limits = &self.config.limits;
        if let Some(quota) = limits.connections_new {
            let decision = self.limiter.take(LimitKey::ConnectionsNew(principal.user_id), quota).await?;
            if !decision.allowed {
                return Err(HandshakeRefusal::rate_limited("connections_new", decision.retry_after));
            }
        }
        let (older, others): (Vec<_>, Vec<_>) =
            elsewhere(self, principal.user_id).await.into_iter().partition(|route| route.device_id == device_id);
        let connection_id = self.ids.ulid().into();
        let Principal { user_id, session_id, token_expires_at, assertion, .. } = principal;
        let peer = ConnectionPeer::new(connection_id, user_id, device_id, session_id, self.now(), assertion)
            .with_mailbox(Mailbox::new(self.config.outbox));
        let admitted =
            self.hub.admit(peer, limits.connections_live, others.len()).map_err(|refused| match refused {
                AdmissionError::TooManyOfUser => {
                    HandshakeRefusal::rate_limited("connections_live", Duration::from_secs(5))
                }
                AdmissionError::NoRoom => HandshakeRefusal::unavailable(),
            })?;
        // A revocation that came before the hub knew this connection had nothing to close, so check again now. Do not
        // use the clock of this process: it may lag behind the clock that timed the revocation.
        let holder = ConnectionHolder { connected_at: Timestamp::MAX, ..admitted.peer.holder() };
        if self.identity.live(&[holder]).await? != [true] {
            return Err(IdentityError::TokenRevoked.into());
        }
        // Register the route before `connection_established`: each event is then either in the client's sync or pushed.
        self.register_route(&admitted.peer).await;
        for route in &older {
            let displaced = self.displacement.displace(&route.gateway, route.user_id, route.connection_id);
            if let Err(failure) = displaced.await {
                warn!(
                    error = %error_chain(&failure),
                    "could not close the device's older connection; it stays until its heartbeat timeout"
                );
            }
        }
        Ok(Entrant { gateway: self.clone(), admitted, token_expires_at, inbound: None })
    }
}

/// The user's connections on other gateways. A failed lookup counts as none.
async fn elsewhere(gateway: &Gateway, user_id: UserId) -> Vec<Route> {
    match gateway.routes.routes(user_id).await {
        Ok(routes) => routes.into_iter().filter(|route| route.gateway != *gateway.hub.id()).collect(),
        Err(failure) => {
            warn!(
                error = %error_chain(&failure),
                "lookup of the user's other connections failed; assuming none"
            );
            vec![]
        }
    }
}

fn device(parameters: &Parameters, headers: &HeaderMap) -> Result<DeviceId, HandshakeRefusal> {
    let text = match (headers.get("x-device-id"), &parameters.device_id) {
        (Some(header), _) => {
            header.to_str().map_err(|_| HandshakeRefusal::invalid_request("X-Device-ID is not text"))?
        }
        (None, Some(parameter)) => parameter,
        (None, None) => return Err(HandshakeRefusal::invalid_request("X-Device-ID or ?device_id= is missing")),
    };
    text.parse().map_err(|error| HandshakeRefusal::invalid_request(format!("device id: {error}")))
}

fn credential<'a>(parameters: &'a Parameters, headers: &'a HeaderMap) -> Result<Credential<'a>, HandshakeRefusal> {
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

/// A rejected handshake, answered in plain HTTP.
#[derive(Debug)]
pub struct HandshakeRefusal {
    /// The status of the response.
    pub status: StatusCode,
    error: &'static str,
    message: String,
    /// How long the client should wait before it retries.
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

impl HandshakeRefusal {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), retry_after: None, limit: None }
    }

    fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The browser's `Origin` header names an origin that is not allowed.
    fn foreign_page() -> Self {
        let message = "pages of this origin may not connect; the operator names those that may in `allowed_origins`";
        Self::new(StatusCode::FORBIDDEN, "forbidden_origin", message)
    }

    /// A limit, by its name in `[limits]`, that is reached.
    pub fn rate_limited(limit: &'static str, retry_after: Duration) -> Self {
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

impl From<StoreError> for HandshakeRefusal {
    fn from(failure: StoreError) -> Self {
        error!(error = %error_chain(&failure), "handshake check failed; the client is asked to retry");
        Self::unavailable()
    }
}

impl From<IdentityError> for HandshakeRefusal {
    fn from(failure: IdentityError) -> Self {
        match failure {
            IdentityError::Unavailable(failure) => failure.into(),
            IdentityError::TokenRevoked => Self::new(StatusCode::UNAUTHORIZED, "token_revoked", failure.to_string()),
            IdentityError::Suspended => Self::new(StatusCode::FORBIDDEN, "account_suspended", failure.to_string()),
            IdentityError::InvalidToken(_) => Self::new(StatusCode::UNAUTHORIZED, "invalid_token", failure.to_string()),
        }
    }
}

impl IntoResponse for HandshakeRefusal {
    fn into_response(self) -> Response {
        let seconds = self.retry_after.map(protocol::whole_seconds);
        let details = seconds.map(|retry_after_seconds| RefusalDetails { retry_after_seconds, limit: self.limit });
        let body = RefusalBody { error: self.error, message: self.message, details };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
