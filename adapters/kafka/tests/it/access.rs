use std::sync::Arc;

use domain::Secret;
use engines::{Kafka, TestAuthority, TlsProxy};
use ports::{EventLog, EventProducer, SystemClock};
use tidings_kafka::{Config, EngineHealth, KafkaLog, KafkaOpenError, KafkaProducer, Security, topics};
use tokio::net::TcpListener;

use crate::fixtures::{SIZE, chat, first_sequences, messages, read};

fn config(security: Security) -> Config {
    Config { security, ..Config::new(vec!["127.0.0.1:1".to_owned()]) }
}

#[tokio::test]
async fn a_password_is_taken_over_tls() {
    let password = "hunter2".to_owned().into();
    let scram = Security::Scram { ca_pem: None, username: "tidings".to_owned(), password };
    KafkaProducer::open(config(scram.clone()), Arc::new(SystemClock)).unwrap();
    KafkaLog::reading(config(scram), Arc::new(SystemClock)).unwrap();
}

#[tokio::test]
async fn an_authority_that_is_none_is_refused_when_it_is_opened() {
    let tls = Security::Tls { ca_pem: Some("no certificate".to_owned()) };
    let refused = KafkaProducer::open(config(tls.clone()), Arc::new(SystemClock)).err().unwrap();
    assert!(refused.to_string().contains("ssl.ca.pem"), "{refused}");
    assert!(matches!(KafkaLog::reading(config(tls), Arc::new(SystemClock)), Err(KafkaOpenError::Client(_))));
}

#[tokio::test]
async fn a_setting_that_cannot_be_used_is_refused_and_not_repeated() {
    let password = Secret::from("hunter2\0".to_owned());
    let scram = Security::Scram { ca_pem: None, username: "tidings".to_owned(), password };
    let refused = KafkaProducer::open(config(scram), Arc::new(SystemClock)).err().unwrap();
    assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused:?}");
    let nowhere = KafkaProducer::open(Config::new(vec![]), Arc::new(SystemClock));
    assert!(matches!(nowhere, Err(KafkaOpenError::NoBroker)));
}

/// A broker that accepts connections over TLS only, of one user.
struct SecureBroker {
    _broker: Kafka,
    _tls: TlsProxy,
    authority: TestAuthority,
    address: String,
}

impl SecureBroker {
    const USER: &str = "tidings";
    const PASSWORD: &str = "correct horse battery";

    async fn start() -> Self {
        let authority = TestAuthority::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let mut broker = Kafka::start_behind(address.clone()).await;
        let tls = TlsProxy::start(listener, &authority.issue(), ([127, 0, 0, 1], broker.port()).into());
        broker.require_users(&[(Self::USER, Self::PASSWORD)]).await;
        Self { _broker: broker, _tls: tls, authority, address }
    }

    fn config(&self, security: Security) -> Config {
        Config { security, ..Config::new(vec![self.address.clone()]) }
    }

    fn scram(&self, authority: &TestAuthority, password: &str) -> Config {
        let (ca_pem, username) = (Some(authority.ca_pem()), Self::USER.to_owned());
        self.config(Security::Scram { ca_pem, username, password: password.to_owned().into() })
    }
}

/// Why an event cannot be published; `None` if it can.
async fn refusal(config: Config) -> Option<String> {
    let producer = KafkaProducer::open(config, Arc::new(SystemClock)).unwrap();
    producer.publish(&messages(chat(), [1])).await.err()?;
    let EngineHealth::Failing { reason, .. } = producer.health() else { panic!("the publish has failed") };
    Some(reason)
}

#[tokio::test]
async fn a_user_is_served_over_tls_and_a_wrong_password_or_authority_is_named_as_such() {
    let broker = SecureBroker::start().await;
    let right = broker.scram(&broker.authority, SecureBroker::PASSWORD);
    topics::apply(&right, SIZE).await.unwrap();
    let clock = Arc::new(SystemClock);
    let (producer, log) =
        (KafkaProducer::open(right.clone(), clock.clone()).unwrap(), KafkaLog::reading(right, clock).unwrap());
    let chat_id = chat();
    producer.publish(&messages(chat_id, 1..=3)).await.unwrap();
    let mut consumer = log.consumer("group").await.unwrap();
    assert_eq!(first_sequences(&read(&mut *consumer, 3).await, chat_id), [1, 2, 3]);
    consumer.commit().await.unwrap();
    assert_eq!(log.lag("group").await.unwrap(), 0);

    let password = "hunter2 hunter2";
    let wrong_password = refusal(broker.scram(&broker.authority, password)).await.unwrap();
    assert!(wrong_password.contains("uthentication"), "{wrong_password}");
    assert!(!wrong_password.contains(password), "{wrong_password}");
    let wrong_authority = refusal(broker.scram(&TestAuthority::new(), SecureBroker::PASSWORD)).await.unwrap();
    assert!(wrong_authority.contains("certificate"), "{wrong_authority}");
    let no_user = Security::Tls { ca_pem: Some(broker.authority.ca_pem()) };
    assert!(refusal(broker.config(no_user)).await.is_some(), "the broker asks for a user");
    assert!(refusal(broker.config(Security::Plaintext)).await.is_some(), "the broker speaks TLS");
}
