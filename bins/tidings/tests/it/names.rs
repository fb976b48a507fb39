//! Names that deceive readers are refused wherever a user chooses one.

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use crate::rules::rules;
use crate::server::TestServer;

rules!(names_that_deceive_readers_are_refused_with_their_character, names_are_stored_composed_and_with_single_spaces);

/// A right-to-left override, a zero-width space, a Cyrillic letter in a Latin word, a mathematical letter, and a heap
/// of marks.
pub(crate) const DECEITFUL: [(&str, &str); 5] = [
    ("Ann\u{202E}gnp.exe", "U+202E"),
    ("A\u{200B}nn", "U+200B"),
    ("\u{410}nn", "U+006E"),
    ("\u{1D400}nn", "U+1D400"),
    ("Ann\u{315}\u{315}\u{315}\u{315}\u{315}", "U+0315"),
];

async fn names_that_deceive_readers_are_refused_with_their_character(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let group = ann.group("Sailing", &[]).await;
    for (name, character) in DECEITFUL {
        let sign_up = json!({
            "phone_number": server.unused_number(), "otp": "000000", "device_id": Uuid::new_v4(), "display_name": name
        });
        let answers = [
            ("display_name", server.call(Method::POST, "/api/v1/auth/verify-otp", Some(&sign_up)).await),
            ("display_name", ann.patch("/users/me", json!({ "display_name": name })).await),
            ("name", ann.post("/chats", json!({ "type": "group", "name": name, "member_ids": [] })).await),
            ("name", ann.patch(&format!("/chats/{group}"), json!({ "name": name })).await),
        ];
        for (field, answer) in answers {
            let error = answer.refused(400, "VALIDATION_ERROR");
            let reason = error["message"].as_str().unwrap();
            assert!(reason.starts_with(field) && reason.contains(character), "{error}");
        }
    }
    assert_eq!(ann.get("/users/me").await.data(200)["display_name"], "Ann");
    assert_eq!(ann.get(&format!("/chats/{group}")).await.data(200)["name"], "Sailing");
}

async fn names_are_stored_composed_and_with_single_spaces(server: &TestServer) {
    let ann = server.sign_up("  Zoe\u{308} \u{3000} Ng ").await;
    assert_eq!(ann.get("/users/me").await.data(200)["display_name"], "Zo\u{EB} Ng");
    let renamed = ann.patch("/users/me", json!({ "display_name": "می\u{200C}خواهم 👩🏽\u{200D}🚀" })).await.data(200);
    assert_eq!(renamed["display_name"], "می\u{200C}خواهم 👩🏽\u{200D}🚀");
}
