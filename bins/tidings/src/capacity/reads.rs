//! The reads of a fleet: from which table, how consistent, why, and the price of that decision.

use serde::Serialize;

use super::costs::*;
use super::plan::{MONTH, Processes};
use super::prices::Prices;
use super::usage::{DAY, Demand, Usage};

/// Whether a read sees every earlier write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Consistency {
    /// It does, for twice the units of an eventual read.
    Strong,
    /// It may miss the last moment. Reads of an index are always eventual.
    Eventual,
}

impl Consistency {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Strong => "strong",
            Self::Eventual => "eventual",
        }
    }
}

/// One kind of read, at the peak.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ReadPlan {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) consistency: Consistency,
    pub(super) units: f64,
    pub(super) dollars_a_month: f64,
    /// The price of the decision: the extra cost of a strong read, or the savings of an eventual one.
    pub(super) decision_dollars_a_month: f64,
    pub(super) why: &'static str,
}

/// All reads of a usage.
pub(super) fn reads(usage: &Usage, demand: &Demand, processes: &[Processes], prices: &Prices) -> Vec<ReadPlan> {
    use Consistency::{Eventual, Strong};
    let read = |table, name, consistency, units: f64, mean: f64, why| {
        let dollars_a_month = mean * MONTH / 1e6 * prices.read_units;
        // An eventual read takes half the units of a strong one.
        let decision_dollars_a_month = match consistency {
            Strong => dollars_a_month * (1.0 - EVENTUAL),
            Eventual => dollars_a_month * (1.0 / EVENTUAL - 1.0),
        };
        ReadPlan { table, name, consistency, units, dollars_a_month, decision_dollars_a_month, why }
    };
    let by_users =
        |table, name, consistency, units: f64, why| read(table, name, consistency, units, units / usage.peak, why);
    let steady = |table, name, consistency, units: f64, why| read(table, name, consistency, units, units, why);
    let noticed = |table, name, units: f64| {
        let why = "what was read, muted or left meanwhile is not notified";
        by_users(table, name, Strong, demand.notices * units, why)
    };
    let page = demand.connects * usage.chats.min(INBOX_ROWS);
    let people = (1.0 - usage.group_share) + usage.group_share * (usage.group_size - 1.0).min(INBOX_PEOPLE);
    let members = 1.0 + usage.group_share * (usage.group_size - 1.0).max(0.0);
    let member_list = (members * MEMBERSHIP_BYTES / 2.0 / READ_BYTES).ceil();
    let message_units = |count: f64| (count * (usage.content + MESSAGE_BYTES) / READ_BYTES).ceil();
    let histories = demand.connects * HISTORY_PAGES;
    let missed_updates = demand.missed * usage.updates * usage.devices;
    let before_update = |table, name, units: f64| {
        let why = "an update is decided on the state that its commit replaces";
        by_users(table, name, Strong, demand.updates * units, why)
    };
    let of_roles = |roles: &[&str]| -> f64 {
        processes.iter().filter(|role| roles.contains(&role.role)).map(|role| role.processes).sum()
    };
    let (relays, purgers) = (of_roles(&["ingest", "api"]), of_roles(&["ingest"]));
    // Each api process walks over all chats once a day if the service has a retention: then all messages expire.
    let walks = if usage.expiring >= 1.0 { usage.users * usage.chats / DAY * of_roles(&["api"]) } else { 0.0 };
    let retained = |table| {
        let why = "once a day: the read of a sync, which is strong";
        steady(table, "the oldest message of each chat, for retention", Strong, walks * RETENTION_READ, why)
    };
    let all = vec![
        by_users(
            "messages",
            "messages that a device has missed",
            Strong,
            demand.missed * usage.devices * (usage.content + MESSAGE_BYTES) / READ_BYTES,
            "G6: sync returns every visible message",
        ),
        by_users(
            "updates",
            "updates that a device has missed",
            Strong,
            missed_updates * UPDATE_BYTES / READ_BYTES,
            "G6: sync returns every update",
        ),
        by_users(
            "messages",
            "messages of these updates",
            Strong,
            missed_updates * MESSAGE_READ,
            "G6: sync returns the current state",
        ),
        before_update("messages", "the message of an update", message_units(1.0)),
        before_update("chat_counters", "the head that an update moves", UPDATE_READ),
        before_update("chat_memberships", "the role of a member who updates a message", UPDATE_READ),
        before_update("reactions", "the reactions of a member who reacts", UPDATE_READ),
        by_users(
            "reactions",
            "the caller's reactions on a page of history",
            Strong,
            histories * HISTORY_ROWS * usage.updates.min(1.0) * UPDATE_READ,
            "G6: a member sees what the acknowledgement said",
        ),
        by_users(
            "messages",
            "pages of history",
            Strong,
            histories * message_units(HISTORY_ROWS),
            "G6: an acknowledged message is in every page at once",
        ),
        by_users(
            "messages",
            "unread messages of an inbox, which are counted",
            Strong,
            page * UNREAD_CHATS * UNREAD_READ,
            "G10: the count agrees with the history",
        ),
        by_users(
            "messages",
            "a message at its location",
            Strong,
            demand.lookups * MESSAGE_READ,
            "G6, G11: as in history",
        ),
        by_users(
            "message_locations",
            "the location of a message, by its id",
            Strong,
            demand.lookups * LOCATION_READ,
            "an acknowledged message is found by its id at once",
        ),
        noticed("messages", "messages of a notice: its text and its count", message_units(NOTICE_ROWS) + UNREAD_READ),
        by_users(
            "chat_counters",
            "heads of an inbox",
            Strong,
            demand.connects * usage.chats,
            "G6: an acknowledged message is in the inbox at once",
        ),
        by_users(
            "chat_counters",
            "heads of a page of an inbox, and of its counts",
            Strong,
            page * INBOX_HEADS,
            "G10: preview and count agree with the history",
        ),
        by_users(
            "chat_counters",
            "the head of a page of history",
            Strong,
            histories,
            "a client compares it with what it has",
        ),
        by_users(
            "chat_counters",
            "the head above which no watermark moves",
            Strong,
            demand.watermarks * WATERMARK_READ / 2.0,
            "G7: an old head would refuse a valid ack",
        ),
        noticed("chat_counters", "heads for the text and the count of a notice", NOTICE_HEADS),
        steady(
            "chat_counters",
            "unpublished chats, in `dirty-index`",
            Eventual,
            relays * DIRTY_SHARDS * EVENTUAL,
            "the relay sweeps every second, so a later sweep finds it",
        ),
        by_users(
            "delivery_state",
            "the watermark before it moves",
            Strong,
            demand.watermarks * WATERMARK_READ / 2.0,
            "G7: it never moves back",
        ),
        by_users(
            "delivery_state",
            "the chats of a user",
            Strong,
            demand.connects * usage.chats * MEMBERSHIP_BYTES / 2.0 / READ_BYTES,
            "G6: a chat that somebody was added to is listed at once",
        ),
        by_users(
            "delivery_state",
            "watermarks of a page of an inbox, or of history",
            Strong,
            page + histories * members,
            "G10: status and count follow an ack at once",
        ),
        noticed("delivery_state", "watermarks for a notice", 1.0),
        by_users("chats", "chats of a page of an inbox", Strong, page, "the answer to one's own change shows it"),
        noticed("chats", "the chat of a notice", 1.0),
        steady(
            "chats",
            "all chats, for the retention",
            Eventual,
            walks * (MEMBERSHIP_BYTES / 2.0 + ITEM_BYTES) / READ_BYTES * EVENTUAL,
            "ingest limits new messages, so a new chat may be missed",
        ),
        retained("chat_counters"),
        retained("messages"),
        by_users(
            "chat_memberships",
            "memberships of a page of an inbox",
            Strong,
            2.0 * page,
            "G4: a removed member reads nothing more",
        ),
        by_users(
            "chat_memberships",
            "who reads history, or a message by its id",
            Strong,
            histories * (1.0 + member_list) + demand.lookups,
            "G4: a removed member reads nothing more",
        ),
        by_users(
            "chat_memberships",
            "members that get a push, after a cache miss",
            Strong,
            demand.messages * MEMBER_MISSES * member_list,
            "only members receive: the cache is filled with this",
        ),
        by_users(
            "chat_memberships",
            "members of a chat with a new notice",
            Strong,
            demand.messages.min(demand.notices) * member_list,
            "a removed member is not notified",
        ),
        noticed("chat_memberships", "the membership for a notice", 1.0),
        by_users(
            "push_devices",
            "devices of offline members, and of a notice",
            Strong,
            (demand.missed + demand.notices) * DEVICES_READ,
            "a device that has signed out is not notified",
        ),
        by_users(
            "sessions",
            "the session of a connection",
            Strong,
            demand.connects * SESSION_READ,
            "a revoked session connects nowhere",
        ),
        steady(
            "restrictions",
            "changed restrictions of users",
            Strong,
            relays * FEED_READ,
            "a suspension holds within a second, everywhere",
        ),
        by_users(
            "users",
            "presence: the user, and who may see it",
            Strong,
            demand.transitions * PRESENCE_READ,
            "privacy: a block or a hidden status holds at once",
        ),
        by_users("users", "people of a page of an inbox", Strong, page * people, "a deleted account has no name"),
        noticed("users", "the sender that a notice names", 1.0),
        by_users(
            "notices",
            "notices that are due, in `due-index`",
            Eventual,
            demand.notices * EVENTUAL,
            "the claim is conditional, so a stale entry claims nothing",
        ),
        steady(
            "expirations",
            "messages that have expired",
            Strong,
            purgers * PURGE_SHARDS / PURGE_SECONDS,
            "a purge repeats at once: a stale page would be its last one",
        ),
        steady(
            "outbox",
            "unpublished events, in `age-index`",
            Eventual,
            relays * OUTBOX_SHARDS * EVENTUAL,
            "the relay sweeps every second, so a later sweep finds it",
        ),
    ];
    // A kind of read that this usage does not have.
    all.into_iter().filter(|read| read.units > 0.0).collect()
}

#[cfg(test)]
mod tests;
