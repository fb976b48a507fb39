use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};

/// Accepts requests for known hosts only.
///
/// A page in an operator's browser could let its own name resolve to the address of this listener, and would then be of
/// the same origin as `/metrics` (DNS rebinding). The name is in `Host`, so a request for an unknown name is refused.
/// Addresses are accepted: a rebound name is none, and probes and scrapers use addresses.
pub(crate) fn check(app: Router, allowed: Vec<String>) -> Router {
    let allowed: Arc<[String]> = allowed.into();
    app.layer(from_fn(move |request: Request, next: Next| {
        let allowed = allowed.clone();
        async move {
            match refusal(request.uri(), request.headers(), &allowed) {
                Some(refusal) => refusal.into_response(),
                None => next.run(request).await,
            }
        }
    }))
}

fn refusal(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Option<Response> {
    let bad = |message: &'static str| Some((StatusCode::BAD_REQUEST, message).into_response());
    let mut named = headers.get_all(HOST).iter();
    let header = match (named.next(), named.next()) {
        (_, Some(_)) => return bad("the request has more than one `Host`\n"),
        (None, None) => None,
        (Some(host), None) => match host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) {
            Some(host) => Some(host),
            None => return bad("`Host` is not a host\n"),
        },
    };
    // HTTP/2, and absolute URIs of HTTP/1.1, have the host there.
    let host = match (uri.authority(), header) {
        (Some(authority), Some(header)) if *authority != header => return bad("`Host` is not the host of the URI\n"),
        (Some(authority), _) => authority.clone(),
        (None, Some(header)) => header,
        (None, None) => return bad("the request has no `Host`\n"),
    };
    if is_known(host.host(), allowed) {
        return None;
    }
    let message = format!("this listener does not serve `{}`; name it in `admin.allowed_hosts`\n", host.host());
    Some((StatusCode::MISDIRECTED_REQUEST, message).into_response())
}

fn is_known(host: &str, allowed: &[String]) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.parse::<IpAddr>().is_ok()
        || bracketed.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
        || host == "localhost"
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(&host))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    async fn status(uri: &str, hosts: &[&str]) -> u16 {
        let app = check(Router::new().route("/metrics", get(async || "numbers")), vec!["ops.example".to_owned()]);
        let request = hosts.iter().fold(http::Request::get(uri), |request, host| request.header(HOST, *host));
        app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn addresses_loopback_and_listed_names_are_served() {
        for host in ["127.0.0.1:9464", "10.0.0.7:9464", "[::1]:9464", "[fd00::1]", "localhost", "LOCALHOST:1"] {
            assert_eq!(status("/metrics", &[host]).await, 200, "{host}");
        }
        for host in ["ops.example", "Ops.Example.:9464"] {
            assert_eq!(status("/metrics", &[host]).await, 200, "{host}");
        }
        assert_eq!(status("http://127.0.0.1/metrics", &[]).await, 200);
        assert_eq!(status("http://ops.example/metrics", &["ops.example"]).await, 200);
    }

    #[tokio::test]
    async fn other_names_and_ambiguous_hosts_are_refused() {
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost:9464"] {
            assert_eq!(status("/metrics", &[host]).await, 421, "{host}");
        }
        assert_eq!(status("/nowhere", &["evil.example"]).await, 421);
        assert_eq!(status("http://evil.example/metrics", &[]).await, 421);
        for hosts in [&[][..], &[""], &["a b"], &["127.0.0.1", "127.0.0.1"], &["127.0.0.1", "evil.example"]] {
            assert_eq!(status("/metrics", hosts).await, 400, "{hosts:?}");
        }
        assert_eq!(status("http://127.0.0.1/metrics", &["evil.example"]).await, 400);
    }
}
