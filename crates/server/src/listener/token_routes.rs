use std::collections::HashMap;

use axum::extract::MatchedPath;
use http::header::AUTHORIZATION;
use http::{Method, Request};
use serde_json::Value;

/// The path of WebSocket handshakes. Their token or ticket may be in the query.
const WEBSOCKET: &str = "/v1/ws";

/// The routes that verify a token before they do anything else.
///
/// A header alone authenticates nobody: a route that ignores it serves every client. A route that is absent here, such as
/// a page or a path without a route, is open.
pub(super) struct TokenRoutes(HashMap<String, Vec<Method>>);

impl TokenRoutes {
    /// The operations of an OpenAPI document that require a token, and the WebSocket handshake.
    pub(super) fn of(document: &Value) -> Self {
        let mut routes = HashMap::from([(WEBSOCKET.to_owned(), vec![Method::GET])]);
        for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            let secured = operations.as_object().into_iter().flatten().filter(|(_, operation)| has_security(operation));
            let methods = secured.filter_map(|(method, _)| method.to_uppercase().parse().ok()).collect();
            routes.insert(path.clone(), methods);
        }
        Self(routes)
    }

    /// Whether a request has credentials that its route verifies.
    pub(super) fn will_verify<B>(&self, request: &Request<B>) -> bool {
        let has_credentials = request.headers().contains_key(AUTHORIZATION)
            || is_handshake(request) && request.uri().query().is_some_and(|query| !query.is_empty());
        // HEAD is served by the routes of GET.
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let path = request.extensions().get().map_or("", MatchedPath::as_str);
        has_credentials && self.0.get(path).is_some_and(|methods| methods.contains(method))
    }
}

/// Whether a request opens a WebSocket, or tries to.
pub(super) fn is_handshake<B>(request: &Request<B>) -> bool {
    request.uri().path() == WEBSOCKET
}

fn has_security(operation: &Value) -> bool {
    operation["security"].as_array().is_some_and(|schemes| !schemes.is_empty())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::{Next, from_fn};
    use axum::routing::any;
    use http::StatusCode;
    use tower::ServiceExt;

    use super::*;

    /// Whether the route of a request verifies its credentials.
    async fn verifies(request: &str, authorization: Option<&str>) -> bool {
        let (method, uri) = request.split_once(' ').unwrap();
        let routes = ["/api/v1/users/me", "/api/v1/auth/refresh", "/api/v1/chats/{chat_id}", "/healthz", "/v1/ws"];
        let app = routes.into_iter().fold(Router::new(), |app, route| app.route(route, any(async || ())));
        let app = app.layer(from_fn(async |request: axum::extract::Request, _: Next| {
            let verifies = TokenRoutes::of(&chats::openapi()).will_verify(&request);
            if verifies { StatusCode::OK } else { StatusCode::NO_CONTENT }
        }));
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status() == StatusCode::OK
    }

    #[tokio::test]
    async fn a_header_counts_as_credentials_only_where_a_token_is_verified() {
        for request in [
            "GET /api/v1/users/me",
            "HEAD /api/v1/users/me",
            "PATCH /api/v1/chats/c_1",
            "GET /v1/ws",
            "GET /v1/ws?ticket=1",
        ] {
            assert!(verifies(request, Some("Bearer x")).await, "{request}");
        }
        for request in [
            "POST /api/v1/auth/refresh",
            "OPTIONS /api/v1/users/me",
            "PUT /api/v1/users/me",
            "POST /v1/ws",
            "GET /healthz",
            "GET /nowhere",
        ] {
            assert!(!verifies(request, Some("Bearer x")).await, "{request}");
        }
        assert!(!verifies("GET /api/v1/users/me", None).await);
        assert!(!verifies("GET /v1/ws", None).await);
        assert!(verifies("GET /v1/ws?token=1", None).await, "browsers cannot set headers");
    }
}
