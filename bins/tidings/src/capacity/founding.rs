//! The estimates of the original design, for comparison with the measured figures.

use serde::Serialize;

/// The same demand by the formulas of the original design.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FoundingEstimate {
    /// ADR-004 §A, with its safety factor.
    pub(super) read_units: f64,
    pub(super) write_units: f64,
    /// ADR-010 §3.1.
    pub(super) redis_bytes: f64,
    pub(super) redis_beats: f64,
    pub(super) redis_commands: f64,
}

const READ_UNITS: f64 = 1.5;
const WRITE_UNITS: f64 = 5.0;
const SAFETY: f64 = 1.5;
const KEY_BYTES: f64 = 500.0;
const BEAT_SECONDS: f64 = 5.0;
const KEYS_REFRESHED: f64 = 5.0;

impl FoundingEstimate {
    pub(super) fn of(messages: f64, connections: f64) -> Self {
        let redis_beats = connections / BEAT_SECONDS;
        Self {
            read_units: messages * READ_UNITS * SAFETY,
            write_units: messages * WRITE_UNITS * SAFETY,
            redis_bytes: connections * KEY_BYTES,
            redis_beats,
            redis_commands: redis_beats * KEYS_REFRESHED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::usage::tests::usage;

    #[test]
    fn the_example_of_adr_004_comes_out() {
        // 1000 messages/second: RCU = 2,250, WCU = 7,500.
        let FoundingEstimate { read_units, write_units, .. } = FoundingEstimate::of(1000.0, 0.0);
        assert_eq!((read_units, write_units), (2250.0, 7500.0));
    }

    #[test]
    fn the_example_of_adr_010_comes_out() {
        // 100K users with 1.5 devices, all of them connected: 150,000 keys, 75 MB, 30,000 beats, 150,000 writes a second.
        let usage = usage(&["--users", "100K", "--active", "1", "--online", "1", "--devices", "1.5"]);
        let connections = usage.demand().connections;
        assert_eq!(connections, 150_000.0);
        let FoundingEstimate { redis_bytes, redis_beats, redis_commands, .. } = FoundingEstimate::of(0.0, connections);
        assert_eq!((redis_bytes, redis_beats, redis_commands), (75e6, 30_000.0, 150_000.0));
    }
}
