use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use crate::asset::Asset;

/// Facts about the server that the pages need.
#[derive(Clone, Debug)]
pub struct SiteInfo {
    /// The admin listener, which serves the console. With port 0 the address is unknown, and `/console` does not
    /// redirect.
    pub admin: SocketAddr,
    /// Whether it speaks TLS.
    pub admin_tls: bool,
    /// Whether the fixed development code signs in every user, so that the sign-in page can mention it.
    pub dev: bool,
    /// Whether users sign in with a phone number.
    pub phone: bool,
    /// The origins of pages that may show the web client in a frame, and give it tokens.
    pub frame_ancestors: Vec<String>,
}

/// A file of `web/dist`, by name.
macro_rules! file {
    ($name:literal) => {
        Asset::new($name, include_bytes!(concat!("../../../web/dist/", $name)))
    };
}

/// The routes of the public listener: `/` is the web client, `/docs` the documentation. `/console` redirects requests
/// to a loopback host to the admin listener.
pub fn public(site: SiteInfo) -> Router {
    let elsewhere = Asset::new("elsewhere.html", include_bytes!("elsewhere.html"));
    let SiteInfo { dev, phone, frame_ancestors, .. } = &site;
    // An origin contains no character that JSON escapes.
    let origins = frame_ancestors.iter().map(|origin| format!("\"{origin}\"")).collect::<Vec<_>>().join(",");
    let client = format!(r#"{{"dev":{dev},"phone":{phone},"frame_ancestors":[{origins}]}}"#);
    Router::new()
        .route(
            "/client.json",
            get(move || async move { ([(header::CONTENT_TYPE, "application/json")], client.clone()) }),
        )
        .merge(serve("/", file!("index.html").framed_by(&site.frame_ancestors)))
        .route(
            "/console",
            get(move |headers: HeaderMap| std::future::ready(lead_to_console(&site, &elsewhere, &headers))),
        )
        .merge(serve("/sw.js", file!("sw.js")))
        .merge(serve("/manifest.webmanifest", file!("manifest.webmanifest")))
        .merge(serve("/assets/client.js", file!("client.js")))
        .merge(serve("/assets/client.css", file!("client.css")))
        .merge(serve("/assets/badge.svg", file!("badge.svg")))
        .merge(serve("/docs", file!("docs.html")))
        .merge(serve("/assets/docs.js", file!("docs.js")))
        .merge(serve("/assets/docs.css", file!("docs.css")))
        .merge(shared())
}

/// The routes of the console for the admin listener: `/console` and the assets of its page.
pub fn console() -> Router {
    Router::new()
        .merge(serve("/console", file!("console.html")))
        .merge(serve("/assets/console.js", file!("console.js")))
        .merge(serve("/assets/console.css", file!("console.css")))
        .merge(shared())
}

/// Assets that all pages load.
fn shared() -> Router {
    serve("/assets/theme.js", file!("theme.js")).merge(serve("/assets/icon.svg", file!("icon.svg")))
}

fn serve(path: &str, asset: Asset) -> Router {
    Router::new().route(path, get(move |headers: HeaderMap| async move { asset.answer(&headers) }))
}

/// Redirects to the console if the request names a loopback host. Otherwise it serves a page that explains where the
/// console is. That page omits the address, which belongs to a network that the client is not in.
fn lead_to_console(site: &SiteInfo, elsewhere: &Asset, headers: &HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) || site.admin.port() == 0 {
        return elsewhere.answer(headers);
    }
    let ip = if site.admin.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { site.admin.ip() };
    let scheme = if site.admin_tls { "https" } else { "http" };
    Redirect::temporary(&format!("{scheme}://{}/console", SocketAddr::new(ip, site.admin.port()))).into_response()
}

