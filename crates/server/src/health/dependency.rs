use std::sync::atomic::{AtomicBool, Ordering};

use ports::{EngineHealth, ProcessRole};

use super::needs::{self, Need, RoleNeed};

/// Reports the health of an engine.
type Probe = Box<dyn Fn() -> EngineHealth + Send + Sync>;

/// An engine of the process, and its part in the readiness of the process.
pub(crate) struct Dependency {
    pub(crate) name: &'static str,
    probe: Probe,
    /// Absent if no role that decides about readiness uses the engine.
    row: Option<&'static RoleNeed>,
    /// Whether the engine has answered since the start.
    has_answered: AtomicBool,
}

impl Dependency {
    /// An engine of a process with these roles. The process has called the engine before its health is first asked for:
    /// until then, `probe` reports a health that nothing has confirmed.
    pub(crate) fn new(
        name: &'static str,
        roles: &[ProcessRole],
        probe: impl Fn() -> EngineHealth + Send + Sync + 'static,
    ) -> Self {
        Self { name, probe: Box::new(probe), row: needs::need(roles, name), has_answered: AtomicBool::new(false) }
    }

    pub(crate) fn health(&self) -> EngineHealth {
        let health = (self.probe)();
        if health == EngineHealth::Ok {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        health
    }

    /// Whether the process is not ready if the engine fails now.
    pub(super) fn is_needed(&self) -> bool {
        match self.row.map_or(Need::Never, |row| row.need) {
            Need::Never => false,
            Need::ToStart => !self.has_answered.load(Ordering::Relaxed),
            Need::Always => true,
        }
    }

    /// The behaviour of the process while the engine fails.
    pub(super) fn meanwhile(&self) -> &'static str {
        self.row.map_or("the roles of this process that serve clients do not use it", |row| row.meanwhile)
    }
}
