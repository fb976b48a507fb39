//! Connections and gateways, as shown to operators.

use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::TestServer;
use crate::webhook::{said, tidings};

rules!(operators_see_the_connections_of_a_user_while_they_are_there, unknown_and_malformed_ids_are_reported,);

/// The JSON output of a command.
async fn answer(server: &TestServer, arguments: &[&str]) -> Value {
    let output = tidings(server, &[arguments, &["--json"]].concat()).await;
    serde_json::from_str(said(&output)).unwrap()
}

async fn connections(server: &TestServer, user_id: &str) -> Vec<Value> {
    answer(server, &["admin", "routes", "user", user_id]).await["connections"].as_array().unwrap().clone()
}

async fn operators_see_the_connections_of_a_user_while_they_are_there(server: &TestServer) {
    let phone = server.sign_up("Ann").await;
    let laptop = server.another_device(&phone).await;
    let on_phone = phone.connect().await;
    let _on_laptop = laptop.connect().await;
    server.until(async || connections(server, &phone.user_id).await.len() == 2).await;
    let mut devices: Vec<_> =
        connections(server, &phone.user_id).await.iter().map(|route| route["device_id"].clone()).collect();
    devices.sort_by_key(Value::to_string);
    let mut expected = vec![json!(phone.device_id), json!(laptop.device_id)];
    expected.sort_by_key(Value::to_string);
    assert_eq!(devices, expected);

    on_phone.leave().await;
    server.until(async || connections(server, &phone.user_id).await.len() == 1).await;
    let left = &connections(server, &phone.user_id).await[0];
    assert_eq!((&left["user_id"], &left["device_id"]), (&json!(phone.user_id), &json!(laptop.device_id)));
    let text = |name: &str| left[name].as_str().unwrap();
    let (id, gateway, since) = (text("connection_id"), text("gateway"), text("connected_at"));
    assert_eq!(
        said(&tidings(server, &["admin", "routes", "user", &phone.user_id]).await),
        format!("{id}  device {}  on {gateway}  since {since}\n", laptop.device_id)
    );

    let bob = server.sign_up("Bob").await;
    assert_eq!(
        said(&tidings(server, &["admin", "routes", "user", &bob.user_id]).await),
        format!("`{}` has no connection\n", bob.user_id)
    );
}

#[tokio::test]
async fn operators_see_gateways_and_as_many_of_their_connections_as_they_ask_for() {
    let server = TestServer::start().await;
    let mut sockets = vec![];
    for device in server.sign_up_all(["Ann", "Bob", "Cem"]).await {
        sockets.push(device.connect().await);
    }
    let gateways =
        async || answer(&server, &["admin", "routes", "gateways"]).await["gateways"].as_array().unwrap().clone();
    let count = |gateway: &Value| gateway["connections"].as_u64().unwrap();
    server.until(async || gateways().await.iter().map(count).sum::<u64>() == 3).await;
    // Three connections on two gateways: one has two of them.
    let fullest = gateways().await.into_iter().max_by_key(count).unwrap();
    assert_eq!(fullest["has_more"], false);
    let (name, held) = (fullest["gateway"].as_str().unwrap(), count(&fullest));
    assert!(
        said(&tidings(&server, &["admin", "routes", "gateways"]).await)
            .contains(&format!("{name}  {held} connections\n"))
    );

    let all = answer(&server, &["admin", "routes", "gateway", name]).await;
    let listed = all["connections"].as_array().unwrap();
    assert_eq!(
        (&all["gateway"], &all["is_live"], &all["has_more"]),
        (&json!(name), &json!(true), &json!(false)),
        "{all}"
    );
    assert_eq!(listed.len() as u64, held);
    assert!(listed.iter().all(|route| route["gateway"] == name), "{all}");
    let one = answer(&server, &["admin", "routes", "gateway", name, "--limit", "1"]).await;
    assert_eq!((one["connections"].as_array().unwrap().len(), &one["has_more"]), (1, &json!(true)), "{one}");
}

async fn unknown_and_malformed_ids_are_reported(server: &TestServer) {
    let nowhere = tidings(server, &["admin", "routes", "gateway", "nowhere"]).await;
    assert_eq!(nowhere.status.code(), Some(1));
    assert_eq!(String::from_utf8(nowhere.stderr).unwrap(), "error: there is no gateway `nowhere`\n");

    let nobody = tidings(server, &["admin", "routes", "user", "nobody"]).await;
    assert_eq!(nobody.status.code(), Some(2));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("`nobody` is not an id of the form user_<ulid>"), "{said}");
}
