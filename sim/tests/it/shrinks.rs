use tidings_sim::{Breach, Bug, RunPlan, RunShape, run, shrink};

#[test]
fn a_failing_run_is_made_shorter_and_still_fails_the_same_way() {
    let found = Bug::WatermarkAboveHead.found(RunShape::Node).expect("it is found");
    let plan = RunPlan::of(found.seed, RunShape::Node).with_bug(Bug::WatermarkAboveHead);
    let breach = Breach::Of(found.invariant);
    let shorter = shrink(&plan, breach, 200);
    let parts = |plan: &RunPlan| plan.actions.len() + plan.faults.len();
    assert!(parts(&shorter) <= 3 && parts(&shorter) < parts(&plan), "{} of {}", parts(&shorter), parts(&plan));
    assert!(run(&shorter).findings.tally(found.invariant).violated > 0);
}
