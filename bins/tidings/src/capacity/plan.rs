//! Turns a demand into the resources that carry it: tables, log, Redis, processes and money.

use serde::Serialize;

use super::costs::*;
use super::founding::FoundingEstimate;
use super::limits::{self, Limit};
use super::machine::{MachineSpec, OneMachine};
use super::prices::Prices;
use super::reads::{ReadPlan, reads};
use super::usage::{Demand, Usage};

const HOURS: f64 = 730.0;
pub(super) const MONTH: f64 = HOURS * 3600.0;
const GB: f64 = 1e9;
pub(super) const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// The resources that carry a demand.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CapacityPlan {
    pub(super) usage: Usage,
    pub(super) demand: Demand,
    pub(super) tables: Vec<TablePlan>,
    /// The reads of the tables.
    pub(super) reads: Vec<ReadPlan>,
    pub(super) kafka: KafkaPlan,
    pub(super) redis: RedisPlan,
    pub(super) processes: Vec<Processes>,
    pub(super) network: Network,
    pub(super) dollars_a_month: f64,
    /// The limits of the fleet, the nearest first.
    pub(super) limits: Vec<Limit>,
    pub(super) one_machine: OneMachine,
    pub(super) founding: FoundingEstimate,
}

/// The peak load of one DynamoDB table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TablePlan {
    pub(super) name: &'static str,
    pub(super) write_units: f64,
    pub(super) read_units: f64,
    pub(super) bytes: f64,
    pub(super) dollars_a_month: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct KafkaPlan {
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
    pub(super) partitions: f64,
    pub(super) bytes_kept: f64,
    pub(super) brokers: f64,
    pub(super) dollars_a_month: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct RedisPlan {
    pub(super) bytes: f64,
    pub(super) commands: f64,
    pub(super) shards: f64,
    pub(super) dollars_a_month: f64,
}

/// The processes of one role.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Processes {
    pub(super) role: &'static str,
    pub(super) processes: f64,
    /// Per process.
    pub(super) cores: f64,
    pub(super) memory_gib: f64,
    pub(super) dollars_a_month: f64,
}

/// Traffic to the clients.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Network {
    pub(super) bytes_out: f64,
    pub(super) dollars_a_month: f64,
}

/// Tables with too few requests to change the estimate: those of sign-ups, sign-ins, contacts, reports and failed
/// deliveries.
pub(super) const OTHER_TABLES: [&str; 11] = [
    "user_keys",
    "direct_chats",
    "one_time_codes",
    "dead_letters",
    "requests",
    "contacts",
    "blocks",
    "reports",
    "invitations",
    "passkeys",
    "deletions",
];

/// Computes the resources for a usage.
pub(super) fn plan(usage: &Usage, machine: &MachineSpec, prices: &Prices) -> CapacityPlan {
    let demand = usage.demand();
    let kafka = kafka(usage, &demand, prices);
    let processes = processes(&demand, prices);
    let reads = reads(usage, &demand, &processes, prices);
    let tables = tables(usage, &demand, &reads, prices);
    let gateways = processes[0].processes;
    let redis = redis(usage, &demand, gateways, prices);
    let network = network(usage, &demand, prices);
    let dollars = tables.iter().map(|table| table.dollars_a_month).sum::<f64>()
        + processes.iter().map(|role| role.dollars_a_month).sum::<f64>()
        + kafka.dollars_a_month
        + redis.dollars_a_month
        + network.dollars_a_month;
    CapacityPlan {
        limits: limits::of(usage, &demand, &tables),
        one_machine: machine.carries(usage),
        founding: FoundingEstimate::of(demand.messages, demand.connections),
        dollars_a_month: dollars,
        usage: usage.clone(),
        demand,
        tables,
        reads,
        kafka,
        redis,
        processes,
        network,
    }
}

