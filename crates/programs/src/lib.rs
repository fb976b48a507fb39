//! The programs that tests run and the toolchain lacks, and their locations.

use std::env;
use std::path::PathBuf;

/// The versions are in a file of their own because `scripts/engines` reads them as well.
const VERSIONS: &str = include_str!("../../../scripts/versions");

/// A program that a check needs. `cargo xtask engines` installs those that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// From the machine's package manager, in any version that it has.
    RedisServer,
    /// A broker that speaks Kafka's protocol.
    Tansu,
    /// A server that speaks DynamoDB's.
    Dynoxide,
    /// Another one, slower, which also has point-in-time recovery, backups and tags.
    Ministack,
    /// Checks the CloudFormation template.
    CfnLint,
    /// Generates requests from the OpenAPI document, and validates the responses against it.
    Schemathesis,
    /// The previous Tidings release, which some processes still run during a fleet upgrade. Its version is a commit of this
    /// repository.
    PreviousTidings,
    /// Checks the sources and licences of dependencies. No test runs it: it is a step of the whole check.
    CargoDeny,
    /// Lists the dependencies in the binary. Only releases need it.
    CargoCyclonedx,
    /// Renders the Helm chart: `xtask/chart_render/main.go`, built with the machine's Go.
    ChartRender,
    /// Validates Kubernetes manifests against the schemas of Kubernetes.
    KubernetesValidate,
    /// Checks the systemd unit; from the machine's package manager.
    SystemdAnalyze,
    /// Records the file operations of a process; from the machine's package manager.
    Strace,
}

impl Program {
    /// All programs that tests run.
    pub const ALL: [Self; 11] = [
        Self::RedisServer,
        Self::Tansu,
        Self::Dynoxide,
        Self::Ministack,
        Self::CfnLint,
        Self::Schemathesis,
        Self::PreviousTidings,
        Self::ChartRender,
        Self::KubernetesValidate,
        Self::SystemdAnalyze,
        Self::Strace,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisServer => "redis-server",
            Self::Tansu => "tansu",
            Self::Dynoxide => "dynoxide",
            Self::Ministack => "ministack",
            Self::CfnLint => "cfn-lint",
            Self::Schemathesis => "schemathesis",
            Self::PreviousTidings => "tidings",
            Self::CargoDeny => "cargo-deny",
            Self::CargoCyclonedx => "cargo-cyclonedx",
            Self::ChartRender => "chart-render",
            Self::KubernetesValidate => "kubernetes-validate",
            Self::SystemdAnalyze => "systemd-analyze",
            Self::Strace => "strace",
        }
    }

    /// The required version; none if any version works.
    pub fn version(self) -> Option<&'static str> {
        let key = match self {
            Self::RedisServer | Self::SystemdAnalyze | Self::Strace => return None,
            Self::Tansu => "TANSU",
            Self::Dynoxide => "DYNOXIDE",
            Self::Ministack => "MINISTACK",
            Self::CfnLint => "CFN_LINT",
            Self::Schemathesis => "SCHEMATHESIS",
            Self::PreviousTidings => "TIDINGS",
            Self::CargoDeny => "CARGO_DENY",
            Self::CargoCyclonedx => "CARGO_CYCLONEDX",
            Self::ChartRender => "CHART_RENDER",
            Self::KubernetesValidate => "KUBERNETES_VALIDATE",
        };
        VERSIONS.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }

    /// Its directory in the cache; none if the program is not cached, or if there is no cache.
    pub fn directory(self) -> Option<PathBuf> {
        Some(cache()?.join(format!("{}-{}", self.name(), self.version()?)))
    }

    /// The file to run, if it is there.
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::RedisServer | Self::SystemdAnalyze | Self::Strace => find_in_path(self.name()),
            _ => Some(self.directory()?.join("bin").join(self.name())).filter(|path| path.is_file()),
        }
    }
}

/// The program cache, outside the tree so that all trees of a machine share it; none if neither `XDG_CACHE_HOME` nor a
/// home directory is known.
pub fn cache() -> Option<PathBuf> {
    let caches = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(caches.or_else(|| Some(env::home_dir()?.join(".cache")))?.join("tidings-engines"))
}

/// The program of the machine with this name, if there is one.
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_programs_have_a_version() {
        for program in Program::ALL.into_iter().chain([Program::CargoDeny, Program::CargoCyclonedx]) {
            let of_machine = matches!(program, Program::RedisServer | Program::SystemdAnalyze | Program::Strace);
            assert_eq!(program.version().is_none(), of_machine, "{program:?}");
        }
        let directory = Program::Dynoxide.directory().unwrap();
        assert!(directory.ends_with(format!("tidings-engines/dynoxide-{}", Program::Dynoxide.version().unwrap())));
    }
}
