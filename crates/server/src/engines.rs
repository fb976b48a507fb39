//! Builds the configurations of a fleet's adapters from the settings and the files they name.

use std::path::Path;

use anyhow::Context;
use keyfile::MasterSecret;
use ports::ProcessRole;
use rpc::{AcceptedCallers, AssertionKey, CertificateNames, FleetSecret, Security};
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
    let (rpc, roles) = (&config.rpc, config.roles()?);
    if !rpc.secret_file.is_empty() {
        let secret = FleetSecret::try_from(secret("rpc.secret_file", &rpc.secret_file)?);
        let secret = secret.with_context(|| format!("`rpc.secret_file`, `{}`, is not usable", rpc.secret_file))?;
        let Some(accepted) = read_set("rpc.callers_file", &rpc.callers_file)? else {
            return Ok(Security::Secret(secret));
        };
        let accepted = AcceptedCallers::parse(&accepted);
        let accepted =
            accepted.with_context(|| format!("`rpc.callers_file`, `{}`, is not usable", rpc.callers_file))?;
        let security = Security::RoleSecrets { own: secret, accepted };
        security
            .check_roles(&roles)
            .with_context(|| format!("`rpc.callers_file`, `{}`, does not fit", rpc.callers_file))?;
        return Ok(security);
    }
    let pem = |key: &str, path: &str| read(key, path).map(String::into_bytes);
    let security = Security::MutualTls {
        ca_pem: pem("rpc.ca_file", &rpc.ca_file)?,
        cert_pem: pem("rpc.cert_file", &rpc.cert_file)?,
        key_pem: pem("rpc.key_file", &rpc.key_file)?,
        names: if rpc.upgrading { CertificateNames::Hosts } else { CertificateNames::Roles },
    };
    security.check_roles(&roles).with_context(|| format!("`rpc.cert_file`, `{}`, does not fit", rpc.cert_file))?;
    Ok(security)
}

/// The key of assertions, if this process has a role that issues or verifies them.
pub(crate) fn assertion_key(config: &Config) -> anyhow::Result<Option<AssertionKey>> {
    let has_key = |role: &ProcessRole| matches!(role, ProcessRole::Api | ProcessRole::Ingest);
    let path = &config.rpc.assertion_secret_file;
    if path.is_empty() || !config.roles()?.iter().any(has_key) {
        return Ok(None);
    }
    let secret = MasterSecret::read(Path::new(path)).context("`rpc.assertion_secret_file` is not usable")?;
    Ok(Some(AssertionKey::new(&secret.derive("assertions", 0))))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::StoreEngine;

    /// The error of the credentials in these files, or their kind.
    fn credentials(files: &[(&str, &str)], roles: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config { roles: roles.to_owned(), ..Config::default() };
        config.store.engine = StoreEngine::Dynamodb;
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            let path = path.to_str().unwrap().to_owned();
            match *name {
                "secret" => config.rpc.secret_file = path,
                "callers" => config.rpc.callers_file = path,
                _ => config.rpc.assertion_secret_file = path,
            }
        }
        let checked = security(&config).and_then(|security| Ok((security, assertion_key(&config)?)));
        let text = checked.map_or_else(|error| format!("{error:#}"), |checked| format!("{checked:?}"));
        text.replace(directory.path().to_str().unwrap(), "")
    }

    const SECRET: (&str, &str) = ("secret", "the secret of gateways\n");
    /// `printf 'the secret of gateways' | sha256sum`
    const DIGEST: &str = "4eae7ab8fe5d245ce796e2f9b2602844e1429d1075d33a96bc414f4bff8f565b";

    #[test]
    fn credentials_have_to_fit_the_roles_of_the_process() {
        let list = format!("{DIGEST} gateway");
        assert_eq!(credentials(&[SECRET], "ingest"), "(Secret(***), None)");
        assert_eq!(credentials(&[SECRET, ("callers", &list)], "gateway"), "(RoleSecrets(***), None)");
        assert_eq!(
            credentials(&[SECRET, ("callers", &list)], "gateway,api"),
            "`rpc.callers_file`, `/callers`, does not fit: the secret of this process is not listed for the role `api`"
        );
        assert_eq!(
            credentials(&[SECRET, ("callers", "gateway")], "gateway"),
            "`rpc.callers_file`, `/callers`, is not usable: line 1 is not a SHA-256 digest in hexadecimal, a space, and \
             roles separated by commas"
        );
    }

    #[test]
    fn only_api_and_ingest_read_the_secret_of_assertions() {
        let key = ("assertion", "0123456789abcdef0123456789abcdef");
        for (roles, expected) in [
            ("api", "Some(AssertionKey(***))"),
            ("ingest", "Some(AssertionKey(***))"),
            ("gateway", "None"),
            ("fanout", "None"),
        ] {
            assert_eq!(credentials(&[SECRET, key], roles), format!("(Secret(***), {expected})"));
        }
        let short = credentials(&[SECRET, ("assertion", "short")], "api");
        assert!(short.starts_with("`rpc.assertion_secret_file` is not usable: the secret"), "{short}");
        assert!(!credentials(&[SECRET, ("assertion", "short")], "gateway").contains("assertion"));
    }
}
