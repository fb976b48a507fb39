use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use audit::history::{Client, Op};
use client::{Ack, Api, ClientHandle, Credential, RawConnection};
use domain::{ChatId, ContentType};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::frame::{ClientFrame, Inbound, RequestId, SendMessage, ServerFrame};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::ledger::content;
use crate::world::World;

/// Sends of one device of the SDK that wait for their answers. Only half of them may be on their way, so the other half
/// is in the SDK's queue when the server dies.
pub(crate) const SDK_WINDOW: usize = 8;
/// Sends that one raw sender pipelines.
const RAW_WINDOW: usize = 16;
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// How long a raw sender waits after a refusal.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

/// Somebody who sends, with an order among their sends.
pub(crate) struct Sender {
    pub(crate) world: Arc<World>,
    pub(crate) number: usize,
    pub(crate) client: Client,
    pub(crate) chats: Vec<ChatId>,
    pub(crate) random: StdRng,
}

impl Sender {
    fn next_message(&mut self) -> SendMessage {
        let chat_id = *self.chats.choose(&mut self.random).expect("everybody is in a chat");
        let message = new_message(chat_id, &mut self.random);
        self.world.sent(self.number, self.client, &message, true);
        message
    }

    /// Sends through the SDK, which reconnects, queues and retries by itself.
    pub(crate) async fn send_through(mut self, handle: ClientHandle) {
        let mut turn = Turn::of(&self.world);
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

    /// Sends over sockets, one after the other, and retries on the next one what the last one left unanswered.
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
                self.world.history.note(self.client, Op::Connected { connection: established.connection_id });
            }
            Err(_) => return,
        }
        let mut turn = Turn::of(&self.world);
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
                    Ok(ServerFrame::Error(error)) => {
                        self.world.refused(&error);
                        // The next connection sends all that is unanswered again, in order.
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

/// When a sender may make its next send.
struct Turn {
    sending: watch::Receiver<bool>,
    pause: Duration,
    last: Instant,
}

impl Turn {
    fn of(world: &World) -> Self {
        Self { sending: world.sending.subscribe(), pause: world.manners.pause, last: Instant::now() }
    }

    /// Waits for it. Nothing is lost if this is dropped before.
    async fn comes(&mut self) {
        sleep_until(self.last + self.pause).await;
        // Last, so that nobody sends any more once it is told so.
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
    SendMessage { client_message_id, chat_id, content, content_type: ContentType::Text, ttl: None }
}
