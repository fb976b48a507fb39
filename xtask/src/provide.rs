//! Installs the programs that a check needs and the toolchain lacks.
//!
//! Progress goes to the standard error: the standard output of `cargo xtask engines` is for scripts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use programs::Program;

use crate::build_cache::BUILD_DIRECTORY;

/// Build tools of our dependencies: each program, arguments that probe it, and its Debian package. `librdkafka` is C and
/// C++, and Perl configures the OpenSSL in it, with modules that a minimal Perl lacks.
const BUILD_TOOLS: [(&str, &[&str], &str); 3] = [
    ("c++", &["--version"], "g++"),
    ("make", &["--version"], "make"),
    ("perl", &["-MFindBin", "-MIPC::Cmd", "-e", "1"], "perl"),
];

/// With their release profile these take many CPU minutes to build, tansu half an hour. A quick build matters more here.
const QUICK_PROFILE: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"), ("CARGO_PROFILE_RELEASE_LTO", "off")];

const NO_CACHE: &str = "neither XDG_CACHE_HOME nor HOME says where to keep programs";

/// Entry points of the Python programs.
const CFN_LINT: &str = "from cfnlint.runner import main; main()";
const MINISTACK: &str = "from ministack.app import main; main()";
const KUBERNETES_VALIDATE: &str = "from kubernetes_validate.__main__ import main; main()";
const SCHEMATHESIS: &str = "from schemathesis.cli import schemathesis; schemathesis()";

/// Installs the compilers that our dependencies need.
pub(crate) fn build_tools() -> anyhow::Result<()> {
    let missing = BUILD_TOOLS.iter().filter(|(program, arguments, _)| !answers(program, arguments));
    apt_install(&missing.map(|(_, _, package)| *package).collect::<Vec<_>>())
}

/// Installs `cargo nextest`.
pub(crate) fn nextest() -> anyhow::Result<()> {
    if answers("cargo", &["nextest", "--version"]) {
        return Ok(());
    }
    eprintln!("==> installing cargo-nextest");
    call(Command::new("cargo").args(["install", "--locked", "cargo-nextest"]))
}

/// Installs the packages of the TypeScript parts, as locked.
pub(crate) fn node_packages() -> anyhow::Result<()> {
    if !answers("npm", &["--version"]) {
        apt_install(&["nodejs", "npm"])?;
    }
    let root = xtask::workspace_root();
    // npm writes this file after an installation. It omits packages for other platforms, so compare times, not contents.
    let installed = root.join("node_modules/.package-lock.json").metadata().and_then(|note| note.modified());
    let locked = root.join("package-lock.json").metadata()?.modified()?;
    if installed.is_ok_and(|installed| installed >= locked) {
        return Ok(());
    }
    eprintln!("==> installing the packages of package-lock.json");
    call(Command::new("npm").arg("ci").current_dir(root))
}

/// Installs the browser for the tests of the pages.
pub(crate) fn chromium() -> anyhow::Result<()> {
    if answers("chromium", &["--version"]) {
        return Ok(());
    }
    apt_install(&["chromium"])
}

/// Installs a program if needed, and returns its path.
pub(crate) fn program(program: Program) -> anyhow::Result<PathBuf> {
    if let Some(path) = program.find() {
        return Ok(path);
    }
    match program {
        Program::RedisServer => apt_install_service("redis-server")?,
        Program::Tansu => into_cache(program, |version, root| {
            let package = ["tansu", "--version", version, "--no-default-features", "--features", "libsql"];
            cargo_install(&package, root)
        })?,
        Program::Dynoxide => {
            into_cache(program, |version, root| cargo_install(&["dynoxide-rs", "--version", version], root))?;
        }
        Program::CargoDeny | Program::CargoCyclonedx => {
            into_cache(program, |version, root| cargo_install(&[program.name(), "--version", version], root))?
        }
        Program::Ministack => into_cache(program, |version, root| python(program, MINISTACK, version, root))?,
        Program::CfnLint => into_cache(program, |version, root| python(program, CFN_LINT, version, root))?,
        Program::Schemathesis => into_cache(program, |version, root| python(program, SCHEMATHESIS, version, root))?,
        Program::PreviousTidings => into_cache(program, previous_tidings)?,
        Program::ChartRender => into_cache(program, |_, root| chart_render(root))?,
        Program::KubernetesValidate => {
            into_cache(program, |version, root| python(program, KUBERNETES_VALIDATE, version, root))?;
        }
        Program::SystemdAnalyze => apt_install(&["systemd"])?,
        Program::Strace => apt_install(&["strace"])?,
    }
    program.find().with_context(|| format!("{} is not where it was installed", program.name()))
}

