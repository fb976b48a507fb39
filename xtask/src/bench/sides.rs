use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::options::Options;
use crate::provide;

/// What is compared, built.
pub(super) struct Sides {
    pub(super) base: Side,
    pub(super) head: Side,
    /// On the disk of the tree, for what the servers under load store.
    pub(super) directory: PathBuf,
}

pub(super) struct Side {
    /// The commit with its subject, or that it is the working tree.
    pub(super) name: String,
    pub(super) binary: PathBuf,
}

/// Builds what is not in the cache. Base comes first, so that the target directory ends with the binary of the tree.
pub(super) fn provide(options: &Options) -> anyhow::Result<Sides> {
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

/// Builds the working tree as it is shipped. The binary is taken aside, where a build in the meantime does not replace it.
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

/// Where a commit left origin/main. One that is part of it, or of a clone without it, is held against the one before.
fn origin_of(tip: &str) -> anyhow::Result<String> {
    match git(&["merge-base", tip, "origin/main"]) {
        Ok(base) if base != tip => Ok(base),
        _ => commit(&format!("{tip}~1")),
    }
}

/// The full id of a commit.
fn commit(name: &str) -> anyhow::Result<String> {
    git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
        .with_context(|| format!("`{name}` is no commit of this clone, which may be shallow"))
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
