use std::time::Duration;

use domain::limits::SYNC_PAGE_MAX;
use domain::{
    Body, ChatId, ConnectionId, Content, IngestError, Message, MessageId, Metadata, Sequence, Timestamp, TraceContext,
    Ttl, UnknownContentType, UserId, WatermarkKind, Watermarks,
};
use ports::{AdvanceRequest, Page, Receipt, SendContent, SendRequest, Sent, SyncRequest};

use super::updates::{
    read_action, read_message_update, read_refusal, read_state, to_action, to_message_update, to_refusal, to_state,
};

use super::{Malformed, read_client_message_id, read_id, read_optional_id};
use crate::proto;

/// The request without its assertion, which only the first send of a sender carries.
pub(crate) fn to_send(
    number: u64,
    timeout: Duration,
    request: &SendRequest,
    trace: Option<TraceContext>,
) -> proto::SendRequest {
    let sent = proto::SendRequest {
        number,
        timeout_ms: millis(timeout),
        chat_id: request.chat_id.to_bytes().into(),
        sender_id: request.sender_id.to_bytes().into(),
        client_message_id: request.client_message_id.to_bytes().into(),
        client_message_id_spelling: request.client_message_id.spelling().to_bits(),
        origin_connection_id: request.origin_connection_id.map(|id| id.to_bytes().into()),
        traceparent: trace.map(|trace| trace.to_string()).unwrap_or_default(),
        ..proto::SendRequest::default()
    };
    match &request.content {
        SendContent::Message { body, ttl } => {
            let proto::MessageBody { content, content_type, metadata } = to_body(body);
            let ttl_seconds = ttl.map(|ttl| ttl.as_duration().as_secs());
            proto::SendRequest { content, content_type, metadata, ttl_seconds, ..sent }
        }
        SendContent::Update { target, action } => {
            proto::SendRequest { update: Some(to_action(*target, action)), ..sent }
        }
    }
}

pub(crate) fn read_send(request: proto::SendRequest) -> Result<SendRequest, Malformed> {
    let ttl = request.ttl_seconds.map(|seconds| {
        Ttl::from_secs(seconds).ok_or_else(|| Malformed::value("ttl_seconds", format!("{seconds} is out of bounds")))
    });
    let content = match request.update {
        Some(_) if !request.content.is_empty() => return Err(Malformed::value("content", "an update has none")),
        Some(update) => read_action(update)?,
        None => SendContent::Message {
            body: read_body(request.content, &request.content_type, request.metadata)?,
            ttl: ttl.transpose()?,
        },
    };
    Ok(SendRequest {
        chat_id: read_id("chat_id", &request.chat_id, ChatId::from_bytes)?,
        sender_id: read_id("sender_id", &request.sender_id, UserId::from_bytes)?,
        client_message_id: read_client_message_id(&request.client_message_id, request.client_message_id_spelling)?,
        content,
        origin_connection_id: read_optional_id(
            "origin_connection_id",
            request.origin_connection_id,
            ConnectionId::from_bytes,
        )?,
        assertion: None,
    })
}

pub(crate) fn to_outcome(outcome: Result<Sent, IngestError>) -> proto::send_outcome::Kind {
    use proto::send_outcome::Kind;
    match outcome {
        Ok(sent) => Kind::Sent(proto::Sent {
            message_id: sent.receipt.message_id.to_bytes().into(),
            sequence: sent.receipt.sequence.0,
            created_at_ms: sent.receipt.created_at.as_millis(),
            deduplicated: sent.deduplicated,
        }),
        Err(error) => Kind::Error(to_ingest_error(&error)),
    }
}

