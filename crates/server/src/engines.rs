//! Builds the configurations of a fleet's adapters from the settings and the files they name.

use anyhow::Context;
use rpc::{FleetSecret, Security};
use tidings_kafka::Security as KafkaProtection;
use tidings_redis::{Nodes, Url};

use crate::config::{Config, KafkaSecurity};

pub(crate) fn dynamodb(config: &Config) -> dynamodb::Config {
    let set = |text: &String| (!text.is_empty()).then(|| text.clone());
    dynamodb::Config {
        table_prefix: config.dynamodb.table_prefix.clone(),
        endpoint: set(&config.dynamodb.endpoint),
        region: set(&config.dynamodb.region),
        point_in_time_recovery: config.dynamodb.point_in_time_recovery,
    }
}

pub(crate) fn kafka(config: &Config) -> anyhow::Result<tidings_kafka::Config> {
    let kafka = &config.kafka;
    let ca_pem = || read_set("kafka.ca_file", &kafka.ca_file);
    let security = match kafka.security {
        KafkaSecurity::Plaintext => KafkaProtection::Plaintext,
        KafkaSecurity::Tls => KafkaProtection::Tls { ca_pem: ca_pem()? },
        KafkaSecurity::Sasl => KafkaProtection::Scram {
            ca_pem: ca_pem()?,
            username: kafka.username.clone(),
            password: secret("kafka.password_file", &kafka.password_file)?.into(),
        },
    };
    let brokers = kafka.brokers.split(',').map(|broker| broker.trim().to_owned()).collect();
    Ok(tidings_kafka::Config {
        topic_prefix: kafka.topic_prefix.clone(),
        security,
        ..tidings_kafka::Config::new(brokers)
    })
}

pub(crate) fn redis(config: &Config) -> anyhow::Result<tidings_redis::Config> {
    let redis = &config.redis;
    let urls = redis.url.split(',').map(|url| url.trim().parse::<Url>());
    let mut urls = urls.collect::<Result<Vec<_>, _>>().context("`redis.url` is not usable")?;
    let nodes = match (redis.cluster, urls.len()) {
        (true, _) => Nodes::Cluster(urls),
        (false, 1) => Nodes::Single(urls.remove(0)),
        (false, count) => anyhow::bail!("`redis.url` names {count} nodes; set `redis.cluster` if they are a cluster"),
    };
    Ok(tidings_redis::Config {
        username: (!redis.username.is_empty()).then(|| redis.username.clone()),
        password: read_set("redis.password_file", &redis.password_file)?.map(|text| text.trim().to_owned().into()),
        ca_pem: read_set("redis.ca_file", &redis.ca_file)?.map(String::into_bytes),
        ..tidings_redis::Config::new(nodes)
    })
}

/// How this process and its peers authenticate each other.
pub(crate) fn security(config: &Config) -> anyhow::Result<Security> {
    let rpc = &config.rpc;
    if !rpc.secret_file.is_empty() {
        let secret = FleetSecret::try_from(secret("rpc.secret_file", &rpc.secret_file)?);
        let secret = secret.with_context(|| format!("`rpc.secret_file`, `{}`, is not usable", rpc.secret_file))?;
        return Ok(Security::Secret(secret));
    }
    let pem = |key: &str, path: &str| read(key, path).map(String::into_bytes);
    Ok(Security::MutualTls {
        ca_pem: pem("rpc.ca_file", &rpc.ca_file)?,
        cert_pem: pem("rpc.cert_file", &rpc.cert_file)?,
        key_pem: pem("rpc.key_file", &rpc.key_file)?,
    })
}

/// The contents of a file, without surrounding white space.
fn secret(key: &str, path: &str) -> anyhow::Result<String> {
    Ok(read(key, path)?.trim().to_owned())
}

/// The contents of the file that a setting names, if it is set.
fn read_set(key: &str, path: &str) -> anyhow::Result<Option<String>> {
    (!path.is_empty()).then(|| read(key, path)).transpose()
}

fn read(key: &str, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read `{key}`, `{path}`"))
}
