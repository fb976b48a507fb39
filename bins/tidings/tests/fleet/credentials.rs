use std::fs;

use aws_lc_rs::digest::{SHA256, digest};
use ports::ProcessRole;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rpc::{AcceptedCallers, CertificateNames, FleetSecret, Security, certificate_name};
use tempfile::TempDir;

/// The files with which the processes of a fleet authenticate each other.
pub(crate) struct Credentials {
    directory: TempDir,
    kind: CredentialKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CredentialKind {
    /// One secret for all processes, as in the previous release. Processes of this release accept that one.
    OneSecret,
    RoleSecrets,
    Certificates,
}

impl Credentials {
    /// One secret for all roles, and settings that accept processes of the previous release.
    pub(crate) fn one_secret() -> Self {
        Self::new(CredentialKind::OneSecret)
    }

    /// A secret for each role.
    pub(crate) fn role_secrets() -> Self {
        Self::new(CredentialKind::RoleSecrets)
    }

    /// A certificate for each role.
    pub(crate) fn certificates() -> Self {
        Self::new(CredentialKind::Certificates)
    }

    fn new(kind: CredentialKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        for name in ["rpc", "auth", "assertion"] {
            write(name, &name.repeat(32));
        }
        let mut accepted = String::new();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate().unwrap();
        write("ca.pem", &ca.self_signed(&ca_key).unwrap().pem());
        for role in ProcessRole::ALL {
            let secret = format!("the secret of {role}");
            let hex: String =
                digest(&SHA256, secret.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            accepted.push_str(&format!("{hex} {role}\n"));
            write(&format!("rpc.{role}"), &secret);
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([certificate_name(role)]).unwrap();
            let certificate = params.signed_by(&key, &Issuer::from_params(&ca, &ca_key)).unwrap();
            write(&format!("{role}.cert"), &certificate.pem());
            write(&format!("{role}.key"), &key.serialize_pem());
        }
        write("callers", &accepted);
        Self { directory, kind }
    }

    /// The settings of a process: only `api` has the keys of tokens, and only `api` and `ingest` those of assertions.
    pub(crate) fn environment(&self, role: ProcessRole) -> Vec<(String, String)> {
        let mut environment = vec![];
        let mut set = |setting: &str, value: String| environment.push((format!("TIDINGS_{setting}"), value));
        match self.kind {
            CredentialKind::OneSecret => {
                set("RPC__SECRET_FILE", self.path("rpc"));
                set("RPC__UPGRADING", "true".to_owned());
            }
            CredentialKind::RoleSecrets => {
                set("RPC__SECRET_FILE", self.path(&format!("rpc.{role}")));
                set("RPC__CALLERS_FILE", self.path("callers"));
            }
            CredentialKind::Certificates => {
                set("RPC__CA_FILE", self.path("ca.pem"));
                set("RPC__CERT_FILE", self.path(&format!("{role}.cert")));
                set("RPC__KEY_FILE", self.path(&format!("{role}.key")));
            }
        }
        if role == ProcessRole::Api {
            set("AUTH__SECRET_FILE", self.path("auth"));
        }
        if matches!(role, ProcessRole::Api | ProcessRole::Ingest) {
            set("RPC__ASSERTION_SECRET_FILE", self.path("assertion"));
        }
        environment
    }

    /// The credentials of a role, as a process of that role holds them, or a thief.
    pub(crate) fn of(&self, role: ProcessRole) -> Security {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap();
        match self.kind {
            CredentialKind::OneSecret => Security::Secret(FleetSecret::try_from(read("rpc")).unwrap()),
            CredentialKind::RoleSecrets => Security::RoleSecrets {
                own: FleetSecret::try_from(read(&format!("rpc.{role}"))).unwrap(),
                accepted: AcceptedCallers::parse(&read("callers")).unwrap(),
            },
            CredentialKind::Certificates => Security::MutualTls {
                ca_pem: read("ca.pem").into(),
                cert_pem: read(&format!("{role}.cert")).into(),
                key_pem: read(&format!("{role}.key")).into(),
                names: CertificateNames::Roles,
            },
        }
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}
