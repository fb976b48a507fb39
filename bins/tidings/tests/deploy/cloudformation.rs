use std::process::Command;

use crate::{root, said};

#[test]
fn cfn_lint_finds_nothing_wrong_with_the_fleet() {
    let template = root().join("deploy/cloudformation/fleet.yaml");
    said(Command::new(engines::cfn_lint()).args(["--include-checks", "I", "--"]).arg(template));
}
