use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The workspace crates that each crate may depend on. Planes depend on no adapter, and adapters on no plane. Only the
/// server and the simulator see both, and so decide which adapter runs where.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("ports", &["domain"]),
    ("contract", &["domain", "ports"]),
    ("authenticator", &[]),
    ("damage", &[]),
    ("html", &[]),
    ("keyfile", &[]),
    ("metrics", &[]),
    ("webhook", &["ports"]),
    ("auth", &["domain", "keyfile", "ports", "webhook"]),
    ("gateway", &["domain", "ports", "protocol"]),
    ("ingest", &["domain", "ports"]),
    ("fanout", &["domain", "ports", "protocol"]),
    ("notify", &["domain", "keyfile", "ports", "protocol", "webhook"]),
    ("presence", &["domain", "ports"]),
    ("chats", &["auth", "domain", "ports", "presence", "protocol"]),
    ("audit", &["domain", "ports"]),
    ("client", &["domain", "protocol"]),
    ("web", &[]),
    ("memory", &["domain", "ports"]),
    ("embedded", &["domain", "ports", "protocol"]),
    ("dynamodb", &["domain", "ports", "protocol"]),
    ("kafka", &["domain", "ports", "protocol"]),
    ("redis", &["domain", "ports"]),
    ("rpc", &["domain", "ports"]),
    (
        "server",
        &[
            "audit", "auth", "chats", "domain", "dynamodb", "embedded", "fanout", "gateway", "ingest", "kafka",
            "keyfile", "memory", "metrics", "notify", "ports", "presence", "protocol", "redis", "rpc", "web",
            "webhook",
        ],
    ),
    (
        "tidings",
        &["audit", "client", "domain", "embedded", "html", "keyfile", "metrics", "ports", "protocol", "server"],
    ),
    (
        "sim",
        &[
            "audit", "auth", "chats", "contract", "domain", "fanout", "gateway", "html", "ingest", "keyfile", "memory",
            "notify", "ports", "presence", "protocol", "webhook",
        ],
    ),
    ("programs", &[]),
    ("engines", &["programs"]),
    ("xtask", &["programs"]),
];

/// Further dependencies of tests: the auditor of stored data, the authenticator of passkeys, the client, the contracts of
/// the ports, the generator of damaged input, the servers that adapters connect to, the plane that sends, the reference
/// adapter, and the table of metrics.
const IN_TESTS: &[&str] =
    &["audit", "authenticator", "client", "contract", "damage", "engines", "ingest", "memory", "metrics"];

/// Further dependencies of the end-to-end tests of the binary, which inspect the engines of a fleet directly.
const IN_TESTS_OF_BINARY: &[&str] = &["dynamodb", "kafka", "redis", "rpc"];

#[test]
fn crates_depend_only_along_the_arrows() {
    let metadata = MetadataCommand::new().current_dir(xtask::workspace_root()).no_deps().exec().unwrap();
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let packages: BTreeMap<&str, _> =
        metadata.workspace_packages().into_iter().map(|package| (ours(&package.name), package)).collect();
    let (listed, present): (BTreeSet<_>, BTreeSet<_>) = (arrows.keys().collect(), packages.keys().collect());
    assert_eq!(listed, present, "the table has a row for each crate");

    let mut forbidden = vec![];
    for (name, package) in &packages {
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            let target = ours(&dependency.name);
            let in_tests = dependency.kind == DependencyKind::Development
                && (IN_TESTS.contains(&target) || (*name == "tidings" && IN_TESTS_OF_BINARY.contains(&target)));
            if !arrows[name].contains(&target) && !in_tests {
                forbidden.push(format!("{name} -> {target}"));
            }
        }
    }
    assert_eq!(forbidden, [""; 0]);
}

fn ours(package: &str) -> &str {
    package.strip_prefix("tidings-").unwrap_or(package)
}
