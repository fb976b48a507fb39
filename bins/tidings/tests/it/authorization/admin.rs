use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{TestServer, TestSocket};
use crate::webhook::{said, tidings};

/// Every route of the admin API, parsed from its router.
fn routes() -> Vec<(Method, String)> {
    let router = include_str!("../../../../../crates/server/src/admin/mod.rs");
    let mut routes = Vec::new();
    for line in router.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
        let (path, verbs) = line.split_once('"').unwrap();
        for verb in ["get", "post", "put", "patch", "delete"] {
            if path != "/metrics" && verbs.contains(&format!("{verb}(")) {
                let path = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
                routes.push((verb.to_uppercase().parse().unwrap(), path.collect::<Vec<_>>().join("/")));
            }
        }
    }
    routes
}

pub(super) async fn no_route_of_operators_answers_without_their_token(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let token = file["token"].as_str().unwrap();
    let almost = format!("Bearer {}", &token[..token.len() - 1]);
    let headers = [
        None,
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer x".to_owned()),
        Some(format!("Basic {token}")),
        Some(token.to_owned()),
        Some(almost),
        Some(format!("Bearer {token}x")),
        Some(format!("Bearer {}", token.to_uppercase())),
        Some(format!("Bearer {}", ann.access_token)),
    ];
    let (http, base_url) = (reqwest::Client::new(), format!("{}/admin/v1", server.admin_url()));
    let routes = routes();
    assert!(routes.len() >= 23, "the router is read: {routes:?}");
    let trail = || fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap_or_default();
    let before = trail();
    for (method, path) in routes {
        for header in &headers {
            let request = http.request(method.clone(), format!("{base_url}{path}"));
            let request = header.iter().fold(request, |request, header| request.header("authorization", header));
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 401, "{method} {path} with {header:?}");
            assert_eq!(answer.headers()["cache-control"], "no-store");
            assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
            assert_eq!(answer.headers()["content-security-policy"], "default-src 'none'; frame-ancestors 'none'");
        }
    }
    assert_eq!(trail(), before, "what was not let in is no action");
    let answer = http.get(format!("{base_url}/nodes")).bearer_auth(token).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// The lowest role that may call each route. Routes that are missing here are closed, and the test says so.
const LOWEST: &[(&str, &[&str])] = &[
    (
        "viewer",
        &[
            "GET /pulse",
            "GET /nodes",
            "GET /gateways",
            "GET /webhook",
            "GET /drain",
            "GET /log-level",
            "GET /search",
            "GET /users/x",
            "GET /users/x/connections",
            "GET /chats/x",
            "GET /chats/x/timeline",
            "GET /messages/x",
            "GET /gateways/x/connections",
            "GET /dead-letters",
            "GET /reports",
            "GET /audit",
        ],
    ),
    (
        "support",
        &[
            "POST /users",
            "PATCH /users/x",
            "DELETE /users/x",
            "POST /users/x/export",
            "DELETE /users/x/sessions",
            "DELETE /users/x/sessions/x",
            "POST /users/x/suspend",
            "POST /users/x/resume",
            "POST /users/x/sign-out",
            "POST /users/x/revoke-token",
            "DELETE /chats/x/members/x",
            "PUT /chats/x/owner",
            "DELETE /connections/x",
            "GET /reports/x",
            "POST /reports/x/resolve",
        ],
    ),
    (
        "admin",
        &[
            "PUT /chats/x/retention",
            "POST /gateways/x/drain",
            "POST /gateways/x/resume",
            "POST /drain",
            "POST /resume",
            "POST /webhook/replay",
            "POST /notifications/replay",
            "POST /dead-letters/x/redeliver",
            "DELETE /dead-letters/x",
            "GET /verify",
            "POST /backup",
            "PUT /log-level",
            "GET /operators",
            "POST /operators",
            "DELETE /operators/x",
            "POST /operators/x/rotate",
        ],
    ),
];

