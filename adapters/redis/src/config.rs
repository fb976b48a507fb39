use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use domain::Secret;
use redis::{ConnectionAddr, IntoConnectionInfo, RedisError};

/// Connection to Redis, credentials, and limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// One Redis, or a cluster.
    pub nodes: Nodes,
    /// The ACL user; Redis' `default` user if absent.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// CA certificates for `rediss://` nodes, in PEM. The system's trust store if absent.
    pub ca_pem: Option<Vec<u8>>,
    /// Timeout of connecting to a node.
    pub connect_timeout: Duration,
    /// Timeout of a command, including connecting, redirections and retries.
    pub command_timeout: Duration,
    /// Limit of concurrent commands. Further commands are refused instead of queued, so that an unavailable Redis costs
    /// no memory.
    pub commands_max: usize,
}

impl Config {
    /// Default limits for the given nodes, without a password.
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            username: None,
            password: None,
            ca_pem: None,
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_secs(1),
            commands_max: 4096,
        }
    }
}

/// The initial addresses.
#[derive(Clone, Debug)]
pub enum Nodes {
    /// One Redis.
    Single(Url),
    /// Some nodes of a cluster; clients discover the others from them.
    Cluster(Vec<Url>),
}

impl Nodes {
    pub(crate) fn urls(&self) -> &[Url] {
        match self {
            Self::Single(url) => std::slice::from_ref(url),
            Self::Cluster(urls) => urls,
        }
    }
}

/// The address of a node: `redis://HOST:PORT`, or `rediss://` for TLS. It contains no password, so it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Url(Arc<str>);

/// Why a text is not the address of a node.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It does not parse. The text is not shown, since it may contain a password.
    #[error("the redis url is not of the form redis://HOST:PORT or rediss://HOST:PORT")]
    Form(#[source] RedisError),
    /// It contains a user or password.
    #[error("the redis url holds a user or a password; they have settings of their own")]
    Credentials,
    /// It is not a network address.
    #[error("the redis url names a socket file, not a host")]
    SocketFile,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let info = text.into_connection_info().map_err(UrlError::Form)?;
        if info.redis_settings().username().is_some() || info.redis_settings().password().is_some() {
            return Err(UrlError::Credentials);
        }
        match info.addr() {
            ConnectionAddr::Tcp(..) | ConnectionAddr::TcpTls { .. } => Ok(Self(text.into())),
            _ => Err(UrlError::SocketFile),
        }
    }
}

impl Url {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Another node with the same scheme, at `HOST:PORT` as Redis writes it.
    pub(crate) fn with_address(&self, address: &str) -> Self {
        let scheme = self.0.split("://").next().unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) if host.contains(':') => Self(format!("{scheme}://[{host}]:{port}").into()),
            _ => Self(format!("{scheme}://{address}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_password_is_refused_and_not_repeated() {
        for text in ["redis://:hunter2@localhost:6379", "redis://alice:hunter2@localhost", "redis://hunter2@:0:0"] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn hosts_with_and_without_tls_are_urls_and_socket_files_are_not() {
        for text in ["redis://localhost", "redis://[::1]:6380", "rediss://redis.example:6379"] {
            assert_eq!(text.parse::<Url>().unwrap().as_str(), text);
        }
        assert!(matches!("unix:///run/redis.sock".parse::<Url>(), Err(UrlError::SocketFile)));
        assert!(matches!("http://localhost".parse::<Url>(), Err(UrlError::Form(_))));
    }

    #[test]
    fn debug_shows_nothing_of_a_password() {
        let nodes = Nodes::Single("redis://localhost".parse().unwrap());
        let config = Config { password: Some("hunter2".to_owned().into()), ..Config::new(nodes) };
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
