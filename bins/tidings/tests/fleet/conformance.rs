//! The scenarios that every SDK passes (`clients/conformance`), with the Rust SDK against a fleet: all of them on the same
//! one, one after the other. A device talks to both gateways and both api processes in turn.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::runner;
use crate::scenario::{self, ConformanceScenario, ScenarioStep};
use crate::server::TestServer;

/// The scenarios that are not run on a fleet, with the reason.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "its settings are those of one process, by the same code: heartbeats of a gateway, the lifetime of tokens; each \
         would need a fleet",
        &[
            "a_stalled_connection_is_replaced",
            "a_silent_connection_is_kept_by_heartbeats",
            "tokens_are_renewed_before_they_expire_and_the_connection_goes_on",
        ],
    ),
    (
        "fanout reads the log of a fleet a moment after the commit, with the members of that moment: a user who is added \
         meanwhile is pushed messages from just before, which they may read in the history anyway",
        &["a_new_member_receives_later_messages_and_a_removed_member_none"],
    ),
];

/// Whether a scenario kills or stops the server, which takes longer in a fleet.
fn stops_server(scenario: &ConformanceScenario) -> bool {
    let stops = |step: &ScenarioStep| matches!(step, ScenarioStep::KillServer {} | ScenarioStep::StopServer {});
    scenario.steps.iter().any(stops)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_of_every_sdk_hold_on_a_fleet() {
    let named: Vec<&str> = LEFT_OUT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (left_out, mut scenarios): (Vec<_>, Vec<_>) =
        scenario::all().into_iter().partition(|scenario| named.contains(&&*scenario.test_name()));
    assert_eq!(left_out.len(), named.len(), "left out, and not there");
    let has_settings = scenarios.iter().find(|scenario| !scenario.settings.is_empty());
    assert!(has_settings.is_none(), "a scenario with settings needs a fleet of its own, or a reason");
    scenarios.sort_by_key(stops_server);

    let mut server = TestServer::start().await;
    let mut broken = vec![];
    for scenario in scenarios {
        let name = scenario.test_name();
        eprintln!("scenario {name}");
        // A panic ends only this scenario.
        let outcome = AssertUnwindSafe(runner::run(scenario, &mut server)).catch_unwind().await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(why)) => broken.push(format!("{name}: {why}")),
            Err(_) => broken.push(format!("{name}: it panicked")),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
