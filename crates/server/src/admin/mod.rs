//! What operators see and do, on a listener of their own: `/metrics` and the page `/console` for everybody who reaches it,
//! and under `/admin/v1`, with the admin token, what the console and `tidings webhook`, `notifications`, `dead-letters`,
//! `routes`, `verify`, `backup` and `log-level` ask for, and those that look after users, chats, sessions and reports.
//!
//! | route | says or does | where |
//! |---|---|---|
//! | `GET /pulse?since=` | samples of the last 30 min, one every 2 s: rates, percentiles, queues, lags, errors | this process |
//! | `GET /nodes` | this process, and the others of a fleet with what is shared of them | everywhere |
//! | `GET /search?q=` | what an id or a phone number stands for | role `api` |
//! | `GET /users/{id}` | profile, sessions, connections, chats with unread counts | role `api` |
//! | `GET /users/{id}/connections` | live connections | everywhere |
//! | `GET /chats/{id}` | members with roles, watermarks and gateways; head, place in the log | role `api` |
//! | `GET /chats/{id}/timeline?before=&limit=` | what has happened, newest first, without contents | role `api` |
//! | `GET /messages/{id}` | where a message is, in plain words and facts, without its content | role `api` |
//! | `GET /gateways`, `GET /gateways/{id}/connections?limit=` | gateways and who is connected to them | everywhere |
//! | `GET /webhook`, `GET /dead-letters?after=`, `GET /verify?rate=` | how deliveries go; what is dead; an audit | role `api` |
//! | `GET /reports?state=&after=` | what users have reported, `open` or `resolved`, without contents | role `api` |
//! | `GET /reports/{id}` | one report with the message that was reported; an action, though a read | role `api` |
//! | `GET /audit?limit=` | what operators have had done, newest first | this process |
//! | `POST /users`, `PATCH /users/{id}` | makes a user before their first sign-in; renames one | role `api` |
//! | `POST /users/{id}/export` | everything that is a user's own: the one place where an operator is shown contents | role `api` |
//! | `DELETE /users/{id}` | deletes an account, which goes on by itself; `GET` says how far it is | role `api` |
//! | `DELETE /chats/{id}/members/{user_id}`, `PUT /chats/{id}/owner` | acts for the owner of a group | role `api` |
//! | `PUT /chats/{id}/retention` | how long messages live, those of the past too | role `api` |
//! | `GET /log-level`, `PUT /log-level` | what is logged; logs at another level, for a while or until the next change | this process |
//! | `DELETE /users/{id}/sessions[/{session_id}]` | signs devices out; their sockets close within a second | role `api` |
//! | `DELETE /connections/{id}` | closes a socket; its client reconnects and syncs | the gateway's process |
//! | `POST /gateways/{id}/drain`, `/resume` | sends the clients of a gateway elsewhere; takes clients again | the gateway's process |
//! | `POST /reports/{id}/resolve` | ends a report with a note; it is forgotten 90 days later | role `api` |
//! | `GET /drain`, `POST /drain`, `POST /resume` | what a drain has left to do; drains the process; calls that off | this process |
//! | `POST /webhook/replay`, `POST /notifications/replay` | delivers again | role `api` |
//! | `POST /backup` | answers with a backup of the store, keys included | one machine |
//! | `POST /dead-letters/{id}/redeliver`, `DELETE /dead-letters/{id}` | delivers a dead letter again; forgets it | role `api` |
//!
//! Whatever is no GET is an action, and so is looking at what somebody wrote: it is written into `admin-audit.jsonl` of the
//! data directory before it is done, and what came of it after; where that cannot be written it is refused. A process that
//! is not the right one for a question or an action says so, and which one is.

mod accounts;
mod audit_trail;
mod audited;
mod backup;
mod chat_actions;
mod chats;
mod dead_letters;
mod drain;
mod error;
mod gateways;
mod log_level;
mod messages;
mod metrics;
mod node;
mod pulse;
mod records;
mod replay;
mod reports;
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
use ports::Routes;
use protocol::ErrorCode;

pub(crate) use audit_trail::AuditTrail;
pub(crate) use backup::Backups;
pub(crate) use metrics::{install_metrics, measure_process};
pub(crate) use node::{Fleet, Node};
pub(crate) use pulse::Pulse;
pub(crate) use records::Records;
pub use token::AdminToken;
pub(crate) use verify::Auditable;

use self::error::AdminError;
use crate::health::Drain;
use crate::outward::Outward;
use crate::telemetry::LogLevel;

/// What operators can see and have done.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) token: Arc<AdminToken>,
    pub(crate) trail: AuditTrail,
    pub(crate) node: Arc<Node>,
    pub(crate) pulse: Arc<Pulse>,
    /// Who is connected where, over all gateways.
    pub(crate) routes: Arc<dyn Routes>,
    /// The sockets of clients, where this process is a gateway.
    pub(crate) hub: Option<Arc<Hub>>,
    /// Whether the process is about to go.
    pub(crate) drain: Arc<Drain>,
    /// What is stored, where this process has the role `api`.
    pub(crate) records: Option<Records>,
    /// What runs for the world outside, likewise.
    pub(crate) outward: Option<Outward>,
    /// The store, where it is in this process.
    pub(crate) auditable: Option<Auditable>,
    /// The same, to be backed up.
    pub(crate) backups: Option<Backups>,
}

impl Admin {
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

/// An id of a path.
fn parse<T: FromStr<Err: Display>>(id: &str) -> Result<T, AdminError> {
    id.parse().map_err(|error| AdminError::new(ErrorCode::ValidationError, error))
}

/// How many of something are asked for.
fn limit(asked: Option<usize>, default: usize, max: usize) -> Result<usize, AdminError> {
    let limit = asked.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("`limit` is {limit}, and must be from 1 to {max}");
    Err(AdminError::new(ErrorCode::ValidationError, message))
}

pub(crate) fn router(admin: Admin, metrics: PrometheusHandle, level: LogLevel) -> Router {
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
        .route(reports::SHOWN, get(reports::show))
        .route("/reports/{id}/resolve", post(reports::resolve))
        .route("/verify", get(verify::verify))
        .route("/backup", post(backup::backup))
        .route("/audit", get(audited::list))
        .route("/log-level", get(log_level::show).put(log_level::change).layer(Extension(level)))
        // The token is looked at before anything is written down.
        .route_layer(from_fn_with_state(admin.clone(), audited::audit))
        .route_layer(from_fn_with_state(admin.clone(), token::require))
        .with_state(admin);
    Router::new()
        .route("/metrics", get(move || metrics::page(metrics.clone())))
        .nest("/admin/v1", guarded)
        .merge(web::console())
}
