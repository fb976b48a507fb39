//! Programs that validate deployment files.

use std::path::PathBuf;

use programs::Program;

use crate::program;

/// The path of `chart-render`, which renders a Helm chart, and prints YAML as JSON.
///
/// # Panics
/// If it is missing.
pub fn chart_render() -> PathBuf {
    program::path(Program::ChartRender)
}

/// The path of `kubernetes-validate`, which validates manifests against the schemas of Kubernetes.
///
/// # Panics
/// If it is missing.
pub fn kubernetes_validate() -> PathBuf {
    program::path(Program::KubernetesValidate)
}

/// The path of `systemd-analyze`, which checks units.
///
/// # Panics
/// If it is missing.
pub fn systemd_analyze() -> PathBuf {
    program::path(Program::SystemdAnalyze)
}
