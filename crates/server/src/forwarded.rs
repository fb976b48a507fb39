use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::header::{FORWARDED, HeaderMap, HeaderValue};
use ipnet::IpNet;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Networks of proxies that are trusted to forward client addresses. By default none is trusted, because a client that
/// can set the header could evade every limit per address.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<IpNet>);

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let network = |text: &str| match (text.parse(), text.parse::<IpAddr>()) {
            (Ok(network), _) => Ok(network),
            (Err(_), Ok(address)) => Ok(IpNet::from(address)),
            (Err(_), Err(_)) => Err(format!("`{text}` is not a network, such as 10.0.0.0/8 or fd00::/8")),
        };
        let texts = list.split(',').map(str::trim).filter(|text| !text.is_empty());
        texts.map(network).collect::<Result<_, _>>().map(Self)
    }
}

impl TrustedProxies {
    /// The client address of a request received from `peer`. Each proxy appends the address that it received the
    /// request from. So the list is read from its end, for as long as the address that appended an entry is trusted.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        let mut address = peer.ip().to_canonical();
        if !self.trusts(address) {
            return peer;
        }
        for noted in noted(headers).into_iter().rev() {
            let Some(noted) = noted else { break };
            address = noted.to_canonical();
            if !self.trusts(address) {
                break;
            }
        }
        SocketAddr::new(address, 0)
    }

    /// Whether no proxy is trusted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every address of a family is trusted, so that any client can name its own address.
    pub(crate) fn trusts_everyone(&self) -> bool {
        self.0.iter().any(|network| network.prefix_len() == 0)
    }

    /// Whether an address, in its canonical form, is one of them.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The forwarded addresses, the latest last; `None` for an entry that is not an address.
///
/// Few proxies write `Forwarded`, and the others pass on a client's own. So `X-Forwarded-For` takes precedence if
/// present.
fn noted(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let texts = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    if headers.contains_key(X_FORWARDED_FOR) {
        let values: Vec<String> = headers.get_all(X_FORWARDED_FOR).iter().map(texts).collect();
        return values.iter().flat_map(|value| value.split(',')).map(address).collect();
    }
    let values: Vec<String> = headers.get_all(FORWARDED).iter().map(texts).collect();
    let elements = values.iter().flat_map(|value| value.split(','));
    elements.map(|element| address(forwarded_for(element)?)).collect()
}

/// The value of `for` in one element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then(|| value.trim_matches('"'))
    })
}

/// An address, with or without brackets and a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let trusted: TrustedProxies = trusted.parse().unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        trusted.client(SocketAddr::new(peer.parse().unwrap(), 4711), &map).ip().to_string()
    }

    #[test]
    fn headers_of_an_untrusted_peer_are_ignored() {
        let lie = [("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")];
        assert_eq!(client("", "203.0.113.9", &lie), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "203.0.113.9", &lie), "203.0.113.9");
    }

    #[test]
    fn the_last_address_outside_the_trusted_networks_is_the_client() {
        let cases: [(&[(&'static str, &str)], &str); 20] = [
            (&[], "10.0.0.1"),
            (&[("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            // Entries written by the client itself are further left.
            (&[("x-forwarded-for", "198.51.100.1, 192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "198.51.100.1, 192.0.2.1, 10.9.9.9")], "192.0.2.1"),
            (&[("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "192.0.2.1,10.9.9.9")], "192.0.2.1"),
            (&[("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
            (&[("x-forwarded-for", "192.0.2.1:5000")], "192.0.2.1"),
            (&[("x-forwarded-for", "2001:db8::1")], "2001:db8::1"),
            (&[("x-forwarded-for", "[2001:db8::1]:5000")], "2001:db8::1"),
            (&[("x-forwarded-for", "::ffff:192.0.2.1")], "192.0.2.1"),
            // Entries before one that is not an address are unknown.
            (&[("x-forwarded-for", "192.0.2.1, unknown")], "10.0.0.1"),
            (&[("x-forwarded-for", "192.0.2.1, , 10.9.9.9")], "10.9.9.9"),
            (&[("x-forwarded-for", "")], "10.0.0.1"),
            (&[("forwarded", "for=192.0.2.1;proto=https")], "192.0.2.1"),
            (&[("forwarded", "by=10.0.0.1; For=\"[2001:db8::1]:5000\"")], "2001:db8::1"),
            (&[("forwarded", "for=198.51.100.1, for=192.0.2.1, for=10.9.9.9")], "192.0.2.1"),
            (&[("forwarded", "for=\"198.51.100.1, for=192.0.2.1")], "192.0.2.1"),
            (&[("forwarded", "for=_hidden")], "10.0.0.1"),
            (&[("forwarded", "proto=https")], "10.0.0.1"),
            (&[("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
        ];
        for (headers, expected) in cases {
            assert_eq!(client("10.0.0.0/8", "10.0.0.1", headers), expected, "{headers:?}");
        }
        assert_eq!(client("10.0.0.7", "::ffff:10.0.0.7", &[("x-forwarded-for", "192.0.2.1")]), "192.0.2.1");
    }

    #[test]
    fn an_invalid_network_is_named() {
        let refused = "10.0.0.0/8, proxies".parse::<TrustedProxies>().unwrap_err();
        assert_eq!(refused, "`proxies` is not a network, such as 10.0.0.0/8 or fd00::/8");
        assert!("10.0.0.0/33".parse::<TrustedProxies>().is_err());
    }
}
