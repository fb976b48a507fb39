//! Passkeys across the api processes of a fleet.

use authenticator::{KeyKind, SoftwarePasskey};
use ports::ProcessRole;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::process::TestServer as Process;
use crate::server::{RestResponse, TestServer};

const ORIGIN: &str = "https://chat.example.com";

fn request(process: &Process, path: &str, body: &Value) -> reqwest::RequestBuilder {
    reqwest::Client::new().post(format!("{}/api/v1{path}", process.base_url())).json(body)
}

async fn post(process: &Process, path: &str, body: &Value) -> RestResponse {
    RestResponse::of(request(process, path, body)).await
}

#[tokio::test]
async fn a_challenge_of_one_api_process_is_answered_at_another_and_once() {
    let server = TestServer::start_with(&[
        ("TIDINGS_AUTH__PASSKEYS__RP_ID", "example.com"),
        ("TIDINGS_AUTH__PASSKEYS__ORIGINS", ORIGIN),
    ])
    .await;
    let [first, second] = [0, 1].map(|number| server.fleet.process(ProcessRole::Api, number));
    let ann = server.sign_up("Ann").await;
    let add = async |process: &Process, body: &Value| {
        RestResponse::of(request(process, "/auth/passkeys", body).bearer_auth(&ann.access_token)).await
    };

    let options = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let (passkey, credential) = SoftwarePasskey::create(KeyKind::Es256, &options, ORIGIN);
    let body = json!({ "name": "Phone", "credential": credential });
    add(second, &body).await.data(201);
    for process in [first, second] {
        let refused = add(process, &body).await.refused(400, "VALIDATION_ERROR");
        assert_eq!(refused["message"], "credential: the challenge was answered before");
    }

    for [issuing, answering] in [[first, second], [second, first], [first, first]] {
        let options = post(issuing, "/auth/passkeys/challenges", &json!({})).await.data(200);
        let body = json!({ "device_id": Uuid::new_v4(), "credential": passkey.get(&options, ORIGIN) });
        let signed_in = post(answering, "/auth/passkeys/sessions", &body).await.data(200);
        assert_eq!(signed_in["user"]["user_id"], ann.user_id);
        for process in [first, second] {
            post(process, "/auth/passkeys/sessions", &body).await.refused(401, "UNAUTHORIZED");
        }
    }
}
