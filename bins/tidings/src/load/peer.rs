use std::borrow::Cow;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::{Client, Credential, RawConnection};
use domain::{ChatId, ClientMessageId, ContentType, Sequence, UserId};
use protocol::client::Ended;
use protocol::frame::{ClientFrame, Inbound, RequestId, SendMessage, ServerFrame, Sync};
use serde::Deserialize;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::order::Order;
use super::stamp::Stamp;

/// A user made for a load.
#[derive(Clone, Debug)]
pub(super) struct LoadUser {
    pub(super) client: Client,
    pub(super) user_id: UserId,
}

/// One connection of a load. It reads of each frame what a load needs, and no more: hundreds share a core.
pub(super) struct Peer {
    connection: RawConnection,
    epoch: Instant,
    heartbeat_interval: Duration,
    unacked: u64,
}

/// What a load needs of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Of the send with this number.
    Ack { number: u64, sequence: u64 },
    /// Of the send with this number.
    Refused { number: u64 },
    /// A message of this load.
    Message { sequence: u64, stamp: Stamp },
    /// Somebody whom the connection watches has come or gone.
    Presence { is_online: bool },
    /// Of a beat.
    BeatAck,
    /// Nothing that matters.
    Other,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    frame_type: Cow<'a, str>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

/// The fields of acks, messages and presence that matter, all in one: a frame is read in a single pass.
#[derive(Deserialize)]
struct Payload<'a> {
    sequence: Option<u64>,
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
}

impl Peer {
    /// Messages after which a receiver acknowledges, as clients do.
    const ACK_BATCH: u64 = 10;
    const BEAT: Duration = Duration::from_secs(4);
    const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

    /// Connects and waits until the connection is established.
    pub(super) async fn connect(user: &LoadUser, epoch: Instant) -> anyhow::Result<Self> {
        Self::connect_to(user.client.api().base_url(), user, epoch).await
    }

    /// Connects to this gateway, wherever the user has signed in.
    pub(super) async fn connect_to(gateway_url: &str, user: &LoadUser, epoch: Instant) -> anyhow::Result<Self> {
        let api = user.client.api();
        let token = api.access_token().await?;
        let mut connection = RawConnection::connect(gateway_url, api.device_id(), Credential::Token(&token)).await?;
        let first = timeout(Self::GREETING_TIMEOUT, connection.next()).await.context("the server does not greet")?;
        match first.map_err(lost)?.frame {
            ServerFrame::ConnectionEstablished(established) => {
                // A timer cannot go off all the time.
                let heartbeat_interval = Duration::from_millis(established.heartbeat_interval_ms.max(1));
                Ok(Self { connection, epoch, heartbeat_interval, unacked: 0 })
            }
            other => bail!("the first frame is {other:?}"),
        }
    }

    /// How often the server wants to hear of the connection.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval
    }

    /// A timer for [`beat`](Self::beat).
    pub(super) fn beats() -> Interval {
        let mut beats = interval(Self::BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats
    }

    /// Says that the connection is alive.
    pub(super) fn beat(&mut self) -> anyhow::Result<()> {
        self.say(None, ClientFrame::Heartbeat)
    }

    /// Sends a message of this number now, and returns when that is.
    pub(super) fn send(&mut self, chat_id: ChatId, number: u64) -> anyhow::Result<Instant> {
        let sent_at = Instant::now();
        let message = SendMessage {
            client_message_id: ClientMessageId::from_bytes(rand::random()),
            chat_id,
            content: Stamp { number, sent_at }.content(self.epoch),
            content_type: ContentType::Text,
            ttl: None,
        };
        self.say(RequestId::new(number.to_string()), ClientFrame::SendMessage(message))?;
        Ok(sent_at)
    }

    /// Takes note of a message, and acknowledges it with others.
    pub(super) fn acknowledge(&mut self, chat_id: ChatId, order: &Order) -> anyhow::Result<()> {
        self.unacked += 1;
        if self.unacked < Self::ACK_BATCH {
            return Ok(());
        }
        self.unacked = 0;
        self.say(None, ClientFrame::Ack { chat_id, sequence: Sequence(order.contiguous()) })
    }

    /// The next frame. Cancelling it loses nothing.
    pub(super) async fn next(&mut self) -> anyhow::Result<Heard> {
        let text = self.connection.next_text().await.map_err(lost)?;
        Heard::read(&text, self.epoch).with_context(|| format!("a frame cannot be read: {text}"))
    }

    /// Asks for everything after `after`, page by page, and hands each sequence to `see`. Returns the head.
    pub(super) async fn sync(
        &mut self,
        chat_id: ChatId,
        mut after: u64,
        mut see: impl FnMut(u64),
    ) -> anyhow::Result<u64> {
        loop {
            let sync = Sync { chat_id, after: Sequence(after), limit: domain::limits::SYNC_PAGE_MAX };
            self.say(RequestId::new("sync"), ClientFrame::SyncRequest(sync))?;
            let page = loop {
                match self.connection.next().await.map_err(lost)?.frame {
                    ServerFrame::SyncResponse(page) => break page,
                    ServerFrame::Error(error) => bail!("a sync was refused: {}: {}", error.code, error.message),
                    // Pushes that come meanwhile are in the pages, too.
                    _ => {}
                }
            };
            page.messages.iter().for_each(|message| see(message.sequence.0));
            match (page.has_more, page.next_sequence) {
                (true, Some(next)) if next.0 > after + 1 => after = next.0 - 1,
                (true, _) => bail!("a page of a sync leads nowhere"),
                (false, _) => return Ok(page.head_sequence.0),
            }
        }
    }

    /// Watches a user from now on.
    pub(super) async fn subscribe(&mut self, user_id: UserId) -> anyhow::Result<()> {
        self.say(RequestId::new("watch"), ClientFrame::PresenceSubscribe { user_ids: vec![user_id] })?;
        loop {
            match self.connection.next().await.map_err(lost)?.frame {
                ServerFrame::PresenceSnapshot(_) => return Ok(()),
                ServerFrame::Error(error) => bail!("a subscription was refused: {}: {}", error.code, error.message),
                _ => {}
            }
        }
    }

    /// Asks for what the order still lacks, if anything.
    pub(super) async fn heal(&mut self, chat_id: ChatId, order: &mut Order, head: u64) -> anyhow::Result<()> {
        if !order.is_complete(head) {
            self.sync(chat_id, order.contiguous(), |sequence| order.synced(sequence)).await?;
        }
        Ok(())
    }

    pub(super) async fn close(mut self) {
        self.connection.close().await;
    }

    fn say(&mut self, request_id: Option<RequestId>, frame: ClientFrame) -> anyhow::Result<()> {
        Ok(self.connection.send(Inbound { request_id, frame }.encode())?)
    }
}

