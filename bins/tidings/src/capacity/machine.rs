//! Whether one machine with the embedded store can carry a usage.

use clap::Args;
use serde::Serialize;

use super::costs::*;
use super::plan::GIB;
use super::usage::Usage;

/// One machine.
#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "One machine, with the embedded store")]
pub(super) struct MachineSpec {
    /// Its cores.
    #[arg(long = "machine-cores", value_name = "NUMBER", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) cores: u32,
    /// Its memory.
    #[arg(long = "machine-memory", value_name = "GIB", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) memory_gib: u32,
    /// Its disk.
    #[arg(long = "machine-disk", value_name = "GIB", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) disk_gib: u32,
}

/// How one machine copes with a demand.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OneMachine {
    pub(super) is_enough: bool,
    /// The scarcest resource, and the share of it that is used.
    pub(super) short_of: &'static str,
    pub(super) used: f64,
    /// Largest number of users that the machine can serve at this usage.
    pub(super) users_max: f64,
}

impl MachineSpec {
    /// Plans with half of every measured capacity at the peak.
    pub(super) fn carries(&self, usage: &Usage) -> OneMachine {
        let (short_of, used) = self.tightest(usage);
        // All demands are proportional to the number of users.
        let users_max = if used > 0.0 { (usage.users / used).floor() } else { usage.users };
        OneMachine { is_enough: used <= 1.0, short_of, used, users_max }
    }

    fn tightest(&self, usage: &Usage) -> (&'static str, f64) {
        let demand = usage.demand();
        let core_seconds = demand.entries() * SEND_SECONDS
            + demand.pushes * PUSH_SECONDS
            + demand.connects * HANDSHAKE_SECONDS
            + (demand.missed + demand.notices) * PAGE_SECONDS / 100.0;
        let stored = demand.messages_in_a_day * usage.retention * (usage.content + STORED_BYTES);
        let shares = [
            // Watermarks are commits too, though small ones.
            ("commits", (demand.entries() + demand.watermarks) / (STORE_SENDS * HEADROOM)),
            ("cores", core_seconds / (f64::from(self.cores) * HEADROOM)),
            ("connections", demand.connections / (MACHINE_CONNECTIONS * HEADROOM)),
            ("memory", 2.0 * demand.connections * CONNECTION_BYTES / (f64::from(self.memory_gib) * GIB * HEADROOM)),
            // The other half is for compaction and backups.
            ("disk", stored / (f64::from(self.disk_gib) * GIB * HEADROOM)),
        ];
        shares.into_iter().fold(("commits", 0.0), |most, share| if share.1 > most.1 { share } else { most })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::capacity::usage::tests::usage;

    pub(in crate::capacity) fn machine() -> MachineSpec {
        MachineSpec { cores: 8, memory_gib: 32, disk_gib: 2000 }
    }

    #[test]
    fn one_machine_is_enough_up_to_the_number_it_names_and_not_beyond() {
        let asked = machine().carries(&usage(&["--users", "1000"]));
        assert!(asked.is_enough && asked.users_max > 1000.0);
        let users = |users: f64| machine().carries(&usage(&["--users", &users.to_string()]));
        assert!(users(asked.users_max).is_enough);
        assert!(!users(asked.users_max * 1.001 + 1.0).is_enough);
    }

    #[test]
    fn the_scarcest_resource_depends_on_the_usage() {
        let short_of = |arguments: &[&str]| machine().carries(&usage(arguments)).short_of;
        assert_eq!(short_of(&["--retention", "3650"]), "disk");
        assert_eq!(short_of(&["--messages", "0", "--online", "1"]), "connections");
        assert_eq!(short_of(&["--retention", "1", "--messages", "500"]), "commits");
    }
}
