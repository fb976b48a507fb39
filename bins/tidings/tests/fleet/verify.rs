use ports::ProcessRole;
use serde_json::Value;
use tokio::process::Command;

use crate::server::TestServer;

/// Checks the whole fleet, as an operator does from outside.
pub(crate) async fn verify(server: &TestServer) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command
        .args(["store", "verify", "--json", "--rate", "100000"])
        .envs(server.fleet.base.environment(ProcessRole::Api))
        // Local DynamoDB does not support it.
        .env("TIDINGS_DYNAMODB__POINT_IN_TIME_RECOVERY", "false")
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

#[tokio::test]
async fn a_fleet_that_serves_has_nothing_violated() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (mut on_phone, _listening) = (ann.connect().await, bob.connect().await);
    let chat_id = ann.group("group", &[&bob]).await;
    let talking = async {
        for n in 0..200 {
            on_phone.send_message(&chat_id, &n.to_string()).await;
        }
    };
    let checking = async {
        for _ in 0..2 {
            let (code, report) = verify(&server).await;
            assert_eq!(code, Some(0), "{report}");
        }
        verify(&server).await.1
    };
    let (_, report) = tokio::join!(talking, checking);
    let lines = report["invariants"].as_array().unwrap();
    let checked = |name: &str| {
        let line = lines.iter().find(|line| line["name"] == name);
        line.and_then(|line| line["checked"].as_u64()).unwrap_or(0)
    };
    for name in ["sequence_monotonicity", "kafka_reflects_dynamodb", "ordering_preserved", "commit_after_process"] {
        assert!(checked(name) > 0, "{name}: {report}");
    }
    for invariant in audit::ROUTES_CHECKED {
        assert_eq!(checked(invariant.name()), 2, "{invariant}: two are connected: {report}");
    }
}
