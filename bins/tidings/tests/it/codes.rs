//! Attacks on one-time codes at the default limits, from as many addresses as the attacker likes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use reqwest::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::TestServer;

rules!(
    on crate::codes::behind_proxy(&[]);
    new_codes_and_new_addresses_give_no_more_than_five_guesses,
    guesses_over_many_connections_at_once_are_no_more_than_five,
    a_phone_that_others_have_locked_still_admits_a_device_of_its_owner,
    premium_and_denied_numbers_get_no_code,
    codes_for_one_country_end_at_their_ceiling,
    // The last one: it leaves no codes to others.
    codes_for_all_countries_end_at_their_ceiling,
);

/// A server with the limits of production that trusts the addresses in headers.
pub(crate) async fn behind_proxy(settings: &[(&str, &str)]) -> TestServer {
    let settings = [&[("TIDINGS_TRUSTED_PROXIES", "127.0.0.0/8")][..], settings].concat();
    TestServer::start_with_limits_and(&settings).await
}

/// An attacker behind a trusted proxy, so that each request can come from another address.
struct Attacker {
    http: Client,
    url: String,
}

/// Guesses that come at once.
const GUESSES: usize = 40;

/// The last address of any attacker: rules of one fleet share its limits.
static LAST_ADDRESS: AtomicU32 = AtomicU32::new(0);

impl Attacker {
    fn of(server: &TestServer) -> Self {
        // The balancer of a fleet routes connections, so each request has one of its own.
        let http = Client::builder().pool_max_idle_per_host(0).build().unwrap();
        Self { http, url: format!("{}/api/v1/auth", server.base_url()) }
    }

