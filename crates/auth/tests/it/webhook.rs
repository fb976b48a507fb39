use std::sync::Arc;

use aws_lc_rs::hmac;
use domain::Secret;
use memory::ManualClock;
use ports::{OtpError, OtpSender};
use tidings_auth::WebhookSender;

use crate::local_http::{StubReply, serve};
use crate::world::{MINUTE, PHONE, start};

async fn send(url: &str) -> Result<(), OtpError> {
    let secret = Secret::from("shared".to_owned());
    let clock = Arc::new(ManualClock::at(start()));
    let sender = WebhookSender::new(url.parse().unwrap(), &secret, clock).unwrap();
    sender.send(&PHONE.parse().unwrap(), "123456", start() + 5 * MINUTE).await
}

fn reply(status: u16) -> StubReply {
    StubReply::Respond(status, String::new())
}

#[tokio::test]
async fn a_webhook_that_fails_then_works_gets_the_code_signed() {
    let (url, served) = serve([reply(503), StubReply::HangUp, reply(204)]).await;
    send(&url).await.unwrap();
    let requests = served.await.unwrap();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert_eq!(request.line, "POST /hook HTTP/1.1");
        assert_eq!(request.header("content-type"), "application/json");
        let body = r#"{"phone_number":"+15551234567","code":"123456","expires_at":"2026-01-30T14:35:00.000Z"}"#;
        assert_eq!(request.body, body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"shared");
        let tag = hmac::sign(&key, format!("1769783400.{body}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(request.header("tidings-signature"), format!("t=1769783400,v1={hex}"));
    }
}

#[tokio::test]
async fn a_webhook_that_keeps_failing_is_given_up_after_three_tries() {
    let (url, served) = serve([reply(500), reply(429), reply(502)]).await;
    let error = send(&url).await.unwrap_err();
    assert_eq!(error.to_string(), "the one-time code could not be sent");
    assert_eq!(served.await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_webhook_that_says_no_or_points_elsewhere_is_not_asked_again() {
    for (status, message) in [(400, "the answer was 400 Bad Request"), (302, "the answer was 302 Found")] {
        let (url, served) = serve([reply(status)]).await;
        assert_eq!(send(&url).await.unwrap_err().0.to_string(), message);
        assert_eq!(served.await.unwrap().len(), 1);
    }
}
