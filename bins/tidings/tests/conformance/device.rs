use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::{Client, ClientEvent, ClientHandle, Events, SendError, StopReason, newer, with_updated};
use domain::{ChatId, ClientMessageId, DeviceId, Sequence, UserId};
use futures_util::FutureExt;
use protocol::ErrorBody;
use protocol::frame::{
    ChatUpdated, MessageBody, MessageUpdated, PresenceStatus, ReceiptBody, SendMessage, SendMessageAck, UpdateMessage,
};
use protocol::rest::Tokens;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::proxy::DeviceProxy;

/// A device: an application with its storage, and a client of the SDK while it runs.
pub(crate) struct ScenarioDevice {
    pub(crate) user_id: UserId,
    pub(crate) proxy: Arc<DeviceProxy>,
    device_id: DeviceId,
    pub(crate) client: Client,
    pub(crate) storage: Storage,
    pub(crate) first_token: String,
    running: Option<RunningClient>,
    /// The counters when the connection was last disturbed.
    disturbed: EventCounts,
}

struct RunningClient {
    handle: ClientHandle,
    application: JoinHandle<()>,
    /// Tasks that wait for acks. They end with the client.
    acks: JoinSet<()>,
}

/// State that outlives the client. Clones share it.
#[derive(Clone)]
pub(crate) struct Storage {
    kept: Arc<Mutex<ApplicationState>>,
    holds: watch::Sender<bool>,
}

#[derive(Default)]
pub(crate) struct ApplicationState {
    pub(crate) tokens: Option<Tokens>,
    /// As they were handed out.
    pub(crate) messages: BTreeMap<ChatId, Vec<MessageBody<'static>>>,
    /// After the updates that were handed out.
    pub(crate) copies: BTreeMap<ChatId, BTreeMap<Sequence, MessageBody<'static>>>,
    pub(crate) positions: BTreeMap<ChatId, Sequence>,
    /// The application's queue: its sends and updates, and their results.
    pub(crate) queue: Vec<Queued>,
    pub(crate) held: Option<MessageBody<'static>>,
    /// The application has handled every delivered event.
    is_idle: bool,
    counts: EventCounts,
    pub(crate) receipts: BTreeMap<(ChatId, UserId), ReceiptBody>,
    pub(crate) typing: BTreeMap<(ChatId, UserId), bool>,
    pub(crate) presences: BTreeMap<UserId, PresenceStatus>,
    pub(crate) expired: BTreeMap<ChatId, BTreeSet<u64>>,
    pub(crate) updates: Vec<ChatUpdated>,
    pub(crate) gone: BTreeSet<ChatId>,
    pub(crate) stopped: Option<StopReason>,
}

pub(crate) struct Queued {
    pub(crate) entry: QueuedEntry,
    pub(crate) outcome: Option<Result<SendMessageAck, ErrorBody>>,
}

#[derive(Clone)]
pub(crate) enum QueuedEntry {
    Message(SendMessage),
    Update(UpdateMessage),
}

