use std::fmt;
use std::str::FromStr;

use http::Method;
use serde::{Deserialize, Serialize};

use self::AuditRecording::{Action, Read, Unrecorded};
use self::OperatorRole::{Admin, Support, Viewer};

/// The rights of an operator. Each role includes the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorRole {
    /// Reads the state of the service, its users and its chats, without contents and exports.
    Viewer,
    /// Also acts on one user, chat, connection or report, and reads exports and reported messages.
    Support,
    /// Also acts on the service: operators, backups, drains, retention, replays, the log level.
    Admin,
}

impl OperatorRole {
    pub const ALL: [Self; 3] = [Viewer, Support, Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Viewer => "viewer",
            Support => "support",
            Admin => "admin",
        }
    }
}

impl fmt::Display for OperatorRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for OperatorRole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| format!("`{text}` is none of viewer, support, admin"))
    }
}

/// The lines that a request leaves in the audit trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditRecording {
    /// None: its answer names no user, chat or message.
    Unrecorded,
    /// One line before its answer is sent, not synced.
    Read,
    /// A synced line before it runs, and one with its outcome.
    Action,
}

/// The authorization of one admin route.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdminRule {
    /// The lowest role that may call it.
    pub(super) role: OperatorRole,
    pub(super) recording: AuditRecording,
}

/// Every route of the admin API. A route without a row is closed to all operators.
const RULES: &[(&str, &str, OperatorRole, AuditRecording)] = &[
    ("GET", "/pulse", Viewer, Unrecorded),
    ("GET", "/nodes", Viewer, Unrecorded),
    ("GET", "/gateways", Viewer, Unrecorded),
    ("GET", "/webhook", Viewer, Unrecorded),
    ("GET", "/drain", Viewer, Unrecorded),
    ("GET", "/log-level", Viewer, Unrecorded),
    ("GET", "/search", Viewer, Read),
    ("GET", "/users/{id}", Viewer, Read),
    ("GET", "/users/{id}/connections", Viewer, Read),
    ("GET", "/chats/{id}", Viewer, Read),
    ("GET", "/chats/{id}/timeline", Viewer, Read),
    ("GET", "/messages/{id}", Viewer, Read),
    ("GET", "/gateways/{id}/connections", Viewer, Read),
    ("GET", "/dead-letters", Viewer, Read),
    ("GET", "/reports", Viewer, Read),
    ("GET", "/audit", Viewer, Read),
    ("POST", "/users", Support, Action),
    ("PATCH", "/users/{id}", Support, Action),
    ("DELETE", "/users/{id}", Support, Action),
    ("POST", "/users/{id}/export", Support, Action),
    ("DELETE", "/users/{id}/sessions", Support, Action),
    ("DELETE", "/users/{id}/sessions/{session_id}", Support, Action),
    ("POST", "/users/{id}/suspend", Support, Action),
    ("POST", "/users/{id}/resume", Support, Action),
    ("POST", "/users/{id}/sign-out", Support, Action),
    ("POST", "/users/{id}/revoke-token", Support, Action),
    ("DELETE", "/chats/{id}/members/{user_id}", Support, Action),
    ("PUT", "/chats/{id}/owner", Support, Action),
    ("DELETE", "/connections/{id}", Support, Action),
    // A read, but of a content.
    ("GET", "/reports/{id}", Support, Action),
    ("POST", "/reports/{id}/resolve", Support, Action),
    ("PUT", "/chats/{id}/retention", Admin, Action),
    ("POST", "/gateways/{id}/drain", Admin, Action),
    ("POST", "/gateways/{id}/resume", Admin, Action),
    ("POST", "/drain", Admin, Action),
    ("POST", "/resume", Admin, Action),
    ("POST", "/webhook/replay", Admin, Action),
    ("POST", "/notifications/replay", Admin, Action),
    ("POST", "/dead-letters/{id}/redeliver", Admin, Action),
    ("DELETE", "/dead-letters/{id}", Admin, Action),
    ("GET", "/verify", Admin, Read),
    ("POST", "/backup", Admin, Action),
    ("PUT", "/log-level", Admin, Action),
    ("GET", "/operators", Admin, Read),
    ("POST", "/operators", Admin, Action),
    ("DELETE", "/operators/{name}", Admin, Action),
    ("POST", "/operators/{name}/rotate", Admin, Action),
];

/// The rule of a request, if its route has one.
pub(super) fn rule(method: &Method, route: &str) -> Option<AdminRule> {
    // The router answers HEAD with the handler of GET.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let found = RULES.iter().find(|(of, path, ..)| (*of, *path) == (method, route));
    found.map(|&(_, _, role, recording)| AdminRule { role, recording })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_of_the_router_has_one_rule_and_every_rule_a_route() {
        let mut routed = BTreeSet::new();
        for line in include_str!("mod.rs").lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
            let (path, verbs) = line.split_once('"').unwrap();
            for verb in ["get", "post", "put", "patch", "delete"] {
                if path != "/metrics" && verbs.contains(&format!("{verb}(")) {
                    routed.insert((verb.to_uppercase(), path.to_owned()));
                }
            }
        }
        let ruled: BTreeSet<_> =
            RULES.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
        assert_eq!(ruled.len(), RULES.len(), "a rule is there twice");
        assert_eq!(routed, ruled);
    }

    #[test]
    fn the_documentation_has_every_route_with_its_role_and_audit_record() {
        let page = include_str!("../../../../docs/console.md");
        let (_, table) = page.split_once("## The admin API").unwrap();
        let documented: Vec<[&str; 3]> = table
            .lines()
            .filter_map(|line| {
                let cells: Vec<_> = line.split('|').map(str::trim).collect();
                let route = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
                Some([route, cells[2], cells[3]])
            })
            .collect();
        let recording = |recording| match recording {
            Unrecorded => "none",
            Read => "read",
            Action => "action",
        };
        let routes: Vec<_> = RULES.iter().map(|(method, path, ..)| format!("{method} {path}")).collect();
        let ruled: Vec<_> = RULES
            .iter()
            .zip(&routes)
            .map(|((_, _, role, recorded), route)| [route.as_str(), role.as_str(), recording(*recorded)])
            .collect();
        assert_eq!(documented, ruled);
    }

    #[test]
    fn a_change_is_an_action_and_a_viewer_makes_none() {
        for (method, path, role, recording) in RULES {
            if *method != "GET" {
                assert_eq!(*recording, Action, "{method} {path}");
            }
            if *recording == Action {
                assert!(*role > Viewer, "{method} {path}");
            }
        }
    }

    #[test]
    fn a_route_without_a_rule_has_none() {
        assert!(rule(&Method::GET, "/pulse").is_some() && rule(&Method::HEAD, "/pulse").is_some());
        assert!(rule(&Method::DELETE, "/pulse").is_none() && rule(&Method::GET, "/passwords").is_none());
    }
}
