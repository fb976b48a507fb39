//! Programs that say whether what is deployed would be taken.

use std::path::PathBuf;

use xtask::Program;

use crate::program;

/// The file of `chart-render`, which renders a Helm chart, and prints YAML as JSON.
///
/// # Panics
/// If it is not there.
pub fn chart_render() -> PathBuf {
    program::path(Program::ChartRender)
}

/// The file of `kubernetes-validate`, which holds manifests against the schemas of Kubernetes.
///
/// # Panics
/// If it is not there.
pub fn kubernetes_validate() -> PathBuf {
    program::path(Program::KubernetesValidate)
}

/// The file of `systemd-analyze`, which checks units.
///
/// # Panics
/// If it is not there.
pub fn systemd_analyze() -> PathBuf {
    program::path(Program::SystemdAnalyze)
}
