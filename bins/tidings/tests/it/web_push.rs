//! Web Push notifications to a browser. The receiver acts as the push service; the test has the browser's keys.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use web_push_native::p256::SecretKey;

use crate::receiver::WebhookReceiver;
use crate::server::TestServer;

/// The keys of a browser's subscription.
struct PushBrowser {
    private: SecretKey,
    public: Vec<u8>,
    auth: [u8; 16],
}

impl PushBrowser {
    fn new() -> Self {
        let pair = PrivateKey::generate(&ECDH_P256).unwrap();
        let scalar: aws_lc_rs::encoding::EcPrivateKeyBin<'_> =
            aws_lc_rs::encoding::AsBigEndian::as_be_bytes(&pair).unwrap();
        let private = SecretKey::from_slice(scalar.as_ref()).unwrap();
        Self { private, public: pair.compute_public_key().unwrap().as_ref().to_vec(), auth: [7; 16] }
    }

    fn subscription(&self, endpoint: &str) -> Value {
        let keys = json!({
            "p256dh": BASE64_URL_SAFE_NO_PAD.encode(&self.public), "auth": BASE64_URL_SAFE_NO_PAD.encode(self.auth),
        });
        json!({ "provider": "webpush", "endpoint": endpoint, "expirationTime": null, "keys": keys })
    }

    fn read(&self, body: &[u8]) -> Value {
        let decrypted = web_push_native::decrypt(body.to_vec(), &self.private, &self.auth.into()).unwrap();
        serde_json::from_slice(&decrypted).unwrap()
    }
}

#[tokio::test]
async fn the_browser_of_an_offline_user_is_notified_once_without_encrypted_previews() {
    let mut push_service = WebhookReceiver::start().await;
    let server = TestServer::start_with(&[
        ("TIDINGS_NOTIFY__WEBPUSH__PRIVATE_ENDPOINTS", "true"),
        ("TIDINGS_NOTIFY__WEBPUSH__CONTACT", "mailto:ops@example.com"),
        ("TIDINGS_NOTIFY__DELAY_MS", "100"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let browser = PushBrowser::new();
    let path = format!("/devices/{}/push", bob.device_id);
    bob.put(&path, browser.subscription(&push_service.url())).await.data(204);

    ann.send(&chat_id, "are you there?").await;
    let call = push_service.next().await;
    let told = browser.read(&call.body);
    assert_eq!((&told["chat_id"], &told["sender_name"]), (&json!(chat_id), &json!("Ann")));
    assert_eq!((&told["preview"], &told["unread_count"]), (&json!("are you there?"), &json!(1)));
    assert_eq!(call.header("content-encoding"), "aes128gcm");
    let topic = call.header("topic").to_owned();
    assert!(!topic.is_empty() && topic.len() <= 32, "{topic}");
    // The push service identifies the sender by the key that browsers subscribe with.
    let service = bob.get("").await.data(200);
    let public_key = service["web_push_public_key"].as_str().unwrap();
    assert!(call.header("authorization").ends_with(&format!(", k={public_key}")), "{call:?}");

    let group = ann.group("secret", &[&bob]).await;
    let body = json!({
        "client_message_id": uuid::Uuid::new_v4(), "content": "b3BhcXVl",
        "content_type": "application/vnd.tidings.encrypted",
    });
    ann.post(&format!("/chats/{group}/messages"), body).await.data(201);
    let call = push_service.next().await;
    let told = browser.read(&call.body);
    assert_eq!((&told["chat_id"], &told["chat_name"]), (&json!(group), &json!("secret")));
    assert!(!told.to_string().contains("b3BhcXVl"), "{told}");
    assert_ne!(call.header("topic"), topic, "each chat has its own");
    assert!(!server.log().contains("b3BhcXVl"));
}

#[tokio::test]
async fn a_subscription_that_has_ended_is_forgotten_and_private_addresses_are_not_called() {
    let mut push_service = WebhookReceiver::start().await;
    let mut server = TestServer::start_with(&[
        ("TIDINGS_NOTIFY__WEBPUSH__PRIVATE_ENDPOINTS", "true"),
        ("TIDINGS_NOTIFY__DELAY_MS", "50"),
        ("TIDINGS_NOTIFY__SILENCE_SECONDS", "1"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let browser = PushBrowser::new();
    let path = format!("/devices/{}/push", bob.device_id);
    let subscription = browser.subscription(&push_service.url());
    bob.put(&path, subscription.clone()).await.data(204);
    push_service.answer(&[410]);
    ann.send(&chat_id, "one").await;
    push_service.next().await;
    let gone = "tidings_notify_notifications_total{provider=\"webpush\",outcome=\"gone\"} 1";
    server.until(async || server.metrics().await.contains(gone)).await;

    server.stop().await;
    server.set_env("TIDINGS_NOTIFY__WEBPUSH__PRIVATE_ENDPOINTS", "false");
    server.restart().await;
    let refused = bob.put(&path, subscription).await.refused(400, "VALIDATION_ERROR");
    assert_eq!(refused["details"]["field_errors"][0]["field"], "endpoint");
    let public_key = async || bob.get("").await.data(200)["web_push_public_key"].clone();
    let key = public_key().await;
    assert!(key.is_string(), "{key}");
    server.stop().await;
    server.restart().await;
    assert_eq!(public_key().await, key, "the keys are made once");
    assert_eq!(push_service.rest().len(), 0);
}
