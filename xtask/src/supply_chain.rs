//! Audits the dependencies for known vulnerabilities, and lists them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use programs::Program;

use crate::provide;

/// The dependency list of the binary, as `cargo-cyclonedx` names it.
const BINARY_LIST: &str = "bins/tidings/tidings_bin.cdx.json";
/// Further lists that it writes, for the other binaries of the workspace.
const OTHER_LISTS: [&str; 2] = ["sim/tidings-sim_bin.cdx.json", "xtask/xtask_bin.cdx.json"];

/// Checks all dependencies against the vulnerability databases. They are on the internet; the whole check must work
/// offline, so it does not include this.
pub(crate) fn audit() -> anyhow::Result<()> {
    let root = xtask::workspace_root();
    let mut deny = Command::new(provide::program(Program::CargoDeny)?);
    deny.args(["--locked", "check", "advisories"]).current_dir(&root);
    let mut npm = Command::new("npm");
    // The pages are built from packages that npm counts as development dependencies, so those are included.
    npm.args(["audit"]).current_dir(&root);
    let outcomes = [("RustSec", &mut deny), ("npm", &mut npm)].map(|(database, command)| {
        println!("==> {database}: {command:?}");
        let status = command.status().with_context(|| format!("`{command:?}` could not be started"))?;
        if !status.success() {
            eprintln!("==> {database}: a known vulnerability, or the database is unreachable; see the lines above");
        }
        anyhow::Ok(status.success())
    });
    let all_well = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    ensure!(all_well == [true, true], "the audit did not pass; it needs the internet, see docs/security.md");
    Ok(())
}

/// Writes the dependencies of the binary and of its pages as CycloneDX.
pub(crate) fn sbom() -> anyhow::Result<()> {
    let root = xtask::workspace_root();
    let directory = root.join("target/sbom");
    fs::create_dir_all(&directory).with_context(|| format!("`{}` cannot be made", directory.display()))?;
    let mut cyclonedx = Command::new(provide::program(Program::CargoCyclonedx)?);
    cyclonedx.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--describe", "binaries"]);
    let status = cyclonedx.current_dir(&root).status().context("cargo-cyclonedx could not be started")?;
    ensure!(status.success(), "cargo-cyclonedx failed");
    for other in OTHER_LISTS {
        fs::remove_file(root.join(other)).with_context(|| format!("`{other}` was not written"))?;
    }
    let binary = directory.join("tidings.cdx.json");
    fs::rename(root.join(BINARY_LIST), &binary).with_context(|| format!("`{BINARY_LIST}` was not written"))?;
    println!("{}", binary.display());

    provide::node_packages()?;
    let mut npm = Command::new("npm");
    npm.args(["sbom", "--sbom-format", "cyclonedx", "--workspace", "web"]);
    let listed = npm.current_dir(&root).output().context("npm could not be started")?;
    ensure!(listed.status.success(), "npm sbom failed: {}", String::from_utf8_lossy(&listed.stderr));
    let pages = directory.join("pages.cdx.json");
    write(&pages, &listed.stdout)?;
    println!("{}", pages.display());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("`{}` cannot be written", path.display()))
}
