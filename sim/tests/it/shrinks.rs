use tidings_sim::{Breach, Bug, Plan, Shape, run, shrink};

#[test]
fn a_failing_run_is_made_shorter_and_still_fails_the_same_way() {
    let found = Bug::WatermarkAboveHead.found(Shape::Node).expect("it is found");
    let plan = Plan::of(found.seed, Shape::Node).with_bug(Bug::WatermarkAboveHead);
    let breach = Breach::Of(found.invariant);
    let shorter = shrink(&plan, breach, 200);
    let parts = |plan: &Plan| plan.actions.len() + plan.faults.len();
    assert!(parts(&shorter) <= 3 && parts(&shorter) < parts(&plan), "{} of {}", parts(&shorter), parts(&plan));
    assert!(run(&shorter).findings.tally(found.invariant).violated > 0);
}
