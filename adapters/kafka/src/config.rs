use std::fmt;
use std::time::Duration;

use crate::topics::Topic;

/// Where Kafka is, who we are there, and how much may wait.
#[derive(Clone, Debug)]
pub struct Config {
    /// Some brokers to begin with, each `HOST:PORT`; they know the others.
    pub brokers: Vec<String>,
    /// What the names of topics and groups begin with, so that several fleets share a cluster.
    pub topic_prefix: String,
    /// How brokers are spoken to.
    pub security: Security,
    /// How long publishing may take before it has failed.
    pub publish_timeout: Duration,
    /// Records that wait in a consumer to be asked for, at the most. Beyond that it stops fetching.
    pub buffer_len_max: usize,
    /// Their bytes, likewise; one record more may be there.
    pub buffer_bytes_max: usize,
}

/// How brokers are spoken to. A certificate authority vouches for them, in PEM; without one, those that the machine
/// trusts.
#[derive(Clone, Debug)]
pub enum Security {
    /// In the clear, for a network that nobody else is on.
    Plaintext,
    /// By TLS.
    Tls {
        /// Who vouches for the brokers.
        ca_pem: Option<String>,
    },
    /// By TLS, and SCRAM-SHA-512 says who we are.
    Scram {
        /// Who vouches for the brokers.
        ca_pem: Option<String>,
        /// The user.
        username: String,
        /// Its password.
        password: Password,
    },
}

impl Config {
    /// The usual bounds for the given brokers, in the clear.
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

    /// The name of a topic with its prefix.
    pub fn topic(&self, topic: Topic) -> String {
        format!("{}{}", self.topic_prefix, topic.name())
    }

    /// The name that Kafka knows a group by.
    pub fn group(&self, group: &str) -> String {
        format!("{}tidings.{group}", self.topic_prefix)
    }
}

/// A password of Kafka. `Debug` masks it, and there is no `Display`.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
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
