use std::collections::BTreeMap;
use std::net::SocketAddr;

use domain::Timestamp;
use serde::Deserialize;

use super::CheckResult;

/// The service that runs in the configured data directory, as its admin listener describes it.
#[derive(Debug, Deserialize)]
pub struct RunningService {
    pub version: String,
    pub started_at: Timestamp,
    /// The addresses it listens on, by the keys of their settings.
    #[serde(default)]
    pub listeners: BTreeMap<String, SocketAddr>,
    #[serde(skip)]
    pub readiness: ServiceReadiness,
}

/// The response of `/readyz`, as far as the doctor reads it.
#[derive(Debug, Default, Deserialize)]
pub struct ServiceReadiness {
    pub status: String,
    #[serde(default)]
    pub dependencies: BTreeMap<String, DependencyReport>,
}

#[derive(Debug, Deserialize)]
pub struct DependencyReport {
    /// Why the dependency fails.
    reason: Option<String>,
    /// The behaviour of the service until it returns.
    meanwhile: Option<String>,
}

impl RunningService {
    pub(super) fn examine(&self) -> (CheckResult, String) {
        let Self { version, started_at, readiness, .. } = self;
        let verdict = match readiness.status.as_str() {
            "ready" => CheckResult::Good,
            "degraded" | "draining" => CheckResult::Warning,
            _ => CheckResult::Bad,
        };
        let mut message = format!("version {version} has run since {started_at} and is {}", readiness.status);
        for (name, report) in &readiness.dependencies {
            if let Some(reason) = &report.reason {
                message.push_str(&format!("; {name} fails: {reason}"));
                if let Some(meanwhile) = &report.meanwhile {
                    message.push_str(&format!(". Meanwhile: {meanwhile}"));
                }
            }
        }
        (verdict, message)
    }
}