pub(super) async fn every_route_of_operators_needs_the_role_of_the_table(server: &TestServer) {
    let mut tokens = Vec::new();
    for (role, _) in LOWEST {
        let added = tidings(server, &["admin", "operator", "add", &format!("a-{role}"), "--role", role]).await;
        tokens.push((*role, said(&added).trim().to_owned()));
    }
    let (http, base_url) = (reqwest::Client::new(), format!("{}/admin/v1", server.admin_url()));
    let rank = |role: &str| LOWEST.iter().position(|(name, _)| *name == role).unwrap();
    for (method, path) in routes() {
        let route = format!("{method} {path}");
        let lowest = LOWEST.iter().find(|(_, routes)| routes.contains(&&*route)).map(|(role, _)| *role);
        let lowest = lowest.unwrap_or_else(|| panic!("{route} is not in the table"));
        for (role, token) in &tokens {
            let request = http.request(method.clone(), format!("{base_url}{path}")).bearer_auth(token);
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            if rank(role) >= rank(lowest) {
                assert!(status != 401 && status != 403, "{route} as {role}: {status}");
                continue;
            }
            assert_eq!(status, 403, "{route} as {role}");
            let body: Value = answer.json().await.unwrap();
            assert_eq!(body["error"]["code"], "FORBIDDEN", "{route} as {role}");
            assert_eq!(body["error"]["details"]["needed_role"], lowest, "{route} as {role}");
        }
    }
    // A method that no route has, as the operator with all rights.
    let token = &tokens.last().unwrap().1;
    let closed = http.patch(format!("{base_url}/pulse")).bearer_auth(token).send().await.unwrap();
    assert_eq!(closed.status(), 403);
}

/// The routes that show contents to operators. They are audited as actions.
const SHOWING: [&str; 2] = ["POST /users/x/export", "GET /reports/x"];
/// Routes that are not called: backups, which have everything, and drains, which other rules would notice.
const UNCALLED: [&str; 5] =
    ["POST /backup", "POST /drain", "POST /resume", "POST /gateways/x/drain", "POST /gateways/x/resume"];
const SECRET: &str = "between the two of us";

pub(super) async fn no_answer_to_operators_has_the_content_of_a_message(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut bobs = TestSocket::open(bob.handshake()).await;
    let connection_id = bobs.next().await["payload"]["connection_id"].take();
    let message = json!({
        "client_message_id": Uuid::new_v4(), "content": SECRET, "metadata": { "note": SECRET },
    });
    let message_id = ann.post(&format!("/chats/{chat_id}/messages"), message).await.data(201)["message_id"].take();
    let report = json!({ "message_id": message_id, "reason": "spam", "comment": SECRET });
    let report_id = bob.post("/reports", report).await.data(201)["report_id"].take();
    let ids = [
        ("users", &*ann.user_id),
        ("sessions", &*ann.session_id),
        ("chats", &*chat_id),
        ("members", &*bob.user_id),
        ("messages", message_id.as_str().unwrap()),
        ("connections", connection_id.as_str().unwrap()),
        ("reports", report_id.as_str().unwrap()),
    ];
    let with_ids = |path: &str| {
        let mut parts: Vec<&str> = path.split('/').collect();
        for n in 1..parts.len() {
            let id = ids.iter().find(|(collection, _)| parts[n] == "x" && *collection == parts[n - 1]);
            parts[n] = id.map_or(parts[n], |(_, id)| *id);
        }
        parts.join("/")
    };
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let (http, base_url) = (reqwest::Client::new(), format!("{}/admin/v1", server.admin_url()));
    // The reads first, and deletions last.
    let order = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let mut routes = routes();
    routes.sort_by_key(|(method, _)| order.iter().position(|other| other == method));
    // What was recorded of all requests.
    routes.push((Method::GET, "/audit".to_owned()));
    for (method, path) in routes {
        let route = format!("{method} {path}");
        if UNCALLED.contains(&&*route) {
            continue;
        }
        let query = match &*path {
            "/search" => format!("?q={}", message_id.as_str().unwrap()),
            "/audit" => "?reads=true&limit=1000".to_owned(),
            _ => String::new(),
        };
        let request = http.request(method.clone(), format!("{base_url}{}{query}", with_ids(&path)));
        let request = if method == Method::GET { request } else { request.json(&json!({})) };
        let answer = request.bearer_auth(file["token"].as_str().unwrap()).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        assert_eq!(text.contains(SECRET), SHOWING.contains(&&*route), "{route}: {status} {text}");
        let is_about_them = method == Method::GET
            && ["/search", "/users/x", "/chats/x", "/messages/x", "/reports", "/audit"]
                .iter()
                .any(|shown| path.starts_with(shown));
        assert!(status == 200 || !is_about_them, "{route}: {status} {text}");
    }
}

pub(super) async fn operator_routes_are_not_on_the_public_listener(server: &TestServer) {
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let http = reqwest::Client::new();
    for path in ["/metrics", "/admin/v1/nodes", "/admin/v1/audit", "/assets/console.js"] {
        let request = http.get(format!("{}{path}", server.base_url())).bearer_auth(file["token"].as_str().unwrap());
        assert_eq!(request.send().await.unwrap().status(), 404, "{path}");
    }
}