impl Heard {
    fn read(text: &str, epoch: Instant) -> Option<Self> {
        let Frame { frame_type, request_id, payload } = serde_json::from_str(text).ok()?;
        let number = || request_id.as_deref().and_then(|id| id.parse().ok());
        Some(match &*frame_type {
            "send_message_ack" => Self::Ack { number: number()?, sequence: payload.sequence? },
            "message" => {
                let (sequence, content) = (payload.sequence?, payload.content?);
                Stamp::read(&content, epoch).map_or(Self::Other, |stamp| Self::Message { sequence, stamp })
            }
            "presence_changed" => Self::Presence { is_online: payload.status? == "online" },
            "heartbeat_ack" => Self::BeatAck,
            "error" => number().map_or(Self::Other, |number| Self::Refused { number }),
            _ => Self::Other,
        })
    }
}

fn lost(ended: Ended) -> anyhow::Error {
    anyhow::anyhow!("a connection ended: {ended:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_frame_a_load_reads_what_it_needs() {
        let epoch = Instant::now();
        let stamp = Stamp { number: 7, sent_at: epoch + Duration::from_millis(5) };
        let content = stamp.content(epoch);
        let cases = [
            (
                r#"{"type":"send_message_ack","request_id":"7","payload":{"chat_id":"c","sequence":3,"deduplicated":false}}"#.to_owned(),
                Some(Heard::Ack { number: 7, sequence: 3 }),
            ),
            (
                format!(r#"{{"type":"message","payload":{{"sequence":4,"content":"{}"}}}}"#, content.as_str()),
                Some(Heard::Message { sequence: 4, stamp }),
            ),
            (r#"{"type":"message","payload":{"sequence":4,"content":"hello"}}"#.to_owned(), Some(Heard::Other)),
            (
                r#"{"type":"error","request_id":"7","payload":{"code":"SERVER_BUSY"}}"#.to_owned(),
                Some(Heard::Refused { number: 7 }),
            ),
            (
                r#"{"type":"presence_changed","payload":{"user_id":"u","status":"online"}}"#.to_owned(),
                Some(Heard::Presence { is_online: true }),
            ),
            (
                r#"{"type":"presence_changed","payload":{"user_id":"u","status":"offline","last_seen":"x"}}"#.to_owned(),
                Some(Heard::Presence { is_online: false }),
            ),
            (r#"{"type":"heartbeat_ack","payload":{"server_time":"x"}}"#.to_owned(), Some(Heard::BeatAck)),
            (r#"{"type":"resync","payload":{"reason":"slow_consumer"}}"#.to_owned(), Some(Heard::Other)),
            (r#"{"type":"message","payload":{"sequence":4}}"#.to_owned(), None),
            ("{".to_owned(), None),
        ];
        for (text, expected) in cases {
            assert_eq!(Heard::read(&text, epoch), expected, "{text}");
        }
    }
}
