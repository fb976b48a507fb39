use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{ChatId, PushTarget, WebPushSubscription};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use ports::{Notification, Notifier, NotifyError, UnusableTarget};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_notify::{Providers, VapidKeys, WebPushConfig, WebPushNotifier};
use tokio::net::TcpListener;
use web_push_native::p256::SecretKey;
use web_push_native::p256::elliptic_curve::sec1::ToEncodedPoint;
use web_push_native::{Auth, decrypt};

use crate::providers::{device, notification};
use crate::receiver::{CannedResponse, ReceivedRequest, TIMEOUT, TestReceiver};
use crate::world::{World, start};

const CONTACT: &str = "mailto:operator@example.com";

/// A browser with a subscription.
struct TestBrowser {
    secret: SecretKey,
    auth: [u8; 16],
}

impl TestBrowser {
    fn new(seed: u8) -> Self {
        Self { secret: SecretKey::from_slice(&[seed; 32]).unwrap(), auth: [seed; 16] }
    }

    fn subscription(&self, endpoint: &str) -> PushTarget {
        let point = self.secret.public_key().to_encoded_point(false);
        PushTarget::WebPush(WebPushSubscription::new(endpoint.to_owned(), point.as_bytes(), &self.auth).unwrap())
    }

    fn read(&self, request: &ReceivedRequest) -> Value {
        let body = decrypt(request.body.to_vec(), &self.secret, &Auth::from(self.auth)).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

fn web_push(directory: &Path, private_endpoints: bool) -> (Providers, Arc<VapidKeys>) {
    let keys = Arc::new(VapidKeys::open(directory).unwrap());
    let config = WebPushConfig { contact: Some(CONTACT.to_owned()), timeout: TIMEOUT, private_endpoints };
    let notifier = WebPushNotifier::new(keys.clone(), config, World::new().clock).unwrap();
    (Providers { webhook: None, webpush: Some(notifier) }, keys)
}

#[tokio::test]
async fn only_the_browser_can_read_a_notification() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), true);
    let mut receiver = TestReceiver::start().await;
    receiver.answer(|_| CannedResponse::Status(201));
    let browser = TestBrowser::new(7);
    let target = browser.subscription(&receiver.url("/push/abc"));
    assert_eq!(providers.check(&target), Ok(()));
    providers.notify(&device(target), &notification()).await.unwrap();
    let request = receiver.next().await;
    assert_eq!(request.path, "/push/abc");
    assert_eq!(request.header("content-encoding"), "aes128gcm");
    assert_eq!(request.header("content-type"), "application/octet-stream");
    assert_eq!((request.header("ttl"), request.header("urgency")), ("86400", "high"));
    let text = String::from_utf8_lossy(&request.body);
    assert!(!text.contains("Hello") && !text.contains("Ada"), "the push service cannot read it");
    let body = browser.read(&request);
    assert_eq!(body["preview"], "Hello, world!");
    assert_eq!(body["unread_count"], json!(3));
    assert_eq!(body.get("token"), None);
}

#[tokio::test]
async fn the_push_service_knows_us_by_the_announced_key() {
    let directory = TempDir::new().unwrap();
    let (providers, keys) = web_push(directory.path(), true);
    let mut receiver = TestReceiver::start().await;
    let target = TestBrowser::new(7).subscription(&receiver.url("/push/abc"));
    providers.notify(&device(target), &notification()).await.unwrap();
    let request = receiver.next().await;
    let (token, key) = request.header("authorization").strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    assert_eq!(key, keys.public_key());

    let point = BASE64_URL_SAFE_NO_PAD.decode(key).unwrap();
    let (x, y) = (&point[1..33], &point[33..]);
    let [x, y] = [x, y].map(|coordinate| BASE64_URL_SAFE_NO_PAD.encode(coordinate));
    let mut validation = Validation::new(Algorithm::ES256);
    validation.validate_exp = false;
    validation.set_audience(&[&receiver.origin]);
    let claims = decode::<Value>(token, &DecodingKey::from_ec_components(&x, &y).unwrap(), &validation).unwrap().claims;
    assert_eq!((&claims["aud"], &claims["sub"]), (&json!(receiver.origin), &json!(CONTACT)));
    let expires_in = claims["exp"].as_u64().unwrap() - start().as_secs();
    assert!((43_200..43_260).contains(&expires_in), "twelve hours: {expires_in}");
}

#[tokio::test]
async fn a_topic_is_one_for_each_chat_and_browser() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), true);
    let mut receiver = TestReceiver::start().await;
    let mut topics = vec![];
    for (browser, chat) in [(7, 1), (7, 1), (7, 2), (8, 1)] {
        let target = TestBrowser::new(browser).subscription(&receiver.url("/push"));
        let notification = Notification { chat_id: ChatId::from_bytes([chat; 16]), ..notification() };
        providers.notify(&device(target), &notification).await.unwrap();
        topics.push(receiver.next().await.header("topic").to_owned());
    }
    let base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    assert!(topics.iter().all(|topic| topic.len() == 32 && topic.bytes().all(base64url)), "{topics:?}");
    assert_eq!(topics[0], topics[1], "the service keeps the last of a chat");
    assert_ne!(topics[0], topics[2]);
    assert_ne!(topics[0], topics[3], "and does not learn who is in the same chat");
}

