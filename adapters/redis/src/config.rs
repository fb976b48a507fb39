use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisError};

/// Where Redis is, who we are there, and how long it may take.
#[derive(Clone, Debug)]
pub struct Config {
    /// One Redis, or a cluster.
    pub nodes: Nodes,
    /// The ACL user; without one it is Redis' `default`.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Password>,
    /// The authorities that may vouch for a `rediss://` node, in PEM. Without any, those that the machine trusts.
    pub ca_pem: Option<Vec<u8>>,
    /// How long connecting to a node may take.
    pub connect_timeout: Duration,
    /// How long a command may take, with everything that belongs to it: connecting, following a redirection, trying
    /// again.
    pub command_timeout: Duration,
    /// Commands under way at once, at the most. Beyond that they are refused and do not wait, so that a Redis that is
    /// away costs no memory.
    pub commands_max: usize,
}

impl Config {
    /// The usual bounds for the given nodes, without a password.
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

/// The addresses to begin with.
#[derive(Clone, Debug)]
pub enum Nodes {
    /// One Redis.
    Single(Url),
    /// Some nodes of a cluster; they know the others.
    Cluster(Vec<Url>),
}

impl Nodes {
    /// All addresses.
    pub(crate) fn urls(&self) -> &[Url] {
        match self {
            Self::Single(url) => std::slice::from_ref(url),
            Self::Cluster(urls) => urls,
        }
    }
}

/// The address of one node: `redis://HOST:PORT`, or `rediss://` for TLS. It holds no password, so it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Url(Arc<str>);

/// Why a text is not the address of a node.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It does not parse. The text is not shown: whatever is wrong with it, it may hold a password.
    #[error("the redis url is not of the form redis://HOST:PORT or rediss://HOST:PORT")]
    Form(#[source] RedisError),
    /// It says who we are.
    #[error("the redis url holds a user or a password; they have settings of their own")]
    Credentials,
    /// It is no network address.
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

    /// Another node of the same kind, at `HOST:PORT` as Redis writes it.
    pub(crate) fn with_address(&self, address: &str) -> Self {
        let scheme = self.0.split("://").next().unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) if host.contains(':') => Self(format!("{scheme}://[{host}]:{port}").into()),
            _ => Self(format!("{scheme}://{address}").into()),
        }
    }
}

/// A password of Redis. `Debug` masks it, and there is no `Display`.
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
