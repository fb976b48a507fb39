use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::Backoff;
use ports::{BoxError, ConnectionDisplacer, Delivery, GatewayId, PresenceNotifier, error_chain};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::{pin, select, time};
use tracing::{info, warn};

use crate::client::Redis;
use crate::config::Url;
use crate::envelope::{ENVELOPE_BYTES_MAX, GatewayMessage, unpack};
use crate::keys;
use crate::link::client;

/// Limits of the queue to the gateway: envelopes and bytes. When it is full, further envelopes are dropped and counted
/// as a gap.
const QUEUE_LEN_MAX: usize = 8192;
const QUEUE_BYTES_MAX: usize = 16 * ENVELOPE_BYTES_MAX;
/// Interval of pings, which detect a dead connection: an idle subscription is silent either way.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Delays between reconnects, before jitter.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

/// The receiving end of [`RedisDelivery`](crate::RedisDelivery) at one gateway.
pub struct Inbox {
    redis: Redis,
    gateway: GatewayId,
    into: Arc<dyn Delivery>,
    displacement: Arc<dyn ConnectionDisplacer>,
    notifier: Arc<dyn PresenceNotifier>,
    state: watch::Sender<InboxState>,
}

/// The subscription state of an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxState {
    /// Whether the subscription is active.
    pub listening: bool,
    /// Number of times that envelopes may have been lost. Every connection that was open at such a time may have missed
    /// a push, and needs a sync.
    pub gaps: u64,
}

impl Inbox {
    /// Creates an inbox that passes the messages of `gateway` to `into`.
    pub fn new<G>(redis: Redis, gateway: GatewayId, into: Arc<G>) -> Self
    where
        G: Delivery + ConnectionDisplacer + PresenceNotifier + 'static,
    {
        let (displacement, notifier, state) = (into.clone(), into.clone(), watch::Sender::default());
        Self { redis, gateway, into, displacement, notifier, state }
    }

    /// Subscribes to the state of the inbox.
    pub fn state(&self) -> watch::Receiver<InboxState> {
        self.state.subscribe()
    }

    /// Receives messages and reconnects automatically; never returns. Dropping the future ends the subscription.
    pub async fn run(self) -> Infallible {
        let urls = self.redis.config().nodes.urls();
        let (mut tries, mut failures) = (0, 0);
        loop {
            // Every node of a cluster receives all messages, so the next node can replace an unavailable one.
            let Err(error) = self.listen(&urls[tries % urls.len()], tries > 0).await;
            warn!(gateway = &*self.gateway.0, error = %error_chain(&*error), "inbox subscription lost; reconnecting");
            if self.state.borrow().listening {
                failures = 0;
                self.state.send_modify(|state| state.listening = false);
            }
            tries += 1;
            failures += 1;
            // Random jitter, so that gateways that lost the same Redis do not reconnect at the same time.
            time::sleep(BACKOFF.delay(failures).mul_f64(rand::random_range(0.5..1.0))).await;
        }
    }

    /// Receives messages until the connection ends. A reconnect counts as a gap, since messages published in between
    /// are lost.
    async fn listen(&self, url: &Url, is_again: bool) -> Result<Infallible, BoxError> {
        let config = self.redis.config();
        let (queue, mut payloads) = PayloadQueue::new(self.state.clone());
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.connect_timeout))
            .set_response_timeout(Some(config.command_timeout))
            .set_push_sender(move |push| queue.put(push));
        let client = client(config, url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        // The connection now owns the only sender, so the queue closes with it.
        drop(settings);
        connection.subscribe(&[&*keys::deliveries(&self.gateway), keys::REVOCATIONS]).await?;
        info!(gateway = &*self.gateway.0, "inbox subscribed");
        self.state.send_modify(|state| {
            state.listening = true;
            state.gaps += u64::from(is_again);
        });

        let pings = ping(connection);
        pin!(pings);
        loop {
            select! {
                payload = payloads.recv() => match payload {
                    Some((payload, _room)) => self.hand_over(payload).await,
                    None => return Err("the connection has ended".into()),
                },
                Err(error) = &mut pings => return Err(error.into()),
            }
        }
    }

    async fn hand_over(&self, payload: Bytes) {
        let handed = match unpack(payload) {
            Ok(GatewayMessage::Pushes(pushes)) => self.into.deliver(&self.gateway, &pushes).await,
            Ok(GatewayMessage::Revoke(revocation)) => self.into.revoke(revocation).await,
            Ok(GatewayMessage::Displace(user_id, connection_id)) => {
                self.displacement.displace(&self.gateway, user_id, connection_id).await
            }
            Ok(GatewayMessage::Presence(updates)) => self.notifier.notify(&self.gateway, updates).await,
            Err(error) => {
                warn!(
                    gateway = &*self.gateway.0,
                    error = %error_chain(&error),
                    "dropping an unreadable envelope; clients need a sync"
                );
                self.state.send_modify(|state| state.gaps += 1);
                return;
            }
        };
        if let Err(error) = handed {
            warn!(
                gateway = &*self.gateway.0,
                error = %error_chain(&error),
                "the gateway did not accept a delivery; clients need a sync"
            );
            self.state.send_modify(|state| state.gaps += 1);
        }
    }
}

async fn ping(mut connection: MultiplexedConnection) -> RedisResult<Infallible> {
    loop {
        time::sleep(PING_INTERVAL).await;
        redis::cmd("PING").exec_async(&mut connection).await?;
    }
}

/// Passes payloads from the connection callback, which must not block, to the inbox.
struct PayloadQueue {
    payloads: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    state: watch::Sender<InboxState>,
}

impl PayloadQueue {
    fn new(state: watch::Sender<InboxState>) -> (Self, mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>) {
        let (payloads, receiver) = mpsc::channel(QUEUE_LEN_MAX);
        (Self { payloads, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)), state }, receiver)
    }

    fn put(&self, mut push: PushInfo) -> Result<(), Infallible> {
        // Ignores other notifications of the connection. Its end closes the queue, which the inbox notices.
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
    fn a_full_queue_drops_and_reports_a_gap() {
        let state = watch::Sender::default();
        let (queue, mut payloads) = PayloadQueue::new(state.clone());
        for _ in 0..17 {
            let Ok(()) = queue.put(message(ENVELOPE_BYTES_MAX));
        }
        assert_eq!(state.borrow().gaps, 1, "16 of them fit");
        drop(payloads.try_recv().unwrap());
        let Ok(()) = queue.put(message(ENVELOPE_BYTES_MAX));
        assert_eq!(state.borrow().gaps, 1, "one that was taken makes room for another");
    }

    #[test]
    fn a_notice_of_redis_other_than_a_message_is_no_gap() {
        let state = watch::Sender::default();
        let (queue, mut payloads) = PayloadQueue::new(state.clone());
        let Ok(()) = queue.put(PushInfo { kind: PushKind::Disconnection, data: vec![] });
        let Ok(()) = queue.put(PushInfo { kind: PushKind::Message, data: vec![] });
        assert_eq!(*state.borrow(), InboxState::default());
        assert!(payloads.try_recv().is_err());
    }
}
