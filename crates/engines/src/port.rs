use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// How far above its port a node of a Redis Cluster talks to the others.
const BUS: u16 = 10_000;
const TRIES_MAX: usize = 1000;

/// A TCP port that no other test takes, also while its server is down.
#[derive(Debug)]
pub(crate) struct Port {
    /// The UDP port of the same number. No engine wants it, it needs no file, and it is free again when this process ends,
    /// however it ends.
    claim: UdpSocket,
}

impl Port {
    /// A port that is free, and whose bus port is. It is below those that the kernel gives to outgoing connections: one of
    /// them that tries to reach a dead server could otherwise take its port, or reach itself.
    pub(crate) fn claim() -> Self {
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        (0..TRIES_MAX)
            .map(|_| rand::random_range(10_000..20_000))
            .filter_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .map(|claim| Self { claim })
            .find(|port| is_free(port.number()) && is_free(port.number() + BUS))
            .expect("one of the ports from 10000 to 19999 is free")
    }

    pub(crate) fn number(&self) -> u16 {
        self.claim.local_addr().expect("a bound socket has an address").port()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_free_for_its_server_and_for_no_other_claim() {
        let port = Port::claim();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        TcpListener::bind(address).unwrap();
        UdpSocket::bind(address).unwrap_err();
        drop(port);
        UdpSocket::bind(address).unwrap();
    }
}
