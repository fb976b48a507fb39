use std::sync::Arc;
use std::time::Duration;

use ports::{Clock, HealthCell, StoreError};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Statistics};
use tracing::{debug, info, warn};

use crate::config::{Config, Security};

/// How long one question to the brokers may take, with all its tries (G5).
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// A record's bytes, at the most. Our longest events take a twentieth of it: a chat with all its members, a purge with
/// all its sequences.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// What is asked of a partition at once, and of a broker.
const FETCH_BYTES: usize = 1 << 20;
const FETCH_BYTES_MAX: usize = 8 << 20;
/// What a broker may send at once. It sends one record even if that is longer than what was asked for.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// A name that librdkafka gives to a broker that it is connected to.
const UP: &str = "UP";

/// Why Kafka cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing to connect to.
    #[error("no kafka broker is given")]
    NoBroker,
    /// A setting does not make sense. Its value is not shown: it may be the password.
    #[error("the kafka setting `{0}` cannot be used")]
    Setting(String),
    /// The settings do not go together, or a certificate does not parse.
    #[error("the kafka client cannot be made: {0}")]
    Client(String),
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        Self::unavailable(error)
    }
}

impl From<KafkaError> for OpenError {
    fn from(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, _, key, _) => Self::Setting(key),
            KafkaError::Nul(_) => Self::Client("a setting holds a NUL".to_owned()),
            other => Self::Client(other.to_string()),
        }
    }
}

/// What every client of ours is set to.
pub(crate) fn settings(config: &Config) -> Result<ClientConfig, OpenError> {
    if config.brokers.is_empty() {
        return Err(OpenError::NoBroker);
    }
    let mut settings = ClientConfig::new();
    settings
        .set_log_level(RDKafkaLogLevel::Info)
        .set("bootstrap.servers", config.brokers.join(","))
        .set("client.id", "tidings")
        .set("socket.keepalive.enable", "true")
        // An outage may last, but whoever is back is found soon.
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

/// What a client is set to that reads as a group, or looks at its place.
pub(crate) fn group_settings(config: &Config, group: &str) -> Result<ClientConfig, OpenError> {
    let mut settings = settings(config)?;
    settings
        .set("group.id", config.group(group))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        // A fetch that waits for the next records holds up one that goes on where it was paused.
        .set("fetch.wait.max.ms", "100")
        .set("fetch.message.max.bytes", FETCH_BYTES.to_string())
        .set("fetch.max.bytes", FETCH_BYTES_MAX.to_string())
        .set("receive.message.max.bytes", ANSWER_BYTES_MAX.to_string());
    Ok(settings)
}

/// Whether a consumer says that brokers are away. It tries again by itself.
pub(crate) fn is_away(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve};
    let KafkaError::MessageConsumption(code) = error else { return false };
    matches!(code, AllBrokersDown | BrokerTransportFailure | OperationTimedOut | Resolve)
}

fn trust(settings: &mut ClientConfig, ca_pem: Option<&str>) {
    match ca_pem {
        Some(ca_pem) => settings.set("ssl.ca.pem", ca_pem),
        // Our OpenSSL is linked in and does not know where this machine keeps them.
        None => settings.set("ssl.ca.location", "probe"),
    };
}

/// Listens to what a client says of itself.
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
}

impl ClientContext for Monitor {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            // The library calls experimental what `publisher` stands on, for every producer anew.
            _ if facility == "CONFWARN" => debug!(message, "the kafka client says"),
            RDKafkaLogLevel::Debug => debug!(facility, message, "the kafka client says"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => info!(facility, message, "the kafka client says"),
            // It goes on by itself after all of these, or the call that it fails says so.
            _ => warn!(facility, message, "the kafka client says"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.failed(&format!("{error}: {reason}"));
    }

    fn stats(&self, statistics: Statistics) {
        if statistics.brokers.values().any(|broker| broker.state == UP) {
            self.health.set_ok();
        }
    }
}
