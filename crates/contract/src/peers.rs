//! Tests of [`PeerRegistry`].

use std::slice;
use std::time::Duration;

use super::Timed;
use super::fixtures::WORKS;
use ports::ProcessRole::{Api, Fanout, Gateway, Ingest};
use ports::{PeerProcess, PeerRegistry, ProcessRole};

const LIFE: Duration = Duration::from_secs(15);
const MOMENT: Duration = Duration::from_millis(1);

/// A process is found in each of its roles and in no other, by id; announcing it again changes nothing.
pub async fn a_process_is_found_in_its_roles(peers: Timed<dyn PeerRegistry>) {
    let [a, b, c] = [new_peer("a"), new_peer("b"), new_peer("c")];
    for _ in 0..2 {
        peers.port.announce(&c, &[Gateway, Fanout]).await.expect(WORKS);
        peers.port.announce(&a, &[Gateway]).await.expect(WORKS);
        peers.port.announce(&b, &[Gateway, Ingest]).await.expect(WORKS);
    }
    assert_eq!(found(&peers, Gateway).await, [a, b.clone(), c.clone()]);
    assert_eq!(found(&peers, Ingest).await, [b]);
    assert_eq!(found(&peers, Fanout).await, [c]);
    assert_eq!(found(&peers, Api).await, []);
}

/// A process that deregisters is removed from the given roles; other processes stay.
pub async fn a_deregistered_process_is_removed(peers: Timed<dyn PeerRegistry>) {
    let [gone, kept] = [new_peer("a"), new_peer("b")];
    peers.port.announce(&gone, &[Gateway, Ingest, Api]).await.expect(WORKS);
    peers.port.announce(&kept, &[Gateway]).await.expect(WORKS);
    for _ in 0..2 {
        peers.port.leave(&gone, &[Gateway, Api]).await.expect(WORKS);
        assert_eq!(found(&peers, Gateway).await, slice::from_ref(&kept));
        assert_eq!(found(&peers, Api).await, []);
    }
    assert_eq!(found(&peers, Ingest).await, [gone]);
}

/// A process that is not announced again expires after 15 s; other processes of its role stay.
pub async fn an_unannounced_process_expires(peers: Timed<dyn PeerRegistry>) {
    let [silent, beating] = [new_peer("a"), new_peer("b")];
    for peer in [&silent, &beating] {
        peers.port.announce(peer, &[Gateway]).await.expect(WORKS);
    }
    (peers.pass)(LIFE - MOMENT);
    assert_eq!(found(&peers, Gateway).await, [silent, beating.clone()]);

    peers.port.announce(&beating, &[Gateway]).await.expect(WORKS);
    (peers.pass)(MOMENT);
    assert_eq!(found(&peers, Gateway).await, [beating]);
    (peers.pass)(LIFE);
    assert_eq!(found(&peers, Gateway).await, []);
}

fn new_peer(id: &str) -> PeerProcess {
    PeerProcess { id: id.into(), address: "[::1]:7000".into() }
}

async fn found(peers: &Timed<dyn PeerRegistry>, role: ProcessRole) -> Vec<PeerProcess> {
    peers.port.peers(role).await.expect(WORKS)
}