fn tables(usage: &Usage, demand: &Demand, reads: &[ReadPlan], prices: &Prices) -> Vec<TablePlan> {
    let message_bytes = usage.content + MESSAGE_BYTES;
    let (chats, kept) = (usage.users * usage.chats, demand.messages_in_a_day * usage.retention);
    // Most chats are idle when a message arrives, so each message is assumed to need its own commit. A service that has
    // run for long purges as many messages as it commits.
    let (commits, purged) = (demand.entries(), demand.messages * usage.expiring);
    let kept_updates = kept * usage.updates;
    let message_write = MESSAGE_ROW * kib(message_bytes) + MESSAGE_INDEX;
    let table = |name, write_units: f64, bytes: f64| {
        let of_table = || reads.iter().filter(|read| read.table == name);
        // A sum of nothing is -0, which would be printed.
        let read_units = 0.0 + of_table().map(|read| read.units).sum::<f64>();
        let dollars_a_month = write_units / usage.peak * MONTH / 1e6 * prices.write_units
            + of_table().map(|read| read.dollars_a_month).sum::<f64>()
            + bytes / GB * prices.table_gb;
        TablePlan { name, write_units, read_units, bytes, dollars_a_month }
    };
    vec![
        table(
            "messages",
            // An update rewrites the item of its message, and leaves the index as it is.
            (demand.messages + purged) * message_write + demand.updates * MESSAGE_ROW * kib(message_bytes),
            // The index stores the keys a second time.
            kept * (message_bytes + 2.0 * ITEM_BYTES + 80.0),
        ),
        table("message_locations", demand.messages * MESSAGE_LOCATION, kept * (LOCATION_BYTES + ITEM_BYTES)),
        table(
            "chat_counters",
            commits * (COMMIT_COUNTER + PUBLISHED_MARK + DIRTY_INDEX),
            // A chat has one counter, but this counts one per member, which is on the safe side.
            chats * (MESSAGE_BYTES + ITEM_BYTES),
        ),
        table(
            "idempotency_keys",
            commits * MESSAGE_KEY,
            demand.messages_in_a_day * (1.0 + usage.updates) * 7.0 * (SEND_KEY_BYTES + ITEM_BYTES),
        ),
        table("updates", demand.updates * UPDATE_ROW, kept_updates * (UPDATE_BYTES + ITEM_BYTES)),
        // Each update is counted as the first reaction of a member, which costs most.
        table("reactions", demand.updates * REACTION_ROW, kept_updates * (REACTION_BYTES + ITEM_BYTES)),
        table("chats", 0.0, chats * (MEMBERSHIP_BYTES / 2.0 + ITEM_BYTES)),
        table("chat_memberships", commits * COMMIT_MEMBER, chats * (MEMBERSHIP_BYTES / 2.0 + ITEM_BYTES)),
        table("delivery_state", demand.watermarks * WATERMARK_WRITE, chats * (MEMBERSHIP_BYTES / 2.0 + ITEM_BYTES)),
        table("sessions", demand.connections / 3600.0 * SESSION_WRITE, 0.0),
        table("users", demand.transitions * LAST_SEEN_WRITE, usage.users * (USER_BYTES + 4.0 * ITEM_BYTES)),
        table("notices", demand.notices * (NOTICE_ROW + NOTICE_INDEX), 0.0),
        table("push_devices", 0.0, 0.0),
        table("restrictions", 0.0, 0.0),
        table(
            "expirations",
            // A first reaction writes the expiration of its message again.
            purged * EXPIRATION_WRITE + demand.updates * usage.expiring * REACTED_EXPIRATION,
            kept * usage.expiring * 2.0 * ITEM_BYTES,
        ),
        table("outbox", purged * PURGE_EVENT, 0.0),
    ]
}

fn kafka(usage: &Usage, demand: &Demand, prices: &Prices) -> KafkaPlan {
    let record = usage.content + RECORD_BYTES;
    let bytes_in = demand.entries() * record;
    let bytes_kept = demand.messages_in_a_day * (1.0 + usage.updates) * record * LOG_DAYS * LOG_COPIES;
    let brokers = (bytes_in * LOG_COPIES / BROKER_BYTES).ceil().max(3.0);
    KafkaPlan {
        bytes_in,
        bytes_out: bytes_in * LOG_GROUPS,
        partitions: partitions(demand),
        bytes_kept,
        brokers,
        dollars_a_month: brokers * HOURS * prices.broker_hour + bytes_kept / GB * prices.broker_gb,
    }
}

/// Partitions of a topic, enough to spread the events over the consumers.
fn partitions(demand: &Demand) -> f64 {
    (demand.entries() / (PARTITION_EVENTS * HEADROOM)).ceil().max(LOG_PARTITIONS)
}

