use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::provide;

pub(crate) const HELP: &str = "\
Checks what changed: format, then clippy and the quick tests of each crate that has a changed file.

usage: cargo xtask quick [--base COMMIT]

  --base COMMIT    what to compare with [default: the last commit, so that uncommitted files count as changed]

`cargo xtask ci` also runs the tests of crates that use a changed one, and the slow tests: fleets, crashes, power cuts,
loads, histories, requests of schemathesis, and simulations with known bugs. Files of the web pages and the TypeScript client
are type-checked. A change under `docs/` or `deploy/`, or in a manifest, also runs `cargo xtask tidy`.
";

/// Test binaries that take minutes.
const SLOW_BINARIES: [&str; 4] = ["crash", "fleet", "load", "powercut"];
/// Test modules that take minutes: the package, the test binary, the module.
const SLOW_MODULES: [(&str, &str, &str); 3] =
    [("tidings", "it", "histories"), ("tidings", "it", "openapi"), ("tidings-sim", "it", "bugs")];

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
        let quick_tests = quick_tests();
        let tests = ["nextest", "run", "--all-features", "--no-tests", "pass", "--filterset", &quick_tests];
        call("cargo", &[&tests[..], &selected].concat())?;
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

/// The filter for all tests but the slow ones.
fn quick_tests() -> String {
    let binaries = SLOW_BINARIES.map(|binary| format!("binary({binary})"));
    let modules = SLOW_MODULES
        .map(|(package, binary, module)| format!("(package({package}) & binary({binary}) & test(/^{module}::/))"));
    format!("not ({} | {})", binaries.join(" | "), modules.join(" | "))
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

    #[test]
    fn the_slow_tests_exist() {
        let root = xtask::workspace_root();
        let is_binary = |name: &str| {
            let path = root.join("bins/tidings/tests").join(name);
            path.join("main.rs").is_file() || path.with_extension("rs").is_file()
        };
        for binary in SLOW_BINARIES {
            assert!(is_binary(binary), "there is no test binary `{binary}`");
        }
        for (package, binary, module) in SLOW_MODULES {
            let directory = if package == "tidings-sim" { "sim/tests" } else { "bins/tidings/tests" };
            let file = root.join(directory).join(binary).join(module).with_extension("rs");
            assert!(file.is_file(), "there is no `{}`", file.display());
        }
    }

    #[test]
    fn the_filter_leaves_out_binaries_and_modules() {
        let filter = quick_tests();
        assert!(filter.starts_with("not (binary(crash) | binary(fleet) | "), "{filter}");
        assert!(filter.ends_with(" | (package(tidings-sim) & binary(it) & test(/^bugs::/)))"), "{filter}");
    }
}
