use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use metrics::counter;
use rustls::crypto::CryptoProvider;
use tonic::metadata::{Binary, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Request, Status};
use tracing::error;

use crate::config::DEADLINE;

/// The metadata that a shared secret travels in.
const SECRET_KEY: &str = "tidings-secret-bin";
/// Bytes of a secret, at the least.
const SECRET_BYTES_MIN: usize = 16;

/// How processes of a fleet know each other. `Debug` shows nothing of it but its kind.
#[derive(Clone)]
pub enum Security {
    /// By a secret that all of them have. Calls are not encrypted, so it is for a network that nobody else listens on.
    Secret(Secret),
    /// By certificates of one authority that vouches for nobody else. A certificate has to be good for the host under
    /// which its process is announced, because those who call it check that too.
    MutualTls {
        /// The authority, in PEM.
        ca_pem: Vec<u8>,
        /// The certificate of this process, in PEM.
        cert_pem: Vec<u8>,
        /// Its key, in PEM.
        key_pem: Vec<u8>,
    },
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(…)",
            Self::MutualTls { .. } => "MutualTls(…)",
        })
    }
}

/// A secret that the processes of a fleet share. `Debug` masks it, and there is no `Display`.
#[derive(Clone)]
pub struct Secret(String);

/// A secret that somebody could guess.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of the fleet has {bytes} bytes, at least {SECRET_BYTES_MIN} are needed")]
pub struct ShortSecret {
    bytes: usize,
}

impl TryFrom<String> for Secret {
    type Error = ShortSecret;

    fn try_from(text: String) -> Result<Self, ShortSecret> {
        if text.len() < SECRET_BYTES_MIN { Err(ShortSecret { bytes: text.len() }) } else { Ok(Self(text)) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Certificates or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates or the key of the fleet cannot be used")]
pub struct SecurityError(#[from] tonic::transport::Error);

impl Security {
    /// TLS of the calling side, if there is any.
    pub(crate) fn client_tls(&self) -> Option<ClientTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        Some(ClientTlsConfig::new().ca_certificate(ca).identity(identity))
    }

    /// TLS of the answering side, if there is any.
    pub(crate) fn server_tls(&self) -> Option<ServerTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        Some(ServerTlsConfig::new().client_ca_root(ca).identity(identity).timeout(DEADLINE))
    }

    /// What a caller shows.
    pub(crate) fn badge(&self) -> Badge {
        let Self::Secret(secret) = self else { return Badge(None) };
        let mut value = MetadataValue::from_bytes(secret.0.as_bytes());
        value.set_sensitive(true);
        Badge(Some(value))
    }

    /// What lets in those who show it.
    pub(crate) fn door(&self) -> Door {
        let secret = match self {
            Self::Secret(secret) => Some(secret.clone()),
            Self::MutualTls { .. } => None,
        };
        Door { secret, was_shut: Arc::default() }
    }
}

/// Puts the secret on every call.
#[derive(Clone)]
pub(crate) struct Badge(Option<MetadataValue<Binary>>);

impl Interceptor for Badge {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(secret) = &self.0 {
            request.metadata_mut().insert_bin(SECRET_KEY, secret.clone());
        }
        Ok(request)
    }
}

/// Refuses calls without the secret. With TLS whoever gets here has shown a certificate.
#[derive(Clone)]
pub(crate) struct Door {
    secret: Option<Secret>,
    was_shut: Arc<AtomicBool>,
}

impl Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(secret) = &self.secret else { return Ok(request) };
        let shown = request.metadata().get_bin(SECRET_KEY).and_then(|value| value.to_bytes().ok());
        if shown.is_some_and(|shown| verify_slices_are_equal(&shown, secret.0.as_bytes()).is_ok()) {
            return Ok(request);
        }
        counter!("tidings_rpc_strangers_total").increment(1);
        // Once is enough: a process with a wrong secret knocks for as long as it lives.
        if !self.was_shut.swap(true, Ordering::Relaxed) {
            let address = request.remote_addr().map(tracing::field::display);
            error!(address, "a caller has not the secret of the fleet; give all processes the same one");
        }
        Err(Status::unauthenticated("this is not the secret of the fleet; give all processes the same one"))
    }
}

/// Makes ours the cryptography of the process unless it has one.
fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has chosen meanwhile.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Security {
        Security::Secret(text.to_owned().try_into().unwrap())
    }

    #[test]
    fn a_secret_is_long_and_never_shown() {
        assert_eq!(Secret::try_from("hunter2".to_owned()).unwrap_err(), ShortSecret { bytes: 7 });
        let security = secret("correct horse battery");
        let mut badge = security.badge();
        let request = badge.call(Request::new(())).unwrap();
        assert!(!format!("{security:?} {request:?}").contains("horse"), "{security:?} {request:?}");
    }

    #[test]
    fn the_door_opens_for_the_secret_alone() {
        let right = secret("correct horse battery");
        for (mut badge, is_let_in) in [
            (right.badge(), true),
            (secret("another horse battery").badge(), false),
            (secret("correct horse battery staple").badge(), false),
            (Badge(None), false),
        ] {
            let request = badge.call(Request::new(())).unwrap();
            assert_eq!(right.door().call(request).is_ok(), is_let_in);
        }
    }
}
