use domain::{ChatId, ChatType, DeviceId, MessageId, PushDevice, PushTarget, Sequence, UserId};
use ports::{Notification, Notifier, NotifyError, UnusableTarget};
use serde_json::json;
use tidings_notify::{Providers, WebhookNotifier};
use webhook::Webhook;

use crate::receiver::{CannedResponse, TIMEOUT, TestReceiver};
use crate::world::{World, start};

const SECRET: &str = "shared with the push gateway";

/// A notification with all fields set.
pub(crate) fn notification() -> Notification {
    Notification {
        chat_id: ChatId::from_bytes([2; 16]),
        chat_type: ChatType::Group,
        chat_name: Some("Project Team".to_owned().try_into().unwrap()),
        message_id: MessageId::from_bytes([1; 16]),
        sequence: Sequence(47),
        sender_id: UserId::from_bytes([3; 16]),
        sender_name: "Ada".to_owned(),
        preview: Some("Hello, world!".to_owned().try_into().unwrap()),
        created_at: start(),
        unread: ports::UnreadCount { count: 3, is_exact: true },
    }
}

pub(crate) fn device(target: PushTarget) -> PushDevice {
    let (user_id, device_id) = (UserId::from_bytes([4; 16]), DeviceId::from_bytes([5; 16]));
    PushDevice { user_id, device_id, target, registered_at: start() }
}

fn token() -> PushTarget {
    PushTarget::Webhook("fcm:abc".to_owned().try_into().unwrap())
}

fn webhook(receiver: &TestReceiver) -> Providers {
    let url = receiver.url("/push").parse().unwrap();
    let clock = World::new().clock;
    let webhook = Webhook::new(url, SECRET.as_bytes(), TIMEOUT, clock).unwrap();
    Providers { webhook: Some(WebhookNotifier(webhook)), webpush: None }
}

#[tokio::test]
async fn the_operators_service_receives_the_device_and_the_notification() {
    let mut receiver = TestReceiver::start().await;
    webhook(&receiver).notify(&device(token()), &notification()).await.unwrap();
    let request = receiver.next().await;
    request.verify(SECRET);
    assert_eq!((request.path.as_str(), request.header("content-type")), ("/push", "application/json"));
    assert_eq!(
        request.json(),
        json!({
            "type": "notification",
            "user_id": "user_040G2081040G2081040G208104",
            "device_id": "05050505-0505-0505-0505-050505050505",
            "token": "fcm:abc",
            "chat_id": "chat_02081040G2081040G2081040G2",
            "chat_type": "group",
            "chat_name": "Project Team",
            "message_id": "msg_01040G2081040G2081040G2081",
            "sequence": 47,
            "sender_id": "user_030C1G60R30C1G60R30C1G60R3",
            "sender_name": "Ada",
            "preview": "Hello, world!",
            "created_at": "2026-01-30T14:30:00.000Z",
            "unread_count": 3,
        })
    );
    let bare = Notification { chat_type: ChatType::Direct, chat_name: None, preview: None, ..notification() };
    webhook(&receiver).notify(&device(token()), &bare).await.unwrap();
    let body = receiver.next().await.json();
    assert_eq!((body.get("chat_name"), body.get("preview")), (None, None));
}

#[tokio::test]
async fn responses_of_the_operators_service_map_to_notify_errors() {
    let mut receiver = TestReceiver::start().await;
    let providers = webhook(&receiver);
    for (answer, expected) in [
        (CannedResponse::Status(200), "told"),
        (CannedResponse::Status(410), "gone"),
        (CannedResponse::Status(404), "refused: the answer was 404 Not Found"),
        (CannedResponse::Status(500), "refused: the answer was 500 Internal Server Error"),
        (CannedResponse::Status(302), "refused: the answer was 302 Found"),
        (CannedResponse::Status(503), "unavailable: the answer was 503 Service Unavailable, None"),
        (CannedResponse::RetryAfter(429, 7), "unavailable: the answer was 429 Too Many Requests, Some(7s)"),
        (CannedResponse::Hangs, "unavailable: there was no answer in time, None"),
    ] {
        receiver.answer(move |_| answer);
        let told = match providers.notify(&device(token()), &notification()).await {
            Ok(()) => "told".to_owned(),
            Err(NotifyError::Gone) => "gone".to_owned(),
            Err(NotifyError::Refused(source)) => format!("refused: {source}"),
            Err(NotifyError::Unavailable { source, retry_after }) => format!("unavailable: {source}, {retry_after:?}"),
        };
        assert_eq!(told, expected);
    }
    assert_eq!(receiver.rest().len(), 8, "one call is one try");
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unavailable() {
    let mut receiver = TestReceiver::start().await;
    let providers = webhook(&receiver);
    receiver.stop().await;
    let error = providers.notify(&device(token()), &notification()).await.unwrap_err();
    let NotifyError::Unavailable { source, retry_after: None } = error else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "the request failed");
    assert!(!format!("{source:?}").contains("/push"), "no error names the address: {source:?}");
}

#[tokio::test]
async fn a_provider_that_is_off_refuses() {
    let receiver = TestReceiver::start().await;
    assert_eq!(webhook(&receiver).check(&token()), Ok(()));
    let none = Providers { webhook: None, webpush: None };
    assert_eq!(none.check(&token()), Err(UnusableTarget::ProviderOff("webhook")));
    let error = none.notify(&device(token()), &notification()).await.unwrap_err();
    assert!(
        matches!(error, NotifyError::Refused(source) if source.to_string() == "this server has no `webhook` provider")
    );
}