    /// Calls from a new address; returns the status and the body.
    async fn call(&self, path: &str, body: Value) -> (u16, Value) {
        let [_, a, b, c] = LAST_ADDRESS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let request =
            self.http.post(format!("{}{path}", self.url)).header("x-forwarded-for", format!("11.{a}.{b}.{c}"));
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn request(&self, phone: &str) -> (u16, Value) {
        self.call("/request-otp", json!({ "phone_number": phone })).await
    }

    async fn verify(&self, phone: &str, otp: &str, device: Uuid) -> (u16, Value) {
        self.call("/verify-otp", json!({ "phone_number": phone, "otp": otp, "device_id": device })).await
    }

    /// Requests codes for all these numbers, some at a time. Returns how many were sent, and the limits that refused the
    /// others.
    async fn request_all(&self, phones: impl Iterator<Item = String>) -> (usize, Vec<String>) {
        let answers: Vec<_> =
            iter(phones).map(async |phone| self.request(&phone).await).buffer_unordered(16).collect().await;
        let (sent, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 200);
        let limit = |(status, body): (u16, Value)| {
            assert_eq!(status, 429, "{body}");
            body["error"]["details"]["limit"].as_str().unwrap().to_owned()
        };
        (sent.len(), refused.into_iter().map(limit).collect())
    }
}

async fn new_codes_and_new_addresses_give_no_more_than_five_guesses(server: &TestServer) {
    let (attacker, phone) = (Attacker::of(server), server.unused_number());
    let mut guesses = 0;
    for code in 0..3 {
        let (status, body) = attacker.request(&phone).await;
        assert_eq!(status, 200, "code {code}: {body}");
        for _ in 0..5 {
            guesses += u32::from(attacker.verify(&phone, "111111", Uuid::new_v4()).await.0 == 401);
        }
    }
    assert_eq!(guesses, 5);
    let (status, body) = attacker.verify(&phone, "000000", Uuid::new_v4()).await;
    assert_eq!((status, &body["error"]["details"]["limit"]), (429, &json!("otp_verify")), "{body}");
}

/// The attack: the guesses come at once, each over a connection and from an address of its own, while further codes are
/// requested.
async fn guesses_over_many_connections_at_once_are_no_more_than_five(server: &TestServer) {
    let (attacker, phone) = (Attacker::of(server), server.unused_number());
    let (status, body) = attacker.request(&phone).await;
    assert_eq!(status, 200, "{body}");
    let guesses = (0..GUESSES).map(async |_| attacker.verify(&phone, "111111", Uuid::new_v4()).await);
    let codes = async {
        for _ in 0..2 {
            let (status, body) = attacker.request(&phone).await;
            assert_eq!(status, 200, "{body}");
        }
    };
    let (answers, ()) = tokio::join!(join_all(guesses), codes);
    let (tried, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 401);
    assert_eq!(tried.len(), 5, "{refused:?}");
    for (status, body) in refused {
        assert_eq!((status, &body["error"]["details"]["limit"]), (429, &json!("otp_verify")), "{body}");
    }
    let (status, body) = attacker.verify(&phone, "000000", Uuid::new_v4()).await;
    assert_eq!((status, &body["error"]["details"]["limit"]), (429, &json!("otp_verify")), "{body}");
}

async fn a_phone_that_others_have_locked_still_admits_a_device_of_its_owner(server: &TestServer) {
    let (attacker, phone) = (Attacker::of(server), server.unused_number());
    let device = Uuid::new_v4();
    attacker.request(&phone).await;
    assert_eq!(attacker.verify(&phone, "000000", device).await.0, 201);
    attacker.request(&phone).await;
    for _ in 0..6 {
        attacker.verify(&phone, "111111", Uuid::new_v4()).await;
    }
    attacker.request(&phone).await;
    assert_eq!(attacker.verify(&phone, "000000", Uuid::new_v4()).await.0, 429);
    let (status, body) = attacker.verify(&phone, "000000", device).await;
    assert_eq!(status, 200, "{body}");
}

/// The most codes that a ceiling of `burst` in 15 minutes admits since an instant, in which none was requested before.
fn most_codes(burst: u32, since: Instant) -> usize {
    let gained = since.elapsed().as_secs_f64() * f64::from(burst) / Duration::from_mins(15).as_secs_f64();
    burst as usize + gained as usize + 1
}

async fn codes_for_one_country_end_at_their_ceiling(server: &TestServer) {
    let begun = Instant::now();
    let (sent, refused) = Attacker::of(server).request_all((0..700).map(|n| format!("+49151{n:08}"))).await;
    assert!((500..=most_codes(500, begun)).contains(&sent), "{sent}");
    assert!(refused.iter().all(|limit| limit == "otp_request_per_country"), "{refused:?}");
}

async fn codes_for_all_countries_end_at_their_ceiling(server: &TestServer) {
    let begun = Instant::now();
    let of_three_countries =
        (0..450).flat_map(|n| [format!("+1312{n:07}"), format!("+4479{n:08}"), format!("+336{n:08}")]);
    let (sent, refused) = Attacker::of(server).request_all(of_three_countries).await;
    assert!(sent <= most_codes(1000, begun), "{sent}");
    assert!(!refused.is_empty() && refused.iter().all(|limit| limit == "otp_request_total"), "{sent}: {refused:?}");
    // In a fleet other rules have requested codes before.
    if TestServer::STANDS_ON == ["store"] {
        assert!(sent >= 1000, "{sent}");
    }
}

/// Asserts that a number gets no code, and that no code signs it in.
async fn is_refused(attacker: &Attacker, phone: &str) {
    let (status, body) = attacker.request(phone).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("VALIDATION_ERROR")), "{phone}: {body}");
    assert_eq!(body["error"]["details"]["field_errors"][0]["field"], "phone_number", "{body}");
    let (status, body) = attacker.verify(phone, "000000", Uuid::new_v4()).await;
    assert_eq!(status, 401, "{phone}: {body}");
}

async fn premium_and_denied_numbers_get_no_code(server: &TestServer) {
    let attacker = Attacker::of(server);
    for phone in ["+19002345678", "+449098790000", "+881612345678"] {
        is_refused(&attacker, phone).await;
    }
}

#[tokio::test]
async fn the_longest_prefix_decides_which_numbers_get_codes() {
    let lists = [
        ("TIDINGS_AUTH__PHONE__ALLOWED_PREFIXES", "+49, +491519, +1900"),
        ("TIDINGS_AUTH__PHONE__DENIED_PREFIXES", "+49151, +33"),
    ];
    // With both lists, and with the list of denied prefixes alone.
    let cases = [
        ("+493012345678", 200, 200, "allowed"),
        ("+4915112345678", 400, 400, "its longest prefix is denied"),
        ("+4915191234567", 200, 400, "its longest prefix is allowed"),
        ("+33631966543", 400, 400, "denied"),
        ("+14155550100", 400, 200, "in neither list"),
        ("+19002345678", 200, 400, "a premium number"),
    ];
    let (both, denied) = tokio::join!(behind_proxy(&lists), behind_proxy(&lists[1..]));
    for (phone, with_both, with_denied, case) in cases {
        for (server, expected) in [(&both, with_both), (&denied, with_denied)] {
            let attacker = Attacker::of(server);
            if expected == 400 {
                is_refused(&attacker, phone).await;
            } else {
                let (status, body) = attacker.request(phone).await;
                assert_eq!(status, expected, "{phone}, {case}: {body}");
            }
        }
    }
}
