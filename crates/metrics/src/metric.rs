/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// What it is recorded under.
    pub name: &'static str,
    /// How its values behave.
    pub kind: Kind,
    /// What tells its series apart.
    pub labels: &'static [Label],
    /// Who records it.
    pub part: Part,
    /// What it says, in a sentence.
    pub meaning: &'static str,
    /// The first release that has it.
    pub since: &'static str,
}

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows, and begins anew with each process.
    Counter,
    /// A level.
    Gauge,
    /// How many observations were up to each bound.
    Histogram(&'static [f64]),
}

impl Kind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// What a value is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// From 0 to 1.
    Ratio,
    /// Whatever the name counts.
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
    /// What it is called.
    pub name: &'static str,
    /// What it can be.
    pub values: Values,
}

/// The values of a label. All sets are closed: what users and clients name is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// These.
    Listed(&'static [&'static str]),
    /// Templates of routes: those of the OpenAPI document, of the pages, and `none` for what matches no route.
    Routes,
    /// The release.
    Version,
}

/// Which part of the service records a metric, and so in which processes it is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The process itself.
    Process,
    /// Connection plane.
    Gateway,
    /// Durability plane.
    Ingest,
    /// Delivery plane.
    Fanout,
    /// REST.
    Api,
    /// Who is online.
    Presence,
    /// Notifications and the application's webhook.
    Notify,
    /// Whoever takes away what has expired.
    Purge,
    /// The store of one machine.
    Store,
    /// What a fleet brings from the store into the log.
    Relay,
    /// The store of a fleet.
    Dynamodb,
    /// The log of a fleet.
    Kafka,
    /// What a fleet shares and may lose.
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

    /// Its name.
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

    /// Which processes have it.
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
    /// What its values, or those of its observations, are measured in.
    pub fn unit(&self) -> Unit {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match name.rsplit('_').next() {
            Some("seconds") => Unit::Seconds,
            Some("bytes") => Unit::Bytes,
            Some("ratio") => Unit::Ratio,
            _ => Unit::Count,
        }
    }

    /// Whether its values are moments: seconds since 1970.
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
    Label { name, values: Values::Listed(values) }
}

const FIRST: &str = "0.1.0";

/// Seconds that somebody waits: from a part of one group fsync, over twice of it, which is the bar for an
/// acknowledgement, to the deadline of a send.
pub(crate) const LATENCY: &[f64] =
    &[0.000_1, 0.000_3, 0.000_6, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Seconds that an event is on its way: pushed at once, or after an outage.
pub(crate) const DELAY: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0];
/// Seconds of work that nobody waits for.
pub(crate) const WORK: &[f64] = &[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// How many are done at once.
pub(crate) const BATCH: &[f64] = &[1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0];
