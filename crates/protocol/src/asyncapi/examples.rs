use std::borrow::Cow;
use std::time::Duration;

use domain::{Body, ContentType, Sequence, UpdateAction};
use serde_json::Value;

use crate::frame::{
    ChatChangeKind, ChatUpdated, ClientFrame, ConnectionEstablished, HeartbeatAck, Inbound, MessageBody,
    MessageExpired, MessageUpdated, Presence, PresenceSnapshot, PresenceStatus, ReactionBody, ReauthAck, ReceiptBody,
    RequestId, Resync, SendMessage, SendMessageAck, ServerFrame, StateBody, Sync, SyncResponse, TypingIndicator,
    UpdateBody, UpdateMessage, UpdateName,
};
use crate::{CloseReason, ErrorBody, ErrorCode, PROTOCOL_VERSION, story};

/// The client frames of the example story, in order.
pub(super) fn from_client() -> Vec<Value> {
    let chat_id = story::direct_chat();
    let send = SendMessage {
        client_message_id: story::send(),
        chat_id,
        body: Body::new(story::CONTENT.to_owned().try_into().expect("it is within the bounds"), ContentType::Text),
        ttl: None,
    };
    let frames = [
        ("sync-1", ClientFrame::SyncRequest(Sync { chat_id, after: Sequence::ZERO, limit: 100 })),
        ("", ClientFrame::Ack { chat_id, sequence: Sequence(2) }),
        ("", ClientFrame::MarkRead { chat_id, sequence: Sequence(2) }),
        ("", ClientFrame::Typing { chat_id, is_typing: true }),
        ("", ClientFrame::Typing { chat_id, is_typing: false }),
        ("send-1", ClientFrame::SendMessage(send)),
        (
            "update-1",
            ClientFrame::UpdateMessage(UpdateMessage {
                client_message_id: story::update(),
                chat_id,
                target: Sequence(2),
                action: UpdateAction::React(story::reaction()),
            }),
        ),
        ("presence-1", ClientFrame::PresenceSubscribe { user_ids: vec![story::bob()] }),
        ("", ClientFrame::PresenceUnsubscribe { user_ids: vec![story::bob()] }),
        ("auth-1", ClientFrame::Reauth { token: story::ACCESS_TOKEN.to_owned().into() }),
        ("beat-1", ClientFrame::Heartbeat),
    ];
    let encoded = frames.map(|(request_id, frame)| Inbound { request_id: RequestId::new(request_id), frame }.encode());
    encoded.iter().map(|text| read(text.as_bytes())).collect()
}

/// The server frames of the example story.
pub(super) fn from_server() -> Vec<Value> {
    let chat_id = story::direct_chat();
    let (ada, bob) = (story::ada(), story::bob());
    let first = MessageBody {
        message_id: story::first_message(),
        chat_id,
        sequence: Sequence(1),
        sender_id: ada,
        content: Cow::Borrowed(story::FIRST_CONTENT),
        content_type: ContentType::Text,
        metadata: None,
        created_at: story::first_moment(),
        expires_at: None,
        client_message_id: Some(story::first_send()),
        state: None,
    };
    let second = MessageBody {
        message_id: story::second_message(),
        sequence: Sequence(2),
        sender_id: bob,
        content: Cow::Borrowed(story::SECOND_CONTENT),
        created_at: story::second_moment(),
        client_message_id: None,
        ..first.clone()
    };
    let reactions = vec![ReactionBody { reaction: story::reaction(), count: 1, mine: None }];
    let state = StateBody { revision: Sequence(4), edited_at: None, edit_count: None, reactions };
    let online = Presence { user_id: bob, status: PresenceStatus::Online, last_seen: None };
    let frames = [
        (
            "",
            ServerFrame::ConnectionEstablished(ConnectionEstablished {
                connection_id: story::connection(),
                user_id: ada,
                device_id: story::device(),
                server_time: story::now(),
                heartbeat_interval_ms: 5000,
                protocol_version: PROTOCOL_VERSION,
            }),
        ),
        (
            "send-1",
            ServerFrame::SendMessageAck(SendMessageAck {
                client_message_id: story::send(),
                message_id: story::third_message(),
                chat_id,
                sequence: Sequence(3),
                created_at: story::now(),
                deduplicated: false,
            }),
        ),
        ("", ServerFrame::Message(second.clone())),
        (
            "sync-1",
            ServerFrame::SyncResponse(SyncResponse {
                chat_id,
                messages: vec![first, second.clone()],
                updates: vec![],
                updated_messages: vec![],
                has_more: false,
                next_sequence: None,
                head_sequence: Sequence(2),
            }),
        ),
        (
            "",
            ServerFrame::MessageUpdated(MessageUpdated {
                update: UpdateBody {
                    chat_id,
                    sequence: Sequence(4),
                    target_sequence: Sequence(2),
                    user_id: ada,
                    kind: UpdateName::Reacted,
                    reaction: Some(story::reaction()),
                    created_at: story::now(),
                    client_message_id: Some(story::update()),
                },
                message: Some(MessageBody { state: Some(state), ..second }),
            }),
        ),
        (
            "",
            ServerFrame::Receipt(ReceiptBody {
                chat_id,
                user_id: bob,
                delivered_sequence: Sequence(3),
                read_sequence: Sequence(2),
            }),
        ),
        ("", ServerFrame::MessageExpired(MessageExpired { chat_id: story::group(), sequences: vec![Sequence(1)] })),
        (
            "",
            ServerFrame::ChatUpdated(ChatUpdated {
                chat_id: story::group(),
                change: ChatChangeKind::MemberAdded,
                user_id: Some(story::cleo()),
            }),
        ),
        ("", ServerFrame::TypingIndicator(TypingIndicator { chat_id, user_id: bob, is_typing: true })),
        ("presence-1", ServerFrame::PresenceSnapshot(PresenceSnapshot { presences: vec![online] })),
        (
            "",
            ServerFrame::PresenceChanged(Presence {
                user_id: bob,
                status: PresenceStatus::Offline,
                last_seen: Some(story::now()),
            }),
        ),
        ("", ServerFrame::Resync(Resync { reason: "slow_consumer".to_owned() })),
        ("auth-1", ServerFrame::ReauthAck(ReauthAck { expires_at: story::now() + Duration::from_secs(3600) })),
        ("beat-1", ServerFrame::HeartbeatAck(HeartbeatAck { server_time: story::now() })),
        ("send-2", ServerFrame::Error(ErrorBody::new(ErrorCode::NotAMember, "you are not a member of this chat"))),
        ("", ServerFrame::ConnectionClosing(CloseReason::ServerShutdown.closing_frame())),
    ];
    frames.iter().map(|(request_id, frame)| read(&frame.encode(RequestId::new(*request_id).as_ref()))).collect()
}

fn read(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("a frame is JSON")
}
