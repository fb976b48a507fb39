use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};

/// Security headers for browsers, set on every response that does not set them itself. Pages set a policy of their own.
/// Any other response is not a document: it loads nothing and cannot be framed.
const ALWAYS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (CACHE_CONTROL, "no-store"),
];
/// HSTS for two years. Sent over TLS only, because browsers ignore it otherwise.
const TLS_ONLY: &str = "max-age=63072000";

/// Adds security headers to every response of a listener.
pub(crate) fn harden(app: Router, over_tls: bool) -> Router {
    app.layer(map_response(move |response: Response| std::future::ready(hardened(response, over_tls))))
}

fn hardened(mut response: Response, over_tls: bool) -> Response {
    // The response of a WebSocket upgrade is not a document.
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let headers = response.headers_mut();
        for (name, value) in ALWAYS {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        if over_tls {
            headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn ask(over_tls: bool, path: &str) -> Response {
        let page = ([(CONTENT_SECURITY_POLICY, "default-src 'self'"), (CACHE_CONTROL, "no-cache")], "page");
        let app = Router::new().route("/page", get(async || page)).route("/api", get(async || "answer"));
        harden(app, over_tls).oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn every_response_has_the_security_headers() {
        for path in ["/api", "/nowhere"] {
            let answer = ask(false, path).await;
            for (name, value) in ALWAYS {
                assert_eq!(answer.headers()[&name], value, "{path}");
            }
        }
    }

    #[tokio::test]
    async fn headers_set_by_a_handler_stay() {
        let page = ask(false, "/page").await;
        assert_eq!(page.headers()[CONTENT_SECURITY_POLICY], "default-src 'self'");
        assert_eq!(page.headers()[CACHE_CONTROL], "no-cache");
        assert_eq!(page.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
    }

    #[tokio::test]
    async fn hsts_is_sent_over_tls_only() {
        assert!(!ask(false, "/api").await.headers().contains_key(STRICT_TRANSPORT_SECURITY));
        assert_eq!(ask(true, "/api").await.headers()[STRICT_TRANSPORT_SECURITY], TLS_ONLY);
    }
}
