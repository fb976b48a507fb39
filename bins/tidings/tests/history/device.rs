use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use audit::history::{Client, HistoryOp};
use client::{Api, ClientEvent, ClientHandle, Events, SendError, StopReason};
use domain::{Body, ChatId, ClientMessageId, ContentType, Ttl};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::frame::{SendMessage, SendMessageAck};
use protocol::rest::Tokens;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::time::{Instant, sleep_until, timeout};

use super::crowd::CrowdState;

/// Maximum number of unacknowledged sends per device.
const WINDOW: usize = 4;
/// Pause of a device between two sends, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 60..=240;
/// Time until the application of a device restarts, in milliseconds.
const LIFE_MS: std::ops::RangeInclusive<u64> = 4_000..=9_000;
/// How long a stopping device waits for acks.
const GOODBYE: Duration = Duration::from_secs(2);
/// The first pause before a reconnect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// A device of a user: an application on the SDK that stores delivered events, and restarts now and then.
pub(super) struct CrowdDevice {
    pub(super) shared: Arc<CrowdState>,
    pub(super) client: Client,
    pub(super) base_url: String,
    pub(super) tokens: Tokens,
    /// The chats it sends to, each with the lifetime of its messages.
    pub(super) chats: Vec<(ChatId, Option<u64>)>,
    pub(super) random: StdRng,
}

/// A send with its result.
type SendReply = (SendMessage, Result<SendMessageAck, SendError>);

impl CrowdDevice {
    /// Runs until it is dropped, from one restart to the next.
    pub(super) async fn live(mut self) {
        loop {
            let positions = self.shared.positions(self.client);
            self.shared.history.note(self.client, HistoryOp::Restarted { positions: positions.clone() });
            let sdk = client::Client::builder(&self.base_url)
                .device_id(self.client.device_id)
                .tokens(self.tokens.clone())
                .positions(positions)
                .reconnect_pause(RECONNECT_PAUSE)
                .build()
                .unwrap();
            let (handle, events) = sdk.connect().unwrap();
            self.run(&handle, events).await;
        }
    }

