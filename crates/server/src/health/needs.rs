//! Which engine each role can do without. `/readyz`, `tidings doctor` and docs/deploy.md follow this table.

use ports::ProcessRole;

/// The consequence of a failing engine for the readiness of a process. Ordered by strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// The process is degraded while the engine fails.
    Never,
    /// The process is not ready before the engine has answered once. After that it is degraded while the engine fails.
    ToStart,
    /// The process is not ready while the engine fails.
    Always,
}

impl Need {
    /// The word for it in the documentation.
    #[cfg(test)]
    fn name(self) -> &'static str {
        match self {
            Self::Never => "no",
            Self::ToStart => "to start",
            Self::Always => "yes",
        }
    }
}

/// How a role depends on an engine, and what the role does while the engine fails.
#[derive(Debug)]
pub(crate) struct RoleNeed {
    /// The role in a fleet; `None` is the only process of a service on one machine.
    role: Option<ProcessRole>,
    /// The name of the engine in `/readyz`.
    dependency: &'static str,
    pub(crate) need: Need,
    /// The behaviour of the role while the engine fails.
    pub(crate) meanwhile: &'static str,
}

const fn of(role: ProcessRole, dependency: &'static str, need: Need, meanwhile: &'static str) -> RoleNeed {
    RoleNeed { role: Some(role), dependency, need, meanwhile }
}

/// The needs of all roles. They follow from guarantee G5 and corrections C3 and C8 (docs/guarantees.md).
static NEEDS: [RoleNeed; 11] = [
    RoleNeed {
        role: None,
        dependency: "store",
        need: Need::Never,
        meanwhile: "sends fail with `SERVICE_UNAVAILABLE`; reads and sockets work, and no other process could serve them",
    },
    of(
        ProcessRole::Gateway,
        "redis",
        Need::ToStart,
        "it keeps its sockets and accepts new ones; fanout pushes to it directly (C8). A gateway that has never reached \
         Redis knows no peer that could resolve a token",
    ),
    of(
        ProcessRole::Ingest,
        "dynamodb",
        Need::Always,
        "it commits nothing; its callers get `SERVICE_UNAVAILABLE` with a retry time. No balancer routes to it, so only \
         rollouts wait",
    ),
    of(
        ProcessRole::Ingest,
        "kafka",
        Need::Never,
        "it acknowledges after the commit, and its relay publishes when Kafka is available again (C3)",
    ),
    of(
        ProcessRole::Ingest,
        "redis",
        Need::ToStart,
        "gateways and api keep calling it. Without one announcement no peer discovers it",
    ),
    of(
        ProcessRole::Fanout,
        "dynamodb",
        Need::Never,
        "it pushes to chats with cached members; events of other chats wait in the log",
    ),
    of(
        ProcessRole::Fanout,
        "kafka consumer",
        Need::Always,
        "it receives no events to push, only signals. No balancer routes to it, so only rollouts wait",
    ),
    of(
        ProcessRole::Fanout,
        "redis",
        Need::ToStart,
        "it pushes directly to every gateway that it last knew (C8), so it has to have known one",
    ),
    of(
        ProcessRole::Api,
        "dynamodb",
        Need::ToStart,
        "it answers `SERVICE_UNAVAILABLE` with a retry time, which only a process in rotation can (G5). All api processes \
         have the same tables: taking this one out of rotation, or replacing it, helps no client",
    ),
    of(
        ProcessRole::Api,
        "kafka",
        Need::Never,
        "REST works, sends included; pushes, notifications and webhooks are late (C3)",
    ),
    of(
        ProcessRole::Api,
        "redis",
        Need::ToStart,
        "REST works with limits of its own; presence is unknown and tickets are refused (C8). A process that has never \
         reached Redis knows no ingest process",
    ),
];

/// The row that decides about an engine for a process with these roles.
///
/// Balancers route to `gateway` and `api`. In a process with one of them, only these two decide, so that the needs of
/// `ingest` and `fanout` do not take sockets and REST out of rotation. Of the rows left, the strongest decides. `None`
/// means that none of the deciding roles uses the engine.
pub(crate) fn need(roles: &[ProcessRole], dependency: &str) -> Option<&'static RoleNeed> {
    let serves_clients = |role: ProcessRole| matches!(role, ProcessRole::Gateway | ProcessRole::Api);
    let has_clients = roles.iter().any(|role| serves_clients(*role));
    let decides = |role: ProcessRole| roles.contains(&role) && (!has_clients || serves_clients(role));
    NEEDS.iter().filter(|row| row.dependency == dependency && row.role.is_none_or(decides)).max_by_key(|row| row.need)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn need_of(roles: &[ProcessRole], dependency: &str) -> Need {
        need(roles, dependency).map_or(Need::Never, |row| row.need)
    }

    #[test]
    fn no_outage_of_an_engine_takes_a_started_process_that_serves_clients_out_of_rotation() {
        for role in [ProcessRole::Gateway, ProcessRole::Api] {
            for dependency in ["dynamodb", "kafka", "kafka consumer", "redis"] {
                assert!(need_of(&[role], dependency) < Need::Always, "{role} {dependency}");
                assert!(need_of(&ProcessRole::ALL, dependency) < Need::Always, "all roles, {dependency}");
            }
        }
        // C3: not even a start waits for Kafka.
        for role in [ProcessRole::Gateway, ProcessRole::Api, ProcessRole::Ingest] {
            assert_eq!(need_of(&[role], "kafka"), Need::Never, "{role}");
        }
    }

    #[test]
    fn roles_behind_a_balancer_decide_for_a_process_of_several_roles() {
        use ProcessRole::{Api, Fanout, Gateway, Ingest};
        assert_eq!(need_of(&[Ingest], "dynamodb"), Need::Always);
        assert_eq!(need_of(&[Ingest, Fanout], "dynamodb"), Need::Always);
        assert_eq!(need_of(&[Ingest, Api], "dynamodb"), Need::ToStart);
        assert_eq!(need_of(&[Gateway, Ingest], "dynamodb"), Need::Never);
        assert_eq!(need_of(&[Gateway, Fanout], "kafka consumer"), Need::Never);
    }

    #[test]
    fn the_page_of_deployments_has_this_table() {
        let mut table = "| role | engine | needed | while it fails |\n|---|---|---|---|\n".to_owned();
        for RoleNeed { role, dependency, need, meanwhile } in &NEEDS {
            let role = role.map_or("one machine".to_owned(), |role| format!("`{role}`"));
            writeln!(table, "| {role} | `{dependency}` | {} | {meanwhile} |", need.name()).unwrap();
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deploy.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&table), "docs/deploy.md lacks this table:\n{table}");
    }
}
