use domain::Invariant;

use crate::plan::{Plan, Rates};
use crate::run::{Outcome, run};

/// What a run has broken: one promise, or a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// This invariant did not hold.
    Of(Invariant),
    /// A task of a plane has panicked.
    Panic,
}

impl Breach {
    /// The first one of a run, if there is any.
    pub fn first(outcome: &Outcome) -> Option<Self> {
        if outcome.panic.is_some() {
            return Some(Self::Panic);
        }
        outcome.findings.violations().next().map(|violation| Self::Of(violation.invariant))
    }

    fn is_in(self, outcome: &Outcome) -> bool {
        match self {
            Self::Of(invariant) => outcome.findings.tally(invariant).violated > 0,
            Self::Panic => outcome.panic.is_some(),
        }
    }
}

/// Leaves out of a plan whatever is not needed for its breach, in up to `runs_max` runs.
///
/// Halves of what happens are left out first, then quarters, and so on (delta debugging). What is left is not the shortest
/// there is, but none of its parts can be left out alone, unless the runs were used up before.
pub fn shrink(plan: &Plan, breach: Breach, runs_max: usize) -> Plan {
    let mut shrinking = Shrinking { breach, runs_left: runs_max, plan: plan.clone() };
    for still in [
        |rates: &mut Rates| rates.store_fails = 0.0,
        |rates: &mut Rates| rates.store_unknown = 0.0,
        |rates: &mut Rates| rates.store_slow = 0.0,
        |rates: &mut Rates| rates.shared_fails = 0.0,
        |rates: &mut Rates| rates.log_fails = 0.0,
        |rates: &mut Rates| rates.calls_lost = 0.0,
        |rates: &mut Rates| rates.pushes_lost = 0.0,
        |rates: &mut Rates| rates.pushes_doubled = 0.0,
        |rates: &mut Rates| rates.pushes_late = 0.0,
    ] {
        shrinking.try_with(|plan| still(&mut plan.rates));
    }
    shrinking.try_with(|plan| plan.skew_max = std::time::Duration::ZERO);
    shrinking.leave_out(|plan| plan.faults.len(), |plan, from, to| drop(plan.faults.drain(from..to)));
    shrinking.leave_out(|plan| plan.actions.len(), |plan, from, to| drop(plan.actions.drain(from..to)));
    // With less going on, more of the faults may be superfluous.
    shrinking.leave_out(|plan| plan.faults.len(), |plan, from, to| drop(plan.faults.drain(from..to)));
    shrinking.plan
}

struct Shrinking {
    breach: Breach,
    runs_left: usize,
    plan: Plan,
}

impl Shrinking {
    /// Changes the plan for good if the breach is still there.
    fn try_with(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        if self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let mut plan = self.plan.clone();
        change(&mut plan);
        let is_needless = self.breach.is_in(&run(&plan));
        if is_needless {
            self.plan = plan;
        }
        is_needless
    }

    /// Leaves out pieces of a list, larger ones first.
    fn leave_out(&mut self, len: impl Fn(&Plan) -> usize, remove: impl Fn(&mut Plan, usize, usize)) {
        let mut piece = len(&self.plan).div_ceil(2);
        while piece > 0 && self.runs_left > 0 {
            let mut from = 0;
            while from < len(&self.plan) && self.runs_left > 0 {
                let to = (from + piece).min(len(&self.plan));
                if !self.try_with(|plan| remove(plan, from, to)) {
                    from = to;
                }
            }
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
    }
}
