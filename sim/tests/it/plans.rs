//! The conditions that many bugs need are common in the plans. A bug that needs a rare one is found late, or never, and no
//! failing test would show that a change of the planner has made it rare.

use std::time::Duration;

use protocol::OutboxBounds;
use tidings_sim::{ClientAction, RunPlan, RunShape, Scheduled};

/// Plans of each shape, from seed 0 on. Nothing is run.
const SEEDS: u64 = 1000;

/// A condition of a plan, and the least share of plans that have it.
type Condition = (&'static str, f64, fn(&RunPlan) -> bool);

const CONDITIONS: [Condition; 7] = [
    ("updates of messages", 0.75, has_updates),
    ("a slow reader", 0.6, has_slow_reader),
    ("small mailboxes", 0.45, has_small_mailboxes),
    ("a slow reader of a small mailbox", 0.38, |plan| has_small_mailboxes(plan) && has_slow_reader(plan)),
    ("a chat that is quiet at the end", 0.62, |plan| !quiet_chats(plan).is_empty()),
    ("a burst before a quiet end, read slowly", 0.17, |plan| has_small_mailboxes(plan) && has_burst(plan)),
    ("updates, and a chat that is quiet at the end", 0.47, |plan| has_updates(plan) && !quiet_chats(plan).is_empty()),
];

/// A chat without an entry in this last part of a plan is quiet: nothing heals what went wrong before.
const QUIET_PART: f64 = 0.3;

fn has_updates(plan: &RunPlan) -> bool {
    plan.actions.iter().any(|action| matches!(action.what, ClientAction::Update { .. }))
}

fn has_slow_reader(plan: &RunPlan) -> bool {
    plan.actions.iter().any(|action| matches!(action.what, ClientAction::Dawdle { .. }))
}

fn has_small_mailboxes(plan: &RunPlan) -> bool {
    plan.buffers.mailbox.messages < OutboxBounds::default().messages
}

/// The chat of an action that makes an entry.
fn entry(action: &Scheduled<ClientAction>) -> Option<usize> {
    match action.what {
        ClientAction::Send { chat, .. } | ClientAction::Repeat { chat, .. } | ClientAction::Update { chat, .. } => {
            Some(chat)
        }
        _ => None,
    }
}

/// Chats with entries, none of which is in the last part.
fn quiet_chats(plan: &RunPlan) -> Vec<usize> {
    let last =
        |chat: usize| plan.actions.iter().filter(|action| entry(action) == Some(chat)).map(|action| action.at).max();
    let is_quiet = |chat: &usize| last(*chat).is_some_and(|last| last <= plan.lasts.mul_f64(1.0 - QUIET_PART));
    (0..plan.size.chats.len()).filter(is_quiet).collect()
}

/// Whether a chat that is quiet at the end gets more messages than a mailbox holds within a second, while a member reads
/// slowly.
fn has_burst(plan: &RunPlan) -> bool {
    let quiet = quiet_chats(plan);
    plan.actions.iter().any(|slow| {
        let ClientAction::Dawdle { client, .. } = slow.what else { return false };
        let (user, _) = plan.clients()[client];
        quiet.iter().filter(|chat| plan.size.chats[**chat].members.contains(&user)).any(|chat| {
            let soon = slow.at..slow.at + Duration::from_secs(1);
            let burst = plan.actions.iter().filter(|action| entry(action) == Some(*chat) && soon.contains(&action.at));
            burst.count() >= plan.buffers.mailbox.messages
        })
    })
}

#[test]
fn the_conditions_that_bugs_need_are_common_in_the_plans() {
    let mut rare = vec![];
    for shape in RunShape::ALL {
        let plans: Vec<RunPlan> = (0..SEEDS).map(|seed| RunPlan::of(seed, shape)).collect();
        for (name, least, has) in CONDITIONS {
            let share = plans.iter().filter(|plan| has(plan)).count() as f64 / SEEDS as f64;
            eprintln!("{shape}: {name}: {share}");
            if share < least {
                rare.push(format!("{shape}: {share} of the plans have {name}, and {least} should"));
            }
        }
    }
    assert!(rare.is_empty(), "{}", rare.join("\n"));
}
