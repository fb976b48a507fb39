//! Attacks on one-time codes at the default limits, from as many addresses as the attacker likes.

use reqwest::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::TestServer;

/// An attacker behind a trusted proxy, so that each request can come from another address.
struct Attacker {
    http: Client,
    url: String,
    addresses: u32,
}

impl Attacker {
    async fn start() -> (TestServer, Self) {
        let environment = [("TIDINGS_TRUSTED_PROXIES", "127.0.0.0/8")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let server = TestServer::start_in(environment.to_vec()).await;
        let url = format!("{}/api/v1/auth", server.base_url());
        (server, Self { http: Client::new(), url, addresses: 0 })
    }

    /// Calls from a new address; returns the status and the body.
    async fn call(&mut self, path: &str, body: Value) -> (u16, Value) {
        self.addresses += 1;
        let [_, a, b, c] = self.addresses.to_be_bytes();
        let request =
            self.http.post(format!("{}{path}", self.url)).header("x-forwarded-for", format!("11.{a}.{b}.{c}"));
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn request(&mut self, phone: &str) -> (u16, Value) {
        self.call("/request-otp", json!({ "phone_number": phone })).await
    }

    async fn verify(&mut self, phone: &str, otp: &str, device: Uuid) -> (u16, Value) {
        self.call("/verify-otp", json!({ "phone_number": phone, "otp": otp, "device_id": device })).await
    }
}

const PHONE: &str = "+14155550100";

#[tokio::test]
async fn new_codes_and_new_addresses_give_no_more_than_five_guesses() {
    let (_server, mut attacker) = Attacker::start().await;
    let mut guesses = 0;
    for code in 0..3 {
        let (status, body) = attacker.request(PHONE).await;
        assert_eq!(status, 200, "code {code}: {body}");
        for _ in 0..5 {
            guesses += u32::from(attacker.verify(PHONE, "111111", Uuid::new_v4()).await.0 == 401);
        }
    }
    assert_eq!(guesses, 5);
    let (status, body) = attacker.verify(PHONE, "000000", Uuid::new_v4()).await;
    assert_eq!((status, &body["error"]["details"]["limit"]), (429, &json!("otp_verify")), "{body}");
}

#[tokio::test]
async fn a_phone_that_others_have_locked_still_admits_a_device_of_its_owner() {
    let (_server, mut attacker) = Attacker::start().await;
    let device = Uuid::new_v4();
    attacker.request(PHONE).await;
    assert_eq!(attacker.verify(PHONE, "000000", device).await.0, 201);
    attacker.request(PHONE).await;
    for _ in 0..6 {
        attacker.verify(PHONE, "111111", Uuid::new_v4()).await;
    }
    attacker.request(PHONE).await;
    assert_eq!(attacker.verify(PHONE, "000000", Uuid::new_v4()).await.0, 429);
    let (status, body) = attacker.verify(PHONE, "000000", device).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn codes_for_one_country_end_at_their_ceiling() {
    let (_server, mut attacker) = Attacker::start().await;
    let mut sent = 0;
    for n in 0..520 {
        let (status, body) = attacker.request(&format!("+1415555{n:04}")).await;
        match status {
            200 => sent += 1,
            _ => assert_eq!(body["error"]["details"]["limit"], "otp_request_per_country", "{body}"),
        }
    }
    // The bucket gains one in 1.8 s, and the loop takes some.
    assert!((500..520).contains(&sent), "{sent}");
}

#[tokio::test]
async fn premium_and_denied_numbers_get_no_code() {
    let (_server, mut attacker) = Attacker::start().await;
    for phone in ["+19002345678", "+449098790000", "+881612345678"] {
        let (status, body) = attacker.request(phone).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("VALIDATION_ERROR")), "{phone}: {body}");
        assert_eq!(body["error"]["details"]["field_errors"][0]["field"], "phone_number", "{body}");
    }
}
