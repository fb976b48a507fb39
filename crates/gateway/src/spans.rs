use std::sync::Arc;

use domain::{ChatId, TraceContext};
use futures_util::FutureExt;
use http::HeaderMap;
use ports::trace::TARGET;
use protocol::Command;
use protocol::frame::RequestId;
use tracing::field::{self, Empty};
use tracing::{Instrument, Span, debug_span};

use crate::Gateway;
use crate::commands::PendingCommand;
use crate::peer::ConnectionPeer;

/// The trace context that the client sent with its handshake.
pub(crate) fn inbound(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get(TraceContext::HEADER)?.to_str().ok()?.parse().ok()
}

/// Span of a handshake.
pub(crate) fn handshake(inbound: Option<TraceContext>) -> Span {
    debug_span!(
        target: TARGET, "handshake", otel.kind = "server", traceparent = inbound.map(field::display),
        refused = Empty, error = Empty,
    )
}

/// Starts a command in its own span. The span belongs to the trace of the client's handshake, or else to a new trace: a
/// connection lives too long for a single trace.
pub(crate) async fn begin(
    gateway: &Arc<Gateway>,
    peer: &Arc<ConnectionPeer>,
    command: Command,
    inbound: Option<TraceContext>,
) -> PendingCommand {
    let span = of(&command, peer, inbound);
    if span.is_disabled() {
        return gateway.begin(peer, command).await;
    }
    let pending = gateway.begin(peer, command).instrument(span.clone()).await;
    let ending = span.clone();
    pending
        .inspect(move |finished| {
            if let Err(error) = &finished.outcome {
                ending.record("code", error.code.as_str());
                if error.code.http_status() >= 500 {
                    ending.record("error", &*error.message);
                }
            }
        })
        .instrument(span)
        .boxed()
}

/// Span of a push, until all recipients have written it.
pub(crate) fn push(trace: TraceContext, recipients: usize) -> Option<Box<Span>> {
    let recipients = i64::try_from(recipients).unwrap_or(i64::MAX);
    let span = debug_span!(target: TARGET, parent: None, "push", traceparent = %trace, recipients);
    (!span.is_disabled()).then(|| Box::new(span))
}

fn of(command: &Command, peer: &ConnectionPeer, inbound: Option<TraceContext>) -> Span {
    let (name, request_id, chat_id): (_, Option<&RequestId>, Option<ChatId>) = match command {
        Command::Send { request_id, message } => ("send_message", Some(request_id), Some(message.chat_id)),
        Command::Update { request_id, update } => ("update_message", Some(request_id), Some(update.chat_id)),
        Command::Sync { request_id, sync } => ("sync_request", Some(request_id), Some(sync.chat_id)),
        Command::Advance(moved) => ("advance", None, Some(moved.chat_id)),
        Command::Typing { chat_id, .. } => ("typing", None, Some(*chat_id)),
        Command::PresenceSubscribe { request_id, .. } => ("presence_subscribe", Some(request_id), None),
        Command::PresenceUnsubscribe { .. } => ("presence_unsubscribe", None, None),
        Command::Reauth { request_id, .. } => ("reauth", Some(request_id), None),
        Command::CountUnknown => ("unknown", None, None),
    };
    debug_span!(
        target: TARGET, parent: None, "command", otel.name = name, otel.kind = "server",
        traceparent = inbound.map(field::display), connection_id = %peer.connection_id,
        request_id = request_id.map(RequestId::as_str), chat_id = chat_id.map(field::display),
        code = Empty, error = Empty,
    )
}
