use domain::Secret;
use std::time::Duration;

use crate::topics::Topic;

/// Connection to Kafka, credentials, and buffer limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bootstrap brokers, each `HOST:PORT`; clients discover the other brokers from them.
    pub brokers: Vec<String>,
    /// Prefix of the names of topics and groups, so that several fleets can share a cluster.
    pub topic_prefix: String,
    /// Encryption and authentication of broker connections.
    pub security: Security,
    /// Deadline of one publish call.
    pub publish_timeout: Duration,
    /// Largest number of records in a consumer's buffer. When it is full, the consumer pauses fetching.
    pub buffer_len_max: usize,
    /// Likewise in bytes; the buffer may exceed it by one record.
    pub buffer_bytes_max: usize,
}

/// Encryption and authentication of broker connections. Broker certificates are verified against a CA certificate in
/// PEM, or against the system's trust store if none is given.
#[derive(Clone, Debug)]
pub enum Security {
    /// Unencrypted, for a private network.
    Plaintext,
    /// TLS.
    Tls {
        /// The CA certificate for the brokers.
        ca_pem: Option<String>,
    },
    /// TLS, with SCRAM-SHA-512 authentication.
    Scram {
        /// The CA certificate for the brokers.
        ca_pem: Option<String>,
        /// The user name.
        username: String,
        /// Its password.
        password: Secret,
    },
}

impl Config {
    /// Default limits for the given brokers, without encryption.
    pub fn new(brokers: Vec<String>) -> Self {
        Self {
            brokers,
            topic_prefix: String::new(),
            security: Security::Plaintext,
            publish_timeout: Duration::from_secs(4),
            buffer_len_max: 2048,
            buffer_bytes_max: 4 << 20,
        }
    }

    /// The full name of a topic, with its prefix.
    pub fn topic(&self, topic: Topic) -> String {
        format!("{}{}", self.topic_prefix, topic.name())
    }

    /// The group id in Kafka, with its prefix.
    pub fn group(&self, group: &str) -> String {
        format!("{}tidings.{group}", self.topic_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_a_password() {
        let password = "hunter2".to_owned().into();
        let security = Security::Scram { ca_pem: None, username: "alice".to_owned(), password };
        let config = Config { security, ..Config::new(vec!["localhost:9092".to_owned()]) };
        let shown = format!("{config:?}");
        assert!(shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn topics_and_groups_bear_the_prefix() {
        let config = Config { topic_prefix: "blue.".to_owned(), ..Config::new(vec![]) };
        assert_eq!(config.topic(Topic::Messages), "blue.messages.persisted");
        assert_eq!(config.group("fanout"), "blue.tidings.fanout");
    }
}
