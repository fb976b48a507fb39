use std::borrow::Cow;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::{Client, Credential, RawConnection};
use domain::{Body, ChatId, ClientMessageId, ContentType, Sequence, UpdateAction, UserId};
use protocol::client::Ended;
use protocol::frame::{ClientFrame, Inbound, RequestId, SendMessage, ServerFrame, Sync, UpdateMessage};
use serde::Deserialize;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::order::SequenceChecker;
use super::stamp::Stamp;

/// A user created for a load.
#[derive(Clone, Debug)]
pub(super) struct LoadUser {
    pub(super) client: Client,
    pub(super) user_id: UserId,
}

/// One connection of a load. It parses only the fields of a frame that a load needs, since hundreds of connections
/// share a core.
pub(super) struct LoadPeer {
    connection: RawConnection,
    epoch: Instant,
    heartbeat_interval: Duration,
    unacked: u64,
}

/// The parts of a frame that a load needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PeerFrame {
    /// The ack of the send with this number.
    Ack { number: u64, sequence: u64 },
    /// The refusal of the send with this number.
    Refused { number: u64 },
    /// A message of this load.
    Message { sequence: u64, stamp: Stamp },
    /// An update of a message.
    Update { sequence: u64 },
    /// Presence of a subscribed user.
    Presence { is_online: bool },
    /// The ack of a heartbeat.
    BeatAck,
    /// Any other frame.
    Other,
}

#[derive(Deserialize)]
struct RawFrame<'a> {
    #[serde(borrow, rename = "type")]
    frame_type: Cow<'a, str>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

/// The relevant fields of acks, messages, updates and presence in one struct, to parse a frame in a single pass.
#[derive(Deserialize)]
struct Payload<'a> {
    sequence: Option<u64>,
    update: Option<UpdatePart>,
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct UpdatePart {
    sequence: u64,
}

impl LoadPeer {
    /// Messages after which a receiver acknowledges, as SDK clients do.
    const ACK_BATCH: u64 = 10;
    const BEAT: Duration = Duration::from_secs(4);
    const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

    /// Connects and waits until the connection is established.
    pub(super) async fn connect(user: &LoadUser, epoch: Instant) -> anyhow::Result<Self> {
        Self::connect_to(user.client.api().base_url(), user, epoch).await
    }

    /// Connects to this gateway, independently of the server that the user signed in at.
    pub(super) async fn connect_to(gateway_url: &str, user: &LoadUser, epoch: Instant) -> anyhow::Result<Self> {
        let api = user.client.api();
        let token = api.access_token().await?;
        let mut connection = RawConnection::connect(gateway_url, api.device_id(), Credential::Token(&token)).await?;
        let first =
            timeout(Self::GREETING_TIMEOUT, connection.next()).await.context("the server sent no first frame")?;
        match first.map_err(lost)?.frame {
            ServerFrame::ConnectionEstablished(established) => {
                // A timer needs a period above zero.
                let heartbeat_interval = Duration::from_millis(established.heartbeat_interval_ms.max(1));
                Ok(Self { connection, epoch, heartbeat_interval, unacked: 0 })
            }
            other => bail!("the first frame is {other:?}"),
        }
    }

