use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use tidings_engines::{Dynamo, Kafka, Redis};

use crate::ask;

#[tokio::test]
async fn redis_answers_is_killed_and_starts_again_where_it_was() {
    let mut redis = Redis::start().await;
    let url = redis.url();
    assert_eq!(url, format!("redis://127.0.0.1:{}", redis.port()));
    assert_eq!(ask::redis(redis.port(), "PING").unwrap(), ["+PONG", "+OK"]);
    redis.stop().await;
    assert_eq!(refusal(ask::redis(redis.port(), "PING")), ErrorKind::ConnectionRefused);
    redis.start_again().await;
    assert_eq!(redis.url(), url);
    assert_eq!(ask::redis(redis.port(), "PING").unwrap(), ["+PONG", "+OK"]);
}

#[tokio::test]
async fn kafka_keeps_its_topics_when_it_is_killed() {
    let mut kafka = Kafka::start().await;
    assert_eq!(kafka.bootstrap(), format!("127.0.0.1:{}", kafka.port()));
    ask::kafka_make_topic(kafka.port(), "kept").unwrap();
    kafka.stop().await;
    assert_eq!(refusal(ask::kafka_metadata(kafka.port())), ErrorKind::ConnectionRefused);
    kafka.start_again().await;
    let metadata = ask::kafka_metadata(kafka.port()).unwrap();
    assert!(metadata.contains("kept"), "{metadata:?}");
    assert!(metadata.contains("127.0.0.1"), "{metadata:?}");
}

#[tokio::test]
async fn dynamodb_keeps_its_tables_when_it_is_killed() {
    let mut dynamo = Dynamo::start().await;
    assert_eq!(dynamo.endpoint(), format!("http://127.0.0.1:{}", dynamo.port()));
    ask::dynamodb_make_table(dynamo.port(), "kept").unwrap();
    dynamo.stop().await;
    assert_eq!(refusal(ask::dynamodb_tables(dynamo.port())), ErrorKind::ConnectionRefused);
    dynamo.start_again().await;
    assert_eq!(ask::dynamodb_tables(dynamo.port()).unwrap(), r#"{"TableNames":["kept"]}"#);
}

#[tokio::test]
async fn a_paused_server_answers_when_it_is_resumed() {
    let redis = Redis::start().await;
    let mut stream = ask::connect(redis.port()).unwrap();
    redis.pause();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(refusal(stream.read(&mut answer)), ErrorKind::WouldBlock);
    redis.resume();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"+PONG\r\n");
}

#[tokio::test]
async fn a_dropped_server_is_stopped() {
    let redis = Redis::start().await;
    let port = redis.port();
    let answer = ask::redis(port, "CONFIG GET dir").unwrap();
    let directory = answer.iter().map(Path::new).find(|line| line.is_absolute()).unwrap();
    assert!(directory.is_dir(), "{directory:?}");
    drop(redis);
    assert_eq!(refusal(ask::redis(port, "PING")), ErrorKind::ConnectionRefused);
    assert!(!directory.exists(), "{directory:?}");
}

#[tokio::test]
#[should_panic(expected = "Bad directive or wrong number of arguments")]
async fn a_server_that_does_not_start_shows_its_log() {
    Redis::start_with(&["--no-such-setting", "1"]).await;
}

#[tokio::test]
async fn a_server_outlives_the_thread_that_starts_it() {
    let start = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Redis::start());
    let redis = std::thread::spawn(start).join().unwrap();
    assert_eq!(ask::redis(redis.port(), "PING").unwrap(), ["+PONG", "+OK"]);
}

fn refusal<T: std::fmt::Debug>(answer: io::Result<T>) -> ErrorKind {
    answer.unwrap_err().kind()
}
