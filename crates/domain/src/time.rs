use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time in UTC, in whole milliseconds since 1970; the unit of all records and responses.
///
/// The text form is RFC 3339 with milliseconds: `2026-01-30T14:30:00.000Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last millisecond of the year 9999, the maximum that RFC 3339 can express.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The time `millis` milliseconds after the start of 1970, at most [`MAX`](Self::MAX).
    pub fn from_millis(millis: u64) -> Self {
        Self(millis).min(Self::MAX)
    }

    /// Milliseconds since the start of 1970.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the start of 1970, as in JWT claims and HTTP headers.
    pub fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// The duration since `earlier`; zero if `earlier` is not before this time.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This time minus a duration, but not before the start of 1970.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(duration)))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::from_millis(time.duration_since(UNIX_EPOCH).map(millis).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.0)).fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = humantime::TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_rfc3339(text).map(Self::from)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_milliseconds_and_round_trips() {
        let time = Timestamp::from_millis(1_769_783_400_007);
        assert_eq!(time.to_string(), "2026-01-30T14:30:00.007Z");
        assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Timestamp::from_millis(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(5).minus(Duration::from_secs(1)), Timestamp::from_millis(0));
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
    }
}
