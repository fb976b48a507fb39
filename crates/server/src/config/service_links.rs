//! Environment variables that Kubernetes sets for a Service.
//!
//! For each Service of the namespace a pod has `{SVC}_SERVICE_HOST`, `{SVC}_SERVICE_PORT` and more, where `{SVC}` is
//! the name of the Service in upper case. For a Service named `tidings`, or `tidings-gateway`, they share our prefix.

use std::net::{IpAddr, SocketAddr};

/// Whether name and value are those of a service link.
///
/// The value has to match too, so that a mistaken setting (`TIDINGS_PORT=8080`) is still reported.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    let port_of = |service: &str| is_name(service) && value.parse::<u16>().is_ok();
    let named_port = name.split_once("_SERVICE_PORT_").is_some_and(|(service, port)| is_name(port) && port_of(service));
    let strip = |suffix: &str| name.strip_suffix(suffix);
    named_port
        || strip("_SERVICE_PORT").is_some_and(port_of)
        || strip("_SERVICE_HOST").is_some_and(|service| is_name(service) && is_address(value))
        || strip("_PORT").is_some_and(|service| is_name(service) && PROTOCOLS.iter().any(|each| is_url(value, each)))
        || name.rsplit_once("_PORT_").is_some_and(|(service, port)| is_name(service) && is_of_port(port, value))
}

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Whether it is the name of a Service or of a port, in upper case and with `_` for `-`.
fn is_name(name: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let [first, .., last] = name.as_bytes() else { return name.bytes().all(is_alphanumeric) && !name.is_empty() };
    is_alphanumeric(*first) && is_alphanumeric(*last) && name.bytes().all(|byte| is_alphanumeric(byte) || byte == b'_')
}

/// Whether it is a suffix after `{SVC}_PORT_`: `80_TCP`, or that with `_PROTO`, `_PORT` or `_ADDR`.
fn is_of_port(link: &str, value: &str) -> bool {
    let mut parts = link.split('_');
    let (Some(port), Some(protocol), part, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_port = port.parse::<u16>().is_ok() && PROTOCOLS.contains(&protocol);
    is_port
        && match part {
            None => is_url(value, protocol),
            Some("PROTO") => value.eq_ignore_ascii_case(protocol),
            Some("PORT") => value == port,
            Some("ADDR") => is_address(value),
            Some(_) => false,
        }
}

fn is_address(value: &str) -> bool {
    value.parse::<IpAddr>().is_ok()
}

/// Whether it has the form `tcp://10.96.0.11:80`.
fn is_url(value: &str, protocol: &str) -> bool {
    value
        .split_once("://")
        .is_some_and(|(scheme, address)| scheme.eq_ignore_ascii_case(protocol) && address.parse::<SocketAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_links_of_kubernetes_are_recognized() {
        for (name, value) in [
            ("TIDINGS_SERVICE_HOST", "10.96.0.11"),
            ("TIDINGS_SERVICE_HOST", "fd00::11"),
            ("TIDINGS_SERVICE_PORT", "80"),
            ("TIDINGS_SERVICE_PORT_HTTP", "80"),
            ("TIDINGS_SERVICE_PORT_HTTP_2", "80"),
            ("TIDINGS_PORT", "tcp://10.96.0.11:80"),
            ("TIDINGS_PORT", "udp://[fd00::11]:80"),
            ("TIDINGS_PORT_8080_TCP", "tcp://10.96.0.11:8080"),
            ("TIDINGS_PORT_8080_TCP_PROTO", "tcp"),
            ("TIDINGS_PORT_8080_TCP_PORT", "8080"),
            ("TIDINGS_PORT_8080_TCP_ADDR", "10.96.0.11"),
            ("TIDINGS_PORT_53_UDP", "udp://10.96.0.11:53"),
            ("TIDINGS_PORT_9999_SCTP_PROTO", "sctp"),
            ("TIDINGS_GATEWAY_SERVICE_HOST", "10.96.0.12"),
            ("TIDINGS_GATEWAY_PORT_80_TCP_ADDR", "10.96.0.12"),
            ("TIDINGS_MY_PORT_SERVICE_PORT", "80"),
            ("TIDINGS_2__B_PORT", "tcp://10.96.0.11:80"),
        ] {
            assert!(is_service_link(name, value), "{name}={value}");
        }
    }

    #[test]
    fn similar_variables_are_not_service_links() {
        for (name, value) in [
            ("TIDINGS_PORT", "8080"),
            ("TIDINGS_PORT", "http://10.96.0.11:80"),
            ("TIDINGS_PORT", "tcp://tidings.example:80"),
            ("TIDINGS_HOST", "10.96.0.11"),
            ("TIDINGS_SERVICE_HOST", "tidings.example"),
            ("TIDINGS_SERVICE_HOSTS", "10.96.0.11"),
            ("TIDINGS_SERVICE_NAME", "tidings"),
            ("TIDINGS_SERVICE_PORT", "http"),
            ("TIDINGS_SERVICE_PORT", "80000"),
            ("TIDINGS_SERVICE_PORT_", "80"),
            ("TIDINGS_service_port", "80"),
            ("TIDINGS_ADMIN__PORT", "tcp://10.96.0.11:80"),
            ("TIDINGS_ADMIN__SERVICE_PORT", "80"),
            ("TIDINGS_PORT_HTTP_TCP", "tcp://10.96.0.11:80"),
            ("TIDINGS_PORT_80_HTTP", "http://10.96.0.11:80"),
            ("TIDINGS_PORT_80_TCP", "udp://10.96.0.11:80"),
            ("TIDINGS_PORT_80_TCP_PROTO", "udp"),
            ("TIDINGS_PORT_80_TCP_PORT", "81"),
            ("TIDINGS_PORT_80_TCP_NAME", "http"),
            ("TIDINGS_PORT_80_TCP_ADDR_X", "10.96.0.11"),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
