use std::collections::BTreeSet;
use std::fs;

/// The file that lists the invariants that are asserted at run time.
const LIST: &str = "crates/ports/src/invariants.rs";
/// The calls that assert an invariant.
const SITES: [&str; 2] = ["holds(", "violated("];

#[test]
fn every_invariant_listed_as_asserted_is_asserted_somewhere_and_no_other_is() {
    let root = xtask::workspace_root();
    let list = fs::read_to_string(root.join(LIST)).unwrap();
    let (_, list) = list.split_once("const ASSERTED").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let listed: BTreeSet<&str> = list.lines().filter_map(invariant).collect();
    assert!(!listed.is_empty());

    let mut asserted = BTreeSet::new();
    for file in xtask::files(&root, ".rs").unwrap() {
        let path = file.strip_prefix(&root).unwrap();
        // What the simulator reports is no assertion of the service.
        let is_source = path.components().any(|part| part.as_os_str() == "src") && !path.starts_with("sim");
        let source = fs::read_to_string(&file).unwrap();
        // Unit tests are at the end of a file, and assert nothing at run time.
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        if is_source && path.to_str() != Some(LIST) {
            let sites = SITES.iter().flat_map(|site| source.split(site).skip(1));
            asserted.extend(sites.filter_map(invariant).map(str::to_owned));
        }
    }
    assert_eq!(asserted.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed);
}

/// The invariant that a text begins with.
fn invariant(text: &str) -> Option<&str> {
    let name = text.trim_start().strip_prefix("Invariant::")?;
    name.split(|c: char| !c.is_ascii_alphanumeric()).next()
}
