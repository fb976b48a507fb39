use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::ServerCertificate;

/// Terminates TLS in front of a server that does not speak it. It stops when it is dropped.
#[derive(Debug)]
pub struct TlsProxy {
    accepting: JoinHandle<()>,
}

impl TlsProxy {
    /// Serves TLS on `listener`, and forwards to the server at `upstream`, which may stop and restart.
    pub fn start(listener: TcpListener, certificate: &ServerCertificate, upstream: SocketAddr) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificate)));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    client.set_nodelay(true)?;
                    let mut client = acceptor.accept(client).await?;
                    let mut server = TcpStream::connect(upstream).await?;
                    server.set_nodelay(true)?;
                    copy_bidirectional(&mut client, &mut server).await
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { accepting }
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn server_config(certificate: &ServerCertificate) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(certificate.certificate_pem.as_bytes()).expect("it is a certificate");
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).expect("it is a key");
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the usual versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("the key is that of the certificate")
}
