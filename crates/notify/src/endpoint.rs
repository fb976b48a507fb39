//! Endpoint checks for Web Push. Users choose the endpoint of their browser's subscription. The server must not call private
//! addresses for them (server-side request forgery).

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Reason to reject a subscription. It does not contain the endpoint, which is a secret that gives access to the device.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SubscriptionError {
    #[error("the endpoint is not a URL")]
    Unreadable,
    #[error("the endpoint is not https")]
    Plain,
    #[error("the endpoint is not a public address")]
    Private,
    #[error("the key is not a point on P-256")]
    Key,
}

/// Parses an endpoint and rejects private addresses in its text. [`PublicResolver`] checks host names when they are
/// resolved.
pub(crate) fn public_url(endpoint: &str) -> Result<Url, SubscriptionError> {
    let url = Url::parse(endpoint).map_err(|_| SubscriptionError::Unreadable)?;
    if url.scheme() != "https" {
        return Err(SubscriptionError::Plain);
    }
    let host = url.host_str().ok_or(SubscriptionError::Unreadable)?;
    // An IP address is not resolved, so check it here. The URL parser has already normalized its spelling.
    match host.trim_matches(['[', ']']).parse() {
        Ok(address) if !is_public(address) => Err(SubscriptionError::Private),
        _ => Ok(url),
    }
}

/// Whether a call failed because its host name resolves to no public address.
pub(crate) fn is_private_endpoint(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| error.is::<SubscriptionError>())
}

/// Resolves host names to public addresses only.
pub(crate) struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(SubscriptionError::Private.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All addresses except the non-global blocks of the special-purpose registry (RFC 6890).
fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        [0 | 10 | 127, ..] => true,
        [100, second, ..] => (64..128).contains(&second),
        [169, 254, ..] | [192, 168, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        [172, second, ..] => (16..32).contains(&second),
        [198, second, ..] => second == 18 || second == 19,
        [first, ..] => first >= 224,
    };
    !special
}

/// Global unicast (2000::/3) without its special-purpose blocks. Also public IPv4 addresses behind NAT64 (64:ff9b::/96),
/// the form in which an IPv6-only network reaches them.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // IETF protocol assignments such as Teredo, documentation, 6to4.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let judge = |text: &str| is_public(text.parse().unwrap());
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!judge(address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(judge(address), "{address}");
        }
    }

    #[test]
    fn an_endpoint_is_https_and_names_no_private_address_in_any_spelling() {
        for (endpoint, error) in [
            ("push.example/1", SubscriptionError::Unreadable),
            ("https://", SubscriptionError::Unreadable),
            ("http://push.example/1", SubscriptionError::Plain),
            ("file:///etc/passwd", SubscriptionError::Plain),
            ("https://127.0.0.1/1", SubscriptionError::Private),
            ("https://127.1/1", SubscriptionError::Private),
            ("https://0x7f000001/1", SubscriptionError::Private),
            ("https://2130706433/1", SubscriptionError::Private),
            ("https://017700000001:8443/1", SubscriptionError::Private),
            ("https://[::1]/1", SubscriptionError::Private),
            ("https://[::ffff:10.0.0.1]:8443/1", SubscriptionError::Private),
            ("https://user:password@169.254.169.254/latest", SubscriptionError::Private),
        ] {
            assert_eq!(public_url(endpoint), Err(error), "{endpoint}");
        }
        for endpoint in ["https://push.example/1", "https://8.8.8.8/1", "https://[2606:4700::1111]:8443/1"] {
            assert!(public_url(endpoint).is_ok(), "{endpoint}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_leads_nowhere() {
        let error = PublicResolver.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(is_private_endpoint(&*error), "{error}");
    }
}