/// Installs all programs that tests run.
pub(crate) fn all_programs() -> anyhow::Result<()> {
    Program::ALL.into_iter().try_for_each(|each| program(each).map(drop))
}

/// Installs `cargo-deny`.
pub(crate) fn cargo_deny() -> anyhow::Result<()> {
    program(Program::CargoDeny).map(drop)
}

/// Builds the release binary of a commit of this repository if needed, and returns its path.
pub(crate) fn tidings_of(commit: &str) -> anyhow::Result<PathBuf> {
    let directory = programs::cache().context(NO_CACHE)?.join(format!("tidings-release-{commit}"));
    fill(&directory, "tidings", |root| {
        forget_release_builds()?;
        let target = xtask::target_directory();
        build_commit(commit, root, &["build", "--locked", "--release"], "release", &target)?;
        forget_release_builds()
    })?;
    Ok(directory.join("bin").join("tidings"))
}

/// Removes the release builds of our crates from the target directory, and keeps those of dependencies. Cargo would use
/// crates of another commit with the same version that were built after a source file was last changed.
fn forget_release_builds() -> anyhow::Result<()> {
    call(Command::new("cargo").args(["clean", "--workspace", "--release"]).current_dir(xtask::workspace_root()))
}

/// Fills a program's directory of the cache.
fn into_cache(program: Program, install: impl FnOnce(&str, &Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let version = program.version().expect("what is cached has a version");
    fill(&program.directory().context(NO_CACHE)?, program.name(), |root| {
        install(version, root)?;
        let path = root.join("bin").join(program.name());
        // A cargo subcommand does not take `--version` itself, and neither does ministack.
        let has_no_version = matches!(program, Program::CargoCyclonedx | Program::Ministack);
        let question = if has_no_version { "--help" } else { "--version" };
        ensure!(answers(&path, &[question]), "`{}` was installed and does not run", path.display());
        Ok(())
    })
}

/// Fills a cache directory with a program of this name, atomically and under a lock.
fn fill(directory: &Path, name: &str, install: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cache = directory.parent().expect("it is a directory of the cache");
    fs::create_dir_all(cache).with_context(|| format!("the cache `{}` cannot be made", cache.display()))?;
    let lock = File::create(directory.with_added_extension("lock"))?;
    lock.lock()?;
    if directory.join("bin").join(name).is_file() {
        return Ok(());
    }
    eprintln!("==> filling `{}`, which takes minutes and happens once", directory.display());
    let partial = directory.with_added_extension("partial");
    for leftover in [&partial, directory] {
        remove(leftover)?;
    }
    install(&partial)?;
    fs::rename(&partial, directory).with_context(|| format!("`{}` cannot be renamed", partial.display()))
}

fn cargo_install(package: &[&str], root: &Path) -> anyhow::Result<()> {
    let target = root.join("target");
    let mut install = Command::new("cargo");
    install.args(["install", "--locked"]).args(package).envs(QUICK_PROFILE);
    install.arg("--root").arg(root).arg("--target-dir").arg(&target);
    // Outside the tree, so that its cargo settings do not apply.
    install.current_dir(root.parent().expect("it is a directory of the cache"));
    call(&mut install)?;
    remove(&target)
}

/// Installs a package of Python with a program of the same name, which begins with `main`.
fn python(program: Program, main: &str, version: &str, root: &Path) -> anyhow::Result<()> {
    if !answers("python3", &["-c", "import ensurepip, venv"]) {
        apt_install(&["python3-venv"])?;
    }
    call(Command::new("python3").args(["-m", "venv"]).arg(root))?;
    let bin = root.join("bin");
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    call(pip.arg(format!("{}=={version}", program.name())))?;
    let script = bin.join(program.name());
    // The script that `pip` writes contains the path of the venv, so it would break when `fill` renames the directory.
    fs::write(&script, format!("#!/bin/sh\nexec \"$(dirname \"$0\")/python\" -c '{main}' \"$@\"\n"))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Builds the renderer of the chart with Debian's Go and the template functions that Helm has, which need no registry.
fn chart_render(root: &Path) -> anyhow::Result<()> {
    let libraries = Path::new("/usr/share/gocode");
    let is_there = |library: &str| libraries.join("src").join(library).is_dir();
    if !answers("go", &["version"]) || !is_there("github.com/Masterminds/sprig") || !is_there("sigs.k8s.io/yaml") {
        apt_install(&["golang-go", "golang-github-masterminds-sprig-dev", "golang-k8s-sigs-yaml-dev"])?;
    }
    let cache = root.join("cache");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(root.join("bin").join(Program::ChartRender.name()));
    build.arg(xtask::workspace_root().join("xtask/chart_render/main.go"));
    build.envs([("GO111MODULE", OsStr::new("off")), ("GOPATH", libraries.as_os_str()), ("GOCACHE", cache.as_os_str())]);
    call(&mut build)?;
    remove(&cache)
}

/// Builds the previous release for tests.
fn previous_tidings(commit: &str, root: &Path) -> anyhow::Result<()> {
    let tree = xtask::workspace_root();
    let is_there = answers("git", &["-C", &tree.to_string_lossy(), "cat-file", "-e", &format!("{commit}^{{commit}}")]);
    ensure!(
        is_there,
        "commit {commit}, the release before this one, is not in this clone, which may be shallow; fetch it with \
         `git fetch --unshallow`, or `git fetch origin {commit}`"
    );
    let target = root.join("target");
    build_commit(commit, root, &["build", "--locked", "--package", "tidings", "--all-features"], "debug", &target)?;
    remove(&target)
}

/// Builds a commit of this repository outside the tree. Cargo does not tell the crates of two commits apart: in a target
/// directory that is not new, the caller removes those of other commits before and after.
fn build_commit(commit: &str, root: &Path, build: &[&str], profile: &str, target: &Path) -> anyhow::Result<()> {
    let tree = xtask::workspace_root();
    let (source, archive) = (root.join("source"), root.join("source.tar"));
    fs::create_dir_all(&source)?;
    call(Command::new("git").arg("-C").arg(&tree).args(["archive", "--output"]).arg(&archive).arg(commit))?;
    call(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&source))?;
    let mut cargo = Command::new("cargo");
    cargo.args(build).current_dir(&source).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    cargo.env_remove(BUILD_DIRECTORY);
    call(&mut cargo)?;
    let bin = root.join("bin");
    fs::create_dir_all(&bin)?;
    fs::copy(target.join(profile).join("tidings"), bin.join("tidings"))?;
    fs::remove_file(archive)?;
    remove(&source)
}

/// Installs `promtool`, which checks alert rules.
pub(crate) fn promtool() -> anyhow::Result<()> {
    if answers("promtool", &["--version"]) {
        return Ok(());
    }
    apt_install_service("prometheus")
}

/// Installs a package that brings a service with it.
fn apt_install_service(package: &str) -> anyhow::Result<()> {
    apt_install(&[package])?;
    // The package may start a server, which tests do not need and this machine did not have. On a machine without an init
    // system there is none to stop.
    for (program, arguments) in [("service", [package, "stop"]), ("update-rc.d", [package, "disable"])] {
        if !answers(program, &arguments) {
            eprintln!("==> `{program} {}` failed; tests do not need it", arguments.join(" "));
        }
    }
    Ok(())
}

fn apt_install(packages: &[&str]) -> anyhow::Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("==> installing {}, which requires root on Debian", packages.join(", "));
    call(Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    call(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("`{}` cannot be removed", directory.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn answers(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|probe| probe.status.success())
}

fn call(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.stdout(io::stderr()).status().with_context(|| format!("`{command:?}` could not be started"))?;
    ensure!(status.success(), "`{command:?}` failed, and with it an installation");
    Ok(())
}
