use std::collections::BTreeSet;
use std::fs;

#[test]
fn relative_links_lead_somewhere() {
    let root = xtask::workspace_root();
    let mut dead = vec![];
    for file in xtask::files(&root, ".md").unwrap() {
        let directory = file.parent().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        for link in relative_links(&text).filter(|link| !directory.join(link).exists()) {
            dead.push(format!("{}: {link}", file.strip_prefix(&root).unwrap_or(&file).display()));
        }
    }
    assert_eq!(dead, [""; 0]);
}

#[test]
fn every_page_of_the_documentation_is_in_an_index() {
    let docs = xtask::workspace_root().join("docs");
    // Runbooks are found by their alerts.
    let indexes = ["README.md", "runbooks/README.md", "alerts.md"].map(|index| docs.join(index));
    let mut indexed = BTreeSet::new();
    for index in &indexes {
        let directory = index.parent().unwrap();
        let text = fs::read_to_string(index).unwrap();
        indexed.extend(relative_links(&text).filter_map(|link| directory.join(link).canonicalize().ok()));
    }
    let mut missing = vec![];
    for ending in [".md", ".json", ".toml"] {
        for page in xtask::files(&docs, ending).unwrap() {
            if *page != indexes[0] && !indexed.contains(&page.canonicalize().unwrap()) {
                missing.push(page.strip_prefix(&docs).unwrap().display().to_string());
            }
        }
    }
    assert_eq!(missing, [""; 0], "neither docs/README.md nor an index of runbooks names them");
}

#[test]
fn links_are_found_outside_code_and_without_their_fragments() {
    let text = "See [a](docs/a.md#part), [b](https://example.org/b.md), [c](#here) and ![d](d.svg).\n\
                ```\n[e](not/a/link.md)\n```\n[f](f.md)";
    assert_eq!(relative_links(text).collect::<Vec<_>>(), ["docs/a.md", "d.svg", "f.md"]);
}

/// The files that the links of a Markdown text name.
fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines()
        .filter(move |line| {
            let fence = line.trim_start().starts_with("```");
            in_code ^= fence;
            !in_code && !fence
        })
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .filter_map(|link| link.split('#').next())
        .filter(|path| !path.is_empty())
}
