use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ports::{BoxError, Delivery, Displacement, GatewayId, Watchers};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::{pin, select, time};
use tracing::{info, warn};

use crate::client::Redis;
use crate::config::Url;
use crate::envelope::{ENVELOPE_BYTES_MAX, Message, unpack};
use crate::keys;
use crate::link::client;

/// Envelopes that wait for the gateway, and their bytes, at the most. When it is full the next is dropped, and the
/// gateway told that it missed something.
const QUEUE_LEN_MAX: usize = 8192;
const QUEUE_BYTES_MAX: usize = 16 * ENVELOPE_BYTES_MAX;
/// How often the connection is asked whether it is alive: one that nobody publishes on is silent either way.
const BEAT: Duration = Duration::from_secs(5);
/// How long the first try to connect again waits, and the last; each next one waits twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The receiving end of [`RedisDelivery`](crate::RedisDelivery) at one gateway.
pub struct Inbox {
    redis: Redis,
    gateway: GatewayId,
    into: Arc<dyn Delivery>,
    displacement: Arc<dyn Displacement>,
    watchers: Arc<dyn Watchers>,
    state: watch::Sender<InboxState>,
}

/// What a gateway can know of its inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxState {
    /// Whether it hears what is published now.
    pub listening: bool,
    /// How often something may have been published that it did not hear. Every connection that was open meanwhile may
    /// have missed a push, and finds it by sync.
    pub gaps: u64,
}

impl Inbox {
    /// An inbox that hands what `gateway` is sent to `into`.
    pub fn new<G>(redis: Redis, gateway: GatewayId, into: Arc<G>) -> Self
    where
        G: Delivery + Displacement + Watchers + 'static,
    {
        let (displacement, watchers, state) = (into.clone(), into.clone(), watch::Sender::default());
        Self { redis, gateway, into, displacement, watchers, state }
    }

    /// Follows the state of the inbox.
    pub fn state(&self) -> watch::Receiver<InboxState> {
        self.state.subscribe()
    }

    /// Listens for ever, and comes back by itself when Redis does. Dropping the future ends the subscription.
    pub async fn run(self) -> Infallible {
        let urls = self.redis.config().nodes.urls();
        let (mut tries, mut pause) = (0, PAUSE_MIN);
        loop {
            // Every node of a cluster hears everything, so when one is away the next is as good.
            let Err(error) = self.listen(&urls[tries % urls.len()], tries > 0).await;
            warn!(gateway = &*self.gateway.0, error = &*error, "the inbox is cut off");
            if self.state.borrow().listening {
                pause = PAUSE_MIN;
                self.state.send_modify(|state| state.listening = false);
            }
            tries += 1;
            // Gateways that lost the same Redis do not all come back in the same moment.
            time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Listens until the connection ends. Whatever was published since an earlier one did is missed.
    async fn listen(&self, url: &Url, is_again: bool) -> Result<Infallible, BoxError> {
        let config = self.redis.config();
        let (queue, mut payloads) = Queue::new(self.state.clone());
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.connect_timeout))
            .set_response_timeout(Some(config.command_timeout))
            .set_push_sender(move |push| queue.put(push));
        let client = client(config, url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        // The connection now holds the only way into the queue, so the queue ends with it.
        drop(settings);
        connection.subscribe(&[&*keys::deliveries(&self.gateway), keys::REVOCATIONS]).await?;
        info!(gateway = &*self.gateway.0, "the inbox listens");
        self.state.send_modify(|state| {
            state.listening = true;
            state.gaps += u64::from(is_again);
        });

        let beat = beat(connection);
        pin!(beat);
        loop {
            select! {
                payload = payloads.recv() => match payload {
                    Some((payload, _room)) => self.hand_over(payload).await,
                    None => return Err("the connection has ended".into()),
                },
                Err(error) = &mut beat => return Err(error.into()),
            }
        }
    }

    async fn hand_over(&self, payload: Bytes) {
        let handed = match unpack(payload) {
            Ok(Message::Pushes(pushes)) => self.into.deliver(&self.gateway, &pushes).await,
            Ok(Message::Revoke(session_id)) => self.into.revoke(session_id).await,
            Ok(Message::Displace(user_id, connection_id)) => {
                self.displacement.displace(&self.gateway, user_id, connection_id).await
            }
            Ok(Message::News(news)) => self.watchers.tell(&self.gateway, news).await,
            Err(error) => {
                warn!(gateway = &*self.gateway.0, error = &error as &dyn std::error::Error, "an envelope is dropped");
                self.state.send_modify(|state| state.gaps += 1);
                return;
            }
        };
        if let Err(error) = handed {
            warn!(gateway = &*self.gateway.0, error = &error as &dyn std::error::Error, "the gateway took no delivery");
            self.state.send_modify(|state| state.gaps += 1);
        }
    }
}

async fn beat(mut connection: MultiplexedConnection) -> RedisResult<Infallible> {
    loop {
        time::sleep(BEAT).await;
        redis::cmd("PING").exec_async(&mut connection).await?;
    }
}

/// The way of payloads from the connection, which cannot wait, to the inbox.
struct Queue {
    payloads: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    state: watch::Sender<InboxState>,
}

impl Queue {
    fn new(state: watch::Sender<InboxState>) -> (Self, mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>) {
        let (payloads, receiver) = mpsc::channel(QUEUE_LEN_MAX);
        (Self { payloads, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)), state }, receiver)
    }

    fn put(&self, mut push: PushInfo) -> Result<(), Infallible> {
        // The connection speaks of other things too, of its own end for instance, which the queue shows by ending.
        if push.kind == PushKind::Message
            && let Some(Value::BulkString(payload)) = push.data.pop()
            && !self.try_put(payload.into())
        {
            self.state.send_modify(|state| state.gaps += 1);
        }
        Ok(())
    }

    fn try_put(&self, payload: Bytes) -> bool {
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let room = self.room.clone().try_acquire_many_owned(bytes);
        room.is_ok_and(|room| self.payloads.try_send((payload, room)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> PushInfo {
        PushInfo { kind: PushKind::Message, data: vec![Value::BulkString(vec![]), Value::BulkString(vec![0; bytes])] }
    }

    #[test]
    fn a_full_queue_drops_and_tells() {
        let state = watch::Sender::default();
        let (queue, mut payloads) = Queue::new(state.clone());
        for _ in 0..17 {
            let Ok(()) = queue.put(message(ENVELOPE_BYTES_MAX));
        }
        assert_eq!(state.borrow().gaps, 1, "16 of them fit");
        drop(payloads.try_recv().unwrap());
        let Ok(()) = queue.put(message(ENVELOPE_BYTES_MAX));
        assert_eq!(state.borrow().gaps, 1, "one that was taken makes room for another");
    }

    #[test]
    fn what_is_no_message_is_no_gap() {
        let state = watch::Sender::default();
        let (queue, mut payloads) = Queue::new(state.clone());
        let Ok(()) = queue.put(PushInfo { kind: PushKind::Disconnection, data: vec![] });
        let Ok(()) = queue.put(PushInfo { kind: PushKind::Message, data: vec![] });
        assert_eq!(*state.borrow(), InboxState::default());
        assert!(payloads.try_recv().is_err());
    }
}
