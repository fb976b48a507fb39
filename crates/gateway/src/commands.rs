use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{ChatId, ClientMessageId, IngestError, PresenceView, Quota, Secret, Timestamp, UserId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::counter;
use ports::{
    AdvanceRequest, Assertion, IdentityError, LimitKey, Page, PresenceLookup, SendContent, SendRequest, Sent, Signal,
    StoreError, SyncRequest, error_chain, lock,
};
use protocol::frame::{
    MessageBody, PresenceSnapshot, ReauthAck, RequestId, SendMessage, SendMessageAck, ServerFrame, Sync, SyncResponse,
    UpdateBody, UpdateMessage,
};
use protocol::{Command, ErrorBody, ErrorCode, FrameLimit, Move, UserLimit};
use tracing::{error, warn};

use crate::Gateway;
use crate::peer::ConnectionPeer;
use crate::signal_order::SignalTurn;
use crate::subscriptions::{SUBSCRIPTIONS_MAX, TooManySubscriptions};

/// The result of a command: an optional response frame for the client, or an error.
pub(crate) struct Finished {
    pub(crate) kind: ResponseKind,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) outcome: Result<Option<Bytes>, ErrorBody>,
}

/// The kind of response a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Small,
    /// A page of messages, at most half a megabyte.
    Page,
    /// No response, unless the watermark could not be moved.
    Move(Move),
    /// No response, unless the start of typing in this chat was refused.
    TypingStart(ChatId),
    /// The new expiry of the connection.
    Reauthenticated(Timestamp),
}

impl ResponseKind {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Sync { .. } => Self::Page,
            Command::Advance(moved) => Self::Move(*moved),
            Command::Typing { chat_id, is_typing: true } => Self::TypingStart(*chat_id),
            _ => Self::Small,
        }
    }
}

/// A command in progress.
pub(crate) type PendingCommand = BoxFuture<'static, Finished>;

impl Gateway {
    /// Starts a command. Before this returns, rate limits are charged and a send has its position in the order. Commands
    /// started in sequence therefore keep their order, no matter when their futures are awaited.
    pub(crate) async fn begin(self: &Arc<Self>, peer: &Arc<ConnectionPeer>, command: Command) -> PendingCommand {
        counter!("tidings_gateway_commands_total", "command" => name(&command)).increment(1);
        let kind = ResponseKind::of(&command);
        let user_id = peer.user_id;
        if let Err(error) = self.charge(user_id, &command).await {
            return finished(kind, command.request_id().cloned(), Err(error));
        }
        let assertion = match self.assertion(peer, &command).await {
            Ok(assertion) => assertion,
            Err(error) => return finished(kind, command.request_id().cloned(), Err(error)),
        };
        match command {
            Command::Send { request_id, message } => {
                let SendMessage { client_message_id, chat_id, body, ttl } = message;
                self.send(peer, assertion, request_id, (chat_id, client_message_id), SendContent::Message { body, ttl })
            }
            Command::Update { request_id, update } => {
                let UpdateMessage { client_message_id, chat_id, target, action } = update;
                let content = SendContent::Update { target, action };
                self.send(peer, assertion, request_id, (chat_id, client_message_id), content)
            }
            Command::Sync { request_id, sync } => self.sync(peer, assertion, request_id, sync),
            Command::Advance(moved) => {
                let gateway = self.clone();
                let Move { chat_id, kind: watermark, sequence: to } = moved;
                async move {
                    let request = AdvanceRequest { user_id, chat_id, kind: watermark, to, assertion };
                    let advanced = gateway.ingest.advance(request).await;
                    Finished { kind, request_id: None, outcome: advanced.map(|_| None).map_err(ErrorBody::from) }
                }
                .boxed()
            }
            Command::Typing { chat_id, is_typing } => {
                let turn = peer.signal_order.next_turn();
                self.signal(kind, turn, Signal::Typing { chat_id, user_id, is_typing })
            }
            Command::PresenceSubscribe { request_id, mut user_ids } => {
                let mut named = HashSet::new();
                user_ids.retain(|user_id| named.insert(*user_id));
                match self.hub.subscriptions.subscribe_peer(peer, &user_ids).map_err(too_many) {
                    Ok(()) => self.snapshot(peer, request_id, user_ids),
                    Err(error) => finished(kind, Some(request_id), Err(error)),
                }
            }
            Command::PresenceUnsubscribe { user_ids } => {
                self.hub.subscriptions.unsubscribe_peer(peer, &user_ids);
                finished(kind, None, Ok(None))
            }
            Command::Reauth { request_id, token } => self.reauth(peer, request_id, token),
            // `begin` has already counted it.
            Command::CountUnknown => finished(kind, None, Ok(None)),
        }
    }