    /// Heartbeat interval that the server requests.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval
    }

    /// A timer for [`heartbeat`](Self::heartbeat).
    pub(super) fn beats() -> Interval {
        let mut beats = interval(Self::BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats
    }

    /// Sends a heartbeat.
    pub(super) fn heartbeat(&mut self) -> anyhow::Result<()> {
        self.say(None, ClientFrame::Heartbeat)
    }

    /// Sends a message with this number, and returns the send time.
    pub(super) fn send(&mut self, chat_id: ChatId, number: u64) -> anyhow::Result<Instant> {
        let sent_at = Instant::now();
        let message = SendMessage {
            client_message_id: ClientMessageId::from_bytes(rand::random()),
            chat_id,
            body: Body::new(Stamp { number, sent_at }.content(self.epoch), ContentType::Text),
            ttl: None,
        };
        self.say(RequestId::new(number.to_string()), ClientFrame::SendMessage(message))?;
        Ok(sent_at)
    }

    /// Sends an update of the message at `target` with this number, and returns the send time.
    pub(super) fn update(
        &mut self,
        chat_id: ChatId,
        number: u64,
        target: u64,
        action: UpdateAction,
    ) -> anyhow::Result<Instant> {
        let sent_at = Instant::now();
        let client_message_id = ClientMessageId::from_bytes(rand::random());
        let update = UpdateMessage { client_message_id, chat_id, target: Sequence(target), action };
        self.say(RequestId::new(number.to_string()), ClientFrame::UpdateMessage(update))?;
        Ok(sent_at)
    }

    /// Sends an edit of the message at `target`, with a new stamp as its content.
    pub(super) fn edit(&mut self, chat_id: ChatId, number: u64, target: u64) -> anyhow::Result<Instant> {
        let content = Stamp { number, sent_at: Instant::now() }.content(self.epoch);
        self.update(chat_id, number, target, UpdateAction::Edit(Body::new(content, ContentType::Text)))
    }

    /// Counts a received message or update, and acknowledges in batches.
    pub(super) fn acknowledge(&mut self, chat_id: ChatId, order: &SequenceChecker) -> anyhow::Result<()> {
        self.unacked += 1;
        if self.unacked < Self::ACK_BATCH {
            return Ok(());
        }
        self.unacked = 0;
        self.say(None, ClientFrame::Ack { chat_id, sequence: Sequence(order.contiguous()) })
    }

    /// The next frame. Cancel safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<PeerFrame> {
        let text = self.connection.next_text().await.map_err(lost)?;
        PeerFrame::read(&text, self.epoch).with_context(|| format!("a frame cannot be read: {text}"))
    }

    /// Syncs everything after `after`, page by page, and passes each sequence to `see`. Returns the head.
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
                    // Pushes that arrive meanwhile are also in the pages.
                    _ => {}
                }
            };
            let mut entries: Vec<u64> = page.messages.iter().map(|message| message.sequence.0).collect();
            entries.extend(page.updates.iter().map(|update| update.sequence.0));
            entries.sort_unstable();
            entries.into_iter().for_each(&mut see);
            match (page.has_more, page.next_sequence) {
                (true, Some(next)) if next.0 > after + 1 => after = next.0 - 1,
                (true, _) => bail!("a page of a sync does not advance"),
                (false, _) => return Ok(page.head_sequence.0),
            }
        }
    }

    /// Subscribes to the presence of a user.
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

    /// Syncs the messages and updates that the order still lacks, if any.
    pub(super) async fn heal(&mut self, chat_id: ChatId, order: &mut SequenceChecker, head: u64) -> anyhow::Result<()> {
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

impl PeerFrame {
    fn read(text: &str, epoch: Instant) -> Option<Self> {
        let RawFrame { frame_type, request_id, payload } = serde_json::from_str(text).ok()?;
        let number = || request_id.as_deref().and_then(|id| id.parse().ok());
        Some(match &*frame_type {
            "send_message_ack" => Self::Ack { number: number()?, sequence: payload.sequence? },
            "message" => {
                let (sequence, content) = (payload.sequence?, payload.content?);
                Stamp::read(&content, epoch).map_or(Self::Other, |stamp| Self::Message { sequence, stamp })
            }
            "message_updated" => Self::Update { sequence: payload.update?.sequence },
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
    fn only_the_needed_fields_of_a_frame_are_parsed() {
        let epoch = Instant::now();
        let stamp = Stamp { number: 7, sent_at: epoch + Duration::from_millis(5) };
        let content = stamp.content(epoch);
        let cases = [
            (
                r#"{"type":"send_message_ack","request_id":"7","payload":{"chat_id":"c","sequence":3,"deduplicated":false}}"#.to_owned(),
                Some(PeerFrame::Ack { number: 7, sequence: 3 }),
            ),
            (
                format!(r#"{{"type":"message","payload":{{"sequence":4,"content":"{}"}}}}"#, content.as_str()),
                Some(PeerFrame::Message { sequence: 4, stamp }),
            ),
            (r#"{"type":"message","payload":{"sequence":4,"content":"hello"}}"#.to_owned(), Some(PeerFrame::Other)),
            (
                r#"{"type":"error","request_id":"7","payload":{"code":"SERVER_BUSY"}}"#.to_owned(),
                Some(PeerFrame::Refused { number: 7 }),
            ),
            (
                r#"{"type":"presence_changed","payload":{"user_id":"u","status":"online"}}"#.to_owned(),
                Some(PeerFrame::Presence { is_online: true }),
            ),
            (
                r#"{"type":"presence_changed","payload":{"user_id":"u","status":"offline","last_seen":"x"}}"#.to_owned(),
                Some(PeerFrame::Presence { is_online: false }),
            ),
            (
                r#"{"type":"message_updated","payload":{"update":{"sequence":9,"target_sequence":4},"message":{"sequence":4}}}"#
                    .to_owned(),
                Some(PeerFrame::Update { sequence: 9 }),
            ),
            (r#"{"type":"message_updated","payload":{"sequence":9}}"#.to_owned(), None),
            (r#"{"type":"heartbeat_ack","payload":{"server_time":"x"}}"#.to_owned(), Some(PeerFrame::BeatAck)),
            (r#"{"type":"resync","payload":{"reason":"slow_consumer"}}"#.to_owned(), Some(PeerFrame::Other)),
            (r#"{"type":"message","payload":{"sequence":4}}"#.to_owned(), None),
            ("{".to_owned(), None),
        ];
        for (text, expected) in cases {
            assert_eq!(PeerFrame::read(&text, epoch), expected, "{text}");
        }
    }
}
