use clap::Args;
use serde::Serialize;

use super::costs::ID_LOOKUPS;

pub(super) const DAY: f64 = 86_400.0;

/// How users use the service.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct Usage {
    /// Registered users, such as 250000, 250K, 3M or 3B.
    #[arg(long, value_parser = count, default_value = "100K")]
    pub(super) users: f64,
    /// Share of the registered users that are active on a day.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.5)]
    pub(super) active: f64,
    /// Share of the active users that are connected at the peak.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.3)]
    pub(super) online: f64,
    /// Devices per user.
    #[arg(long, value_name = "NUMBER", value_parser = positive, default_value_t = 1.5)]
    pub(super) devices: f64,
    /// Messages that an active user sends in a day.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 40.0)]
    pub(super) messages: f64,
    /// Ratio of the daily peak to the daily mean.
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value_t = 3.0)]
    pub(super) peak: f64,
    /// Share of messages that go to groups; the others go to one person.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.3)]
    pub(super) group_share: f64,
    /// Members per group, averaged over group messages.
    #[arg(long, value_name = "NUMBER", value_parser = members, default_value_t = 20.0)]
    pub(super) group_size: f64,
    /// Peak messages per second in the busiest chat.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 10.0)]
    pub(super) busiest_chat: f64,
    /// Chats per user.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 20.0)]
    pub(super) chats: f64,
    /// Bytes of content per message.
    #[arg(long, value_name = "BYTES", value_parser = content, default_value_t = 200.0)]
    pub(super) content: f64,
    /// Days that messages are kept.
    #[arg(long, value_name = "DAYS", value_parser = amount, default_value_t = 365.0)]
    pub(super) retention: f64,
    /// Edits, deletions and reactions per message.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 0.1)]
    pub(super) updates: f64,
    /// Share of messages with a lifetime: 1 if the service has a retention.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0)]
    pub(super) expiring: f64,
    /// Connects per day of each device of an active user.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 10.0)]
    pub(super) connects: f64,
    /// Share of the devices of offline recipients that are notified of a message.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.3)]
    pub(super) notified: f64,
    /// Watermark updates per recipient and message: 2 if each message is acknowledged as delivered and as read on its
    /// own, less where one update covers several messages.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 1.0)]
    pub(super) receipts: f64,
    /// Subscribers to the presence of a user; 0 is a service without presence.
    #[arg(long, value_name = "NUMBER", value_parser = amount, default_value_t = 10.0)]
    pub(super) watchers: f64,
}

/// The resulting demand: at the peak, and per second unless stated otherwise.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Demand {
    pub(super) connections: f64,
    pub(super) messages: f64,
    pub(super) messages_in_a_day: f64,
    /// Edits, deletions and reactions.
    pub(super) updates: f64,
    /// Of messages and updates.
    pub(super) pushes: f64,
    /// Messages that recipients read later because they were offline, counted once per recipient.
    pub(super) missed: f64,
    pub(super) watermarks: f64,
    pub(super) notices: f64,
    pub(super) connects: f64,
    /// Presence changes that have subscribers.
    pub(super) transitions: f64,
    /// Messages that are looked up by their id.
    pub(super) lookups: f64,
}

impl Demand {
    /// Entries of chats: messages and updates.
    pub(super) fn entries(&self) -> f64 {
        self.messages + self.updates
    }
}

impl Usage {
    pub(super) fn demand(&self) -> Demand {
        let active = self.users * self.active;
        let at_peak = |in_a_day: f64| active * in_a_day / DAY * self.peak;
        let messages = at_peak(self.messages);
        let updates = messages * self.updates;
        let recipients = (1.0 - self.group_share) + self.group_share * (self.group_size - 1.0);
        let connects = at_peak(self.connects * self.devices);
        let missed = messages * recipients * (1.0 - self.online);
        Demand {
            connections: active * self.online * self.devices,
            messages,
            messages_in_a_day: active * self.messages,
            updates,
            // The sender's other devices receive the push too.
            pushes: (messages + updates) * (recipients + 1.0) * self.online * self.devices,
            missed,
            watermarks: messages * recipients * self.receipts,
            notices: missed * self.devices * self.notified,
            connects,
            transitions: if self.watchers > 0.0 { 2.0 * connects / self.devices } else { 0.0 },
            lookups: at_peak(ID_LOOKUPS),
        }
    }
}

/// Upper bound of a number of users.
const USERS_MAX: f64 = 1e11;

fn count(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.to_ascii_uppercase() {
        upper if upper.ends_with('K') => (upper.len() - 1, 1e3),
        upper if upper.ends_with('M') => (upper.len() - 1, 1e6),
        upper if upper.ends_with('B') => (upper.len() - 1, 1e9),
        upper => (upper.len(), 1.0),
    };
    let number = text.get(..digits).and_then(|digits| digits.parse::<f64>().ok());
    let number = number.ok_or_else(|| format!("`{text}` is no number; write it as 250000, 250K, 3M or 3B"))?;
    bounded(number * scale, 1.0, USERS_MAX)
}

fn share(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 0.0, 1.0)
}

fn amount(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 0.0, 1e6)
}

fn positive(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 0.1, 100.0)
}

fn factor(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 1.0, 1000.0)
}

fn members(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 2.0, domain::limits::GROUP_MEMBERS_MAX as f64)
}

fn content(text: &str) -> Result<f64, String> {
    bounded(parsed(text)?, 1.0, domain::limits::CONTENT_BYTES_MAX as f64)
}

fn parsed(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn bounded(number: f64, low: f64, high: f64) -> Result<f64, String> {
    // NaN is in no range.
    if (low..=high).contains(&number) { Ok(number) } else { Err(format!("{number} is not from {low} to {high}")) }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct UsageCli {
        #[command(flatten)]
        usage: Usage,
    }

    /// The default usage, overridden by the given arguments.
    pub(in crate::capacity) fn usage(arguments: &[&str]) -> Usage {
        UsageCli::parse_from(["tidings"].iter().chain(arguments)).usage
    }

    #[test]
    fn people_are_counted_up_to_all_there_are() {
        for (text, number) in [("1", 1.0), ("2.5k", 2500.0), ("3B", 3e9), ("100M", 1e8)] {
            assert_eq!(count(text), Ok(number));
        }
        assert_eq!(count("many"), Err("`many` is no number; write it as 250000, 250K, 3M or 3B".to_owned()));
        for text in ["", "K", "NaN", "inf", "-1", "1e300B", "é"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_day_of_adr_007_has_twelve_messages_a_second() {
        // §7.2: 10,000 daily active users with 100 messages each.
        let demand = usage(&["--users", "10000", "--active", "1", "--messages", "100", "--peak", "1"]).demand();
        assert_eq!(demand.messages.round(), 12.0);
        assert_eq!(demand.messages_in_a_day, 1e6);
    }
}