impl QueuedEntry {
    pub(crate) fn client_message_id(&self) -> ClientMessageId {
        match self {
            Self::Message(message) => message.client_message_id,
            Self::Update(update) => update.client_message_id,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct EventCounts {
    connected: u64,
    disconnected: u64,
}

impl ScenarioDevice {
    /// Signs in as a user; creates the user if it is new.
    pub(crate) async fn sign_in(proxy: DeviceProxy, phone_number: &str, name: &str) -> Result<Self, String> {
        let storage = Storage { kept: Arc::default(), holds: watch::Sender::new(false) };
        let device_id = uuid::Uuid::new_v4().into();
        let client = client(&proxy, device_id, &storage);
        client.api().request_otp(phone_number).await.map_err(|error| error.to_string())?;
        let signed_in =
            client.api().verify_otp(phone_number, "000000", Some(name)).await.map_err(|error| error.to_string())?;
        Ok(Self {
            user_id: signed_in.user.user.user_id,
            proxy: Arc::new(proxy),
            device_id,
            client,
            storage,
            first_token: signed_in.tokens.access_token.0,
            running: None,
            disturbed: EventCounts::default(),
        })
    }

    /// A second instance of the same device, with an application of its own.
    pub(crate) fn again(&self) -> Self {
        let kept = self.storage.kept();
        let copied = ApplicationState {
            tokens: kept.tokens.clone(),
            positions: kept.positions.clone(),
            ..ApplicationState::default()
        };
        let storage = Storage { kept: Arc::new(Mutex::new(copied)), holds: watch::Sender::new(false) };
        let client = client(&self.proxy, self.device_id, &storage);
        let (user_id, proxy, device_id) = (self.user_id, Arc::clone(&self.proxy), self.device_id);
        let (first_token, disturbed) = (self.first_token.clone(), EventCounts::default());
        Self { user_id, proxy, device_id, client, storage, first_token, running: None, disturbed }
    }

    /// Connects, and sends the queued messages and updates.
    pub(crate) async fn connect(&mut self) {
        self.disturb();
        self.client = client(&self.proxy, self.device_id, &self.storage);
        let (handle, events) = self.client.connect().expect("it is signed in");
        let application = tokio::spawn(take(self.user_id, events, self.storage.clone()));
        self.running = Some(RunningClient { handle, application, acks: JoinSet::new() });
        let unsent: Vec<QueuedEntry> = {
            let kept = self.storage.kept();
            kept.queue.iter().filter(|queued| queued.outcome.is_none()).map(|queued| queued.entry.clone()).collect()
        };
        for entry in unsent {
            self.submit(entry).await;
        }
    }

    /// Closes the client gracefully, after the application has handled all delivered events.
    pub(crate) async fn disconnect(&mut self) {
        while !self.storage.kept().is_idle {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let RunningClient { handle, application, .. } = self.running.take().expect("it is connected");
        handle.close().await.expect("the session goes on until then");
        application.await.expect("the application does not panic");
    }

    /// Ends without a close, and starts again.
    pub(crate) async fn restart(&mut self) {
        self.proxy.cut();
        if let Some(RunningClient { application, .. }) = self.running.take() {
            application.abort();
            // The task was aborted, or had ended with its session.
            let _ = application.await;
        }
        self.storage.holds.send_replace(false);
        self.storage.kept().held = None;
        self.connect().await;
    }

    /// Queues a message or an update, and sends it if there is a client.
    pub(crate) async fn queue(&mut self, entry: QueuedEntry) {
        self.storage.kept().queue.push(Queued { entry: entry.clone(), outcome: None });
        self.submit(entry).await;
    }

    async fn submit(&mut self, entry: QueuedEntry) {
        let Some(RunningClient { handle, acks, .. }) = &mut self.running else { return };
        let client_message_id = entry.client_message_id();
        let submitted = match entry {
            QueuedEntry::Message(message) => handle.submit(message).await,
            QueuedEntry::Update(update) => handle.submit_update(update).await,
        };
        // A stopped client sends nothing more; the entry stays in the queue.
        let Ok(ack) = submitted else { return };
        let storage = self.storage.clone();
        acks.spawn(async move {
            let outcome = match ack.await {
                Ok(ack) => Ok(ack),
                Err(SendError::Refused(error)) => Err(error),
                Err(_) => return,
            };
            storage.settle(client_message_id, outcome);
        });
    }

    pub(crate) fn handle(&self) -> &ClientHandle {
        &self.running.as_ref().expect("it is connected").handle
    }

    /// Resets the counters before the connection is disturbed: earlier events do not count.
    pub(crate) fn disturb(&mut self) {
        self.disturbed = self.storage.kept().counts;
    }

    pub(crate) fn is_connected_again(&self) -> bool {
        self.storage.kept().counts.connected > self.disturbed.connected
    }

    pub(crate) fn is_disconnected_since(&self) -> bool {
        self.storage.kept().counts.disconnected > self.disturbed.disconnected
    }
}

impl Storage {
    pub(crate) fn kept(&self) -> MutexGuard<'_, ApplicationState> {
        self.kept.lock().unwrap()
    }

    /// Pauses or resumes the application.
    pub(crate) fn hold(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    fn settle(&self, client_message_id: ClientMessageId, outcome: Result<SendMessageAck, ErrorBody>) {
        let mut kept = self.kept();
        let is_it =
            |queued: &&mut Queued| queued.entry.client_message_id() == client_message_id && queued.outcome.is_none();
        if let Some(queued) = kept.queue.iter_mut().find(is_it) {
            queued.outcome = Some(outcome);
        }
    }
}

fn client(proxy: &DeviceProxy, device_id: DeviceId, storage: &Storage) -> Client {
    let (tokens, positions) = {
        let kept = storage.kept();
        (kept.tokens.clone(), kept.positions.clone())
    };
    let keeper = storage.clone();
    let builder = Client::builder(proxy.url())
        .device_id(device_id)
        .reconnect_pause(Duration::from_millis(50))
        .positions(positions)
        .keep_tokens(move |tokens| keeper.kept().tokens = tokens.cloned());
    match tokens {
        Some(tokens) => builder.tokens(tokens).build(),
        None => builder.build(),
    }
    .expect("the proxy has a URL")
}

/// The application: records the delivered events, in order.
async fn take(user_id: UserId, mut events: Events, storage: Storage) {
    loop {
        // Requesting the next event acknowledges the previous one.
        let event = match events.next().now_or_never() {
            Some(event) => event,
            None => {
                storage.kept().is_idle = true;
                events.next().await
            }
        };
        storage.kept().is_idle = false;
        match event {
            Some(ClientEvent::Message(message)) => take_message(&storage, message).await,
            Some(ClientEvent::Updated(updated)) => take_update(&storage, user_id, &updated),
            Some(event) => note(&mut storage.kept(), event),
            None => break,
        }
    }
    storage.kept().is_idle = true;
}

async fn take_message(storage: &Storage, message: MessageBody<'static>) {
    let mut holds = storage.holds.subscribe();
    if *holds.borrow() {
        storage.kept().held = Some(message.clone());
        holds.wait_for(|holds| !holds).await.expect("the storage is there");
    }
    let mut kept = storage.kept();
    kept.held = None;
    kept.positions.insert(message.chat_id, message.sequence);
    let copies = kept.copies.entry(message.chat_id).or_default();
    let copy = newer(copies.get(&message.sequence), message.clone());
    copies.insert(message.sequence, copy);
    kept.messages.entry(message.chat_id).or_default().push(message);
}

/// Replaces the copy of the message by its new state, or removes it.
fn take_update(storage: &Storage, user_id: UserId, updated: &MessageUpdated<'static>) {
    let update = &updated.update;
    let mut kept = storage.kept();
    kept.positions.insert(update.chat_id, update.sequence);
    let copies = kept.copies.entry(update.chat_id).or_default();
    match with_updated(copies.get(&update.target_sequence), updated, user_id) {
        Some(copy) => copies.insert(update.target_sequence, copy),
        None => copies.remove(&update.target_sequence),
    };
}

fn note(kept: &mut ApplicationState, event: ClientEvent) {
    match event {
        ClientEvent::Connected { .. } => kept.counts.connected += 1,
        ClientEvent::Disconnected { .. } => kept.counts.disconnected += 1,
        ClientEvent::Receipt(receipt) => {
            kept.receipts.insert((receipt.chat_id, receipt.user_id), receipt);
        }
        ClientEvent::Typing(typing) => {
            kept.typing.insert((typing.chat_id, typing.user_id), typing.is_typing);
        }
        ClientEvent::Presence(presences) => {
            kept.presences.extend(presences.into_iter().map(|presence| (presence.user_id, presence.status)));
        }
        ClientEvent::Expired(expired) => {
            kept.expired.entry(expired.chat_id).or_default().extend(expired.sequences.iter().map(|s| s.0));
        }
        ClientEvent::ChatUpdated(updated) => kept.updates.push(updated),
        ClientEvent::ChatGone { chat_id } => {
            kept.gone.insert(chat_id);
            // If the user is added to the chat again, it starts at the sequence of the new join.
            kept.positions.remove(&chat_id);
        }
        ClientEvent::WatermarkReset { chat_id, head_sequence } => {
            kept.positions.insert(chat_id, head_sequence);
        }
        ClientEvent::Stopped(reason) => kept.stopped = Some(reason),
        // Messages and updates have functions of their own. The results of sends come with their acks.
        ClientEvent::Message(_)
        | ClientEvent::Updated(_)
        | ClientEvent::Sent(_)
        | ClientEvent::SendFailed { .. }
        | ClientEvent::Refused(_) => {}
    }
}
