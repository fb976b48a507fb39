use std::time::Duration;

use ports::{PeerProcess, PeerRegistry, ProcessRole, StoreError};
use tidings_redis::RedisPeers;

use crate::engine::command;
use crate::fixtures::{World, on_one_and_on_a_cluster, peer};

on_one_and_on_a_cluster!(
    restarted_processes_cost_no_more_than_live_ones,
    an_id_may_have_spaces_in_it,
    a_process_without_an_address_is_unreadable,
);

async fn restarted_processes_cost_no_more_than_live_ones(world: World) {
    let peers = RedisPeers::new(world.redis.clone());
    for n in 0..20 {
        peers.announce(&peer(&n.to_string()), &[ProcessRole::Gateway]).await.unwrap();
        world.clock.advance(Duration::from_secs(5));
    }
    let sizes = world.keys("peers:*").into_iter().map(|(engine, key)| command(engine, &format!("ZCARD {key}")));
    assert_eq!(sizes.collect::<Vec<usize>>(), [3]);
}

async fn an_id_may_have_spaces_in_it(world: World) {
    let peers = RedisPeers::new(world.redis.clone());
    let announced = PeerProcess { id: "one of many".into(), address: "[::1]:7000".into() };
    peers.announce(&announced, &[ProcessRole::Gateway]).await.unwrap();
    assert_eq!(peers.peers(ProcessRole::Gateway).await.unwrap(), [announced]);
}

async fn a_process_without_an_address_is_unreadable(world: World) {
    let peers = RedisPeers::new(world.redis.clone());
    peers.announce(&peer("a"), &[ProcessRole::Gateway]).await.unwrap();
    for (engine, key) in world.keys("peers:*") {
        command::<()>(engine, &format!("ZADD {key} inf rubbish"));
    }
    let unreadable = peers.peers(ProcessRole::Gateway).await.unwrap_err();
    assert!(matches!(unreadable, StoreError::Corrupt { table: "peers", .. }), "{unreadable}");
}
