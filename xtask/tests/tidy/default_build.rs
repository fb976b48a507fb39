use std::collections::BTreeSet;
use std::process::Command;

/// The README promises fewer packages to someone who builds the service for one machine.
const PACKAGES_MAX: usize = 350;
/// Packages of a fleet, which take minutes, a C++ compiler or Perl.
const OF_A_FLEET: [&str; 6] = ["aws-sdk-dynamodb", "openssl-sys", "rdkafka-sys", "redis", "tonic", "tidings-dynamodb"];

/// The packages that a build of the binary compiles.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--locked", "--package", "tidings", "--edges", "normal,build", "--prefix", "none"]);
    let output = tree.args(features).current_dir(xtask::workspace_root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A line is a name, a version, and possibly a path and a mark that the package is listed before.
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn of_a_fleet(packages: &BTreeSet<String>) -> Vec<&'static str> {
    let is_there = |name: &&str| packages.iter().any(|package| package.split(' ').next() == Some(name));
    OF_A_FLEET.into_iter().filter(is_there).collect()
}

#[test]
fn the_default_build_is_small_and_needs_no_engine_of_a_fleet() {
    let packages = packages(&[]);
    assert!(packages.contains(&format!("tidings v{}", env!("CARGO_PKG_VERSION"))), "{packages:?}");
    assert!(packages.len() < PACKAGES_MAX, "{} packages", packages.len());
    assert_eq!(of_a_fleet(&packages), [""; 0]);
}

#[test]
fn the_engines_of_a_fleet_come_with_its_feature() {
    assert_eq!(of_a_fleet(&packages(&["--features", "fleet"])), OF_A_FLEET);
}
