//! Packs a release: the binary and the files that an operator needs, in one archive with its checksum.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

const HELP: &str = "\
Builds the binary with fleet support and packs it into target/dist, with its checksum.

usage: cargo xtask release [OPTION]...

  --target TRIPLE  the target to build for [default: the target of this toolchain]
  --binary PATH    packs this binary instead of building one
  --tag TAG        fails unless TAG is the version of the workspace, as v1.2.3
  --out DIR        the directory of the archive [default: target/dist]

  cargo xtask release --tag v1.2.3 --target aarch64-unknown-linux-gnu
  cargo xtask release --binary target/debug/tidings --out /tmp/dist
";

/// All crates have the version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files of an archive beside the binary, each with its name there.
const FILES: [(&str, &str); 6] = [
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("docs/tidings.example.toml", "tidings.example.toml"),
    ("deploy/systemd/tidings.service", "systemd/tidings.service"),
    ("deploy/systemd/tidings.service.d/fleet.conf", "systemd/tidings.service.d/fleet.conf"),
];

/// The options of `cargo xtask release`.
#[derive(Debug, Default, PartialEq)]
struct ReleaseOptions {
    target: Option<String>,
    binary: Option<PathBuf>,
    tag: Option<String>,
    out: Option<PathBuf>,
}

impl ReleaseOptions {
    fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments;
        while let [name, after @ ..] = rest {
            let [value, after @ ..] = after else { bail!("`{name}` is not an option, or lacks its value; see --help") };
            match *name {
                "--target" => options.target = Some((*value).to_owned()),
                "--binary" => options.binary = Some(value.into()),
                "--tag" => options.tag = Some((*value).to_owned()),
                "--out" => options.out = Some(value.into()),
                _ => bail!("`{name}` is not an option; see --help"),
            }
            rest = after;
        }
        Ok(options)
    }
}

pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    if arguments.contains(&"--help") {
        print!("{HELP}");
        return Ok(());
    }
    let ReleaseOptions { target, binary, tag, out } = ReleaseOptions::parse(arguments)?;
    if let Some(tag) = tag {
        ensure!(tag == format!("v{VERSION}"), "the tag is `{tag}`, the version of the workspace is {VERSION}");
    }
    let target = target.map_or_else(host, Ok)?;
    let binary = binary.map_or_else(|| build(&target), Ok)?;
    let out = out.unwrap_or_else(|| xtask::target_directory().join("dist"));
    let archive = pack(&binary, &target, &out)?;
    println!("{}", archive.display());
    print!("{}", output(Command::new("tar").args(["--list", "--verbose", "--file"]).arg(&archive))?);
    Ok(())
}

/// The target that this toolchain builds for.
fn host() -> anyhow::Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

fn build(target: &str) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--package", "tidings", "--features", "fleet", "--target", target]);
    let status = cargo.current_dir(xtask::workspace_root()).status().context("cargo could not be started")?;
    ensure!(status.success(), "`{cargo:?}` failed");
    Ok(xtask::target_directory().join(target).join("release").join("tidings"))
}

/// Packs a binary with the files of this tree, writes the checksum beside the archive, and returns the path of the archive.
///
/// Names, owners, modes and times do not depend on the machine, so the same binary gives the same archive.
fn pack(binary: &Path, target: &str, out: &Path) -> anyhow::Result<PathBuf> {
    let (root, name) = (xtask::workspace_root(), format!("tidings-{VERSION}-{target}"));
    fs::create_dir_all(out).with_context(|| format!("`{}` cannot be made", out.display()))?;
    let stage = tempfile::tempdir_in(out)?;
    let directory = stage.path().join(&name);
    put(binary, &directory.join("tidings"), 0o755)?;
    for (from, to) in FILES {
        put(&root.join(from), &directory.join(to), 0o644)?;
    }

    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", source_date(&root)?)).arg("--use-compress-program=gzip --no-name --best");
    output(tar.arg("--file").arg(&archive).arg("--directory").arg(stage.path()).arg(&name))?;

    // With the bare file name, so that `sha256sum --check` finds the file in any directory.
    let sum = output(Command::new("sha256sum").arg(format!("{name}.tar.gz")).current_dir(out))?;
    let path = out.join(format!("{name}.tar.gz.sha256"));
    fs::write(&path, sum).with_context(|| format!("`{}` cannot be written", path.display()))?;
    Ok(archive)
}

