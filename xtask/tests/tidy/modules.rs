use std::fs;
use std::path::Path;

#[test]
fn every_source_file_is_a_module_of_its_crate() {
    let root = xtask::workspace_root();
    let mut dead = vec![];
    for file in xtask::files(&root, ".rs").unwrap() {
        let in_src = file.strip_prefix(&root).unwrap().components().any(|part| part.as_os_str() == "src");
        // The module of `frame/mod.rs` is `frame`.
        let module = if file.ends_with("mod.rs") { file.parent().unwrap() } else { &file };
        let name = module.file_stem().unwrap().to_string_lossy();
        if in_src && name != "lib" && name != "main" && !is_declared(module.parent().unwrap(), &name) {
            dead.push(file.strip_prefix(&root).unwrap().display().to_string());
        }
    }
    assert_eq!(dead, [""; 0]);
}

/// Whether one of the files that a directory's modules belong to declares the module.
fn is_declared(directory: &Path, module: &str) -> bool {
    [directory.join("lib.rs"), directory.join("main.rs"), directory.join("mod.rs"), directory.with_extension("rs")]
        .iter()
        .filter_map(|parent| fs::read_to_string(parent).ok())
        .any(|source| source.lines().any(|line| line.trim_end().ends_with(&format!("mod {module};"))))
}
