use std::net::Ipv4Addr;

use super::*;

const MIB: usize = 1 << 20;

fn admission(connections: usize, connections_per_network: usize) -> Arc<Admission> {
    let unauthenticated = Quota::per(2, Duration::from_secs(1));
    let bounds = ListenerBounds { connections, connections_per_network, request_bytes: 4 * MIB, unauthenticated };
    Admission::new("public", bounds, "10.0.0.0/8".parse().unwrap())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn admit(admission: &Arc<Admission>, text: &str) -> Option<AdmittedConnection> {
    admission.admit(SocketAddr::new(ip(text), 4711))
}

fn is_shed(admitted: &AdmittedConnection) -> bool {
    admitted.state().is_uncounted.load(Ordering::Relaxed)
}

/// Answers a request on an idle connection.
fn request(admitted: &AdmittedConnection) {
    admitted.state().begin_request();
    admitted.state().admission.idle(admitted.state());
}

#[test]
fn a_network_at_its_bound_gives_up_its_longest_idle_connection() {
    let admission = admission(100, 2);
    let other = admit(&admission, "192.0.2.9").unwrap();
    let [first, second] = [(); 2].map(|()| admit(&admission, "192.0.2.1").unwrap());
    request(&first);
    let third = admit(&admission, "::ffff:192.0.2.1").unwrap();
    assert_eq!([&other, &first, &second, &third].map(is_shed), [false, false, true, false]);
    drop((second, third));
    let fourth = admit(&admission, "192.0.2.1").unwrap();
    assert_eq!([&first, &fourth].map(is_shed), [false; 2], "a connection that ends makes room");
}

#[test]
fn a_network_with_only_busy_connections_is_refused_and_others_are_not() {
    let admission = admission(100, 2);
    let busy = ["2001:db8::1", "2001:db8::2"].map(|ip| admit(&admission, ip).unwrap());
    busy.iter().for_each(|connection| connection.state().begin_request());
    assert!(admit(&admission, "2001:db8::3").is_none());
    assert!(admit(&admission, "2001:db8:0:1::1").is_some());
    let report = admission.take_report().unwrap();
    assert_eq!((report.refusals, report.most), ([1, 0, 0, 0, 0], Some((ip("2001:db8::"), 1))));
    assert!(admission.take_report().is_none(), "each refusal is reported once");
}

#[test]
fn close_to_the_total_the_longest_idle_connection_is_shed() {
    let admission = admission(4, 4);
    let open = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|ip| admit(&admission, ip).unwrap());
    open[0].state().begin_request();
    let fourth = admit(&admission, "192.0.2.4").unwrap();
    assert_eq!([&open[0], &open[1], &open[2], &fourth].map(is_shed), [false, true, false, false]);
    // If all others are busy, a connection is shed as soon as it becomes idle.
    open[2].state().begin_request();
    fourth.state().begin_request();
    let fifth = admit(&admission, "192.0.2.5").unwrap();
    assert!(is_shed(&fifth));
}

#[test]
fn connections_of_a_proxy_are_neither_bounded_nor_shed() {
    let admission = admission(4, 1);
    let open = [(); 4].map(|()| admit(&admission, "10.1.2.3").unwrap());
    open.iter().for_each(request);
    assert_eq!(open.each_ref().map(is_shed), [false; 4]);
    drop(open);
    assert_eq!(lock(&admission.table).idle_of_proxies, 0);
}

#[test]
fn bytes_are_reserved_in_total_and_for_each_network() {
    let admission = admission(10, 10);
    let reserve = |network: &str, bytes| admission.reserve(Some(ip(network)), bytes);
    let first = reserve("192.0.2.1", MIB).unwrap();
    assert!(reserve("192.0.2.1", 1).is_none(), "a quarter is reserved");
    let others = ["192.0.2.2", "192.0.2.3", "192.0.2.4"].map(|network| reserve(network, MIB).unwrap());
    assert!(reserve("192.0.2.5", 1).is_none(), "all bytes are reserved");
    drop(first);
    assert!(reserve("192.0.2.5", MIB).is_some());
    drop(others);
    assert_eq!(lock(&admission.table).request_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn the_rate_of_a_network_is_limited_and_unused_networks_are_forgotten() {
    let admission = admission(10, 10);
    let count = |network: &str| admission.count_unauthenticated(ip(network));
    assert_eq!([(); 3].map(|()| count("192.0.2.1")), [Ok(()), Ok(()), Err(Duration::from_millis(500))]);
    assert_eq!(count("192.0.2.2"), Ok(()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(count("192.0.2.1"), Ok(()));
    for n in 0..NETWORKS_MAX as u32 {
        let _ = admission.count_unauthenticated(Ipv4Addr::from_bits(n).into());
    }
    assert!(lock(&admission.table).networks.len() <= NETWORKS_MAX);
    drop(admit(&admission, "192.0.2.200").unwrap());
    assert!(!lock(&admission.table).networks.contains_key(&ip("192.0.2.200")));
}
