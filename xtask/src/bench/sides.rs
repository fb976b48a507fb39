use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::options::BenchOptions;
use crate::provide;

/// The two built sides of a comparison.
pub(super) struct Sides {
    pub(super) base: Side,
    pub(super) head: Side,
    /// Data directory of the servers under load, on the disk of the tree.
    pub(super) directory: PathBuf,
}

pub(super) struct Side {
    /// The commit with its subject, or a name for the working tree.
    pub(super) name: String,
    pub(super) binary: PathBuf,
}

/// Builds the sides that are not cached. Base is first, so that the target directory ends with the tree's binary.
pub(super) fn provide(options: &BenchOptions) -> anyhow::Result<Sides> {
    let tip = commit(options.head.as_deref().unwrap_or("HEAD"))?;
    let base = match &options.base {
        Some(base) => commit(base)?,
        None => origin_of(&tip)?,
    };
    let directory = xtask::target_directory().join("bench");
    fs::create_dir_all(&directory).with_context(|| format!("`{}` cannot be made", directory.display()))?;
    let base = Side::of_commit(&base)?;
    let head = match &options.head {
        Some(_) => Side::of_commit(&tip)?,
        None => Side { name: format!("the working tree on {}", subject(&tip)?), binary: build_tree(&directory)? },
    };
    Ok(Sides { base, head, directory })
}

impl Side {
    fn of_commit(commit: &str) -> anyhow::Result<Self> {
        Ok(Self { name: subject(commit)?, binary: provide::tidings_of(commit)? })
    }
}

/// Builds a release of the working tree, and copies the binary to where a concurrent build does not replace it.
fn build_tree(directory: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--release"]).current_dir(xtask::workspace_root()).env("CARGO_INCREMENTAL", "0");
    let status = cargo.status().context("cargo could not be started")?;
    ensure!(status.success(), "the working tree does not build");
    let binary = directory.join("tidings");
    fs::copy(xtask::target_directory().join("release").join("tidings"), &binary)
        .with_context(|| format!("`{}` cannot be written", binary.display()))?;
    Ok(binary)
}

/// The merge base of a commit and origin/main. If the commit is on origin/main, or that is unknown, its parent.
fn origin_of(tip: &str) -> anyhow::Result<String> {
    match git(&["merge-base", tip, "origin/main"]) {
        Ok(base) if base != tip => Ok(base),
        _ => commit(&format!("{tip}~1")),
    }
}

/// The full id of a commit.
fn commit(name: &str) -> anyhow::Result<String> {
    git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
        .with_context(|| format!("`{name}` is not a commit of this clone, which may be shallow"))
}

fn subject(commit: &str) -> anyhow::Result<String> {
    git(&["log", "-1", "--format=%h %s", commit])
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(xtask::workspace_root()).output();
    let output = output.context("git could not be started")?;
    ensure!(output.status.success(), "`git {}` ended with {}", arguments.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
