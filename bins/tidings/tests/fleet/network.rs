use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use engines::ClaimedPort;
use ports::ProcessRole;

use crate::engine::FleetEngines;
use crate::fleet::members;
use crate::history::FaultyProxy;

/// The network of a fleet: a proxy for every connection between its processes, and to DynamoDB and Redis.
///
/// A stalled proxy behaves as a network that loses all packets: connections are neither closed nor refused, and sent
/// bytes arrive when the network is repaired, however late.
pub(crate) struct FleetNetwork(BTreeMap<(ProcessRole, usize), ProcessNetwork>);

/// The connections of one process.
pub(crate) struct ProcessNetwork {
    /// Where it listens for calls of other processes.
    port: ClaimedPort,
    /// The calls of other processes to it: other processes know only the address of this proxy.
    pub(crate) calls: FaultyProxy,
    pub(crate) dynamodb: FaultyProxy,
    pub(crate) redis: FaultyProxy,
}

impl FleetNetwork {
    pub(crate) async fn start(engines: &FleetEngines) -> Self {
        let dynamodb: SocketAddr = engines.faults.endpoint().trim_start_matches("http://").parse().unwrap();
        let redis = SocketAddr::from((Ipv4Addr::LOCALHOST, engines.redis.port()));
        let mut networks = BTreeMap::new();
        for member in members() {
            let port = ClaimedPort::claim();
            let calls = FaultyProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()))).await;
            let (dynamodb, redis) = (FaultyProxy::start(dynamodb).await, FaultyProxy::start(redis).await);
            networks.insert(member, ProcessNetwork { port, calls, dynamodb, redis });
        }
        Self(networks)
    }

    pub(crate) fn of(&self, role: ProcessRole, number: usize) -> &ProcessNetwork {
        &self.0[&(role, number)]
    }

    /// The settings of a process.
    pub(crate) fn environment(&self, role: ProcessRole, number: usize) -> Vec<(String, String)> {
        let network = self.of(role, number);
        let mut environment = vec![
            ("TIDINGS_RPC__LISTEN", format!("127.0.0.1:{}", network.port.number())),
            ("TIDINGS_RPC__ADVERTISE", network.calls.address().to_string()),
            ("TIDINGS_REDIS__URL", format!("redis://{}", network.redis.address())),
        ];
        if role != ProcessRole::Gateway {
            environment.push(("TIDINGS_DYNAMODB__ENDPOINT", network.dynamodb.url()));
        }
        environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
