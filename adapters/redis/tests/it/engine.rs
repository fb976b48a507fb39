//! Operations on Redis servers: creating a cluster and running commands.

use futures_util::future::join_all;
use redis::{Client, FromRedisValue};

const SLOTS: u32 = 16384;

/// Three masters without replicas that share the slots, with additional settings.
pub(crate) async fn start_cluster(settings: &[&str]) -> Vec<engines::Redis> {
    let settings = [&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"], settings].concat();
    let nodes = join_all((0..3).map(|_| engines::Redis::start_with(&settings))).await;
    for (n, node) in (0u32..).zip(&nodes) {
        let (first, behind) = (n * SLOTS / 3, (n + 1) * SLOTS / 3);
        command::<()>(node, &format!("CLUSTER ADDSLOTSRANGE {first} {}", behind - 1));
        command::<()>(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
    }
    for node in &nodes[1..] {
        command::<()>(node, &format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port()));
    }
    wait_for_cluster(&nodes).await;
    nodes
}

/// Waits until every node reports a complete cluster.
pub(crate) async fn wait_for_cluster(nodes: &[engines::Redis]) {
    for node in nodes {
        node.says("Cluster state changed: ok").await;
    }
}

/// Runs a command on one server.
pub(crate) fn command<T: FromRedisValue>(engine: &engines::Redis, words: &str) -> T {
    let client = Client::open(engine.url()).unwrap();
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>()).query(&mut client.get_connection().unwrap()).unwrap()
}
