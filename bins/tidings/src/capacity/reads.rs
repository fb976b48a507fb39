//! The reads of a fleet: from which table, how consistent, why, and the price of that decision.

use serde::Serialize;

use super::costs::*;
use super::plan::{MONTH, Processes};
use super::prices::Prices;
use super::usage::{Demand, Usage};

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
    let steady = |table, name, units: f64, why| read(table, name, Eventual, units, units, why);
    let page = demand.connects * usage.chats.min(INBOX_ROWS);
    let members = 1.0 + usage.group_share * (usage.group_size - 1.0).max(0.0);
    let relays: f64 =
        processes.iter().filter(|role| ["ingest", "api"].contains(&role.role)).map(|role| role.processes).sum();
    vec![
        by_users(
            "messages",
            "messages that a device has missed",
            Strong,
            demand.missed * usage.devices * (usage.content + MESSAGE_BYTES) / READ_BYTES,
            "G6: sync returns every visible message",
        ),
        by_users(
            "chat_counters",
            "heads of an inbox",
            Strong,
            demand.connects * usage.chats,
            "G6: an acknowledged message is in the inbox at once",
        ),
        by_users(
            "chat_counters",
            "the head above which no watermark moves",
            Strong,
            demand.watermarks * WATERMARK_READ / 2.0,
            "G7: an old head would refuse a valid ack",
        ),
        steady(
            "chat_counters",
            "unpublished chats, in `dirty-index`",
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
        by_users("chats", "chats of a page of an inbox", Strong, page, "the answer to one's own change shows it"),
        by_users(
            "chat_memberships",
            "memberships of a page of an inbox",
            Strong,
            2.0 * page,
            "G4: a removed member reads nothing more",
        ),
        by_users(
            "chat_memberships",
            "members that get a push, after a cache miss",
            Strong,
            demand.messages * MEMBER_MISSES * (members * MEMBERSHIP_BYTES / 2.0 / READ_BYTES).ceil(),
            "only members receive: the cache is filled with this",
        ),
        by_users(
            "sessions",
            "the session of a connection",
            Strong,
            demand.connects * SESSION_READ,
            "a revoked session connects nowhere",
        ),
        by_users(
            "users",
            "presence: the user, and who may see it",
            Strong,
            demand.transitions * PRESENCE_READ,
            "privacy: a block or a hidden status holds at once",
        ),
        by_users(
            "notices",
            "notices that are due, in `due-index`",
            Eventual,
            demand.notices * EVENTUAL,
            "the claim is conditional, so a stale entry claims nothing",
        ),
        steady(
            "outbox",
            "unpublished events, in `age-index`",
            relays * OUTBOX_SHARDS * EVENTUAL,
            "the relay sweeps every second, so a later sweep finds it",
        ),
    ]
}
