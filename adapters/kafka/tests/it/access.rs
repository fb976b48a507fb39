use std::sync::Arc;

use domain::Secret;
use ports::SystemClock;
use tidings_kafka::{Config, KafkaLog, KafkaOpenError, KafkaProducer, Security};

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