    /// One run of the application.
    async fn run(&mut self, handle: &ClientHandle, mut events: Events) {
        let mut answers: FuturesUnordered<BoxFuture<'static, SendReply>> = FuturesUnordered::new();
        let ends_at = Instant::now() + Duration::from_millis(self.random.random_range(LIFE_MS));
        let mut sends_at = Instant::now();
        let mut sending = self.shared.sending.subscribe();
        while Instant::now() < ends_at || !*sending.borrow() {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.told(handle, &event).await,
                    None => return self.ended(answers).await,
                },
                Some(answer) = answers.next(), if !answers.is_empty() => self.answered(answer),
                () = async {
                    sleep_until(sends_at).await;
                    // The sender of this channel outlives the devices.
                    let _ = sending.wait_for(|sending| *sending).await;
                }, if answers.len() < WINDOW => {
                    sends_at = Instant::now() + Duration::from_millis(self.random.random_range(PAUSE_MS));
                    let answer = self.send(handle).await;
                    answers.push(answer);
                }
                () = sleep_until(ends_at), if *self.shared.sending.borrow() => {}
            }
        }
        self.end(handle, events, answers).await;
    }

    /// Waits for acks until a timeout, and handles events until the end.
    async fn end(
        &mut self,
        handle: &ClientHandle,
        mut events: Events,
        mut answers: FuturesUnordered<BoxFuture<'static, SendReply>>,
    ) {
        let goodbye = Instant::now() + GOODBYE;
        while !answers.is_empty() && Instant::now() < goodbye {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.told(handle, &event).await,
                    None => return self.ended(answers).await,
                },
                Some(answer) = answers.next() => self.answered(answer),
                () = sleep_until(goodbye) => {}
            }
        }
        let closing = handle.clone();
        let closing = tokio::spawn(async move { closing.close().await });
        while let Some(event) = events.next().await {
            self.told(handle, &event).await;
        }
        // The session may have ended already.
        let _ = closing.await.unwrap();
        self.ended(answers).await;
    }

    /// The session is over: unacknowledged sends are abandoned.
    async fn ended(&mut self, mut answers: FuturesUnordered<BoxFuture<'static, SendReply>>) {
        while let Some(answer) = answers.next().await {
            self.answered(answer);
        }
        // The connection is closed too, even if the SDK did not report it.
        self.shared.history.note(self.client, HistoryOp::Disconnected);
    }

    async fn send(&mut self, handle: &ClientHandle) -> BoxFuture<'static, SendReply> {
        let (chat_id, ttl_seconds) = *self.chats.choose(&mut self.random).expect("every user is in a chat");
        let client_message_id: ClientMessageId =
            uuid::Builder::from_random_bytes(self.random.random()).into_uuid().into();
        let message = SendMessage {
            client_message_id,
            chat_id,
            body: Body::new(client_message_id.to_string().try_into().unwrap(), ContentType::Text),
            ttl: ttl_seconds.and_then(Ttl::from_secs),
        };
        self.shared.history.began(self.client, &message, self.shared.keeps_order);
        self.shared.unanswered.fetch_add(1, Ordering::Relaxed);
        let submitted = handle.submit(message.clone()).await;
        Box::pin(async move {
            match submitted {
                Ok(ack) => (message, ack.await),
                Err(closed) => (message, Err(closed.into())),
            }
        })
    }

    fn answered(&self, (message, answer): SendReply) {
        let SendMessage { chat_id, client_message_id, .. } = message;
        match answer {
            Ok(ack) => self.shared.history.acked(self.client, &ack),
            Err(error) => {
                let code = match error {
                    SendError::Refused(error) => error.code.as_str().to_owned(),
                    // The send is abandoned, but may be stored.
                    error => error.to_string(),
                };
                self.shared.history.note(self.client, HistoryOp::SendFailed { chat_id, client_message_id, code });
            }
        }
        self.shared.unanswered.fetch_sub(1, Ordering::Relaxed);
    }

    async fn told(&mut self, handle: &ClientHandle, event: &ClientEvent) {
        self.shared.history.told(self.client, event);
        match event {
            ClientEvent::Message(message) => {
                self.shared.stored(self.client, message.chat_id, message.sequence);
                if self.random.random_bool(0.1) {
                    let (chat_id, sequence) = (message.chat_id, message.sequence);
                    let op = HistoryOp::Marked { chat_id, delivered: sequence, read: sequence };
                    self.shared.history.note(self.client, op);
                    // Fails only at the end of a session.
                    let _ = handle.mark_read(chat_id, sequence).await;
                }
            }
            // If the user rejoins, the chat starts where the server says. The removal event may arrive after the
            // rejoin, and after messages sent since.
            ClientEvent::ChatGone { chat_id } => {
                self.shared.forget(self.client, *chat_id);
                let positions = self.shared.positions(self.client);
                self.shared.history.note(self.client, HistoryOp::Restarted { positions });
            }
            // Restarts, as an application would have to.
            ClientEvent::Stopped(reason) if *reason != StopReason::Closed => {
                eprintln!("the session of {:?} was ended: {reason:?}", self.client);
            }
            _ => {}
        }
    }
}

/// Repeatedly queries the state of a user's chats.
pub(super) async fn ask(shared: Arc<CrowdState>, client: Client, api: Api, chats: Vec<ChatId>) {
    let mut pace = tokio::time::interval(Duration::from_millis(150));
    for chat_id in chats.iter().copied().cycle() {
        pace.tick().await;
        shared.history.note(client, HistoryOp::Asked { chat_id });
        if let Ok(Ok(chat)) = timeout(Duration::from_secs(5), api.chat(chat_id)).await {
            let summary = chat.summary;
            let op = HistoryOp::Shown {
                chat_id,
                head: summary.head_sequence,
                delivered: summary.my_delivered_sequence,
                read: summary.my_read_sequence,
                unread: summary.unread_count,
            };
            shared.history.note(client, op);
        }
    }
}
