use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::{Kafka, Redis, ServerCertificate, TlsProxy};

/// A Kafka broker as a cloud provider offers it: over TLS, for users that authenticate themselves by SCRAM-SHA-512.
#[derive(Debug)]
pub struct ManagedKafka {
    address: String,
    _broker: Kafka,
    _tls: TlsProxy,
}

impl ManagedKafka {
    /// A broker without topics, for these users and their passwords. The certificate is for `localhost`.
    pub async fn start(certificate: &ServerCertificate, users: &[(&str, &str)]) -> Self {
        let (listener, address) = listen().await;
        let address = format!("localhost:{}", address.port());
        let mut broker = Kafka::start_behind(address.clone()).await;
        let tls = TlsProxy::start(listener, certificate, SocketAddr::from((Ipv4Addr::LOCALHOST, broker.port())));
        broker.require_users(users).await;
        Self { address, _broker: broker, _tls: tls }
    }

    /// The bootstrap servers for clients.
    pub fn bootstrap(&self) -> &str {
        &self.address
    }
}

/// A Redis cluster as a cloud provider offers it: over TLS, for one user with limited rights. It has one node.
#[derive(Debug)]
pub struct ManagedRedis {
    address: String,
    _server: Redis,
    _tls: TlsProxy,
}

impl ManagedRedis {
    /// The name of the user.
    pub const USER: &str = "tidings";

    /// A cluster without keys. Its user has this password, and these rights in the syntax of an ACL. The certificate is
    /// for `localhost`.
    ///
    /// # Panics
    /// If the server refuses a setting.
    pub async fn start(certificate: &ServerCertificate, password: &str, rights: &str) -> Self {
        let (listener, address) = listen().await;
        let (port, password) = (address.port().to_string(), format!(">{password}"));
        // Clients of a cluster connect to the addresses that it names: here, that of the proxy.
        let cluster = [
            "--cluster-enabled",
            "yes",
            "--cluster-preferred-endpoint-type",
            "hostname",
            "--cluster-announce-hostname",
            "localhost",
            "--cluster-announce-port",
            &port,
            "--user",
            Self::USER,
            "on",
            &password,
        ];
        let settings: Vec<&str> = cluster.into_iter().chain(rights.split_whitespace()).collect();
        let server = Redis::start_with(&settings).await;
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        let mut admin = BufReader::new(TcpStream::connect(upstream).await.expect("the server is ready"));
        for command in ["CLUSTER ADDSLOTSRANGE 0 16383", "ACL SETUSER default off"] {
            admin.write_all(format!("{command}\r\n").as_bytes()).await.expect("the server reads");
            let mut answer = String::new();
            admin.read_line(&mut answer).await.expect("the server answers");
            assert_eq!(answer, "+OK\r\n", "{command}");
        }
        server.says("Cluster state changed: ok").await;
        let tls = TlsProxy::start(listener, certificate, upstream);
        Self { address: format!("localhost:{port}"), _server: server, _tls: tls }
    }

    /// The URL for clients, without credentials.
    pub fn url(&self) -> String {
        format!("rediss://{}", self.address)
    }

    /// `HOST:PORT` of the cluster.
    pub fn address(&self) -> &str {
        &self.address
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
    let address = listener.local_addr().expect("a listener has an address");
    (listener, address)
}
