//! The admin listener: `/metrics`, `/healthz`, `/readyz` and the page `/console` for every client that reaches it, and
//! under `/admin/v1` the endpoints that need the token of an operator. The console uses them, and so do `tidings admin`,
//! `tidings log webhook`, `notifications` and `dead-letters`, and `tidings store verify` and `backup` with
//! `--admin-listen`.
//!
//! | route | reads or does | where |
//! |---|---|---|
//! | `GET /pulse?since=` | samples of the last 30 min, one every 2 s: rates, percentiles, queues, lags, errors | this process |
//! | `GET /nodes` | this process, and the other processes of a fleet with the facts they share | everywhere |
//! | `GET /search?q=` | the object that an id or a phone number stands for | role `api` |
//! | `GET /users/{id}` | profile, sessions, connections, chats with unread counts | role `api` |
//! | `GET /users/{id}/connections` | live connections | everywhere |
//! | `GET /chats/{id}` | members with roles, watermarks and gateways; head sequence, published sequence | role `api` |
//! | `GET /chats/{id}/timeline?before=&limit=` | events, newest first, without contents | role `api` |
//! | `GET /messages/{id}` | where a message is, in plain words and facts, without its content | role `api` |
//! | `GET /gateways`, `GET /gateways/{id}/connections?limit=` | gateways and their connections | everywhere |
//! | `GET /webhook`, `GET /dead-letters?after=` | state of the deliveries; dead letters | role `api` |
//! | `GET /verify?rate=&deep=&rate_mib=` | an audit of all rows; if deep, of the checksums of all files first | one machine |
//! | `GET /reports?state=&after=` | reports of users, `open` or `resolved`, without contents | role `api` |
//! | `GET /reports/{id}` | one report with the reported message; audited as an action, though a read | role `api` |
//! | `GET /audit?limit=&reads=` | actions of operators, newest first; with `reads=true` reads too | this process |
//! | `GET /operators`, `POST /operators` | operators and their roles; adds one and shows the token once | this process |
//! | `DELETE /operators/{name}`, `POST /operators/{name}/rotate` | removes an operator; replaces the token | this process |
//! | `POST /users`, `PATCH /users/{id}` | creates a user before their first sign-in; renames one | role `api` |
//! | `POST /users/{id}/export` | all data of a user, message contents included | role `api` |
//! | `DELETE /users/{id}` | starts the deletion of an account in the background; `GET` shows its progress | role `api` |
//! | `DELETE /chats/{id}/members/{user_id}`, `PUT /chats/{id}/owner` | acts on behalf of the owner of a group | role `api` |
//! | `PUT /chats/{id}/retention` | sets how long messages live, existing ones included | role `api` |
//! | `GET /log-level`, `PUT /log-level` | the log level; changes it, for a time or until the next change | this process |
//! | `DELETE /users/{id}/sessions[/{session_id}]` | signs devices out; their sockets close within a second | role `api` |
//! | `POST /users/{id}/suspend`, `/resume` | refuses every token and send of a user; ends that | role `api` |
//! | `POST /users/{id}/sign-out` | invalidates all sessions and tokens of a user up to now | role `api` |
//! | `POST /users/{id}/revoke-token` | invalidates one token by its id | role `api` |
//! | `DELETE /connections/{id}` | closes a socket; its client reconnects and syncs | the gateway's process |
//! | `POST /gateways/{id}/drain`, `/resume` | moves the clients of a gateway elsewhere; accepts clients again | the gateway's process |
//! | `POST /reports/{id}/resolve` | resolves a report with a note; it is deleted 90 days later | role `api` |
//! | `GET /drain`, `POST /drain`, `POST /resume` | remaining work of a drain; drains the process; cancels the drain | this process |
//! | `POST /webhook/replay`, `POST /notifications/replay` | delivers again | role `api` |
//! | `POST /backup` | streams a backup of the store, keys included | one machine |
//! | `POST /dead-letters/{id}/redeliver`, `DELETE /dead-letters/{id}` | delivers a dead letter again; deletes it | role `api` |
//!
//! `access` has the table of the needed role and of the audit record of each route. An action is recorded in
//! `admin-audit.jsonl` of the data directory before it runs, and its outcome afterwards; a read before its answer. A
//! request that cannot be recorded is refused. A process that cannot serve a request responds with an error that names
//! the right process or role.

mod access;
mod accounts;
mod audit_chain;
mod audit_trail;
mod audited;
mod backup;
mod chat_actions;
mod chats;
mod dead_letters;
mod drain;
mod error;
mod gateways;
mod host;
mod log_level;
mod messages;
mod metrics;
mod node;
mod operator_routes;
mod operators;
mod operators_file;
mod pulse;
mod records;
mod replay;
mod reports;
mod restrictions;
mod routes;
mod search;
mod standing;
mod token;
mod users;
mod verify;
#[cfg(test)]
mod world;

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use ::gateway::Hub;
use axum::Router;
use axum::extract::Extension;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use metrics_exporter_prometheus::PrometheusHandle;
use ports::{Routes, SecurityEvents};
use protocol::ErrorCode;

pub use access::OperatorRole;
pub use audit_chain::{AuditLineNumber, AuditVerification, BrokenAuditLine, verify_audit_files};
pub(crate) use audit_trail::AuditTrail;
pub use audit_trail::FILE as AUDIT_FILE;
pub(crate) use backup::Backups;
pub(crate) use host::check as check_host;
pub(crate) use metrics::{install_metrics, measure_process};
#[cfg(feature = "fleet")]
pub(crate) use node::FleetInfo;
pub(crate) use node::NodeInfo;
pub(crate) use operators::Operators;
pub use operators_file::{OperatorsError, OperatorsFile};
pub(crate) use pulse::Pulse;
pub(crate) use records::Records;
pub use token::AdminToken;
pub(crate) use verify::Auditable;

