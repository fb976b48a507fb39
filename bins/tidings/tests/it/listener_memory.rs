//! Attacks on the memory of the public listener by clients without an account, from several loopback addresses.

use crate::listener_bounds::{
    attack, attacker, connect, connections, flood, is_served, refused, request_bytes, status,
};
use crate::server::TestServer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The addresses of an attack: each of them alone gets a quarter of all connections and bytes at most.
const ADDRESSES: u8 = 5;
/// Resident memory during an attack. A build without optimizations has larger tasks, of which the allocator keeps more.
const RESIDENT_BYTES_MAX: u64 = if cfg!(debug_assertions) { 450 << 20 } else { 300 << 20 };
/// Resident memory that may be left after an attack.
const RESIDENT_BYTES_LEFT_MAX: u64 = 20 << 20;
/// Resident memory that a few connections may take.
const RESIDENT_BYTES_OF_FEW_MAX: u64 = if cfg!(debug_assertions) { 200 << 20 } else { 20 << 20 };

/// A server under an attack, and its memory before.
struct AttackedServer {
    server: TestServer,
    base: u64,
    /// The bytes that each connection sends.
    bytes: Vec<u8>,
    open: Vec<TcpStream>,
}

impl AttackedServer {
    /// Sends the same bytes over all connections of an attack.
    async fn start(bytes: &[u8]) -> Self {
        let server = TestServer::start().await;
        is_served(&server).await;
        let base = server.resident_bytes();
        let mut attacked = Self { server, base, bytes: bytes.to_vec(), open: vec![] };
        attacked.attack().await;
        is_served(&attacked.server).await;
        attacked
    }

    async fn attack(&mut self) {
        let of_address = attack() / usize::from(ADDRESSES);
        let floods = (0..ADDRESSES).map(|n| flood(attacker(n), &self.server, of_address, &self.bytes));
        self.open = futures_util::future::join_all(floods).await.into_iter().flatten().collect();
    }

    /// Asserts the bound during the attack, ends it, and checks that its memory is free: a release build returns it. A
    /// build without optimizations has larger tasks, of which the allocator keeps pages for long on a busy machine; a
    /// second attack has to find them, and to stay within the bound of one.
    async fn ends_within_bounds(mut self) {
        self.assert_peak();
        self.end().await;
        if cfg!(debug_assertions) {
            self.attack().await;
            self.assert_peak();
            self.end().await;
        } else {
            self.server.until(async || self.server.resident_bytes() < self.base + RESIDENT_BYTES_LEFT_MAX).await;
        }
        println!("{} MiB afterwards", self.server.resident_bytes() >> 20);
    }

    fn assert_peak(&self) {
        let peak = self.server.resident_bytes_max();
        println!("{} MiB before, {} MiB at most", self.base >> 20, peak >> 20);
        assert!(peak < RESIDENT_BYTES_MAX, "{} MiB", peak >> 20);
    }

    async fn end(&mut self) {
        self.open.clear();
        self.server.until(async || connections(&self.server, "busy").await == 0.0).await;
    }
}

#[tokio::test]
async fn half_heads_take_bounded_memory_and_leave_none() {
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx-filler: {}", "a".repeat(30 << 10));
    let attacked = AttackedServer::start(head.as_bytes()).await;
    assert!(refused(&attacked.server, "request_bytes").await > 0.0);
    attacked.ends_within_bounds().await;
}

#[tokio::test]
async fn short_half_heads_take_bounded_memory_and_leave_none() {
    // As long as a head may be without a reservation.
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx-filler: {}", "a".repeat(4000));
    AttackedServer::start(head.as_bytes()).await.ends_within_bounds().await;
}

const HEAD_OF_BODY: &[u8] = b"POST /api/v1/auth/request-otp HTTP/1.1\r\nhost: x\r\ncontent-length: 65536\r\n\r\n";

#[tokio::test]
async fn half_bodies_take_bounded_memory_and_leave_none() {
    let half = [HEAD_OF_BODY, &[b' '; 32 << 10]].concat();
    let attacked = AttackedServer::start(&half).await;
    let AttackedServer { server, .. } = &attacked;
    assert!(refused(server, "request_bytes").await > 0.0);
    assert!(request_bytes(server).await <= f64::from(64 << 20));
    attacked.ends_within_bounds().await;
}

#[tokio::test]
async fn half_bodies_of_one_address_leave_bytes_to_others() {
    let server = TestServer::start().await;
    let half = [HEAD_OF_BODY, &[b' '; 32 << 10]].concat();
    let open = flood(attacker(0), &server, attack() / 5, &half).await;
    // A quarter of all bytes.
    server.until(async || (1.0..=f64::from(16 << 20)).contains(&request_bytes(&server).await)).await;
    assert!(refused(&server, "request_bytes").await > 0.0);
    let mut other = connect(attacker(1), server.address()).await;
    other.write_all(HEAD_OF_BODY).await.unwrap();
    other.write_all(&vec![b' '; 64 << 10]).await.unwrap();
    assert_ne!(status(&mut other).await, "503");
    drop(open);
}

#[tokio::test]
async fn a_body_of_single_bytes_takes_no_more_than_its_length() {
    let server = TestServer::start().await;
    is_served(&server).await;
    let base = server.resident_bytes();
    let mut open = flood(attacker(0), &server, 20, HEAD_OF_BODY).await;
    server.until(async || connections(&server, "busy").await == 20.0).await;
    for stream in &open {
        stream.set_nodelay(true).unwrap();
    }
    for _ in 0..500 {
        for stream in &mut open {
            stream.write_all(b" ").await.unwrap();
        }
        // Each byte is a read of its own, unless the server is slower.
        tokio::task::yield_now().await;
    }
    let peak = server.resident_bytes_max();
    println!("{} MiB before, {} MiB at most", base >> 20, peak >> 20);
    assert!(peak < base + RESIDENT_BYTES_OF_FEW_MAX, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn unread_answers_take_bounded_memory_and_leave_none() {
    AttackedServer::start(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n").await.ends_within_bounds().await;
}
