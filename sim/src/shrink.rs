use domain::Invariant;

use crate::plan::{Rates, RunPlan};
use crate::run::{RunOutcome, run};

/// The failure of a run: a violated invariant or a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// This invariant was violated.
    Of(Invariant),
    /// A task of a plane has panicked.
    Panic,
}

impl Breach {
    /// The first failure of a run, if any.
    pub fn first(outcome: &RunOutcome) -> Option<Self> {
        if outcome.panic.is_some() {
            return Some(Self::Panic);
        }
        outcome.findings.violations().next().map(|violation| Self::Of(violation.invariant))
    }

    fn is_in(self, outcome: &RunOutcome) -> bool {
        match self {
            Self::Of(invariant) => outcome.findings.tally(invariant).violated > 0,
            Self::Panic => outcome.panic.is_some(),
        }
    }
}

/// Removes everything from a plan that its failure does not need, in up to `runs_max` runs.
///
/// It removes halves of the lists first, then quarters, and so on (delta debugging). The result is not the global
/// minimum, but no single item can be removed, unless the runs were used up before.
pub fn shrink(plan: &RunPlan, breach: Breach, runs_max: usize) -> RunPlan {
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
        |rates: &mut Rates| rates.receiver_fails = 0.0,
    ] {
        shrinking.try_with(|plan| still(&mut plan.rates));
    }
    shrinking.try_with(|plan| plan.skew_max = std::time::Duration::ZERO);
    shrinking.leave_out(|plan| plan.faults.len(), |plan, from, to| drop(plan.faults.drain(from..to)));
    shrinking.leave_out(|plan| plan.actions.len(), |plan, from, to| drop(plan.actions.drain(from..to)));
    // With fewer actions, more of the faults may be superfluous.
    shrinking.leave_out(|plan| plan.faults.len(), |plan, from, to| drop(plan.faults.drain(from..to)));
    shrinking.plan
}

struct Shrinking {
    breach: Breach,
    runs_left: usize,
    plan: RunPlan,
}

impl Shrinking {
    /// Keeps a change of the plan if it still fails in the same way.
    fn try_with(&mut self, change: impl FnOnce(&mut RunPlan)) -> bool {
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

    /// Removes pieces of a list, larger ones first.
    fn leave_out(&mut self, len: impl Fn(&RunPlan) -> usize, remove: impl Fn(&mut RunPlan, usize, usize)) {
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