#[tokio::test]
async fn responses_of_a_push_service_map_to_notify_errors() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), true);
    let receiver = TestReceiver::start().await;
    for (answer, expected) in [
        (CannedResponse::Status(404), "gone"),
        (CannedResponse::Status(410), "gone"),
        (CannedResponse::Status(413), "refused: the answer was 413 Payload Too Large"),
        (CannedResponse::RetryAfter(429, 30), "unavailable: Some(30s)"),
        (CannedResponse::Hangs, "unavailable: None"),
    ] {
        receiver.answer(move |_| answer);
        let target = TestBrowser::new(7).subscription(&receiver.url("/push"));
        let told = match providers.notify(&device(target), &notification()).await {
            Ok(()) => "told".to_owned(),
            Err(NotifyError::Gone) => "gone".to_owned(),
            Err(NotifyError::Refused(source)) => format!("refused: {source}"),
            Err(NotifyError::Unavailable { retry_after, .. }) => format!("unavailable: {retry_after:?}"),
        };
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn an_address_that_a_stranger_chose_is_not_called_unless_it_is_public() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), false);
    let (unguarded, _) = web_push(directory.path(), true);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let browser = TestBrowser::new(7);
    for (host, scheme, reason) in [
        ("127.0.0.1", "http", "the endpoint is not https"),
        ("127.0.0.1", "https", "the endpoint is not a public address"),
        ("0x7f.1", "https", "the endpoint is not a public address"),
        ("[::ffff:127.0.0.1]", "https", "the endpoint is not a public address"),
    ] {
        let target = browser.subscription(&format!("{scheme}://{host}:{port}/push"));
        assert_eq!(providers.check(&target), Err(UnusableTarget::Subscription(reason.to_owned())), "{host}");
        let error = providers.notify(&device(target), &notification()).await.unwrap_err();
        assert!(matches!(&error, NotifyError::Refused(source) if source.to_string() == reason), "{host}: {error:?}");
    }
    // A host name is checked when it is resolved. The call is rejected and not retried.
    let target = browser.subscription(&format!("https://localhost:{port}/push"));
    assert_eq!(providers.check(&target), Ok(()));
    let error = providers.notify(&device(target.clone()), &notification()).await.unwrap_err();
    let reason = "the endpoint is not a public address";
    assert!(matches!(&error, NotifyError::Refused(source) if source.to_string() == reason), "{error:?}");

    // No call has arrived so far; without the check, the same name leads to this listener.
    let called = tokio::spawn(async move { listener.accept().await.unwrap().1 });
    tokio::task::yield_now().await;
    assert!(!called.is_finished());
    let error = unguarded.notify(&device(target), &notification()).await.unwrap_err();
    assert!(matches!(error, NotifyError::Unavailable { .. }), "it does not speak TLS: {error:?}");
    assert!(called.await.unwrap().ip().is_loopback());
}

#[tokio::test]
async fn an_invalid_key_is_rejected_before_a_browser_subscribes() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), false);
    let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[0; 16]).unwrap();
    let target = PushTarget::WebPush(subscription);
    let reason = "the key is not a point on P-256";
    assert_eq!(providers.check(&target), Err(UnusableTarget::Subscription(reason.to_owned())));
    let error = providers.notify(&device(target), &notification()).await.unwrap_err();
    assert!(matches!(&error, NotifyError::Refused(source) if source.to_string() == reason), "{error:?}");
}

#[tokio::test]
async fn the_longest_notification_fits() {
    let directory = TempDir::new().unwrap();
    let (providers, _) = web_push(directory.path(), true);
    let mut receiver = TestReceiver::start().await;
    let browser = TestBrowser::new(7);
    let target = browser.subscription(&receiver.url("/push"));
    let longest = Notification {
        chat_name: Some("🦀".repeat(128).try_into().unwrap()),
        sender_name: "🦀".repeat(64),
        preview: Some("\u{1}".repeat(100).try_into().unwrap()),
        unread: ports::UnreadCount { count: u64::MAX, is_exact: false },
        ..notification()
    };
    providers.notify(&device(target.clone()), &longest).await.unwrap();
    let request = receiver.next().await;
    assert!(request.body.len() <= 4096, "{}", request.body.len());
    assert_eq!(browser.read(&request)["sender_name"], "🦀".repeat(64));

    let too_long = Notification { sender_name: "x".repeat(4000), ..notification() };
    let error = providers.notify(&device(target), &too_long).await.unwrap_err();
    assert!(
        matches!(&error, NotifyError::Refused(source) if source.to_string().ends_with("limit is 3993")),
        "{error:?}"
    );
    assert_eq!(receiver.rest().len(), 0);
}
