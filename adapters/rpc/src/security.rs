use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use domain::Secret;
use metrics::counter;
use ports::ProcessRole;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tonic::metadata::{Binary, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Request, Status};
use tracing::error;

use crate::callers::AcceptedCallers;
use crate::config::DEADLINE;
use crate::roles::{FleetService, certificate_name};

/// Metadata key of the caller's secret.
const SECRET_KEY: &str = "tidings-secret-bin";
/// Smallest length of a secret, in bytes.
const SECRET_BYTES_MIN: usize = 16;

/// How processes of a fleet authenticate each other. `Debug` shows only the variant.
#[derive(Clone)]
pub enum Security {
    /// One secret for all processes. The role of a caller is unknown, so every process may call every service. Calls are
    /// not encrypted, so this requires a private network.
    Secret(FleetSecret),
    /// A secret for each role. Calls are not encrypted, so this requires a private network.
    RoleSecrets {
        /// The secret of this process.
        own: FleetSecret,
        /// The secrets that it accepts.
        accepted: AcceptedCallers,
    },
    /// Mutual TLS with certificates of a CA that issues only for this fleet.
    MutualTls {
        /// The CA certificate, in PEM.
        ca_pem: Vec<u8>,
        /// The certificate of this process, in PEM.
        cert_pem: Vec<u8>,
        /// Its private key, in PEM.
        key_pem: Vec<u8>,
        /// The meaning of the names in certificates.
        names: CertificateNames,
    },
}

/// The meaning of the names in the certificates of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateNames {
    /// The roles of the process ([`certificate_name`]). A caller verifies the role of the process that it calls, and that
    /// process the role of the caller.
    Roles,
    /// The host that the process registers, which callers verify. The role of a caller is unknown. For the time of an
    /// upgrade from a release whose certificates name no roles.
    Hosts,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(***)",
            Self::RoleSecrets { .. } => "RoleSecrets(***)",
            Self::MutualTls { .. } => "MutualTls(***)",
        })
    }
}

/// The secret of a process, of a sufficient length.
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

impl FleetSecret {
    fn bytes(&self) -> &[u8] {
        self.0.expose().as_bytes()
    }
}

/// The certificates or the key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates or the key of the fleet cannot be used")]
pub struct SecurityError(#[from] tonic::transport::Error);

/// The credentials of a process are not those of its role.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// The certificate lacks a name.
    #[error("the certificate has no DNS name `{}`, so it is not for the role `{role}`", certificate_name(*role))]
    Certificate {
        /// The role.
        role: ProcessRole,
    },
    /// The list of accepted secrets does not have the own secret for the role.
    #[error("the secret of this process is not listed for the role `{role}`")]
    Secret {
        /// The role.
        role: ProcessRole,
    },
}

impl Security {
    /// Checks that the credentials of this process prove its roles, so that a mistake is found at the start and not in
    /// the first refused call.
    pub fn check_roles(&self, roles: &[ProcessRole]) -> Result<(), RoleError> {
        match self {
            Self::RoleSecrets { own, accepted } => {
                let listed = accepted.roles(own.bytes()).unwrap_or_default();
                let missing = roles.iter().find(|role| !listed.contains(role));
                missing.map_or(Ok(()), |role| Err(RoleError::Secret { role: *role }))
            }
            Self::MutualTls { cert_pem, names: CertificateNames::Roles, .. } => {
                let certificate = CertificateDer::from_pem_slice(cert_pem).ok();
                let is_for = |role| certificate.as_ref().is_some_and(|certificate| names_role(certificate, role));
                let missing = roles.iter().find(|role| !is_for(**role));
                missing.map_or(Ok(()), |role| Err(RoleError::Certificate { role: *role }))
            }
            Self::Secret(_) | Self::MutualTls { .. } => Ok(()),
        }
    }