/// Whether a `Host` header names a loopback address.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::{Request, StatusCode};
    use tower::ServiceExt;

    use super::*;

    fn site() -> SiteInfo {
        SiteInfo {
            admin: "127.0.0.1:9464".parse().unwrap(),
            admin_tls: false,
            dev: false,
            phone: true,
            frame_ancestors: vec![],
        }
    }

    async fn ask(router: Router, path: &str, host: &str) -> Response {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap()
    }

    async fn text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), 1 << 22).await.unwrap().to_vec()).unwrap()
    }

    /// The assets that a page names.
    fn assets(page: &str) -> Vec<String> {
        let named = page.split('"').filter(|part| part.starts_with("/assets/") || *part == "/manifest.webmanifest");
        named.map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn every_asset_that_a_page_names_is_there() {
        let pages =
            [(public(site()), "/"), (public(site()), "/docs"), (public(site()), "/sw.js"), (console(), "/console")];
        for (router, page) in pages {
            let response = ask(router.clone(), page, "localhost").await;
            assert_eq!(response.status(), StatusCode::OK, "{page}");
            let named = assets(&text(response).await);
            assert!(!named.is_empty(), "{page}");
            for asset in named {
                assert_eq!(ask(router.clone(), &asset, "localhost").await.status(), StatusCode::OK, "{page}: {asset}");
            }
        }
    }

    #[tokio::test]
    async fn the_console_itself_is_not_on_the_public_listener() {
        for asset in ["/assets/console.js", "/console.html"] {
            assert_eq!(ask(public(site()), asset, "localhost").await.status(), StatusCode::NOT_FOUND, "{asset}");
        }
    }

    #[tokio::test]
    async fn loopback_requests_are_redirected_to_the_console() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"] {
            let response = ask(public(site()), "/console", host).await;
            assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT, "{host}");
            assert_eq!(response.headers()["location"], "http://127.0.0.1:9464/console");
        }
        let everywhere = SiteInfo { admin: "0.0.0.0:9000".parse().unwrap(), admin_tls: true, ..site() };
        let response = ask(public(everywhere), "/console", "localhost").await;
        assert_eq!(response.headers()["location"], "https://127.0.0.1:9000/console");
    }

    #[tokio::test]
    async fn other_requests_get_a_page_that_explains_where_the_console_is() {
        let unknown = SiteInfo { admin: "127.0.0.1:0".parse().unwrap(), ..site() };
        let hosts =
            [(site(), "chat.example.com"), (site(), "localhost.example.com"), (site(), ""), (unknown, "localhost")];
        for (site, host) in hosts {
            let response = ask(public(site), "/console", host).await;
            assert_eq!(response.status(), StatusCode::OK, "{host}");
            let page = text(response).await;
            assert!(page.contains("admin listener") && !page.contains("9464"), "{page}");
        }
    }

    #[tokio::test]
    async fn only_the_client_is_framed_and_only_by_the_origins_that_are_named() {
        let framed = SiteInfo {
            frame_ancestors: vec!["https://a.example".to_owned(), "http://localhost:3000".to_owned()],
            ..site()
        };
        for (router, path, expected) in [
            (public(framed.clone()), "/", "https://a.example http://localhost:3000"),
            (public(framed.clone()), "/docs", "'none'"),
            (public(framed), "/console", "'none'"),
            (public(site()), "/", "'none'"),
            (console(), "/console", "'none'"),
        ] {
            let response = ask(router, path, "chat.example").await;
            let policy = response.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains(&format!("; frame-ancestors {expected}; ")), "{path}: {policy}");
        }
    }

    #[tokio::test]
    async fn the_page_learns_what_it_needs_before_a_sign_in() {
        let framed = SiteInfo { phone: false, frame_ancestors: vec!["https://a.example".to_owned()], ..site() };
        for (site, said) in [
            (SiteInfo { dev: true, ..site() }, r#"{"dev":true,"phone":true,"frame_ancestors":[]}"#),
            (framed, r#"{"dev":false,"phone":false,"frame_ancestors":["https://a.example"]}"#),
        ] {
            let response = ask(public(site), "/client.json", "localhost").await;
            assert_eq!(response.headers()["content-type"], "application/json");
            assert_eq!(text(response).await, said);
        }
    }
}
