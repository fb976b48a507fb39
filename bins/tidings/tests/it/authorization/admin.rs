use std::fs;

use reqwest::Method;
use serde_json::Value;

use crate::server::TestServer;

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

#[tokio::test]
async fn no_route_of_operators_answers_without_their_token() {
    let server = TestServer::start().await;
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
    let trail = server.data_dir().join("admin-audit.jsonl");
    assert_eq!(fs::read_to_string(trail).unwrap_or_default(), "", "what was not let in is no action");
    let answer = http.get(format!("{base_url}/nodes")).bearer_auth(token).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn operator_routes_are_not_on_the_public_listener() {
    let server = TestServer::start().await;
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    let http = reqwest::Client::new();
    for path in ["/metrics", "/admin/v1/nodes", "/admin/v1/audit", "/assets/console.js"] {
        let request = http.get(format!("{}{path}", server.base_url())).bearer_auth(file["token"].as_str().unwrap());
        assert_eq!(request.send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn the_admin_listener_serves_no_unknown_host() {
    let server = TestServer::start_with(&[("TIDINGS_ADMIN__ALLOWED_HOSTS", "ops.example, tidings.internal")]).await;
    let http = reqwest::Client::new();
    for path in ["/metrics", "/healthz", "/console", "/admin/v1/nodes"] {
        let url = format!("{}{path}", server.admin_url());
        let status = async |host: &str| http.get(&url).header("host", host).send().await.unwrap().status().as_u16();
        assert_eq!(status("rebound.example:9464").await, 421, "{path}");
        assert_ne!(status("tidings.internal:9464").await, 421, "{path}");
        assert_ne!(http.get(&url).send().await.unwrap().status(), 421, "{path}");
    }
    assert_eq!(http.get(format!("{}/metrics", server.base_url())).send().await.unwrap().status(), 404);
}