    /// TLS of a call to a process in this role, if configured.
    pub(crate) fn client_tls(&self, role: ProcessRole) -> Option<ClientTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem, names } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        let tls = ClientTlsConfig::new().ca_certificate(ca).identity(identity);
        Some(match names {
            CertificateNames::Roles => tls.domain_name(certificate_name(role)),
            CertificateNames::Hosts => tls,
        })
    }

    /// TLS of the answering side, if configured.
    pub(crate) fn server_tls(&self) -> Option<ServerTlsConfig> {
        let Self::MutualTls { ca_pem, cert_pem, key_pem, .. } = self else { return None };
        choose_cryptography();
        let (ca, identity) = (Certificate::from_pem(ca_pem), Identity::from_pem(cert_pem, key_pem));
        Some(ServerTlsConfig::new().client_ca_root(ca).identity(identity).timeout(DEADLINE))
    }

    /// The credentials that a caller attaches.
    pub(crate) fn badge(&self) -> Badge {
        let (Self::Secret(secret) | Self::RoleSecrets { own: secret, .. }) = self else { return Badge(None) };
        let mut value = MetadataValue::from_bytes(secret.bytes());
        value.set_sensitive(true);
        Badge(Some(value))
    }

    /// The check of calls to a service.
    pub(crate) fn guard(&self, service: FleetService) -> Guard {
        let callers = match self {
            Self::Secret(secret) => CallerCheck::Secret(secret.clone()),
            Self::RoleSecrets { accepted, .. } => CallerCheck::RoleSecrets(accepted.clone()),
            Self::MutualTls { names, .. } => CallerCheck::Certificates(*names),
        };
        Guard { service, callers, was_shut: Arc::default() }
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

/// Refuses calls to a service by processes of other fleets, and by roles that may not call it.
#[derive(Clone)]
pub(crate) struct Guard {
    service: FleetService,
    callers: CallerCheck,
    was_shut: Arc<AtomicBool>,
}

#[derive(Clone)]
enum CallerCheck {
    Secret(FleetSecret),
    RoleSecrets(AcceptedCallers),
    /// The handshake has already verified that the certificate is of this fleet.
    Certificates(CertificateNames),
}

/// Why a caller is refused.
enum CallerRefusal {
    /// It is not known as a process of this fleet.
    Stranger,
    /// Its role may not call the service.
    Role,
}

impl Guard {
    fn check(&self, request: &Request<()>) -> Result<(), CallerRefusal> {
        let may_call = |role: &ProcessRole| self.service.callers().contains(role);
        let is_allowed = match &self.callers {
            CallerCheck::Secret(secret) => {
                let shown = presented(request).ok_or(CallerRefusal::Stranger)?;
                verify_slices_are_equal(&shown, secret.bytes()).map_err(|_| CallerRefusal::Stranger)?;
                true
            }
            CallerCheck::RoleSecrets(accepted) => {
                let roles = presented(request).and_then(|shown| accepted.roles(&shown));
                roles.ok_or(CallerRefusal::Stranger)?.iter().any(may_call)
            }
            CallerCheck::Certificates(CertificateNames::Hosts) => true,
            CallerCheck::Certificates(CertificateNames::Roles) => {
                let chain = request.peer_certs().ok_or(CallerRefusal::Stranger)?;
                let certificate = chain.first().ok_or(CallerRefusal::Stranger)?;
                self.service.callers().iter().any(|role| names_role(certificate, *role))
            }
        };
        if is_allowed { Ok(()) } else { Err(CallerRefusal::Role) }
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Err(refusal) = self.check(&request) else { return Ok(request) };
        // Logged once: a process with wrong credentials calls again for as long as it runs.
        let is_first = !self.was_shut.swap(true, Ordering::Relaxed);
        let (service, address) = (self.service.name(), request.remote_addr().map(tracing::field::display));
        match refusal {
            CallerRefusal::Stranger => {
                counter!("tidings_rpc_strangers_total").increment(1);
                if is_first {
                    error!(service, address, "refused a caller with an unknown secret; check `rpc.secret_file` there");
                }
                Err(Status::unauthenticated("this process does not accept the secret of the caller"))
            }
            CallerRefusal::Role => {
                counter!("tidings_rpc_forbidden_total", "service" => service).increment(1);
                if is_first {
                    error!(service, address, "refused a caller whose role may not call this service");
                }
                Err(Status::permission_denied(format!("this role may not call the service `{service}`")))
            }
        }
    }
}

/// The secret that a caller presents.
fn presented(request: &Request<()>) -> Option<Bytes> {
    request.metadata().get_bin(SECRET_KEY)?.to_bytes().ok()
}

/// Whether a certificate is for a role.
fn names_role(certificate: &CertificateDer<'_>, role: ProcessRole) -> bool {
    let name = ServerName::try_from(certificate_name(role)).expect("the name of a role is a DNS name");
    ParsedCertificate::try_from(certificate).is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
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

    /// Whether a caller may call each service, in the order of `FleetService::ALL`.
    fn allowed(of_process: &Security, of_caller: &Security) -> Vec<bool> {
        let allowed = |service| {
            let request = of_caller.badge().call(Request::new(())).unwrap();
            of_process.guard(service).call(request).is_ok()
        };
        FleetService::ALL.into_iter().map(allowed).collect()
    }

    #[test]
    fn one_secret_opens_every_service_and_another_opens_none() {
        let right = secret("correct horse battery");
        assert_eq!(allowed(&right, &right), [true; 6]);
        for wrong in [secret("another horse battery"), secret("correct horse battery staple")] {
            assert_eq!(allowed(&right, &wrong), [false; 6]);
        }
        let mut nothing = Badge(None);
        let request = nothing.call(Request::new(())).unwrap();
        assert!(right.guard(FleetService::Ingest).call(request).is_err());
    }

    /// A process with the secret of these roles, which accepts the secret of each role.
    fn with_roles(own: &str) -> Security {
        let digest = |roles: &str| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text(roles).as_bytes());
            let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digest} {roles}\n")
        };
        let list: String = ["gateway", "ingest", "fanout", "api", "gateway,api"].map(digest).concat();
        let accepted = AcceptedCallers::parse(&list).unwrap();
        Security::RoleSecrets { own: text(own).try_into().unwrap(), accepted }
    }

    fn text(roles: &str) -> String {
        format!("the secret of {roles}")
    }

    #[test]
    fn each_role_may_call_the_services_of_the_table_and_no_others() {
        for (roles, expected) in [
            // Ingest, Identity, Presence, Signals, Gateway, Webhook.
            ("gateway", [true, true, true, true, false, false]),
            ("ingest", [false, false, false, true, false, false]),
            ("fanout", [false, false, false, false, true, false]),
            ("api", [true, false, false, false, true, true]),
            ("gateway,api", [true; 6]),
            ("nobody", [false; 6]),
        ] {
            assert_eq!(allowed(&with_roles("ingest"), &with_roles(roles)), expected, "{roles}");
        }
        let stranger = secret("correct horse battery");
        assert_eq!(allowed(&with_roles("ingest"), &stranger), [false; 6]);
    }

    #[test]
    fn a_process_without_the_credentials_of_its_role_is_found_at_the_start() {
        let [gateway, both] = ["gateway", "gateway,api"].map(with_roles);
        assert_eq!(gateway.check_roles(&[ProcessRole::Gateway]), Ok(()));
        assert_eq!(both.check_roles(&[ProcessRole::Gateway, ProcessRole::Api]), Ok(()));
        let error = gateway.check_roles(&[ProcessRole::Gateway, ProcessRole::Api]).unwrap_err();
        assert_eq!(error.to_string(), "the secret of this process is not listed for the role `api`");
        assert_eq!(secret("correct horse battery").check_roles(&ProcessRole::ALL), Ok(()));
    }
}
