/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name that it is recorded under.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// The labels that distinguish its series.
    pub labels: &'static [Label],
    /// The part of the service that records it.
    pub part: Part,
    /// Its meaning, in one sentence.
    pub meaning: &'static str,
    /// The first release that has it.
    pub since: &'static str,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows, and restarts from 0 with each process.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts observations up to each bound.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The Prometheus name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// From 0 to 1.
    Ratio,
    /// The things that the name counts.
    Count,
}

impl Unit {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
            Self::Count => "count",
        }
    }
}

/// A label, and the values that it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its possible values.
    pub values: LabelValues,
}

/// The values of a label. All sets are closed: none contains names chosen by users or clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelValues {
    /// A fixed list.
    Listed(&'static [&'static str]),
    /// Route templates: those of the OpenAPI document and of the pages, and `none` for a request that matches no route.
    Routes,
    /// The release version.
    Version,
}

/// The part of the service that records a metric. It determines which processes expose the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The process itself.
    Process,
    /// The connection plane.
    Gateway,
    /// The durability plane.
    Ingest,
    /// The delivery plane.
    Fanout,
    /// The REST API.
    Api,
    /// Presence of users.
    Presence,
    /// Notifications and the application's webhook.
    Notify,
    /// The purge of expired messages.
    Purge,
    /// The embedded store of one machine.
    Store,
    /// The relay, which publishes committed events of a fleet's store to the log.
    Relay,
    /// DynamoDB, the store of a fleet.
    Dynamodb,
    /// Kafka, the log of a fleet.
    Kafka,
    /// Redis, the shared state that a fleet can lose.
    Redis,
    /// Calls between the processes of a fleet.
    Rpc,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Process,
        Self::Gateway,
        Self::Ingest,
        Self::Fanout,
        Self::Api,
        Self::Presence,
        Self::Notify,
        Self::Purge,
        Self::Store,
        Self::Relay,
        Self::Dynamodb,
        Self::Kafka,
        Self::Redis,
        Self::Rpc,
    ];

    /// Its name, as the reference page shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Gateway => "gateway",
            Self::Ingest => "ingest",
            Self::Fanout => "fanout",
            Self::Api => "api",
            Self::Presence => "presence",
            Self::Notify => "notify",
            Self::Purge => "purge",
            Self::Store => "store",
            Self::Relay => "relay",
            Self::Dynamodb => "dynamodb",
            Self::Kafka => "kafka",
            Self::Redis => "redis",
            Self::Rpc => "rpc",
        }
    }

    /// The processes that expose its metrics.
    pub fn processes(self) -> &'static str {
        match self {
            Self::Process => "every process",
            Self::Gateway => "one machine; in a fleet the role `gateway`",
            Self::Ingest | Self::Purge => "one machine; in a fleet the role `ingest`",
            Self::Fanout => "one machine; in a fleet the role `fanout`",
            Self::Api | Self::Presence | Self::Notify => "one machine; in a fleet the role `api`",
            Self::Store => "one machine",
            Self::Relay => "in a fleet the roles `ingest` and `api`",
            Self::Dynamodb | Self::Kafka => "in a fleet every role but `gateway`",
            Self::Redis | Self::Rpc => "in a fleet every process",
        }
    }
}

impl Metric {
    /// The unit of its values; of a histogram, the unit of its observations.
    pub fn unit(&self) -> Unit {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match name.rsplit('_').next() {
            Some("seconds") => Unit::Seconds,
            Some("bytes") => Unit::Bytes,
            Some("ratio") => Unit::Ratio,
            _ => Unit::Count,
        }
    }

    /// Whether its values are timestamps: seconds since 1970.
    pub fn is_moment(&self) -> bool {
        self.name.ends_with("_time_seconds") || self.name.ends_with("_expires_seconds")
    }

    pub(crate) const fn by(self, labels: &'static [Label]) -> Self {
        Self { labels, ..self }
    }
}

pub(crate) const fn counter(name: &'static str, part: Part, meaning: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels: &[], part, meaning, since: FIRST }
}

pub(crate) const fn gauge(name: &'static str, part: Part, meaning: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels: &[], part, meaning, since: FIRST }
}

pub(crate) const fn histogram(name: &'static str, part: Part, bounds: &'static [f64], meaning: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram(bounds), labels: &[], part, meaning, since: FIRST }
}

pub(crate) const fn label(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: LabelValues::Listed(values) }
}

const FIRST: &str = "0.1.0";

/// Seconds of a latency that a client notices. The range runs from a fraction of one group fsync to the deadline of a
/// send; twice a group fsync is the bar for an acknowledgement.
pub(crate) const LATENCY: &[f64] =
    &[0.000_1, 0.000_3, 0.000_6, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Seconds from commit to delivery: from an immediate push to a delay after an outage.
pub(crate) const DELAY: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0];
/// Seconds of background work.
pub(crate) const WORK: &[f64] = &[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// Batch sizes.
pub(crate) const BATCH: &[f64] = &[1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0];
