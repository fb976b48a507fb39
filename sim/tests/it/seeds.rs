//! Seeds that found defects. Each is run again. The meaning of a seed changes with the simulator, so every defect also
//! has its own test beside the fixed code.

use tidings_sim::{RunPlan, RunShape, run};

/// Shape, seed, and the defect that it found.
const FOUND: &[(RunShape, u64, &str)] = &[
    (RunShape::Node, 8, "a user who came and went within one claim stayed online for subscribers (memory routes)"),
    (RunShape::Fleet, 31, "as with seed 8, and the user was never announced again"),
    (
        RunShape::Fleet,
        36,
        "the last push of a chat was lost on the direct path to a gateway, and no client was told to sync (fanout)",
    ),
    (
        RunShape::Fleet,
        59,
        "subscribers missed a change of visibility while the shared state was unavailable (presence)",
    ),
    (RunShape::Fleet, 125, "messages overtook the removal of a member in the log (chats)"),
    (RunShape::Fleet, 222, "subscribers missed a change of visibility after its announcement failed (presence)"),
    (RunShape::Fleet, 240, "the last push of a chat was lost, as with seed 36"),
    (
        RunShape::Fleet,
        953,
        "a gateway that replaced a dead one got no pushes while the shared state was distrusted (fanout)",
    ),
    (RunShape::Node, 27, "the auditor took an expired message for a lost one (audit)"),
    (
        RunShape::Fleet,
        77_180_221_719_828,
        "connections that the server was closing were taken for connections without a route (ending)",
    ),
    (RunShape::Fleet, 6, "the auditor took a message that one clock had expired for one out of order (audit)"),
    (
        RunShape::Node,
        132,
        "viewers of a user who deleted their account were not told that they had gone offline (domain)",
    ),
    (
        RunShape::Node,
        733,
        "presences that did not fit into a mailbox were pushed and dropped again without end, and some never arrived (gateway)",
    ),
    (
        RunShape::Fleet,
        921,
        "the checker of histories took the state of a user who was leaving for a watermark that moved back (audit)",
    ),
    (RunShape::Fleet, 193, "the auditor took an erased message for one out of order (audit)"),
];

#[test]
fn fixed_defects_do_not_come_back() {
    for (shape, seed, what) in FOUND {
        let outcome = run(&RunPlan::of(*seed, *shape));
        let violations: Vec<_> = outcome.findings.violations().collect();
        assert!(
            outcome.is_clean(),
            "{shape}, seed {seed}, which found that {what}: {violations:?} {:?}",
            outcome.panic
        );
    }
}
