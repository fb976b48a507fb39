use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{PresenceView, Quota, Timestamp, UserId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::counter;
use ports::{IngestError, LimitKey, Look, Page, SendRequest, Sent, Signal, StoreError, SyncRequest};
use protocol::frame::{
    MessageBody, PresenceSnapshot, RequestId, SendMessage, SendMessageAck, ServerFrame, Sync, SyncResponse,
};
use protocol::{Command, ErrorBody, ErrorCode, Move};
use serde_json::json;
use tracing::{error, warn};

use crate::Gateway;
use crate::peer::Peer;
use crate::watches::{TooMany, WATCHED_MAX};

/// How a command ended: an answer for the client, or nothing, or an error.
pub(crate) struct Finished {
    pub(crate) kind: Kind,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) outcome: Result<Option<Bytes>, ErrorBody>,
}

/// What kind of answer a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Small,
    /// A page of messages: half a megabyte at the most.
    Page,
    /// None, unless this could not be done.
    Move(Move),
}

impl Kind {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Sync { .. } => Self::Page,
            Command::Advance(moved) => Self::Move(*moved),
            _ => Self::Small,
        }
    }
}

/// A command that is under way.
pub(crate) type Pending = BoxFuture<'static, Finished>;

impl Gateway {
    /// Begins a command. Limits are taken and a send has its place in the order before this returns, so commands begun
    /// one after another keep their order however their ends are awaited.
    pub(crate) async fn begin(self: &Arc<Self>, peer: &Arc<Peer>, command: Command) -> Pending {
        counter!("tidings_gateway_commands_total", "command" => name(&command)).increment(1);
        let kind = Kind::of(&command);
        let user_id = peer.user_id;
        let limits = &self.config.limits;
        match command {
            Command::Send { request_id, message } => {
                let chat_id = message.chat_id;
                let allowed = async {
                    self.take("send_per_user", LimitKey::SendPerUser(user_id), limits.send_per_user).await?;
                    self.take("send_per_chat", LimitKey::SendPerChat(user_id, chat_id), limits.send_per_chat).await
                };
                match allowed.await {
                    Ok(()) => self.send(peer, request_id, message),
                    Err(error) => finished(kind, Some(request_id), Err(error)),
                }
            }
            Command::Sync { request_id, sync } => match self.take("sync", LimitKey::Sync(user_id), limits.sync).await {
                Ok(()) => self.sync(peer, request_id, sync),
                Err(error) => finished(kind, Some(request_id), Err(error)),
            },
            Command::Advance(moved) => {
                let gateway = self.clone();
                let Move { chat_id, kind: watermark, sequence } = moved;
                async move {
                    let advanced = gateway.ingest.advance(user_id, chat_id, watermark, sequence).await;
                    Finished { kind, request_id: None, outcome: advanced.map(|_| None).map_err(ingest_error) }
                }
                .boxed()
            }
            Command::Typing { chat_id, is_typing } => {
                // The end of typing is never refused: it would leave somebody typing in the eyes of the others.
                let quota = limits.typing.filter(|_| is_typing);
                match self.take("typing", LimitKey::Typing(user_id, chat_id), quota).await {
                    Ok(()) => self.signal(Signal::Typing { chat_id, user_id, is_typing }),
                    Err(error) => finished(kind, None, Err(error)),
                }
            }
            Command::PresenceSubscribe { request_id, mut user_ids } => {
                let mut named = HashSet::new();
                user_ids.retain(|user_id| named.insert(*user_id));
                let allowed = self.take("rest_read", LimitKey::RestRead(user_id), limits.rest_read).await;
                match allowed.and_then(|()| self.hub.watches.watch(peer, &user_ids).map_err(too_many)) {
                    Ok(()) => self.snapshot(peer, request_id, user_ids),
                    Err(error) => finished(kind, Some(request_id), Err(error)),
                }
            }
            Command::PresenceUnsubscribe { user_ids } => {
                self.hub.watches.unwatch(peer, &user_ids);
                finished(kind, None, Ok(None))
            }
            // It was counted with the others.
            Command::CountUnknown => finished(kind, None, Ok(None)),
        }
    }

    fn send(&self, peer: &Peer, request_id: RequestId, message: SendMessage) -> Pending {
        let SendMessage { client_message_id, chat_id, content, content_type, ttl } = message;
        let sent = self.ingest.send(SendRequest {
            chat_id,
            sender_id: peer.user_id,
            client_message_id,
            content,
            content_type,
            ttl,
            origin_connection_id: Some(peer.connection_id),
        });
        sent.map(move |sent| {
            let outcome = sent.map_err(ingest_error).map(|Sent { receipt, deduplicated }| {
                let ack = SendMessageAck {
                    client_message_id,
                    message_id: receipt.message_id,
                    chat_id,
                    sequence: receipt.sequence,
                    created_at: receipt.created_at,
                    deduplicated,
                };
                Some(ServerFrame::SendMessageAck(ack).encode(Some(&request_id)))
            });
            Finished { kind: Kind::Small, request_id: Some(request_id), outcome }
        })
        .boxed()
    }

