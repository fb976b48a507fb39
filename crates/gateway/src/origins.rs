use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Web page origins that may open a WebSocket: the server's own origin and the configured ones.
///
/// Browsers let any page open a WebSocket to any host and only send the page's origin; other clients send none and pass.
/// A foreign page has no access token, so this check is a second line of defense in case a token leaks.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    named: Vec<String>,
}

impl<'a> FromIterator<&'a str> for Origins {
    /// Origins as browsers write them, such as `https://app.example`; `*` allows all.
    fn from_iter<I: IntoIterator<Item = &'a str>>(named: I) -> Self {
        Self { named: named.into_iter().map(str::to_owned).collect() }
    }
}

impl Origins {
    /// Whether a handshake with these headers may proceed.
    pub(crate) fn permit(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(ORIGIN) else { return true };
        // Browsers send exactly one `Origin`. With several, a proxy might have checked a different one than we do.
        let Some(origin) = origin.to_str().ok().filter(|_| headers.get_all(ORIGIN).iter().count() == 1) else {
            return false;
        };
        self.named.iter().any(|named| named == "*" || named.eq_ignore_ascii_case(origin)) || is_own(origin, headers)
    }
}

/// Whether a page's origin is the host it connects to. The scheme is not compared: a proxy may terminate TLS.
fn is_own(origin: &str, headers: &HeaderMap) -> bool {
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    authority.zip(host).is_some_and(|(authority, host)| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn permits(named: &[&str], host: &str, origins: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        for origin in origins {
            headers.append(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        named.iter().copied().collect::<Origins>().permit(&headers)
    }

    #[test]
    fn own_pages_named_ones_and_clients_without_pages_may_connect() {
        let cases: [(&[&str], &str, &[&str], bool); 18] = [
            (&[], "chat.example", &[], true),
            (&[], "chat.example", &["https://chat.example"], true),
            (&[], "Chat.Example:8443", &["https://chat.example:8443"], true),
            (&[], "127.0.0.1:8080", &["http://127.0.0.1:8080"], true),
            (&[], "chat.example", &["https://chat.example:8443"], false),
            (&[], "chat.example", &["https://evil.example"], false),
            (&[], "chat.example", &["https://chat.example.evil.example"], false),
            (&[], "chat.example", &["https://evil.example/chat.example"], false),
            (&[], "chat.example", &["null"], false),
            (&[], "", &["https://"], false),
            (&[], "chat.example", &[""], false),
            (&[], "chat.example", &["https://chat.example", "https://evil.example"], false),
            (&["https://app.example"], "chat.example", &["https://app.example"], true),
            (&["https://app.example"], "chat.example", &["https://chat.example"], true),
            (&["https://app.example"], "chat.example", &["http://app.example"], false),
            (&["https://app.example"], "chat.example", &["https://sub.app.example"], false),
            (&["*"], "chat.example", &["https://evil.example"], true),
            (&["*"], "chat.example", &["null"], true),
        ];
        for (named, host, origins, expected) in cases {
            assert_eq!(permits(named, host, origins), expected, "{named:?} {host} {origins:?}");
        }
    }
}
