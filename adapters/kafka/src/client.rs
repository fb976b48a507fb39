use std::sync::Arc;
use std::time::Duration;

use ports::{Clock, EngineHealth, HealthCell, StoreError};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Statistics};
use tracing::{debug, info, warn};

use crate::config::{Config, Security};

/// Timeout of one request to the brokers, including retries (G5).
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest record, in bytes. The longest events take a twentieth of it: a chat with all its members, a purge with all
/// its sequences.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// Fetch limits in bytes: per partition, and per broker.
const FETCH_BYTES: usize = 1 << 20;
const FETCH_BYTES_MAX: usize = 8 << 20;
/// Largest broker response. A broker returns at least one record, even if that record exceeds the fetch limit.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// The state that librdkafka reports for a connected broker.
const UP: &str = "UP";

/// Why Kafka cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum KafkaOpenError {
    /// The list of brokers is empty.
    #[error("no kafka broker is given")]
    NoBroker,
    /// A setting is invalid. Its value is not shown: it may be the password.
    #[error("the kafka setting `{0}` cannot be used")]
    Setting(String),
    /// The settings contradict each other, or a certificate does not parse.
    #[error("the kafka client cannot be created: {0}")]
    Client(String),
}

impl From<KafkaOpenError> for StoreError {
    fn from(error: KafkaOpenError) -> Self {
        Self::unavailable(error)
    }
}

impl From<KafkaError> for KafkaOpenError {
    fn from(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, _, key, _) => Self::Setting(key),
            KafkaError::Nul(_) => Self::Client("a setting holds a NUL".to_owned()),
            other => Self::Client(other.to_string()),
        }
    }
}

/// Settings that all clients share.
pub(crate) fn settings(config: &Config) -> Result<ClientConfig, KafkaOpenError> {
    if config.brokers.is_empty() {
        return Err(KafkaOpenError::NoBroker);
    }
    let mut settings = ClientConfig::new();
    settings
        .set_log_level(RDKafkaLogLevel::Info)
        .set("bootstrap.servers", config.brokers.join(","))
        .set("client.id", "tidings")
        .set("socket.keepalive.enable", "true")
        // Reconnect within a second after an outage, however long it lasted.
        .set("reconnect.backoff.max.ms", "1000")
        .set("enable.metrics.push", "false");
    match &config.security {
        Security::Plaintext => {}
        Security::Tls { ca_pem } => {
            settings.set("security.protocol", "SSL");
            trust(&mut settings, ca_pem.as_deref());
        }
        Security::Scram { ca_pem, username, password } => {
            settings
                .set("security.protocol", "SASL_SSL")
                .set("sasl.mechanism", "SCRAM-SHA-512")
                .set("sasl.username", username)
                .set("sasl.password", password.expose());
            trust(&mut settings, ca_pem.as_deref());
        }
    }
    Ok(settings)
}

/// Settings of clients that consume as a group, or that read the group's offsets.
pub(crate) fn group_settings(config: &Config, group: &str) -> Result<ClientConfig, KafkaOpenError> {
    let mut settings = settings(config)?;
    settings
        .set("group.id", config.group(group))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        // A pending long poll would delay the fetch that follows a resume.
        .set("fetch.wait.max.ms", "100")
        .set("fetch.message.max.bytes", FETCH_BYTES.to_string())
        .set("fetch.max.bytes", FETCH_BYTES_MAX.to_string())
        .set("receive.message.max.bytes", ANSWER_BYTES_MAX.to_string());
    Ok(settings)
}

/// Whether the error means that brokers are unreachable. The consumer then reconnects automatically.
pub(crate) fn is_unavailable(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve};
    let KafkaError::MessageConsumption(code) = error else { return false };
    matches!(code, AllBrokersDown | BrokerTransportFailure | OperationTimedOut | Resolve)
}

fn trust(settings: &mut ClientConfig, ca_pem: Option<&str>) {
    match ca_pem {
        Some(ca_pem) => settings.set("ssl.ca.pem", ca_pem),
        // OpenSSL is linked statically and does not know where this machine keeps its CA certificates.
        None => settings.set("ssl.ca.location", "probe"),
    };
}

/// Receives the log lines, errors and statistics of a client.
#[derive(Clone)]
pub(crate) struct Monitor {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) health: Arc<HealthCell>,
}

impl Monitor {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, health: Arc::new(HealthCell::new()) }
    }

    pub(crate) fn failed(&self, reason: &str) {
        self.health.set_failing(self.clock.now(), reason);
    }

    /// Records a failed request. If a connection has reported a reason, such as a refused certificate, that one says more.
    pub(crate) fn request_failed(&self, reason: &str) {
        if matches!(self.health.get(), EngineHealth::Ok) {
            self.failed(reason);
        }
    }
}

impl ClientContext for Monitor {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            // librdkafka warns with every new producer that the gapless guarantee is experimental; `publisher` relies
            // on it.
            _ if facility == "CONFWARN" => debug!(message, "kafka client log"),
            RDKafkaLogLevel::Debug => debug!(facility, message, "kafka client log"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => info!(facility, message, "kafka client log"),
            // librdkafka recovers from all of these, or the call that fails returns the error.
            _ => warn!(facility, message, "kafka client log"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // This error only repeats that no connection is left.
            Some(RDKafkaErrorCode::AllBrokersDown) => self.request_failed(&format!("{error}: {reason}")),
            _ => self.failed(&format!("{error}: {reason}")),
        }
    }

    fn stats(&self, statistics: Statistics) {
        if statistics.brokers.values().any(|broker| broker.state == UP) {
            self.health.set_ok();
        }
    }
}
