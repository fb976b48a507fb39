//! Seeds that have found something. Each is run as it was; what a seed means changes with the simulator, so what was found
//! has a test of its own beside the code that was wrong.

use tidings_sim::{Plan, Shape, run};

/// Shape, seed, and what it found when it did.
const FOUND: &[(Shape, u64, &str)] = &[
    (Shape::Node, 8, "who came and went within one claim stayed online to those who watch (memory routes)"),
    (Shape::Fleet, 31, "the same, after which they were never announced again"),
    (
        Shape::Fleet,
        36,
        "the last push of a chat was lost on the direct way to a gateway, and nobody was told to sync (fanout)",
    ),
    (Shape::Fleet, 59, "watchers were not told of a change of visibility while shared memory was away (presence)"),
    (Shape::Fleet, 125, "messages overtook the removal of a member on their way through the log (chats)"),
    (Shape::Fleet, 222, "watchers were not told of a change of visibility whose announcement failed (presence)"),
    (Shape::Fleet, 240, "the last push of a chat was lost, as with seed 36"),
    (
        Shape::Fleet,
        953,
        "a gateway that took the place of a dead one was not pushed to while shared memory was not believed (fanout)",
    ),
    (Shape::Node, 27, "the auditor took an expired message for a lost one (audit)"),
    (
        Shape::Fleet,
        77_180_221_719_828,
        "connections that the server was closing at that moment were taken for ones without a route (ending)",
    ),
    (Shape::Fleet, 6, "the auditor took a message that one clock had expired for one out of order (audit)"),
];

#[test]
fn what_was_found_once_does_not_come_back() {
    for (shape, seed, what) in FOUND {
        let outcome = run(&Plan::of(*seed, *shape));
        let violations: Vec<_> = outcome.findings.violations().collect();
        assert!(
            outcome.is_clean(),
            "{shape}, seed {seed}, which found that {what}: {violations:?} {:?}",
            outcome.panic
        );
    }
}