fn redis(usage: &Usage, demand: &Demand, gateways: f64, prices: &Prices) -> RedisPlan {
    // The same amount again for members and limits.
    let bytes = 2.0 * demand.connections * ROUTE_BYTES;
    // A message goes once to each gateway that has a recipient; a presence change goes once to each gateway, in a
    // batch.
    let online = demand.pushes / demand.entries().max(f64::MIN_POSITIVE);
    let reached = demand.entries() * online.min(gateways);
    let announced = if usage.watchers > 0.0 { gateways * 5.0 } else { 0.0 };
    let commands = demand.connections / BEAT_SECONDS * BEAT_COMMANDS
        + demand.connects * CONNECT_COMMANDS
        + demand.entries() * SEND_COMMANDS
        + reached
        + announced;
    let by_commands = commands / (SHARD_COMMANDS * HEADROOM);
    // A node of the default type has 6.4 GB, three quarters of which are used.
    let shards = by_commands.max(bytes / 4.8e9).ceil().max(1.0);
    RedisPlan { bytes, commands, shards, dollars_a_month: 2.0 * shards * HOURS * prices.redis_hour }
}

/// At least two of each role, in two zones.
fn processes(demand: &Demand, prices: &Prices) -> Vec<Processes> {
    let role = |role, cores_needed: f64, others: f64, memory_bytes: f64| {
        let processes = (cores_needed / (2.0 * HEADROOM)).ceil().max(others.ceil()).max(2.0);
        let cores = if cores_needed / HEADROOM / processes <= 1.0 { 1.0 } else { 2.0 };
        // A quarter of a GiB for the process itself, and twice the state to leave room for work in flight.
        let needed = 0.25 + 2.0 * memory_bytes / processes / GIB;
        let memory_gib = needed.ceil().max(cores);
        let hour = cores * prices.core_hour + memory_gib * prices.memory_hour;
        Processes { role, processes, cores, memory_gib, dollars_a_month: processes * hour * HOURS }
    };
    vec![
        role(
            "gateway",
            demand.pushes * PUSH_SECONDS + demand.connects * HANDSHAKE_SECONDS + demand.entries() * SEND_SECONDS,
            demand.connections / GATEWAY_CONNECTIONS,
            demand.connections * CONNECTION_BYTES,
        ),
        role("ingest", (demand.entries() + demand.watermarks) * COMMIT_SECONDS, 0.0, 0.0),
        role("fanout", demand.entries() * EVENT_SECONDS + demand.pushes * PUSH_SECONDS, 0.0, 0.0),
        role(
            "api",
            (demand.connects + demand.notices) * PAGE_SECONDS,
            demand.transitions / (ANNOUNCED * HEADROOM),
            0.0,
        ),
    ]
}

fn network(usage: &Usage, demand: &Demand, prices: &Prices) -> Network {
    let deliveries = demand.pushes + demand.missed * usage.devices;
    let bytes_out = deliveries * (usage.content + FRAME_BYTES);
    Network { bytes_out, dollars_a_month: bytes_out / usage.peak * MONTH / GB * prices.egress_gb }
}

