//! The lock files pin every dependency to the contents that were reviewed.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

#[test]
fn every_crate_comes_from_the_registry_with_a_checksum() {
    let root = xtask::workspace_root();
    let mut own = BTreeSet::new();
    for manifest in xtask::files(&root, "Cargo.toml").unwrap() {
        let manifest = fs::read_to_string(manifest).unwrap();
        own.extend(manifest.lines().find_map(|line| value(line, "name")).map(str::to_owned));
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let packages: Vec<&str> = lock.split("[[package]]\n").skip(1).collect();
    assert!(packages.len() > 400, "the file is read: {}", packages.len());
    let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
    let is_pinned = |package: &&&str| {
        let field = |name| package.lines().find_map(|line| value(line, name));
        match field("source") {
            None => own.contains(field("name").unwrap()),
            source => source == registry && field("checksum").is_some_and(|checksum| checksum.len() == 64),
        }
    };
    let others: Vec<_> = packages.iter().filter(|package| !is_pinned(package)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn every_npm_package_comes_from_the_registry_with_its_integrity() {
    let root = xtask::workspace_root();
    let lock: Value = serde_json::from_slice(&fs::read(root.join("package-lock.json")).unwrap()).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    let installed: Vec<_> = packages.iter().filter(|(path, _)| path.contains("node_modules/")).collect();
    assert!(installed.len() > 100, "the file is read: {}", installed.len());
    let is_pinned = |package: &Value| match (package["link"].as_bool(), package["resolved"].as_str()) {
        (Some(true), Some(workspace)) => packages.contains_key(workspace),
        (_, resolved) => {
            package["integrity"].as_str().is_some_and(|integrity| integrity.starts_with("sha512-"))
                && resolved.is_none_or(|url| url.starts_with("https://registry.npmjs.org/"))
        }
    };
    let others: Vec<_> = installed.iter().filter(|(_, package)| !is_pinned(package)).map(|(path, _)| path).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The value of a line `name = "value"`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"')
}
