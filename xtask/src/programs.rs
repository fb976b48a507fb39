//! The programs that tests run and the toolchain does not bring, and where they are.

use std::env;
use std::path::PathBuf;

/// The versions are in a file of their own because `scripts/engines` reads them as well.
const VERSIONS: &str = include_str!("../../scripts/versions");

/// A program that a check needs. `cargo xtask engines` provides those that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// From the machine's package manager, in any version that it has.
    RedisServer,
    /// A broker that speaks Kafka's protocol.
    Tansu,
    /// A server that speaks DynamoDB's.
    Dynoxide,
    /// Checks the CloudFormation template.
    CfnLint,
    /// Makes requests from the OpenAPI document, and holds the answers against it.
    Schemathesis,
    /// The release of ours before this one, which a fleet that is being upgraded still runs in part. Its version is a
    /// commit of this repository.
    PreviousTidings,
    /// Checks what our dependencies are, and under which licences. No test runs it: it is a step of the whole check.
    CargoDeny,
    /// Lists what is in the binary. Releases want it, no check does.
    CargoCyclonedx,
    /// Renders the Helm chart: `chart_render/main.go`, built with the machine's Go.
    ChartRender,
    /// Holds Kubernetes manifests against the schemas of Kubernetes.
    KubernetesValidate,
    /// Checks the systemd unit; from the machine's package manager.
    SystemdAnalyze,
}

impl Program {
    /// All that tests run.
    pub const ALL: [Self; 9] = [
        Self::RedisServer,
        Self::Tansu,
        Self::Dynoxide,
        Self::CfnLint,
        Self::Schemathesis,
        Self::PreviousTidings,
        Self::ChartRender,
        Self::KubernetesValidate,
        Self::SystemdAnalyze,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisServer => "redis-server",
            Self::Tansu => "tansu",
            Self::Dynoxide => "dynoxide",
            Self::CfnLint => "cfn-lint",
            Self::Schemathesis => "schemathesis",
            Self::PreviousTidings => "tidings",
            Self::CargoDeny => "cargo-deny",
            Self::CargoCyclonedx => "cargo-cyclonedx",
            Self::ChartRender => "chart-render",
            Self::KubernetesValidate => "kubernetes-validate",
            Self::SystemdAnalyze => "systemd-analyze",
        }
    }

    /// The version that we ask for; none where any will do.
    pub fn version(self) -> Option<&'static str> {
        let key = match self {
            Self::RedisServer | Self::SystemdAnalyze => return None,
            Self::Tansu => "TANSU",
            Self::Dynoxide => "DYNOXIDE",
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

    /// Its directory in the cache; none if the program does not come from there, or if there is no cache.
    pub fn directory(self) -> Option<PathBuf> {
        Some(cache()?.join(format!("{}-{}", self.name(), self.version()?)))
    }

    /// The file to run, if it is there.
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::RedisServer | Self::SystemdAnalyze => find_in_path(self.name()),
            _ => Some(self.directory()?.join("bin").join(self.name())).filter(|path| path.is_file()),
        }
    }
}

/// Where programs are kept, outside the tree so that all trees of a machine share them; none if nobody says where this
/// machine keeps its caches.
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
    fn what_the_cache_holds_has_a_version() {
        for program in Program::ALL.into_iter().chain([Program::CargoDeny, Program::CargoCyclonedx]) {
            let of_machine = matches!(program, Program::RedisServer | Program::SystemdAnalyze);
            assert_eq!(program.version().is_none(), of_machine, "{program:?}");
        }
        let directory = Program::Dynoxide.directory().unwrap();
        assert!(directory.ends_with(format!("tidings-engines/dynoxide-{}", Program::Dynoxide.version().unwrap())));
    }
}