fn put(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    fs::create_dir_all(to.parent().expect("it is a file of the archive"))?;
    fs::copy(from, to).with_context(|| format!("`{}` cannot be copied", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// The time of all files, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn source_date(root: &Path) -> anyhow::Result<u64> {
    let seconds = match env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?,
    };
    seconds.trim().parse().with_context(|| format!("`{}` is not a time in seconds", seconds.trim()))
}

/// The standard output of a command that succeeds.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("`{command:?}` could not be started"))?;
    ensure!(output.status.success(), "`{command:?}` failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_the_binary_and_the_files_of_an_operator() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("any-name");
        fs::write(&binary, "#!/bin/sh\n").unwrap();
        let out = directory.path().join("dist");
        let archive = pack(&binary, "some-target", &out).unwrap();
        let name = format!("tidings-{VERSION}-some-target");
        assert_eq!(archive, out.join(format!("{name}.tar.gz")));

        let listed = output(Command::new("tar").arg("--list").arg("--file").arg(&archive)).unwrap();
        let files: Vec<_> = listed.lines().filter(|line| !line.ends_with('/')).collect();
        let expected = [
            "CHANGELOG.md",
            "LICENSE",
            "README.md",
            "systemd/tidings.service",
            "systemd/tidings.service.d/fleet.conf",
            "tidings",
            "tidings.example.toml",
        ];
        assert_eq!(files, expected.map(|file| format!("{name}/{file}")));
        output(Command::new("sha256sum").args(["--check", &format!("{name}.tar.gz.sha256")]).current_dir(&out))
            .unwrap();
        let left: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "only the archive and its checksum stay: {left:?}");

        let bytes = fs::read(&archive).unwrap();
        fs::remove_file(&archive).unwrap();
        pack(&binary, "some-target", &out).unwrap();
        assert!(fs::read(&archive).unwrap() == bytes, "the same binary gives the same archive");
    }

    /// Runs `scripts/install` for archives in a directory; the binary goes to `bin` beside it.
    fn install(out: &Path) -> Result<String, (Option<i32>, String)> {
        let mut install = Command::new(xtask::workspace_root().join("scripts/install"));
        let output = install.arg("--from").arg(out).arg("--to").arg(out.join("../bin")).output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err((output.status.code(), String::from_utf8(output.stderr).unwrap()))
        }
    }

    /// An archive of a release for this machine, with a script as its binary.
    fn packed(script: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (binary, out) = (directory.path().join("any-name"), directory.path().join("dist"));
        fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
        let archive = pack(&binary, &format!("{}-unknown-linux-gnu", env::consts::ARCH), &out).unwrap();
        (directory, out, archive)
    }

    #[test]
    fn the_binary_of_an_archive_is_installed_and_replaced() {
        let (directory, out, _) = packed("echo tidings 1.2.3");
        let installed = directory.path().join("bin/tidings");
        for _ in 0..2 {
            let said = install(&out).unwrap();
            assert!(said.starts_with("tidings 1.2.3 is installed: ") && said.contains("bin/tidings\n"), "{said}");
            assert!(said.contains("is not in PATH"), "{said}");
            assert_eq!(output(&mut Command::new(&installed)).unwrap(), "tidings 1.2.3\n");
            fs::write(&installed, "an older binary").unwrap();
        }
        let left: Vec<_> = fs::read_dir(installed.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
    }

    #[test]
    fn an_archive_with_another_checksum_is_not_installed() {
        for damaged in ["tar.gz", "tar.gz.sha256"] {
            let (directory, out, archive) = packed("echo tidings 1.2.3");
            let path =
                archive.with_file_name(archive.file_name().unwrap().to_str().unwrap().replace("tar.gz", damaged));
            let mut bytes = fs::read(&path).unwrap();
            bytes[9] ^= 1;
            fs::write(&path, bytes).unwrap();
            let (code, said) = install(&out).unwrap_err();
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("the checksum of ") && said.contains("nothing was installed"), "{said}");
            assert!(!directory.path().join("bin/tidings").exists());
        }
    }

    #[test]
    fn without_a_release_for_the_machine_the_way_to_build_one_is_named() {
        let (directory, out, archive) = packed("echo tidings 1.2.3");
        fs::rename(&archive, archive.with_file_name("other.tar.gz")).unwrap();
        assert_eq!(install(&out).unwrap_err().0, Some(1), "the archive is missing");
        for entry in fs::read_dir(&out).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let (code, said) = install(&out).unwrap_err();
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("there is no release") && said.contains("cargo build --release"), "{said}");
        assert!(!directory.path().join("bin").exists());
    }

    #[test]
    fn a_binary_that_does_not_run_here_is_not_installed() {
        let (directory, out, _) = packed("exit 1");
        let installed = directory.path().join("bin/tidings");
        fs::create_dir_all(installed.parent().unwrap()).unwrap();
        fs::write(&installed, "an older binary").unwrap();
        let (code, said) = install(&out).unwrap_err();
        assert_eq!(code, Some(1));
        assert!(said.contains("does not run on this machine"), "{said}");
        assert_eq!(fs::read_to_string(&installed).unwrap(), "an older binary");
        assert_eq!(fs::read_dir(installed.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_tag_must_be_the_version() {
        let error = run(&["--tag", "v0.0.0", "--binary", "/nowhere"]).unwrap_err();
        assert_eq!(error.to_string(), format!("the tag is `v0.0.0`, the version of the workspace is {VERSION}"));
    }

    #[test]
    fn an_option_needs_its_value() {
        let options = ReleaseOptions::parse(&["--binary", "a/b", "--target", "t"]).unwrap();
        let expected =
            ReleaseOptions { target: Some("t".to_owned()), binary: Some("a/b".into()), ..Default::default() };
        assert_eq!(options, expected);
        assert!(ReleaseOptions::parse(&["--binary"]).is_err());
        assert!(ReleaseOptions::parse(&["--other", "1"]).is_err());
    }
}
