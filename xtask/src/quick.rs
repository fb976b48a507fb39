use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::provide;

pub(crate) const HELP: &str = "\
Checks what changed: format, then clippy and the tests of each crate that has a changed file.

usage: cargo xtask quick [--base COMMIT]

  --base COMMIT    what to compare with [default: the last commit, so that uncommitted files count as changed]

The tests of other crates, which use a changed one, are left to `cargo xtask ci`. Files of the web pages and the TypeScript
client are type-checked. A change under `docs/` or `deploy/`, or in a manifest, also runs `cargo xtask tidy`.
";

/// Checks the packages with files that differ from a commit.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let base = match arguments {
        [] => "HEAD",
        ["--base", base] => base,
        _ => {
            print!("{HELP}");
            ensure!(arguments == ["--help"], "`{}` is not an option of quick", arguments.join(" "));
            return Ok(());
        }
    };
    let began = Instant::now();
    let changed = changed_files(base)?;
    let packages: BTreeSet<_> = changed.iter().filter_map(|file| package(&xtask::workspace_root(), file)).collect();
    call("cargo", &["fmt", "--all", "--check"])?;
    if !packages.is_empty() {
        provide::build_tools()?;
        provide::nextest()?;
        let selected: Vec<&str> = packages.iter().flat_map(|package| ["--package", package.as_str()]).collect();
        let clippy = [&["clippy", "--all-targets", "--all-features"][..], &selected, &["--", "--deny", "warnings"]];
        call("cargo", &clippy.concat())?;
        call("cargo", &[&["nextest", "run", "--all-features", "--no-tests", "pass"][..], &selected].concat())?;
    }
    if changed.iter().any(|file| file.starts_with("web/") || file.starts_with("clients/")) {
        provide::node_packages()?;
        call("npm", &["run", "check", "--workspaces"])?;
        call("npm", &["run", "check:pages"])?;
    }
    if changed.iter().any(|file| is_tidied(file)) && !packages.contains("xtask") {
        provide::nextest()?;
        provide::promtool()?;
        call("cargo", &["nextest", "run", "--package", "xtask"])?;
    }
    println!(
        "==> {} changed files, {} packages: passed in {:.1} s",
        changed.len(),
        packages.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Files that differ from a commit, and files that git does not know yet.
fn changed_files(base: &str) -> anyhow::Result<Vec<String>> {
    let mut files = vec![];
    for arguments in
        [&["diff", "--name-only", "--no-renames", base][..], &["ls-files", "--others", "--exclude-standard"]]
    {
        let output = Command::new("git").args(arguments).current_dir(xtask::workspace_root()).output()?;
        ensure!(output.status.success(), "`git {}` failed; is `{base}` a commit?", arguments.join(" "));
        files.extend(String::from_utf8(output.stdout)?.lines().map(str::to_owned));
    }
    Ok(files)
}

/// The package that a file belongs to: that of the nearest manifest above it.
fn package(root: &Path, file: &str) -> Option<String> {
    let directories = Path::new(file).ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty());
    let manifest = directories.map(|directory| root.join(directory).join("Cargo.toml")).find(|path| path.is_file())?;
    let text = std::fs::read_to_string(manifest).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"').to_owned())
}

/// Whether tidy has rules about a file that is not Rust.
fn is_tidied(file: &str) -> bool {
    file.starts_with("docs/") || file.starts_with("deploy/") || file.ends_with("Cargo.toml") || file.ends_with(".md")
}

fn call(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let line = format!("{program} {}", arguments.join(" "));
    println!("==> {line}");
    let status = Command::new(program).args(arguments).current_dir(xtask::workspace_root()).status();
    ensure!(status.with_context(|| format!("`{line}` could not be started"))?.success(), "`{line}` failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_package_of_the_nearest_manifest() {
        let root = xtask::workspace_root();
        let of = |file| package(&root, file);
        assert_eq!(of("crates/ports/src/lib.rs").as_deref(), Some("tidings-ports"));
        assert_eq!(of("bins/tidings/tests/it/main.rs").as_deref(), Some("tidings"));
        assert_eq!(of("xtask/src/quick.rs").as_deref(), Some("xtask"));
        assert_eq!(of("docs/README.md"), None);
        assert_eq!(of("Cargo.toml"), None);
    }
}
