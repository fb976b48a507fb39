use std::collections::BTreeSet;
use std::fs;

use cargo_metadata::MetadataCommand;
use serde_json::Value;

#[test]
fn every_file_with_a_version_has_that_of_the_workspace() {
    let workspace = workspace_version();
    let mut others = vec![];
    for (place, version) in stated_versions() {
        if version != workspace {
            others.push(format!("{place}: {version}"));
        }
    }
    assert_eq!(others, [""; 0], "the workspace has version {workspace}");
}

/// The version of the binary, which inherits that of the workspace.
fn workspace_version() -> String {
    let metadata = MetadataCommand::new().current_dir(xtask::workspace_root()).no_deps().exec().unwrap();
    let versions = metadata.workspace_packages().into_iter().map(|package| package.version.to_string());
    let versions: BTreeSet<_> = versions.collect();
    assert_eq!(versions.len(), 1, "all crates have one version: {versions:?}");
    versions.into_iter().next().unwrap()
}

/// Each version of Tidings that a file outside of the crates states, with its location.
fn stated_versions() -> Vec<(String, String)> {
    let mut stated = vec![];
    for (file, pointers) in [
        ("package.json", &["/version"][..]),
        ("web/package.json", &["/version"]),
        // The package of the SDK gets the version of `package.json` when it is packed.
        ("package-lock.json", &["/version", "/packages//version", "/packages/web/version"]),
        ("docs/openapi.json", &["/info/version"]),
        ("docs/asyncapi.json", &["/info/version"]),
        ("docs/asyncapi-events.json", &["/info/version"]),
    ] {
        let document: Value = serde_json::from_str(&read(file)).unwrap();
        for pointer in pointers {
            let version = document.pointer(pointer).and_then(Value::as_str);
            let version = version.unwrap_or_else(|| panic!("{file} has no {pointer}"));
            stated.push((format!("{file}{pointer}"), version.to_owned()));
        }
    }
    for (file, prefixes) in [
        ("deploy/helm/tidings/Chart.yaml", &["version: ", "appVersion: "][..]),
        (
            "deploy/kubernetes/single.yaml",
            &["image: tidings:", "helm.sh/chart: tidings-", "app.kubernetes.io/version: "],
        ),
        (
            "deploy/kubernetes/fleet.yaml",
            &["image: tidings:", "helm.sh/chart: tidings-", "app.kubernetes.io/version: "],
        ),
        ("deploy/cloudformation/fleet.yaml", &["REGISTRY/tidings:"]),
        ("docs/getting-started.md", &["tidings-client-"]),
        ("web/e2e/getting-started.test.ts", &["tidings-client-"]),
    ] {
        let text = read(file);
        for prefix in prefixes {
            let found: Vec<_> = versions_after(&text, prefix).collect();
            assert!(!found.is_empty(), "{file} has no version after `{prefix}`");
            stated.extend(found.into_iter().map(|(line, version)| (format!("{file}:{line}"), version.to_owned())));
        }
    }
    stated
}

fn read(file: &str) -> String {
    fs::read_to_string(xtask::workspace_root().join(file)).unwrap()
}

/// The versions that follow a prefix, at the start of a line or after another character than a letter, each with the
/// number of its line.
fn versions_after<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let (before, after) = line.split_once(prefix)?;
        let is_word = before.ends_with(|last: char| last.is_ascii_alphanumeric());
        let after = after.trim_start_matches('"');
        let end = after.find(|byte: char| !byte.is_ascii_digit() && byte != '.').unwrap_or(after.len());
        (!is_word && end > 0).then(|| (number + 1, after[..end].trim_end_matches('.')))
    })
}

#[test]
fn versions_are_found_after_their_prefix_only() {
    let text =
        "version: 1.2.3\nappVersion: \"4.5.6\"\nimage: tidings:7.8.9.\nimage: tidings:latest\napi-client-1.0.0.tgz";
    assert_eq!(versions_after(text, "version: ").collect::<Vec<_>>(), [(1, "1.2.3")]);
    assert_eq!(versions_after(text, "appVersion: ").collect::<Vec<_>>(), [(2, "4.5.6")]);
    assert_eq!(versions_after(text, "image: tidings:").collect::<Vec<_>>(), [(3, "7.8.9")]);
    assert_eq!(versions_after(text, "client-").collect::<Vec<_>>(), [(5, "1.0.0")]);
}
