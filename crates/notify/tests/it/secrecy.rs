use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ports::DeadLetterStore;
use tidings_notify::{NotificationPorts, Notifications, NotificationsConfig, Providers, WebhookNotifier};
use tracing_subscriber::util::SubscriberInitExt;
use webhook::Webhook;

use crate::receiver::{CannedResponse, TIMEOUT};
use crate::recorder::{self, NotificationRecorder};
use crate::webhook_world::{SECRET, WebhookWorld, run};

/// All log output of a test.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_of_a_message_a_secret_or_an_address_reaches_a_log_or_a_dead_letter() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _logging = subscriber.finish().set_default();

    let world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    let bob = world.user("bob").await;
    world.device(bob, "token-of-bob").await;
    let mut answers = [CannedResponse::Hangs, CannedResponse::Status(503)].into_iter();
    world.receiver.answer(move |_| answers.next().unwrap_or(CannedResponse::Status(400)));
    run(&Arc::new(world.webhook()));
    let url = world.receiver.url("/push?key=kept-to-ourselves").parse().unwrap();
    let push = Webhook::new(url, SECRET.as_bytes(), TIMEOUT, world.clock.clone()).unwrap();
    let providers = Providers { webhook: Some(WebhookNotifier(push)), webpush: None };
    let ports = NotificationPorts {
        notifier: Arc::new(providers),
        ..recorder::ports(&world, &NotificationRecorder::new(&world))
    };
    let config = NotificationsConfig { delay: Duration::ZERO, ..NotificationsConfig::default() };
    recorder::run(&world, &Arc::new(Notifications::new(ports, config)));

    world.send(chat_id, ada, "words of ada").await;
    world.caught_up().await;
    let letters = loop {
        let letters = world.store.dead_letters(None, 10).await.unwrap();
        if letters.len() == 2 {
            break letters;
        }
        tokio::task::yield_now().await;
    };
    let text = log.text();
    assert!(
        text.contains("webhook delivery of an event failed") && text.contains("notification of a device failed"),
        "{text}"
    );
    let shown = format!("{text}{letters:?}");
    for kept in ["words of ada", "token-of-bob", "kept-to-ourselves", SECRET, "what a receiver says"] {
        assert!(!shown.contains(kept), "{kept}: {shown}");
    }
}
