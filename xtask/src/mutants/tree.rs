//! A copy of the tree that contains all mutants of a sample, each behind a switch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::generate::Mutant;

/// The variable that names the active mutant, counted from 1.
pub(super) const ACTIVE: &str = "TIDINGS_MUTANT";
/// The call in the place of `@@`. Every mutated crate depends on `domain`.
const IS_ACTIVE: &str = "::domain::mutants::is_active";
const SWITCH: &str = r#"//! The switch of the mutants in this copy of the tree.

use std::sync::OnceLock;

/// Whether a mutant is the active one.
pub fn is_active(n: u32) -> bool {
    static ACTIVE: OnceLock<u32> = OnceLock::new();
    *ACTIVE.get_or_init(|| std::env::var("TIDINGS_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0)) == n
}
"#;
/// Builds that leave out mutants which do not compile.
const BUILDS_MAX: usize = 8;

/// The files of compiler errors, with the bytes that each names.
type ErrorLocations = Vec<(String, Range<usize>)>;

/// The copy, with the programs built from it.
pub(super) struct MutatedTree {
    directory: PathBuf,
    target: PathBuf,
}

/// The programs built from the copy.
pub(super) struct MutatedPrograms {
    pub(super) simulator: PathBuf,
    /// The tests of each package.
    pub(super) tests: BTreeMap<String, Vec<PathBuf>>,
}

impl MutatedTree {
    pub(super) fn new(directory: PathBuf, target: PathBuf) -> Self {
        Self { directory, target }
    }

    /// The directory of a package in the copy.
    pub(super) fn package(&self, package: &str) -> PathBuf {
        self.directory.join("crates").join(package.trim_start_matches("tidings-"))
    }

    /// Copies the tree and builds it with these mutants. Returns the programs and the numbers of the mutants that do not
    /// compile, and are left out.
    pub(super) fn build(
        &self,
        root: &Path,
        mutants: &[Mutant],
        packages: &[&str],
    ) -> anyhow::Result<(MutatedPrograms, BTreeSet<usize>)> {
        let mut left_out = BTreeSet::new();
        for _ in 0..BUILDS_MAX {
            let places = self.write(root, mutants, &left_out)?;
            let (programs, errors) = self.compile(packages)?;
            if errors.is_empty() {
                return Ok((programs, left_out));
            }
            let before = left_out.len();
            for (file, bytes) in &errors {
                let of_file = places.iter().filter(|place| place.file == *file);
                let hit = of_file.filter(|place| place.bytes.start < bytes.end && bytes.start < place.bytes.end);
                left_out.extend(hit.map(|place| place.n));
            }
            ensure!(left_out.len() > before, "the copy does not compile, and no mutant is at {errors:?}");
            println!("{} mutants do not compile; building again without them", left_out.len());
        }
        bail!("{BUILDS_MAX} builds were not enough to leave out all mutants that do not compile")
    }

    /// Writes the copy. Only files that differ are written, so that the next build is incremental.
    fn write(&self, root: &Path, mutants: &[Mutant], left_out: &BTreeSet<usize>) -> anyhow::Result<Vec<MutatedPlace>> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "-co", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("`git ls-files` could not be started")?;
        ensure!(listed.status.success(), "`git ls-files` failed: {}", String::from_utf8_lossy(&listed.stderr));
        let mut places = vec![];
        for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
            let Ok(mut content) = fs::read(root.join(name)) else { continue };
            let of_file: Vec<(usize, &Mutant)> =
                mutants.iter().enumerate().filter(|(n, mutant)| mutant.file == name && !left_out.contains(n)).collect();
            if !of_file.is_empty() {
                let (text, of_file) = with_mutants(&String::from_utf8(content)?, &of_file);
                places.extend(of_file);
                content = text.into_bytes();
            }
            if name == "crates/domain/src/lib.rs" {
                content.extend_from_slice(b"\npub mod mutants;\n");
            }
            write_if_changed(&self.directory.join(name), &content)?;
        }
        write_if_changed(&self.directory.join("crates/domain/src/mutants.rs"), SWITCH.as_bytes())?;
        Ok(places)
    }

    /// Builds the simulator and the tests. Returns the programs, and the places of errors.
    fn compile(&self, packages: &[&str]) -> anyhow::Result<(MutatedPrograms, ErrorLocations)> {
        let simulator = ["build", "--package", "tidings-sim"];
        let mut tests = vec!["test", "--no-run"];
        packages.iter().for_each(|package| tests.extend(["--package", *package]));
        let mut programs = MutatedPrograms { simulator: self.target.join("debug/tidings-sim"), tests: BTreeMap::new() };
        for arguments in [&simulator[..], &tests[..]].into_iter().take(if packages.is_empty() { 1 } else { 2 }) {
            let output = Command::new("cargo")
                .args(arguments)
                .arg("--message-format=json")
                .current_dir(&self.directory)
                .env("CARGO_TARGET_DIR", &self.target)
                .env("CARGO_INCREMENTAL", "1")
                .stderr(Stdio::inherit())
                .output()
                .context("cargo could not be started")?;
            let mut errors = vec![];
            for line in String::from_utf8(output.stdout)?.lines() {
                let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
                errors.extend(error_locations(&message));
                if let (Some(program), Some(true)) =
                    (message["executable"].as_str(), message["profile"]["test"].as_bool())
                {
                    // `path+file:///tree/crates/gateway#tidings-gateway@1.0.0`, or with the version alone.
                    let id = message["package_id"].as_str().unwrap_or_default();
                    let package = packages.iter().find(|package| id.contains(&format!("#{package}@")));
                    if let Some(package) = package {
                        programs.tests.entry((*package).to_owned()).or_default().push(PathBuf::from(program));
                    }
                }
            }
            if !errors.is_empty() {
                return Ok((programs, errors));
            }
            ensure!(output.status.success(), "`cargo {}` failed in the copy of the tree", arguments.join(" "));
        }
        ensure!(programs.tests.len() == packages.len(), "tests of {packages:?} were built as {:?}", programs.tests);
        Ok((programs, vec![]))
    }
}

/// The place of a mutant in a mutated file.
struct MutatedPlace {
    n: usize,
    file: String,
    bytes: Range<usize>,
}

/// A file with all of its mutants, which do not overlap.
fn with_mutants(source: &str, mutants: &[(usize, &Mutant)]) -> (String, Vec<MutatedPlace>) {
    let mut mutants = mutants.to_vec();
    mutants.sort_by_key(|(_, mutant)| mutant.from);
    let (mut text, mut places, mut from) = (String::new(), vec![], 0);
    for (n, mutant) in mutants {
        text.push_str(&source[from..mutant.from]);
        let start = text.len();
        text.push_str(&mutant.text.replace("@@", &format!("{IS_ACTIVE}({})", n + 1)));
        places.push(MutatedPlace { n, file: mutant.file.clone(), bytes: start..text.len() });
        from = mutant.to;
    }
    text.push_str(&source[from..]);
    (text, places)
}

/// The files and bytes that an error of the compiler names.
fn error_locations(message: &Value) -> ErrorLocations {
    let message = &message["message"];
    if message["level"] != "error" {
        return vec![];
    }
    let spans = message["spans"].as_array().into_iter().flatten();
    let places = spans.filter_map(|span| {
        let number = |name: &str| span[name].as_u64().map(|bytes| bytes as usize);
        Some((span["file_name"].as_str()?.to_owned(), number("byte_start")?..number("byte_end")?))
    });
    places.collect()
}

fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, content)
}
