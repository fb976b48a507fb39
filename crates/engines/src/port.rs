use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Offset from the port of a Redis Cluster node to the port of its cluster bus.
const BUS: u16 = 10_000;
const TRIES_MAX: usize = 1000;

/// A TCP port that no other test takes, even while its server is down.
#[derive(Debug)]
pub struct ClaimedPort {
    /// The UDP port of the same number serves as the claim. No engine uses it, it needs no file, and the kernel frees
    /// it however this process ends.
    claim: UdpSocket,
}

impl ClaimedPort {
    /// Claims a port that is free together with its cluster bus port. It lies below the kernel's range for outgoing
    /// connections. Otherwise a connection attempt to a stopped server could take its port, or connect to itself.
    pub fn claim() -> Self {
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        (0..TRIES_MAX)
            .map(|_| rand::random_range(10_000..20_000))
            .filter_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .map(|claim| Self { claim })
            .find(|port| is_free(port.number()) && is_free(port.number() + BUS))
            .expect("one of the ports from 10000 to 19999 is free")
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.claim.local_addr().expect("a bound socket has an address").port()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_free_for_its_server_and_for_no_other_claim() {
        let port = ClaimedPort::claim();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        TcpListener::bind(address).unwrap();
        UdpSocket::bind(address).unwrap_err();
        drop(port);
        UdpSocket::bind(address).unwrap();
    }
}