pub(crate) fn read_outcome(kind: Option<proto::send_outcome::Kind>) -> Result<Result<Sent, IngestError>, Malformed> {
    use proto::send_outcome::Kind;
    Ok(match kind {
        Some(Kind::Sent(sent)) => Ok(Sent {
            receipt: Receipt {
                message_id: read_id("message_id", &sent.message_id, MessageId::from_bytes)?,
                sequence: Sequence(sent.sequence),
                created_at: Timestamp::from_millis(sent.created_at_ms),
            },
            deduplicated: sent.deduplicated,
        }),
        Some(Kind::Error(error)) => Err(read_ingest_error(error)?),
        Some(Kind::Malformed(reason)) => return Err(Malformed::value("request", reason)),
        Some(Kind::Unasserted(reason)) => return Err(Malformed::value("assertion", reason)),
        None => return Err(Malformed::Missing { field: "outcome.kind" }),
    })
}

pub(crate) fn to_sync(request: &SyncRequest) -> proto::SyncRequest {
    proto::SyncRequest {
        user_id: request.user_id.to_bytes().into(),
        chat_id: request.chat_id.to_bytes().into(),
        after: request.after.0,
        limit: u32::try_from(request.limit).unwrap_or(u32::MAX),
        assertion: request.assertion.as_ref().map(|assertion| assertion.proof.to_vec()),
    }
}

pub(crate) fn read_sync(request: &proto::SyncRequest) -> Result<SyncRequest, Malformed> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    if limit > SYNC_PAGE_MAX {
        return Err(Malformed::value("limit", format!("it is {limit}, limit is {SYNC_PAGE_MAX}")));
    }
    Ok(SyncRequest {
        user_id: read_id("user_id", &request.user_id, UserId::from_bytes)?,
        chat_id: read_id("chat_id", &request.chat_id, ChatId::from_bytes)?,
        after: Sequence(request.after),
        limit,
        assertion: None,
    })
}

pub(crate) fn to_sync_reply(outcome: Result<Page, IngestError>) -> proto::SyncReply {
    use proto::sync_reply::Kind;
    let kind = match outcome {
        Ok(page) => Kind::Page(proto::Page {
            messages: page.messages.into_iter().map(to_message).collect(),
            updates: page.updates.iter().map(to_message_update).collect(),
            updated: page.updated.into_iter().map(to_message).collect(),
            examined: page.examined.0,
            head: page.head.0,
        }),
        Err(error) => Kind::Error(to_ingest_error(&error)),
    };
    proto::SyncReply { kind: Some(kind) }
}

