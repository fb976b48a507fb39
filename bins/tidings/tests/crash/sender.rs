use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use audit::history::{Client, HistoryOp};
use client::{Ack, Api, Body, ClientHandle, Credential, RawConnection};
use domain::{ChatId, ContentType};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::ErrorCode;
use protocol::frame::{ClientFrame, Inbound, RequestId, SendMessage, ServerFrame};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::ledger::content;
use crate::world::World;

/// Unacknowledged sends of one SDK device. The SDK allows half of them in flight, so the other half is in its queue
/// when the server dies.
pub(crate) const SDK_WINDOW: usize = 8;
/// Sends that one raw sender pipelines.
const RAW_WINDOW: usize = 16;
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// How long a raw sender waits after a refusal.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

/// A source of ordered sends.
pub(crate) struct Sender {
    pub(crate) world: Arc<World>,
    pub(crate) number: usize,
    pub(crate) client: Client,
    pub(crate) chats: Vec<ChatId>,
    pub(crate) random: StdRng,
}

impl Sender {
    fn next_message(&mut self) -> SendMessage {
        let chat_id = *self.chats.choose(&mut self.random).expect("every user is in a chat");
        let message = new_message(chat_id, &mut self.random);
        self.world.sent(self.number, self.client, &message, true);
        message
    }

    /// Sends through the SDK, which reconnects, queues and retries.
    pub(crate) async fn send_through(mut self, handle: ClientHandle) {
        let mut turn = SendPacer::of(&self.world);
        let mut acks: FuturesUnordered<Ack> = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ack) = acks.next(), if !acks.is_empty() => {
                    self.world.acked(self.client, &ack.expect("no send is refused"));
                }
                () = turn.comes(), if acks.len() < SDK_WINDOW => {
                    acks.push(handle.submit(self.next_message()).await.expect("the session goes on"));
                }
            }
        }
    }

    /// Sends over one socket after another, and retries unacknowledged sends on the next socket.
    pub(crate) async fn send_raw(mut self, api: Api) {
        let mut unanswered = VecDeque::new();
        loop {
            let token = api.access_token().await.expect("the token is good for longer than the test");
            match RawConnection::connect(api.base_url(), api.device_id(), Credential::Token(&token)).await {
                Ok(connection) => self.converse(connection, &mut unanswered).await,
                Err(_) => sleep(RECONNECT_PAUSE).await,
            }
        }
    }

    async fn converse(&mut self, mut connection: RawConnection, unanswered: &mut VecDeque<SendMessage>) {
        match connection.next().await {
            Ok(first) => {
                let ServerFrame::ConnectionEstablished(established) = first.frame else { panic!("{first:?}") };
                self.world.history.note(self.client, HistoryOp::Connected { connection: established.connection_id });
            }
            Err(_) => return,
        }
        let mut turn = SendPacer::of(&self.world);
        for message in &*unanswered {
            transmit(&mut connection, message);
        }
        loop {
            tokio::select! {
                outbound = connection.next() => match outbound.map(|outbound| outbound.frame) {
                    Ok(ServerFrame::SendMessageAck(ack)) => {
                        unanswered.retain(|message| message.client_message_id != ack.client_message_id);
                        self.world.acked(self.client, &ack);
                    }
                    // Reports discarded pushes, which a raw sender does not use. It answers no send.
                    Ok(ServerFrame::Error(error)) if error.code == ErrorCode::SlowConsumer => {}
                    Ok(ServerFrame::Error(error)) => {
                        self.world.refused(&error);
                        // The next connection sends all unacknowledged messages again, in order.
                        return sleep(REFUSAL_PAUSE).await;
                    }
                    Ok(_) => {}
                    Err(_) => return,
                },
                () = turn.comes(), if unanswered.len() < RAW_WINDOW => {
                    let message = self.next_message();
                    transmit(&mut connection, &message);
                    unanswered.push_back(message);
                }
            }
        }
    }
}

/// Paces the sends of a sender.
struct SendPacer {
    sending: watch::Receiver<bool>,
    pause: Duration,
    last: Instant,
}

impl SendPacer {
    fn of(world: &World) -> Self {
        Self { sending: world.sending.subscribe(), pause: world.manners.pause, last: Instant::now() }
    }

    /// Waits until the next send is allowed. Cancel safe.
    async fn comes(&mut self) {
        sleep_until(self.last + self.pause).await;
        // Checked last, so that no sender sends after a pause.
        self.sending.wait_for(|sending| *sending).await.map(drop).expect("the world outlives its tasks");
        self.last = Instant::now();
    }
}

fn transmit(connection: &mut RawConnection, message: &SendMessage) {
    let request_id = RequestId::new(message.client_message_id.to_string());
    let frame = Inbound { request_id, frame: ClientFrame::SendMessage(message.clone()) };
    connection.send(frame.encode()).expect("the window fits into the buffer");
}

pub(crate) fn new_message(chat_id: ChatId, random: &mut StdRng) -> SendMessage {
    let client_message_id = uuid::Builder::from_random_bytes(random.random()).into_uuid().into();
    let content = content(client_message_id).try_into().expect("the content is valid");
    SendMessage { client_message_id, chat_id, body: Body::new(content, ContentType::Text), ttl: None }
}