/// Write units, of 1 KiB each.
pub(super) fn kib(bytes: f64) -> f64 {
    (bytes / 1024.0).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::capacity::machine::tests::machine;
    use crate::capacity::prices::tests::prices;
    use crate::capacity::reads::Consistency;
    use crate::capacity::usage::tests::usage;

    fn planned(arguments: &[&str]) -> CapacityPlan {
        plan(&usage(arguments), &machine(), &prices())
    }

    /// The write units of a first reaction, as `updates_cost_the_planned_units` measures them.
    const REACTION_UNITS: f64 = 12.0;

    fn units(plan: &CapacityPlan) -> f64 {
        plan.tables.iter().map(|table| table.write_units).sum()
    }

    #[test]
    fn a_message_in_an_idle_chat_costs_the_metered_units() {
        // Without reads, connections and notifications, only the commit and the published mark remain.
        let alone = [
            ["--updates", "0"],
            ["--receipts", "0"],
            ["--connects", "0"],
            ["--notified", "0"],
            ["--online", "0"],
            ["--content", "50"],
        ];
        let alone = alone.as_flattened();
        let plan = planned(alone);
        let counted = 11.0 + PUBLISHED_MARK + DIRTY_INDEX;
        assert!((units(&plan) / plan.demand.messages - counted).abs() < 1e-9);
        // Above 1 KiB the row costs twice as much.
        let plan = planned(&[&alone[..10], &["--content", "1000"]].concat());
        assert!((units(&plan) / plan.demand.messages - counted - MESSAGE_ROW).abs() < 1e-9);
        // A message with a lifetime is written, and later deleted: the row with its entry in the index, the expiration
        // twice, and the event of the purge.
        let plan = planned(&[alone, &["--expiring", "1"]].concat());
        let purged = MESSAGE_ROW + MESSAGE_INDEX + EXPIRATION_WRITE + PURGE_EVENT;
        assert!((units(&plan) / plan.demand.messages - counted - purged).abs() < 1e-9);
        // An update for each message: a first reaction.
        let plan = planned(&[&["--updates", "1"], &alone[2..]].concat());
        let update = REACTION_UNITS + PUBLISHED_MARK + DIRTY_INDEX;
        assert!((units(&plan) / plan.demand.messages - counted - update).abs() < 1e-9);
    }

    #[test]
    fn every_table_of_the_schema_is_in_the_plan() {
        let plan = planned(&[]);
        let planned: BTreeSet<&str> = plan.tables.iter().map(|table| table.name).chain(OTHER_TABLES).collect();
        assert_eq!(planned, BTreeSet::from(dynamodb::schema::Table::ALL.map(|table| table.name())));
        let of_no_table = plan.reads.iter().find(|read| plan.tables.iter().all(|table| table.name != read.table));
        assert!(of_no_table.is_none(), "{of_no_table:?}");
    }

    #[test]
    fn strong_reads_cost_twice_as_much_as_eventual_ones() {
        let plan = planned(&[]);
        let month = |pick: fn(&ReadPlan) -> f64| plan.reads.iter().map(pick).sum::<f64>();
        assert!(month(|read| read.dollars_a_month) > month(|read| read.decision_dollars_a_month));
        for read in &plan.reads {
            let share = read.decision_dollars_a_month / read.dollars_a_month;
            let expected = if read.consistency == Consistency::Strong { 0.5 } else { 1.0 };
            assert!((share - expected).abs() < 1e-9, "{read:?}");
        }
    }

    #[test]
    fn connections_cost_redis_a_fifteenth_of_the_estimate_in_adr_010() {
        let plan = planned(&[
            "--users",
            "100K",
            "--active",
            "1",
            "--online",
            "1",
            "--messages",
            "0",
            "--connects",
            "0",
            "--watchers",
            "0",
        ]);
        assert_eq!(plan.founding.redis_commands, 150_000.0);
        assert_eq!(plan.redis.commands.round(), 9_900.0);
    }

    #[test]
    fn more_users_never_cost_less() {
        let mut before = planned(&["--users", "1"]);
        for power in 1..=44 {
            let users = 10f64.powf(f64::from(power) / 4.0).to_string();
            let plan = planned(&["--users", &users]);
            let figures = |plan: &CapacityPlan| {
                let mut figures =
                    vec![plan.dollars_a_month, plan.kafka.brokers, plan.kafka.partitions, plan.redis.shards];
                figures.extend([plan.redis.commands, plan.redis.bytes, plan.kafka.bytes_kept, plan.network.bytes_out]);
                figures.extend(plan.tables.iter().flat_map(|table| [table.write_units, table.read_units, table.bytes]));
                figures.extend(plan.processes.iter().map(|role| role.processes));
                figures
            };
            for (less, more) in figures(&before).into_iter().zip(figures(&plan)) {
                assert!(more >= less, "{users}: {less} {more}");
                assert!(more.is_finite());
            }
            before = plan;
        }
    }

    #[test]
    fn a_usage_without_activity_yields_finite_numbers() {
        let nobody = ["--active", "0", "--online", "0", "--messages", "0", "--connects", "0", "--retention", "0"];
        let json = serde_json::to_string(&planned(&nobody)).unwrap();
        // A value that is not finite would be `null` in JSON; no other value would.
        assert!(!json.contains("null"), "{json}");
        let most = ["--users", "100B", "--active", "1", "--online", "1", "--messages", "1e6", "--peak", "1000"];
        let json = serde_json::to_string(&planned(&most)).unwrap();
        assert!(!json.contains("null"), "{json}");
    }
}