    fn send(
        &self,
        peer: &ConnectionPeer,
        assertion: Option<Assertion>,
        request_id: RequestId,
        (chat_id, client_message_id): (ChatId, ClientMessageId),
        content: SendContent,
    ) -> PendingCommand {
        let sent = self.ingest.send(SendRequest {
            chat_id,
            sender_id: peer.user_id,
            client_message_id,
            content,
            origin_connection_id: Some(peer.connection_id),
            assertion,
        });
        sent.map(move |sent| {
            let outcome = sent.map_err(ErrorBody::from).map(|Sent { receipt, deduplicated }| {
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
            Finished { kind: ResponseKind::Small, request_id: Some(request_id), outcome }
        })
        .boxed()
    }

    fn sync(
        self: &Arc<Self>,
        peer: &ConnectionPeer,
        assertion: Option<Assertion>,
        request_id: RequestId,
        sync: Sync,
    ) -> PendingCommand {
        let gateway = self.clone();
        let user_id = peer.user_id;
        async move {
            let Sync { chat_id, after, limit } = sync;
            let page = gateway.ingest.sync(SyncRequest { user_id, chat_id, after, limit, assertion }).await;
            let outcome = page.map_err(ErrorBody::from).map(|Page { messages, updates, updated, examined, head }| {
                let body = |message| MessageBody::new(message, Some(user_id));
                let has_more = examined < head;
                let response = SyncResponse {
                    chat_id,
                    messages: messages.iter().map(body).collect(),
                    updates: updates.iter().map(|update| UpdateBody::new(update, Some(user_id))).collect(),
                    updated_messages: updated.iter().map(body).collect(),
                    has_more,
                    next_sequence: has_more.then(|| examined.next()),
                    head_sequence: head,
                };
                Some(response.encode(Some(&request_id)))
            });
            Finished { kind: ResponseKind::Page, request_id: Some(request_id), outcome }
        }
        .boxed()
    }

    /// Authenticates an open connection again. Its user, session and device do not change.
    fn reauth(self: &Arc<Self>, peer: &Arc<ConnectionPeer>, request_id: RequestId, token: Secret) -> PendingCommand {
        let (gateway, peer) = (self.clone(), peer.clone());
        async move {
            let (kind, outcome) = match gateway.reauthenticated(&peer, &token).await {
                Ok(expires_at) => {
                    let ack = ServerFrame::ReauthAck(ReauthAck { expires_at }).encode(Some(&request_id));
                    (ResponseKind::Reauthenticated(expires_at), Ok(Some(ack)))
                }
                Err(error) => (ResponseKind::Small, Err(error)),
            };
            Finished { kind, request_id: Some(request_id), outcome }
        }
        .boxed()
    }

    async fn reauthenticated(&self, peer: &ConnectionPeer, token: &Secret) -> Result<Timestamp, ErrorBody> {
        let principal = match self.identity.identify(token.expose(), peer.device_id).await {
            Ok(principal) => principal,
            Err(IdentityError::Unavailable(failure)) => return Err(unavailable(failure)),
            Err(refusal) => return Err(ErrorBody::new(ErrorCode::Unauthorized, refusal)),
        };
        if (principal.user_id, principal.session_id) != (peer.user_id, peer.session_id) {
            let message = "the token is of another user or session than the connection";
            return Err(ErrorBody::new(ErrorCode::Unauthorized, message));
        }
        // In a fleet, ingest accepts the assertion of the old token until that token expires.
        if let (Some(cell), Some(assertion)) = (&peer.assertion, principal.assertion) {
            *lock(cell) = assertion;
        }
        Ok(principal.token_expires_at)
    }

    fn signal(self: &Arc<Self>, kind: ResponseKind, mut turn: SignalTurn, signal: Signal) -> PendingCommand {
        let gateway = self.clone();
        async move {
            turn.begin().await;
            let outcome = match gateway.signals.signal(signal).await {
                Ok(true) => Ok(None),
                Ok(false) => Err(IngestError::NotAMember.into()),
                Err(failure) => Err(unavailable(failure)),
            };
            Finished { kind, request_id: None, outcome }
        }
        .boxed()
    }

    /// Looks up users that the connection has just subscribed to. Failed lookups read as unknown and are re-checked.
    fn snapshot(
        self: &Arc<Self>,
        peer: &Arc<ConnectionPeer>,
        request_id: RequestId,
        user_ids: Vec<UserId>,
    ) -> PendingCommand {
        let (gateway, peer) = (self.clone(), peer.clone());
        async move {
            let subscriptions = &gateway.hub.subscriptions;
            let lookups: Vec<PresenceLookup> =
                user_ids.iter().map(|user_id| PresenceLookup { viewer: peer.user_id, user_id: *user_id }).collect();
            let views = gateway.presences.lookup(&lookups).await.unwrap_or_else(|failure| {
                let error = error_chain(&failure);
                warn!(%error, "presence lookup failed; the snapshot shows unknown until the re-check");
                subscriptions.recheck(user_ids.iter().copied());
                vec![PresenceView::Unknown; user_ids.len()]
            });
            let shown = user_ids.into_iter().zip(views).map(|(user_id, view)| {
                subscriptions.handle_snapshot(&peer, user_id, view);
                (user_id, view).into()
            });
            let snapshot = ServerFrame::PresenceSnapshot(PresenceSnapshot { presences: shown.collect() });
            let answer = snapshot.encode(Some(&request_id));
            Finished { kind: ResponseKind::Small, request_id: Some(request_id), outcome: Ok(Some(answer)) }
        }
        .boxed()
    }

    /// Charges a command to all limits of its user ([`FrameKind::limit`](protocol::FrameKind::limit)), or to none if one of
    /// them refuses.
    async fn charge(&self, user_id: UserId, command: &Command) -> Result<(), ErrorBody> {
        let FrameLimit::PerUser(limits) = command.kind().limit() else { return Ok(()) };
        let quotas = limits.iter().map(|limit| self.quota(*limit, user_id, command));
        let (names, takes): (Vec<_>, Vec<_>) =
            quotas.filter_map(|(name, key, quota)| Some((name, (key, quota?)))).unzip();
        if takes.is_empty() {
            return Ok(());
        }
        let decisions = self.limiter.take_all(&takes).await.map_err(unavailable)?;
        let refused = names.into_iter().zip(decisions).filter(|(_, decision)| !decision.allowed);
        // Of several, the client waits for the last.
        let Some((limit, decision)) = refused.max_by_key(|(_, decision)| decision.retry_after) else { return Ok(()) };
        counter!("tidings_gateway_limited_total", "limit" => limit).increment(1);
        Err(ErrorBody::rate_limited(limit, decision.retry_after))
    }

    /// The name, the bucket and the quota of a limit; `None` if the limit is off.
    fn quota(&self, limit: UserLimit, user_id: UserId, command: &Command) -> (&'static str, LimitKey, Option<Quota>) {
        let limits = &self.config.limits;
        match (limit, command.chat_id()) {
            (UserLimit::SendPerUser, _) => ("send_per_user", LimitKey::SendPerUser(user_id), limits.send_per_user),
            (UserLimit::SendPerChat, Some(chat_id)) => {
                ("send_per_chat", LimitKey::SendPerChat(user_id, chat_id), limits.send_per_chat)
            }
            (UserLimit::MessageMib, _) => {
                let quota = limits.message_kib.map(|quota| quota.weighing(stored_kib(command)));
                ("message_mib", LimitKey::MessageKib(user_id), quota)
            }
            (UserLimit::MessageMibTotal, _) => {
                let quota = limits.message_kib_total.map(|quota| quota.weighing(stored_kib(command)));
                ("message_mib_total", LimitKey::MessageTotal, quota)
            }
            (UserLimit::Sync, _) => ("sync", LimitKey::Sync(user_id), limits.sync),
            (UserLimit::Typing, Some(chat_id)) => ("typing", LimitKey::Typing(user_id, chat_id), limits.typing),
            (UserLimit::TypingPerUser, _) => {
                ("typing_per_user", LimitKey::TypingPerUser(user_id), limits.typing_per_user)
            }
            (UserLimit::RestRead, _) => ("rest_read", LimitKey::RestRead(user_id), limits.rest_read),
            (UserLimit::SendPerChat | UserLimit::Typing, None) => unreachable!("sends and typing are in a chat"),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// The kibibytes of messages that a command stores.
fn stored_kib(command: &Command) -> u32 {
    match command {
        Command::Send { message, .. } => message.body.stored_kib(),
        Command::Update { update, .. } => update.action.stored_kib(),
        _ => 0,
    }
}

/// The value of the metric label `command`.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Send { .. } => "send_message",
        Command::Update { .. } => "update_message",
        Command::Sync { .. } => "sync_request",
        Command::Advance(_) => "advance",
        Command::Typing { .. } => "typing",
        Command::PresenceSubscribe { .. } => "presence_subscribe",
        Command::PresenceUnsubscribe { .. } => "presence_unsubscribe",
        Command::Reauth { .. } => "reauth",
        Command::CountUnknown => "unknown",
    }
}

fn finished(
    kind: ResponseKind,
    request_id: Option<RequestId>,
    outcome: Result<Option<Bytes>, ErrorBody>,
) -> PendingCommand {
    std::future::ready(Finished { kind, request_id, outcome }).boxed()
}

fn too_many(TooManySubscriptions { watched }: TooManySubscriptions) -> ErrorBody {
    let message =
        format_args!("{watched} presence subscriptions would be on one connection, limit is {SUBSCRIPTIONS_MAX}");
    ErrorBody::new(ErrorCode::InvalidOperation, message)
}

pub(crate) fn unavailable(failure: StoreError) -> ErrorBody {
    error!(error = %error_chain(&failure), "command failed; the client is asked to retry");
    IngestError::Unavailable { retry_after: Duration::from_secs(1) }.into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use domain::{Body, ClientMessageId, ContentType, Sequence, UpdateAction};
    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;
    use crate::Limits;
    use crate::test_world::World;

    /// The error of a send to the chat with this id; the queue of the world's ingest is full.
    async fn send_error(world: &World, peer: &Arc<ConnectionPeer>, chat: u8) -> ErrorBody {
        let message = SendMessage {
            client_message_id: ClientMessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([chat; 16]),
            body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
        };
        let send = Command::Send { request_id: RequestId::new("r1").unwrap(), message };
        world.gateway.begin(peer, send).await.await.outcome.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_send_refused_by_a_full_queue_has_a_retry_delay() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        let error = send_error(&world, &connection.peer, 2).await;
        assert_eq!((error.code, error.details), (ErrorCode::ServerBusy, Some(json!({ "retry_after_seconds": 1 }))));
        assert_eq!(world.limiter.calls.load(Ordering::SeqCst), 0, "no limit is on");
    }

    #[tokio::test]
    async fn signals_of_a_connection_keep_their_order_whichever_is_quicker() {
        let world = World::start().await;
        let user_id = world.user();
        let connection = world.connect(user_id).await;
        let chat_id = ChatId::from_bytes([2; 16]);
        let mut commands = vec![];
        for is_typing in [true, false, true] {
            commands.push(world.gateway.begin(&connection.peer, Command::Typing { chat_id, is_typing }).await);
        }
        // The last one is polled first.
        commands.reverse();
        join_all(commands).await;
        let expected = [true, false, true].map(|is_typing| Signal::Typing { chat_id, user_id, is_typing });
        assert_eq!(*world.others.signals.borrow(), expected);
    }

    #[tokio::test]
    async fn a_signal_that_is_given_up_holds_up_no_later_one() {
        let world = World::start().await;
        let connection = world.connect(world.user()).await;
        let typing = Command::Typing { chat_id: ChatId::from_bytes([2; 16]), is_typing: true };
        drop(world.gateway.begin(&connection.peer, typing.clone()).await);
        world.gateway.begin(&connection.peer, typing).await.await;
        assert_eq!(world.others.signals.borrow().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_takes_from_the_limits_of_sends() {
        let send_per_chat = Quota::per(2, Duration::from_secs(60));
        let world = World::with(Limits { send_per_chat, ..Limits::default() }).await;
        let connection = world.connect(world.user()).await;
        let update = |action| {
            let update = UpdateMessage {
                client_message_id: ClientMessageId::from_bytes([1; 16]),
                chat_id: ChatId::from_bytes([2; 16]),
                target: Sequence(1),
                action,
            };
            Command::Update { request_id: RequestId::new("r1").unwrap(), update }
        };
        assert_eq!(send_error(&world, &connection.peer, 2).await.code, ErrorCode::ServerBusy);
        for (action, expected) in [
            (UpdateAction::Delete, ErrorCode::ServerBusy),
            (UpdateAction::React("ok".parse().unwrap()), ErrorCode::RateLimited),
        ] {
            let error = world.gateway.begin(&connection.peer, update(action)).await.await.outcome.unwrap_err();
            assert_eq!(error.code, expected);
        }
        assert_eq!(send_error(&world, &connection.peer, 2).await.code, ErrorCode::RateLimited);
    }

    #[tokio::test(start_paused = true)]
    async fn a_send_takes_from_both_limits_in_one_call_or_from_none() {
        let minute = Duration::from_secs(60);
        let (send_per_user, send_per_chat) = (Quota::per(2, minute), Quota::per(1, minute * 2));
        let world = World::with(Limits { send_per_user, send_per_chat, ..Limits::default() }).await;
        let connection = world.connect(world.user()).await;
        let passed = None;
        let refused = |limit, seconds| Some(json!({ "limit": limit, "retry_after_seconds": seconds }));
        let sends = [
            (2, passed.clone()),
            (2, refused("send_per_chat", 120)),
            (3, passed),
            (4, refused("send_per_user", 30)),
            // Both refuse. The client has to wait for the chat's.
            (3, refused("send_per_chat", 120)),
        ];
        for (calls, (chat, expected)) in (1..).zip(sends) {
            let error = send_error(&world, &connection.peer, chat).await;
            let limited = error.details.filter(|_| error.code == ErrorCode::RateLimited);
            assert_eq!(limited, expected, "send {calls}");
            assert_eq!(world.limiter.calls.load(Ordering::SeqCst), calls);
        }
        tokio::time::advance(minute / 2).await;
        let error = send_error(&world, &connection.peer, 4).await;
        assert_eq!(error.code, ErrorCode::ServerBusy, "the refused send took nothing from the bucket of the chat");
    }
}
