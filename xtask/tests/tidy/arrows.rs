use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Which of our crates each of our crates may name. Planes name no adapter, adapters name no plane; the server and the
/// simulator alone see both, and so decide what runs where.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("ports", &["domain"]),
    ("damage", &[]),
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
    ("embedded", &["domain", "ports"]),
    ("dynamodb", &["domain", "ports"]),
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
    ("tidings", &["audit", "client", "domain", "embedded", "keyfile", "metrics", "ports", "protocol", "server"]),
    (
        "sim",
        &[
            "audit", "auth", "chats", "domain", "fanout", "gateway", "ingest", "keyfile", "memory", "ports",
            "presence", "protocol",
        ],
    ),
    ("engines", &["xtask"]),
    ("xtask", &[]),
];

/// What tests may name as well: the adapter that stands for any other, the plane that sends, the client that talks to a
/// server, the servers that adapters talk to, what spoils their input, what judges all that they hold, and the table of
/// metrics that pages and alerts are held against.
const IN_TESTS: &[&str] = &["audit", "client", "damage", "engines", "ingest", "memory", "metrics"];

/// What the end-to-end tests of the binary may name on top: they look into the engines of a fleet behind its back.
const IN_TESTS_OF_BINARY: &[&str] = &["dynamodb", "kafka", "redis", "rpc"];

#[test]
fn crates_name_only_what_the_arrows_allow() {
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