use self::error::AdminError;
use crate::health::Drain;
use crate::outward::Outward;
use crate::telemetry::LogLevel;

/// State of the admin API.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) operators: Arc<Operators>,
    pub(crate) security: Arc<dyn SecurityEvents>,
    pub(crate) trail: AuditTrail,
    pub(crate) node: Arc<NodeInfo>,
    pub(crate) pulse: Arc<Pulse>,
    /// The connections of users, over all gateways.
    pub(crate) routes: Arc<dyn Routes>,
    /// The sockets of clients, if this process is a gateway.
    pub(crate) hub: Option<Arc<Hub>>,
    /// The drain state of this process.
    pub(crate) drain: Arc<Drain>,
    /// The stored records, if this process has the role `api`.
    pub(crate) records: Option<Records>,
    /// Outbound integrations, if this process has the role `api`.
    pub(crate) outward: Option<Outward>,
    /// The store for audits, if it is in this process.
    pub(crate) auditable: Option<Auditable>,
    /// The store for backups, if it is in this process.
    pub(crate) backups: Option<Backups>,
}

impl AdminState {
    fn outward(&self) -> Result<&Outward, AdminError> {
        self.outward.as_ref().ok_or_else(no_api)
    }

    fn records(&self) -> Result<&Records, AdminError> {
        self.records.as_ref().ok_or_else(no_api)
    }
}

fn no_api() -> AdminError {
    AdminError::new(ErrorCode::NotFound, "this process does not have the role `api`; ask one that has")
}

/// Parses an id of a path.
fn parse<T: FromStr<Err: Display>>(id: &str) -> Result<T, AdminError> {
    id.parse().map_err(|error| AdminError::new(ErrorCode::ValidationError, error))
}

/// Checks the requested page size.
fn limit(asked: Option<usize>, default: usize, max: usize) -> Result<usize, AdminError> {
    let limit = asked.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("`limit` is {limit}, and must be from 1 to {max}");
    Err(AdminError::new(ErrorCode::ValidationError, message))
}

pub(crate) fn router(admin: AdminState, metrics: PrometheusHandle, level: LogLevel) -> Router {
    let guarded = Router::new()
        .route("/pulse", get(pulse::pulse))
        .route("/nodes", get(node::list))
        .route("/search", get(search::search))
        .route("/users", post(accounts::create))
        .route("/users/{id}", get(users::user).patch(accounts::rename).delete(accounts::delete))
        .route("/users/{id}/export", post(accounts::export))
        .route("/users/{id}/connections", get(routes::of_user))
        .route("/users/{id}/sessions", delete(users::revoke_all))
        .route("/users/{id}/sessions/{session_id}", delete(users::revoke_one))
        .route("/users/{id}/suspend", post(restrictions::suspend))
        .route("/users/{id}/resume", post(restrictions::resume))
        .route("/users/{id}/sign-out", post(restrictions::sign_out))
        .route("/users/{id}/revoke-token", post(restrictions::revoke_token))
        .route("/chats/{id}", get(chats::chat))
        .route("/chats/{id}/timeline", get(chats::timeline))
        .route("/chats/{id}/members/{user_id}", delete(chat_actions::remove_member))
        .route("/chats/{id}/owner", put(chat_actions::set_owner))
        .route("/chats/{id}/retention", put(chat_actions::set_retention))
        .route("/messages/{id}", get(messages::message))
        .route("/gateways", get(routes::gateways))
        .route("/gateways/{id}/connections", get(routes::of_gateway))
        .route("/gateways/{id}/drain", post(gateways::drain))
        .route("/gateways/{id}/resume", post(gateways::resume))
        .route("/connections/{id}", delete(gateways::close))
        .route("/drain", get(drain::standing).post(drain::begin))
        .route("/resume", post(drain::end))
        .route("/webhook", get(replay::webhook_status))
        .route("/webhook/replay", post(replay::replay_events))
        .route("/notifications/replay", post(replay::replay_notifications))
        .route("/dead-letters", get(dead_letters::list))
        .route("/dead-letters/{id}/redeliver", post(dead_letters::redeliver))
        .route("/dead-letters/{id}", delete(dead_letters::forget))
        .route("/reports", get(reports::list))
        .route("/reports/{id}", get(reports::show))
        .route("/reports/{id}/resolve", post(reports::resolve))
        .route("/verify", get(verify::verify))
        .route("/backup", post(backup::backup))
        .route("/audit", get(audited::list))
        .route("/operators", get(operator_routes::list).post(operator_routes::add))
        .route("/operators/{name}", delete(operator_routes::remove))
        .route("/operators/{name}/rotate", post(operator_routes::rotate))
        .route("/log-level", get(log_level::show).put(log_level::change).layer(Extension(level)))
        // The token is checked before anything is recorded.
        .route_layer(from_fn_with_state(admin.clone(), audited::audit))
        .route_layer(from_fn_with_state(admin.clone(), operators::require))
        .with_state(admin);
    Router::new()
        .route("/metrics", get(move || metrics::page(metrics.clone())))
        .nest("/admin/v1", guarded)
        .merge(web::console())
}
