use engines::Kafka;
use tidings_kafka::Config;
use tidings_kafka::topics::{TopicAspect, TopicError, TopicSize, apply, diff};

use crate::fixtures::SIZE;

#[tokio::test]
async fn topics_are_created_once_and_differences_are_named() {
    let broker = Kafka::start().await;
    let config = Config::new(vec![broker.bootstrap()]);
    let missing = diff(&config, SIZE).await.unwrap();
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "topic `messages.persisted` is missing",
            "topic `memberships.changed` is missing",
            "topic `chats.created` is missing",
            "topic `dead_letters` is missing",
        ]
    );
    apply(&config, SIZE).await.unwrap();
    apply(&config, SIZE).await.unwrap();
    assert_eq!(diff(&config, SIZE).await.unwrap(), []);

    let larger = diff(&config, TopicSize { partitions: 4, ..SIZE }).await.unwrap();
    let larger: Vec<_> = larger.iter().map(|drift| (&*drift.topic, drift.aspect.clone())).collect();
    let three = TopicAspect::Partitions(3);
    assert_eq!(
        larger,
        [("messages.persisted", three.clone()), ("memberships.changed", three.clone()), ("chats.created", three)]
    );
}

#[tokio::test]
async fn partitions_that_no_position_can_name_are_refused() {
    let config = Config::new(vec!["127.0.0.1:1".to_owned()]);
    for partitions in [0, 16385] {
        let refused = apply(&config, TopicSize { partitions, ..SIZE }).await;
        assert!(matches!(refused, Err(TopicError::Partitions(count)) if count == partitions));
    }
}
