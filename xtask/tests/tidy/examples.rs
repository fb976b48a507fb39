use std::fs;

#[test]
fn a_crate_with_examples_in_its_documentation_has_them_tested() {
    let root = xtask::workspace_root();
    let mut untested = vec![];
    for manifest in xtask::files(&root, "Cargo.toml").unwrap() {
        if !fs::read_to_string(&manifest).unwrap().contains("doctest = false") {
            continue;
        }
        for source in xtask::files(&manifest.with_file_name("src"), ".rs").unwrap() {
            if has_example(&fs::read_to_string(&source).unwrap()) {
                untested.push(source.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    assert_eq!(untested, [""; 0], "take `doctest = false` out of the manifest of the crate");
}

/// Whether a doc comment has a Rust example: a code block without the name of another language.
fn has_example(source: &str) -> bool {
    let mut fences = source.lines().map(str::trim_start).filter_map(|line| {
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        text.trim_start().strip_prefix("```")
    });
    let mut found = false;
    while let Some(language) = fences.next() {
        found |= language.trim() != "text";
        // The end of the block.
        fences.next();
    }
    found
}

#[test]
fn an_example_is_told_from_a_drawing() {
    assert!(has_example("/// ```\n/// let a = 1;\n/// ```"));
    assert!(has_example("//! ```text\n//! a -> b\n//! ```\n//! ```no_run\n//! a()\n//! ```"));
    assert!(!has_example("/// ```text\n/// a -> b\n/// ```\nfn a() {}"));
}