    fn sync(self: &Arc<Self>, peer: &Peer, request_id: RequestId, sync: Sync) -> Pending {
        let gateway = self.clone();
        let user_id = peer.user_id;
        async move {
            let Sync { chat_id, after, limit } = sync;
            let page = gateway.ingest.sync(SyncRequest { user_id, chat_id, after, limit }).await;
            let outcome = page.map_err(ingest_error).map(|Page { messages, examined, head }| {
                let has_more = examined < head;
                let response = SyncResponse {
                    chat_id,
                    messages: messages.iter().map(|message| MessageBody::new(message, Some(user_id))).collect(),
                    has_more,
                    next_sequence: has_more.then(|| examined.next()),
                    head_sequence: head,
                };
                Some(response.encode(Some(&request_id)))
            });
            Finished { kind: Kind::Page, request_id: Some(request_id), outcome }
        }
        .boxed()
    }

    fn signal(self: &Arc<Self>, signal: Signal) -> Pending {
        let gateway = self.clone();
        async move {
            let outcome = match gateway.signals.signal(signal).await {
                Ok(true) => Ok(None),
                Ok(false) => Err(ErrorBody::new(ErrorCode::NotAMember, IngestError::NotAMember)),
                Err(failure) => Err(unavailable(failure)),
            };
            Finished { kind: Kind::Small, request_id: None, outcome }
        }
        .boxed()
    }

    /// Looks at users who are watched from now on. What cannot be told is unknown, and shown as soon as it is known.
    fn snapshot(self: &Arc<Self>, peer: &Arc<Peer>, request_id: RequestId, user_ids: Vec<UserId>) -> Pending {
        let (gateway, peer) = (self.clone(), peer.clone());
        async move {
            let watches = &gateway.hub.watches;
            let looks: Vec<Look> =
                user_ids.iter().map(|user_id| Look { viewer: peer.user_id, user_id: *user_id }).collect();
            let views = gateway.presences.look(&looks).await.unwrap_or_else(|failure| {
                let error = &failure as &dyn std::error::Error;
                warn!(error, "what users see of others is not known; it is asked again");
                watches.doubt(user_ids.iter().copied());
                vec![PresenceView::Unknown; user_ids.len()]
            });
            let shown = user_ids.into_iter().zip(views).map(|(user_id, view)| {
                watches.handle_snapshot(&peer, user_id, view);
                (user_id, view).into()
            });
            let snapshot = ServerFrame::PresenceSnapshot(PresenceSnapshot { presences: shown.collect() });
            let answer = snapshot.encode(Some(&request_id));
            Finished { kind: Kind::Small, request_id: Some(request_id), outcome: Ok(Some(answer)) }
        }
        .boxed()
    }

    async fn take(&self, limit: &'static str, key: LimitKey, quota: Option<Quota>) -> Result<(), ErrorBody> {
        let Some(quota) = quota else { return Ok(()) };
        let decision = self.limiter.take(key, quota).await.map_err(unavailable)?;
        if decision.allowed {
            return Ok(());
        }
        let error = ErrorBody::new(ErrorCode::RateLimited, format_args!("limit `{limit}` is reached"));
        Err(error.with_details(json!({ "limit": limit, "retry_after_seconds": seconds(decision.retry_after) })))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// What a command is counted as.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Send { .. } => "send_message",
        Command::Sync { .. } => "sync_request",
        Command::Advance(_) => "advance",
        Command::Typing { .. } => "typing",
        Command::PresenceSubscribe { .. } => "presence_subscribe",
        Command::PresenceUnsubscribe { .. } => "presence_unsubscribe",
        Command::CountUnknown => "unknown",
    }
}

fn finished(kind: Kind, request_id: Option<RequestId>, outcome: Result<Option<Bytes>, ErrorBody>) -> Pending {
    std::future::ready(Finished { kind, request_id, outcome }).boxed()
}

fn ingest_error(failure: IngestError) -> ErrorBody {
    let code = match &failure {
        IngestError::ChatNotFound => ErrorCode::NotFound,
        IngestError::NotAMember => ErrorCode::NotAMember,
        IngestError::IdempotencyKeyReused => ErrorCode::IdempotencyKeyReused,
        IngestError::Blocked => ErrorCode::Forbidden,
        IngestError::Blocking => ErrorCode::InvalidOperation,
        IngestError::CounterMissing => ErrorCode::CounterMissing,
        IngestError::Unreadable => ErrorCode::InternalError,
        IngestError::AboveHead { .. } => ErrorCode::InvalidSequence,
        IngestError::Busy => ErrorCode::ServerBusy,
        IngestError::Unavailable { .. } => ErrorCode::ServiceUnavailable,
    };
    let error = ErrorBody::new(code, &failure);
    match failure {
        IngestError::AboveHead { head } => error.with_details(json!({ "head_sequence": head })),
        IngestError::Unavailable { retry_after } => {
            error.with_details(json!({ "retry_after_seconds": seconds(retry_after) }))
        }
        _ => error,
    }
}

fn too_many(TooMany { watched }: TooMany) -> ErrorBody {
    let message = format_args!("{watched} users would be watched on one connection, limit is {WATCHED_MAX}");
    ErrorBody::new(ErrorCode::InvalidOperation, message)
}

fn unavailable(failure: StoreError) -> ErrorBody {
    error!(error = &failure as &dyn std::error::Error, "a command could not be done");
    ingest_error(IngestError::Unavailable { retry_after: Duration::from_secs(1) })
}

/// Whole seconds, rounded up: who waits that long has waited long enough.
fn seconds(duration: Duration) -> u64 {
    duration.as_millis().div_ceil(1000).max(1) as u64
}
