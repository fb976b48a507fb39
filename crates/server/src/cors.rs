use axum::Router;
use http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::config::Config;

/// Request headers that pages may send in addition to those that browsers always allow.
const SENT: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-device-id"),
];

/// Response headers that pages may read.
const READ: [HeaderName; 6] = [
    header::RETRY_AFTER,
    HeaderName::from_static("x-idempotent-replay"),
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
    HeaderName::from_static("x-request-id"),
];

/// Lets pages of the origins in `allowed_origins` call the API from browsers.
///
/// Calls are authenticated by a token that the page holds, never by a cookie. So CORS grants a page nothing that it
/// does not already have; it only limits which pages can be clients.
pub(crate) fn allow(app: Router, config: &Config) -> Router {
    let origins: Vec<&str> = config.origins().collect();
    let origins = match &origins[..] {
        [] => return app,
        named if named.contains(&"*") => AllowOrigin::any(),
        named => AllowOrigin::list(named.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    app.layer(CorsLayer::new().allow_origin(origins).allow_methods(methods).allow_headers(SENT).expose_headers(READ))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http::{Request, Response};
    use tower::ServiceExt;

    use super::*;

    async fn ask(allowed_origins: &str, method: Method, origin: &str) -> Response<Body> {
        let config = Config { allowed_origins: allowed_origins.to_owned(), ..Config::default() };
        let app = allow(Router::new().route("/api/v1/users/me", get(async || "ann")), &config);
        let request = Request::builder()
            .method(method)
            .uri("/api/v1/users/me")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "GET")
            .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "authorization,idempotency-key");
        app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn pages_of_named_origins_may_call_and_read() {
        let shop = "https://shop.example";
        for (allowed, origin, answer) in [
            ("", shop, None),
            (shop, shop, Some(shop)),
            ("https://a.example, https://shop.example", shop, Some(shop)),
            (shop, "https://evil.example", None),
            (shop, "https://shop.example.evil.example", None),
            ("*", "https://any.example", Some("*")),
            ("https://shop.example, *", "https://any.example", Some("*")),
        ] {
            for method in [Method::GET, Method::OPTIONS] {
                let response = ask(allowed, method.clone(), origin).await;
                let named = response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
                assert_eq!(named.map(|value| value.to_str().unwrap()), answer, "{allowed}: {method} from {origin}");
                assert!(!response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
            }
        }
        let preflight = ask(shop, Method::OPTIONS, shop).await;
        assert_eq!(preflight.status(), 200);
        let headers = preflight.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
        assert_eq!(headers, "authorization,content-type,idempotency-key,x-device-id");
        let answer = ask(shop, Method::GET, shop).await;
        let exposed = answer.headers()[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        assert!(exposed.contains("retry-after") && exposed.contains("x-request-id"), "{exposed}");
    }
}
