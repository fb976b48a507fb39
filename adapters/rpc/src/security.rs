use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::Secret;
use metrics::counter;
use rustls::crypto::CryptoProvider;
use tonic::metadata::{Binary, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Request, Status};
use tracing::error;

use crate::config::DEADLINE;

/// Metadata key of the shared secret.
const SECRET_KEY: &str = "tidings-secret-bin";
/// Smallest length of a secret, in bytes.
const SECRET_BYTES_MIN: usize = 16;

/// How processes of a fleet authenticate each other. `Debug` shows only the variant.
#[derive(Clone)]
pub enum Security {
    /// A shared secret. Calls are not encrypted, so this requires a private network.
    Secret(FleetSecret),
    /// Mutual TLS with certificates of a CA that issues only for this fleet. A certificate must be valid for the host
    /// that its process registers, because callers verify the host name.
    MutualTls {
        /// The CA certificate, in PEM.
        ca_pem: Vec<u8>,
        /// The certificate of this process, in PEM.
        cert_pem: Vec<u8>,
        /// Its private key, in PEM.
        key_pem: Vec<u8>,
    },
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(***)",
            Self::MutualTls { .. } => "MutualTls(***)",
        })
    }
}

/// The shared secret of a fleet, of a sufficient length.
#[derive(Clone, Debug)]
pub struct FleetSecret(Secret);

/// The secret is too short.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of the fleet has {bytes} bytes, at least {SECRET_BYTES_MIN} are needed")]
pub struct ShortSecret {
    bytes: usize,
}

impl TryFrom<String> for FleetSecret {
    type Error = ShortSecret;

    fn try_from(text: String) -> Result<Self, ShortSecret> {
        if text.len() < SECRET_BYTES_MIN { Err(ShortSecret { bytes: text.len() }) } else { Ok(Self(text.into())) }
    }
}

/// The certificates or the key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates or the key of the fleet cannot be used")]
pub struct SecurityError(#[from] tonic::transport::Error);

impl Security {
    /// TLS of the calling side, if configured.
    pub(crate) fn client_tls(&self) -> Option<ClientTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        Some(ClientTlsConfig::new().ca_certificate(ca).identity(identity))
    }

    /// TLS of the answering side, if configured.
    pub(crate) fn server_tls(&self) -> Option<ServerTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        Some(ServerTlsConfig::new().client_ca_root(ca).identity(identity).timeout(DEADLINE))
    }

    /// The credentials that a caller attaches.
    pub(crate) fn badge(&self) -> Badge {
        let Self::Secret(secret) = self else { return Badge(None) };
        let mut value = MetadataValue::from_bytes(secret.0.expose().as_bytes());
        value.set_sensitive(true);
        Badge(Some(value))
    }

    /// The check of incoming calls.
    pub(crate) fn door(&self) -> Door {
        let secret = match self {
            Self::Secret(secret) => Some(secret.clone()),
            Self::MutualTls { .. } => None,
        };
        Door { secret, was_shut: Arc::default() }
    }
}

/// Attaches the secret to every call.
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

/// Refuses calls without the secret. With mutual TLS the handshake has already authenticated the caller.
#[derive(Clone)]
pub(crate) struct Door {
    secret: Option<FleetSecret>,
    was_shut: Arc<AtomicBool>,
}

impl Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(secret) = &self.secret else { return Ok(request) };
        let shown = request.metadata().get_bin(SECRET_KEY).and_then(|value| value.to_bytes().ok());
        if shown.is_some_and(|shown| verify_slices_are_equal(&shown, secret.0.expose().as_bytes()).is_ok()) {
            return Ok(request);
        }
        counter!("tidings_rpc_strangers_total").increment(1);
        // Logged once: a process with a wrong secret calls again for as long as it runs.
        if !self.was_shut.swap(true, Ordering::Relaxed) {
            let address = request.remote_addr().map(tracing::field::display);
            error!(address, "refused a caller with a wrong fleet secret; give all processes the same one");
        }
        Err(Status::unauthenticated("this is not the secret of the fleet; give all processes the same one"))
    }
}

/// Installs the process-wide crypto provider unless there is one.
fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed one meanwhile.
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
        assert_eq!(FleetSecret::try_from("hunter2".to_owned()).unwrap_err(), ShortSecret { bytes: 7 });
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
