//! Checks everything that a service needs, and reports problems and their remedies in plain words.

#[cfg(feature = "fleet")]
pub(crate) mod fleet;
mod running;
pub(crate) mod single;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{ExternalConfig, KeySetError};
use nix::sys::resource::{Resource, getrlimit};
use ports::{Clock, SystemClock, error_chain};
use serde::Serialize;

pub use self::running::{RunningService, ServiceReadiness};
use crate::config::{Config, UnsafeSeverity};
use crate::external_issuer;
use crate::outward::receiver;
use crate::tls::CertificateFiles;

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckFinding {
    /// The checked item.
    pub check: &'static str,
    pub verdict: CheckResult,
    /// The finding and its remedy.
    pub message: String,
}

impl CheckFinding {
    pub(crate) fn new(check: &'static str, (verdict, message): (CheckResult, String)) -> Self {
        Self { check, verdict, message }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    Good,
    /// It works, but will cause problems under load.
    Warning,
    /// The service cannot run with it.
    Bad,
}

/// With fewer open files than this, connections will be refused.
const FILES_MIN: u64 = 8192;

/// A certificate should be renewed before this much time is left.
const CERTIFICATE_TIME_MIN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Checks this machine against a configuration, without lasting changes. Addresses and files in use are no problem if
/// the running service of this configuration uses them.
pub async fn examine(config: &Config, running: Option<&RunningService>) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let mut note = |check, verdict, message| findings.push(CheckFinding { check, verdict, message });
    if let Some(running) = running {
        let (verdict, message) = running.examine();
        note("service", verdict, message);
    }
    for (key, address) in config.addresses() {
        let (verdict, message) = listener(key, address, running);
        note(key, verdict, message);
    }
    findings.extend(config.store.engine.descriptor().examine(config, running).await);
    let mut note = |check, verdict, message| findings.push(CheckFinding { check, verdict, message });
    let (verdict, message) = open_files();
    note("open files", verdict, message);
    for (key, url, secret_file) in config.receivers() {
        match receiver(key, url, secret_file, Arc::new(SystemClock)) {
            Ok(_) => note(key, CheckResult::Good, format!("calls are signed with the secret in `{secret_file}`")),
            Err(error) => note(key, CheckResult::Bad, format!("{error:#}")),
        }
    }
    for files in CertificateFiles::of(config).into_iter().flatten() {
        let (verdict, message) = certificate(&files);
        note(files.table, verdict, message);
    }
    if let Ok(Some(external)) = config.external_issuer() {
        let (verdict, message) = issuer(&external).await;
        note("auth.external", verdict, message);
    }
    if let Ok(Some(party)) = config.relying_party() {
        let (rp_id, origins) = (party.rp_id(), party.origins().join(", "));
        note("auth.passkeys", CheckResult::Good, format!("passkeys are bound to `{rp_id}`, for pages of {origins}"));
    }
    for setting in config.unsafe_settings() {
        let accepted = config.dev || config.insecure;
        let verdict = match setting.severity {
            UnsafeSeverity::Refused if !accepted => CheckResult::Bad,
            _ => CheckResult::Warning,
        };
        note(setting.key, verdict, setting.message);
    }
    if config.dev {
        note("dev", CheckResult::Warning, "--dev lets any user sign in with the code 000000".to_owned());
    }
    findings
}

/// Whether a service can listen on an address, or the running one does.
fn listener(key: &str, address: SocketAddr, running: Option<&RunningService>) -> (CheckResult, String) {
    let current = running.and_then(|service| service.listeners.get(key));
    match TcpListener::bind(address) {
        Ok(_) => match current {
            Some(current) if address.port() != 0 => (
                CheckResult::Warning,
                format!("the running service listens on {current}; {address} is free and applies after a restart"),
            ),
            _ => (CheckResult::Good, format!("{address} is free")),
        },
        Err(_) if current == Some(&address) => (CheckResult::Good, format!("the running service listens on {address}")),
        Err(error) => (
            CheckResult::Bad,
            format!(
                "cannot listen on {address}: {error}; stop the process that uses it or set `{key}` to another address"
            ),
        ),
    }
}

/// Whether the keys of the external identity provider can be used now.
async fn issuer(external: &ExternalConfig) -> (CheckResult, String) {
    match external.check().await {
        Ok(1) => (CheckResult::Good, format!("1 key of `{}` can be used", external.issuer)),
        Ok(keys) => (CheckResult::Good, format!("{keys} keys of `{}` can be used", external.issuer)),
        Err(error @ KeySetError::Unusable(_)) => {
            (CheckResult::Bad, format!("{}; {}", error_chain(&error), external_issuer::remedy(external)))
        }
        Err(error @ KeySetError::Unavailable(_)) => (
            CheckResult::Warning,
            format!("{}; tokens are refused until the issuer can be reached from this machine", error_chain(&error)),
        ),
    }
}

/// The validity of a listener's certificate.
fn certificate(files: &CertificateFiles) -> (CheckResult, String) {
    match files.expires_at() {
        Ok(at) if at <= SystemClock.now() => {
            (CheckResult::Bad, format!("the certificate has expired at {at}; renew it"))
        }
        Ok(at) if at.since(SystemClock.now()) < CERTIFICATE_TIME_MIN => (
            CheckResult::Warning,
            format!("the certificate expires at {at}; renew it, and the running service takes it"),
        ),
        Ok(at) => (CheckResult::Good, format!("the certificate is good until {at}")),
        Err(error) => (CheckResult::Bad, error_chain(&error).to_string()),
    }
}

fn open_files() -> (CheckResult, String) {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= FILES_MIN => (CheckResult::Good, format!("up to {soft}")),
        Ok((soft, _)) => (
            CheckResult::Warning,
            format!("up to {soft}, and each connection takes one; raise it with `ulimit -n 65536`"),
        ),
        Err(error) => (CheckResult::Warning, format!("the limit cannot be read: {error}")),
    }
}

/// An unnamed file, which disappears when it is closed.
fn tempfile_in(directory: &Path) -> std::io::Result<std::fs::File> {
    use nix::fcntl::OFlag;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).custom_flags(OFlag::O_TMPFILE.bits()).mode(0o600).open(directory)
}

fn nearest_existing(path: &Path) -> &Path {
    let mut path = path;
    while !path.exists() {
        path = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
    }
    path
}
