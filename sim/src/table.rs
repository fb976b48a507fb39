use std::fmt::Write;

use audit::Findings;
use domain::{Invariant, InvariantPlane};

/// Invariants that the simulator does not check, because they concern the deployment and not its behaviour.
pub const OF_DEPLOYMENTS: &[Invariant] =
    &[Invariant::AccessPatternEfficiency, Invariant::GsiJustification, Invariant::BackupEnabled];

/// Invariants that the simulator checks but no run of a set has exercised.
pub fn unexercised(findings: &Findings) -> Vec<Invariant> {
    let is_missed =
        |invariant: &&Invariant| !OF_DEPLOYMENTS.contains(invariant) && findings.tally(**invariant).checked == 0;
    Invariant::ALL.iter().filter(is_missed).copied().collect()
}

/// A Markdown table of all invariants: statement, where each is checked, and how often a set of runs exercised it.
pub fn table(findings: &Findings) -> String {
    let mut out = String::new();
    let mark = |is_checked: bool| if is_checked { "✓" } else { "" };
    let mut plane = None;
    for invariant in Invariant::ALL {
        if plane != Some(invariant.plane()) {
            plane = Some(invariant.plane());
            heading(&mut out, invariant.plane());
        }
        let in_simulation = !OF_DEPLOYMENTS.contains(invariant);
        let in_histories = audit::history::CHECKED.contains(invariant);
        let by_verify = audit::CHECKED.contains(invariant)
            || audit::ROUTES_CHECKED.contains(invariant)
            || OF_DEPLOYMENTS.contains(invariant);
        let at_run_time = ports::invariants::ASSERTED.contains(invariant);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| `{invariant}` | {} | {} | {} | {} | {} | {} |",
            invariant.statement(),
            mark(in_simulation),
            mark(in_histories),
            mark(by_verify),
            mark(at_run_time),
            findings.tally(*invariant).checked,
        );
    }
    out
}

fn heading(out: &mut String, plane: InvariantPlane) {
    if !out.is_empty() {
        out.push('\n');
    }
    let name = plane.name();
    out.push_str(&format!("### {}{}\n\n", name[..1].to_uppercase(), &name[1..]));
    out.push_str("| invariant | says | simulation | histories | verify | run time | times exercised |\n");
    out.push_str("|---|---|---|---|---|---|---:|\n");
}
