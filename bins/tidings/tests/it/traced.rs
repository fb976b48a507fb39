//! A client that sends a trace context.

use crate::server::{TestDevice, TestSocket};

pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const SPAN: &str = "00f067aa0ba902b7";

pub(crate) fn trace_id() -> [u8; 16] {
    u128::from_str_radix(TRACE, 16).unwrap().to_be_bytes()
}

pub(crate) fn span_id() -> [u8; 8] {
    u64::from_str_radix(SPAN, 16).unwrap().to_be_bytes()
}

pub(crate) fn traceparent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

/// A connection with a trace context, so that all its commands are traced.
pub(crate) async fn connect_traced(device: &TestDevice) -> TestSocket {
    let mut handshake = device.handshake();
    handshake.headers_mut().insert("traceparent", traceparent().parse().unwrap());
    let mut socket = TestSocket::open(handshake).await;
    socket.next_of("connection_established").await;
    socket
}
