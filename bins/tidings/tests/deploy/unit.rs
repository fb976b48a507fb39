use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{root, said};

/// Exposure limit of `systemd-analyze security`, in tenths: 0 is a fully confined unit.
const EXPOSURE_MAX: &str = "--threshold=15";

fn units() -> PathBuf {
    root().join("deploy/systemd")
}

/// Installs the unit with an existing program, and next to it the files for a fleet.
fn installed(directory: &Path) -> PathBuf {
    let unit = fs::read_to_string(units().join("tidings.service")).unwrap();
    let there = directory.join("tidings.service");
    fs::write(&there, unit.replace("/usr/bin/tidings", "/bin/true")).unwrap();
    let more = directory.join("tidings.service.d");
    fs::create_dir(&more).unwrap();
    fs::copy(units().join("tidings.service.d/fleet.conf"), more.join("fleet.conf")).unwrap();
    there
}

#[test]
fn systemd_accepts_the_unit_and_the_drop_ins_of_a_fleet() {
    let directory = tempfile::tempdir().unwrap();
    let unit = installed(directory.path());
    said(Command::new(engines::systemd_analyze()).args(["verify", "--man=no"]).arg(&unit));
    // The tool prints nothing for a valid unit, so check that it refuses an invalid one.
    fs::write(&unit, "[Service]\nExecStart=relative\n").unwrap();
    assert!(!Command::new(engines::systemd_analyze()).arg("verify").arg(&unit).output().unwrap().status.success());
}

#[test]
fn the_unit_may_do_little_beside_its_work() {
    let unit = units().join("tidings.service");
    let verdict = said(
        Command::new(engines::systemd_analyze())
            .args(["security", "--offline=true", "--no-pager", EXPOSURE_MAX])
            .arg(unit),
    );
    assert!(verdict.contains("Overall exposure level"), "{verdict}");
}

#[test]
fn the_unit_leaves_a_drain_and_a_stuck_committer_their_time() {
    let unit = fs::read_to_string(units().join("tidings.service")).unwrap();
    let seconds = |key: &str| {
        let value = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        value.parse::<u32>().unwrap()
    };
    // The longest drain takes 10 s, and the watchdog is fed every third of its interval.
    assert!(seconds("TimeoutStopSec=") > 10);
    assert!(seconds("WatchdogSec=") >= 15);
    assert!(unit.contains("\nType=notify\n"));
}
