use std::time::{Duration, Instant};

use domain::Content;

/// Size of every message of a load, in bytes.
const CONTENT_BYTES: usize = 128;
const HEX: usize = 16;

/// The content of a load message: its number at the sender, and its send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) number: u64,
    pub(super) sent_at: Instant,
}

impl Stamp {
    /// The stamp as text, with the time counted from `epoch`.
    pub(super) fn content(self, epoch: Instant) -> Content {
        let nanos = self.sent_at.saturating_duration_since(epoch).as_nanos() as u64;
        let text = format!("{:016x}{nanos:016x}{:x<width$}", self.number, "", width = CONTENT_BYTES - 2 * HEX);
        text.try_into().expect("128 printable bytes are content")
    }

    /// Parses the stamp from a content, if it belongs to the load that started at `epoch`.
    pub(super) fn read(content: &str, epoch: Instant) -> Option<Self> {
        let number = u64::from_str_radix(content.get(..HEX)?, 16).ok()?;
        let nanos = u64::from_str_radix(content.get(HEX..2 * HEX)?, 16).ok()?;
        Some(Self { number, sent_at: epoch.checked_add(Duration::from_nanos(nanos))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_round_trips_in_128_bytes() {
        let epoch = Instant::now();
        let stamp = Stamp { number: 77, sent_at: epoch + Duration::from_nanos(123_456_789) };
        let content = stamp.content(epoch);
        assert_eq!(content.as_str().len(), 128);
        assert_eq!(Stamp::read(content.as_str(), epoch), Some(stamp));
        assert_eq!(Stamp::read("hello", epoch), None);
    }
}
