use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The content security policy of a page with these ancestors: it loads from and calls its own origin only.
fn policy(ancestors: &str) -> HeaderValue {
    let policy = format!(
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}; object-src 'none'"
    );
    HeaderValue::try_from(policy).expect("origins are visible ASCII")
}

/// One file of `web/dist`, ready to be served.
#[derive(Clone)]
pub(crate) struct Asset {
    content_type: &'static str,
    policy: HeaderValue,
    plain: Variant,
    /// Compressed once at startup, because the file changes only with a release.
    gzip: Variant,
}

/// The bytes of a file in one encoding. An entity tag names bytes, so each encoding has its own.
#[derive(Clone)]
struct Variant {
    bytes: Bytes,
    etag: HeaderValue,
}

impl Asset {
    pub(crate) fn new(name: &str, bytes: &'static [u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
        let gzip = Bytes::from(written.expect("a Vec takes every write"));
        Self {
            content_type: content_type(name),
            policy: policy("'none'"),
            plain: Variant::new(Bytes::from_static(bytes)),
            gzip: Variant::new(gzip),
        }
    }

    /// Lets pages of these origins show this one in a frame.
    pub(crate) fn framed_by(self, ancestors: &[String]) -> Self {
        if ancestors.is_empty() { self } else { Self { policy: policy(&ancestors.join(" ")), ..self } }
    }

    /// Answers a GET. Names contain no version, so browsers revalidate on each request and mostly receive 304.
    pub(crate) fn answer(&self, request: &HeaderMap) -> Response {
        let gzip = accepts_gzip(request);
        let variant = if gzip { &self.gzip } else { &self.plain };
        let mut response = if names(request, &variant.etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let encoding = gzip.then_some([(header::CONTENT_ENCODING, "gzip")]);
            (encoding.map(AppendHeaders), [(header::CONTENT_TYPE, self.content_type)], variant.bytes.clone())
                .into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, variant.etag.clone());
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
        response
    }
}

impl Variant {
    fn new(bytes: Bytes) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(&digest(&SHA256, &bytes).as_ref()[..12]);
        let etag = HeaderValue::try_from(format!("\"{digest}\"")).expect("base64 is visible ASCII");
        Self { bytes, etag }
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        other => unreachable!("`{other:?}` is not among the files of web/dist"),
    }
}

/// Whether `If-None-Match` contains this entity tag.
fn names(request: &HeaderMap, etag: &HeaderValue) -> bool {
    let etag = etag.as_bytes();
    let given = request.get_all(header::IF_NONE_MATCH).into_iter();
    given.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).any(|one| {
        // A compressing proxy makes a tag weak. `If-None-Match` uses the weak comparison, which ignores that.
        one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == etag
    })
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let given = request.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|one| {
        let (coding, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        coding.trim().eq_ignore_ascii_case("gzip") && weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::body::to_bytes;
    use axum::http::HeaderName;
    use flate2::read::GzDecoder;

    use super::*;

    const PAGE: &[u8] = b"<!doctype html><title>Tidings</title>";

    fn answer(headers: &[(HeaderName, &str)]) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::try_from(*value).unwrap()));
        Asset::new("index.html", PAGE).answer(&headers.collect())
    }

    async fn body(response: Response) -> Vec<u8> {
        to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn a_file_comes_whole_with_its_type_and_the_policy() {
        let response = answer(&[]);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
        assert_eq!(
            response.headers()["content-security-policy"],
            "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
        );
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(response.headers()["referrer-policy"], "no-referrer");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        assert!(!response.headers().contains_key("content-encoding"));
        assert_eq!(body(response).await, PAGE);
    }

    #[tokio::test]
    async fn a_client_that_accepts_gzip_gets_the_same_file_compressed() {
        let response = answer(&[(header::ACCEPT_ENCODING, "br, gzip;q=0.8")]);
        assert_eq!(response.headers()["content-encoding"], "gzip");
        let mut plain = Vec::new();
        GzDecoder::new(body(response).await.as_slice()).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, PAGE);
        for refused in ["br", "gzip;q=0", "gzip;q=0.0", "x-gzip"] {
            let response = answer(&[(header::ACCEPT_ENCODING, refused)]);
            assert!(!response.headers().contains_key("content-encoding"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_browser_that_has_the_file_gets_not_modified() {
        let etag = answer(&[]).headers()["etag"].to_str().unwrap().to_owned();
        for given in [etag.clone(), format!("\"other\", {etag}"), format!("W/{etag}"), "*".to_owned()] {
            let response = answer(&[(header::IF_NONE_MATCH, &given)]);
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED, "{given}");
            assert_eq!(response.headers()["etag"], etag.as_str());
            assert_eq!(body(response).await, b"");
        }
        assert_eq!(answer(&[(header::IF_NONE_MATCH, "\"other\"")]).status(), StatusCode::OK);
        let compressed = answer(&[(header::ACCEPT_ENCODING, "gzip"), (header::IF_NONE_MATCH, &etag)]);
        assert_eq!(compressed.status(), StatusCode::OK, "the tag of other bytes says nothing about these");
    }
}