/// Reads the reply to a sync of `chat_id`.
pub(crate) fn read_sync_reply(
    chat_id: ChatId,
    reply: proto::SyncReply,
) -> Result<Result<Page, IngestError>, Malformed> {
    use proto::sync_reply::Kind;
    match reply.kind {
        Some(Kind::Page(page)) => {
            let messages = |messages: Vec<proto::Message>| {
                messages.into_iter().map(|message| read_message(chat_id, message)).collect::<Result<_, _>>()
            };
            let updates = page.updates.into_iter().map(|update| read_message_update(chat_id, update));
            Ok(Ok(Page {
                messages: messages(page.messages)?,
                updates: updates.collect::<Result<_, _>>()?,
                updated: messages(page.updated)?,
                examined: Sequence(page.examined),
                head: Sequence(page.head),
            }))
        }
        Some(Kind::Error(error)) => Ok(Err(read_ingest_error(error)?)),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(crate) fn to_advance(request: &AdvanceRequest) -> proto::AdvanceRequest {
    let kind = match request.kind {
        WatermarkKind::Delivered => proto::WatermarkKind::Delivered,
        WatermarkKind::Read => proto::WatermarkKind::Read,
    };
    proto::AdvanceRequest {
        user_id: request.user_id.to_bytes().into(),
        chat_id: request.chat_id.to_bytes().into(),
        kind: kind.into(),
        to: request.to.0,
        assertion: request.assertion.as_ref().map(|assertion| assertion.proof.to_vec()),
    }
}

pub(crate) fn read_advance(request: &proto::AdvanceRequest) -> Result<AdvanceRequest, Malformed> {
    let kind = match request.kind() {
        proto::WatermarkKind::Delivered => WatermarkKind::Delivered,
        proto::WatermarkKind::Read => WatermarkKind::Read,
        proto::WatermarkKind::Unspecified => return Err(Malformed::Missing { field: "kind" }),
    };
    Ok(AdvanceRequest {
        user_id: read_id("user_id", &request.user_id, UserId::from_bytes)?,
        chat_id: read_id("chat_id", &request.chat_id, ChatId::from_bytes)?,
        kind,
        to: Sequence(request.to),
        assertion: None,
    })
}

pub(crate) fn to_advance_reply(outcome: Result<Watermarks, IngestError>) -> proto::AdvanceReply {
    use proto::advance_reply::Kind;
    let kind = match outcome {
        Ok(watermarks) => Kind::Watermarks(to_watermarks(watermarks)),
        Err(error) => Kind::Error(to_ingest_error(&error)),
    };
    proto::AdvanceReply { kind: Some(kind) }
}

pub(crate) fn read_advance_reply(reply: proto::AdvanceReply) -> Result<Result<Watermarks, IngestError>, Malformed> {
    use proto::advance_reply::Kind;
    match reply.kind {
        Some(Kind::Watermarks(watermarks)) => Ok(Ok(read_watermarks(watermarks))),
        Some(Kind::Error(error)) => Ok(Err(read_ingest_error(error)?)),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(super) fn to_watermarks(watermarks: Watermarks) -> proto::Watermarks {
    proto::Watermarks { delivered: watermarks.delivered.0, read: watermarks.read.0 }
}

pub(super) fn read_watermarks(watermarks: proto::Watermarks) -> Watermarks {
    Watermarks { delivered: Sequence(watermarks.delivered), read: Sequence(watermarks.read) }
}

fn to_message(message: Message) -> proto::Message {
    let state = to_state(&message.state);
    proto::Message {
        message_id: message.message_id.to_bytes().into(),
        sequence: message.sequence.0,
        sender_id: message.sender_id.to_bytes().into(),
        client_message_id: message.client_message_id.to_bytes().into(),
        client_message_id_spelling: message.client_message_id.spelling().to_bits(),
        content: message.body.content.into(),
        content_type: message.body.content_type.as_str().to_owned(),
        metadata: message.body.metadata.map(|metadata| metadata.as_str().to_owned()),
        created_at_ms: message.created_at.as_millis(),
        expires_at_ms: message.expires_at.map(Timestamp::as_millis),
        state,
    }
}

fn read_message(chat_id: ChatId, message: proto::Message) -> Result<Message, Malformed> {
    Ok(Message {
        message_id: read_id("message_id", &message.message_id, MessageId::from_bytes)?,
        chat_id,
        sequence: Sequence(message.sequence),
        sender_id: read_id("sender_id", &message.sender_id, UserId::from_bytes)?,
        client_message_id: read_client_message_id(&message.client_message_id, message.client_message_id_spelling)?,
        body: read_body(message.content, &message.content_type, message.metadata)?,
        created_at: Timestamp::from_millis(message.created_at_ms),
        expires_at: message.expires_at_ms.map(Timestamp::from_millis),
        state: message.state.map(read_state).transpose()?.unwrap_or_default(),
    })
}

pub(super) fn to_body(body: &Body) -> proto::MessageBody {
    proto::MessageBody {
        content: body.content.as_str().to_owned(),
        content_type: body.content_type.as_str().to_owned(),
        metadata: body.metadata.as_ref().map(|metadata| metadata.as_str().to_owned()),
    }
}

pub(super) fn read_body(content: String, content_type: &str, metadata: Option<String>) -> Result<Body, Malformed> {
    let metadata = metadata.map(Metadata::try_from).transpose();
    Ok(Body {
        content: Content::try_from(content).map_err(|error| Malformed::value("content", error))?,
        content_type: content_type
            .parse()
            .map_err(|error: UnknownContentType| Malformed::value("content_type", error))?,
        metadata: metadata.map_err(|error| Malformed::value("metadata", error))?,
    })
}

fn to_ingest_error(error: &IngestError) -> proto::IngestError {
    use proto::Nothing;
    use proto::ingest_error::Kind;
    let kind = match error {
        IngestError::ChatNotFound => Kind::ChatNotFound(Nothing {}),
        IngestError::NotAMember => Kind::NotAMember(Nothing {}),
        IngestError::IdempotencyKeyReused => Kind::IdempotencyKeyReused(Nothing {}),
        IngestError::Blocked => Kind::Blocked(Nothing {}),
        IngestError::Blocking => Kind::Blocking(Nothing {}),
        IngestError::Suspended => Kind::Suspended(Nothing {}),
        IngestError::CounterMissing => Kind::CounterMissing(Nothing {}),
        IngestError::Unreadable => Kind::Unreadable(Nothing {}),
        IngestError::AboveHead { head } => Kind::AboveHead(head.0),
        IngestError::Busy => Kind::Busy(Nothing {}),
        IngestError::Update(refusal) => Kind::Update(to_refusal(*refusal)),
        // The store of a fleet has no bound on its space.
        IngestError::StorageFull(_) => Kind::UnavailableMs(millis(error.retry_after().unwrap_or_default())),
        IngestError::Unavailable { retry_after } => Kind::UnavailableMs(millis(*retry_after)),
    };
    proto::IngestError { kind: Some(kind) }
}

fn read_ingest_error(error: proto::IngestError) -> Result<IngestError, Malformed> {
    use proto::ingest_error::Kind;
    Ok(match error.kind {
        Some(Kind::ChatNotFound(_)) => IngestError::ChatNotFound,
        Some(Kind::NotAMember(_)) => IngestError::NotAMember,
        Some(Kind::IdempotencyKeyReused(_)) => IngestError::IdempotencyKeyReused,
        Some(Kind::Blocked(_)) => IngestError::Blocked,
        Some(Kind::Blocking(_)) => IngestError::Blocking,
        Some(Kind::Suspended(_)) => IngestError::Suspended,
        Some(Kind::CounterMissing(_)) => IngestError::CounterMissing,
        Some(Kind::Unreadable(_)) => IngestError::Unreadable,
        Some(Kind::AboveHead(head)) => IngestError::AboveHead { head: Sequence(head) },
        Some(Kind::Busy(_)) => IngestError::Busy,
        Some(Kind::Update(refusal)) => IngestError::Update(read_refusal(refusal)?),
        Some(Kind::UnavailableMs(millis)) => IngestError::Unavailable { retry_after: Duration::from_millis(millis) },
        None => return Err(Malformed::Missing { field: "error.kind" }),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use domain::{
        ClientMessageId, ContentType, Edited, MessageState, MessageUpdate, Reaction, ReactionCount, UpdateAction,
        UpdateKind, UpdateRefusal,
    };

    use super::*;

    /// An id in lower or upper case. Both are equal, so tests compare their texts.
    fn client_message_id() -> impl Strategy<Value = ClientMessageId> {
        (any::<[u8; 16]>(), any::<bool>()).prop_map(|(bytes, is_upper_case)| {
            let id = ClientMessageId::from_bytes(bytes);
            if is_upper_case { id.to_string().to_uppercase().parse().unwrap() } else { id }
        })
    }

    fn body() -> impl Strategy<Value = Body> {
        let content_type = prop_oneof![
            Just(ContentType::Text),
            Just(ContentType::Markdown),
            Just(ContentType::Json),
            Just(ContentType::Encrypted)
        ];
        let metadata = proptest::option::of("[a-zé]{0,20}".prop_map(|key| format!("{{\"{key}\":1}}")));
        ("[^\0]{1,100}", content_type, metadata).prop_map(|(content, content_type, metadata)| {
            Body::new(content.try_into().unwrap(), content_type)
                .with_metadata(metadata.map(|text| text.try_into().unwrap()))
        })
    }

    fn reaction() -> impl Strategy<Value = Reaction> {
        prop_oneof!["👍🏽", "[a-z_é]{1,20}"].prop_map(|text| text.parse().unwrap())
    }

    fn content() -> impl Strategy<Value = SendContent> {
        let ttl = proptest::option::of(1u64..31_536_000);
        let action = prop_oneof![
            body().prop_map(UpdateAction::Edit),
            Just(UpdateAction::Delete),
            reaction().prop_map(UpdateAction::React),
            reaction().prop_map(UpdateAction::Unreact),
        ];
        let update = |(target, action)| SendContent::Update { target: Sequence(target), action };
        prop_oneof![
            (body(), ttl).prop_map(|(body, ttl)| SendContent::Message { body, ttl: ttl.and_then(Ttl::from_secs) }),
            (any::<u64>(), action).prop_map(update),
        ]
    }

    fn send() -> impl Strategy<Value = SendRequest> {
        let ids = (any::<[[u8; 16]; 2]>(), client_message_id());
        (ids, content(), any::<Option<[u8; 16]>>()).prop_map(|((ids, client_message_id), content, origin)| {
            SendRequest {
                chat_id: ChatId::from_bytes(ids[0]),
                sender_id: UserId::from_bytes(ids[1]),
                client_message_id,
                content,
                origin_connection_id: origin.map(ConnectionId::from_bytes),
                assertion: None,
            }
        })
    }

    fn refusal() -> impl Strategy<Value = UpdateRefusal> {
        prop_oneof![
            Just(UpdateRefusal::MessageNotFound),
            Just(UpdateRefusal::NotTheAuthor),
            Just(UpdateRefusal::MayNotDelete),
            any::<u64>().prop_map(UpdateRefusal::TooOld),
            Just(UpdateRefusal::AlreadyReacted),
            Just(UpdateRefusal::NotReacted),
            Just(UpdateRefusal::TooManyKinds),
            Just(UpdateRefusal::TooManyReactions),
        ]
    }

    fn time() -> impl Strategy<Value = Timestamp> {
        (0..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis)
    }

    prop_compose! {
        fn state()(
            revision in any::<u64>(),
            edited in proptest::option::of((time(), any::<u32>())),
            reactions in proptest::collection::vec((reaction(), any::<u32>()), 0..4),
        ) -> MessageState {
            MessageState {
                revision: Sequence(revision),
                edited: edited.map(|(at, count)| Edited { at, count }),
                reactions: reactions.into_iter().map(|(reaction, count)| ReactionCount { reaction, count }).collect(),
            }
        }
    }

    prop_compose! {
        fn message()(
            ids in any::<[[u8; 16]; 2]>(),
            client_message_id in client_message_id(),
            sequence in any::<u64>(),
            body in body(),
            created_at in time(),
            expires_at in proptest::option::of(time()),
            state in state(),
        ) -> Message {
            Message {
                message_id: MessageId::from_bytes(ids[0]),
                chat_id: ChatId::from_bytes([7; 16]),
                sequence: Sequence(sequence),
                sender_id: UserId::from_bytes(ids[1]),
                client_message_id,
                body,
                created_at,
                expires_at,
                state,
            }
        }
    }

    prop_compose! {
        fn update()(
            ids in any::<[[u8; 16]; 2]>(),
            client_message_id in client_message_id(),
            [sequence, target] in any::<[u64; 2]>(),
            kind in prop_oneof![
                Just(UpdateKind::Edited),
                Just(UpdateKind::Deleted),
                reaction().prop_map(UpdateKind::Reacted),
                reaction().prop_map(UpdateKind::Unreacted),
            ],
            created_at in time(),
            expires_at in proptest::option::of(time()),
        ) -> MessageUpdate {
            MessageUpdate {
                update_id: MessageId::from_bytes(ids[0]),
                chat_id: ChatId::from_bytes([7; 16]),
                sequence: Sequence(sequence),
                user_id: UserId::from_bytes(ids[1]),
                client_message_id,
                target: Sequence(target),
                kind,
                created_at,
                expires_at,
            }
        }
    }

    prop_compose! {
        fn page()(
            messages in proptest::collection::vec(message(), 0..3),
            updates in proptest::collection::vec(update(), 0..3),
            updated in proptest::collection::vec(message(), 0..3),
            [examined, head] in any::<[u64; 2]>(),
        ) -> Page {
            Page { messages, updates, updated, examined: Sequence(examined), head: Sequence(head) }
        }
    }

    proptest! {
        #[test]
        fn a_send_crosses_unchanged(request in send()) {
            let bytes = to_send(7, Duration::from_secs(5), &request, None).encode_to_vec();
            let sent = proto::SendRequest::decode(&*bytes).unwrap();
            prop_assert_eq!((sent.number, sent.timeout_ms), (7, 5000));
            let read = read_send(sent).unwrap();
            prop_assert_eq!(&read.content, &request.content);
            prop_assert_eq!(format!("{read:?}"), format!("{request:?}"));
        }

        #[test]
        fn a_page_crosses_unchanged(page in page()) {
            let bytes = to_sync_reply(Ok(page.clone())).encode_to_vec();
            let reply = proto::SyncReply::decode(&*bytes).unwrap();
            let read = read_sync_reply(ChatId::from_bytes([7; 16]), reply).unwrap().unwrap();
            prop_assert_eq!(&read, &page);
            prop_assert_eq!(format!("{read:?}"), format!("{page:?}"));
        }

        #[test]
        fn a_refusal_of_an_update_crosses_unchanged(refusal in refusal()) {
            let read = read_outcome(Some(to_outcome(Err(IngestError::Update(refusal))))).unwrap();
            prop_assert!(matches!(read, Err(IngestError::Update(read)) if read == refusal));
        }
    }

    /// A process of an earlier version ignores the field of the update.
    #[test]
    fn a_process_of_an_earlier_version_refuses_an_update() {
        let body = Body::new("second".to_owned().try_into().unwrap(), ContentType::Text);
        let request = SendRequest {
            chat_id: ChatId::from_bytes([1; 16]),
            sender_id: UserId::from_bytes([2; 16]),
            client_message_id: ClientMessageId::from_bytes([3; 16]),
            content: SendContent::Update { target: Sequence(1), action: UpdateAction::Edit(body) },
            origin_connection_id: None,
            assertion: None,
        };
        let sent = to_send(7, Duration::from_secs(5), &request, None);
        let as_read_before = proto::SendRequest { update: None, ..sent.clone() };
        let refusal = read_send(as_read_before).unwrap_err().to_string();
        assert_eq!(refusal, "`content` cannot be used: content is empty");
        let both = proto::SendRequest { content: "first".to_owned(), ..sent };
        assert_eq!(read_send(both).unwrap_err().to_string(), "`content` cannot be used: an update has none");
    }

    #[test]
    fn an_invalid_send_is_refused_with_the_name_of_its_field() {
        let request = proto::SendRequest {
            chat_id: vec![1; 16],
            sender_id: vec![2; 16],
            client_message_id: vec![3; 16],
            content: "hi".to_owned(),
            content_type: "text/plain".to_owned(),
            ..Default::default()
        };
        assert!(read_send(request.clone()).is_ok());
        for (wrong, expected) in [
            (proto::SendRequest { chat_id: vec![], ..request.clone() }, "`chat_id` has 0 bytes, an id has 16"),
            (
                proto::SendRequest { content: String::new(), ..request.clone() },
                "`content` cannot be used: content is empty",
            ),
            (
                proto::SendRequest { ttl_seconds: Some(0), ..request.clone() },
                "`ttl_seconds` cannot be used: 0 is out of bounds",
            ),
            (
                proto::SendRequest { origin_connection_id: Some(vec![1]), ..request },
                "`origin_connection_id` has 1 bytes, an id has 16",
            ),
        ] {
            assert_eq!(read_send(wrong).unwrap_err().to_string(), expected);
        }
    }
}
