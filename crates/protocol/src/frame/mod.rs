//! The frames of the WebSocket: [`ClientFrame`]s from clients, [`ServerFrame`]s from the server, each in an envelope.
//!
//! `{type, request_id?, timestamp?, payload}`. Both sides ignore unknown fields and unknown types.

mod client_payload;
mod described;
mod from_client;
mod from_server;
mod request_id;
mod update;

pub(crate) use client_payload::{ClientFrameType, SendMessagePayload};
pub(crate) use described::Described;
pub use from_client::{ClientFrame, FrameError, Inbound, SendMessage, Sync};
pub(crate) use from_client::{InvalidField, read_body};
pub use from_server::{
    ChatChangeKind, ChatUpdated, ConnectionClosing, ConnectionEstablished, HeartbeatAck, MessageBody, MessageExpired,
    Outbound, Presence, PresenceChanged, PresenceSnapshot, PresenceStatus, PushClass, ReauthAck, ReceiptBody, Resync,
    SendMessageAck, ServerFrame, SyncResponse, TypingIndicator, message_body,
};
pub use request_id::RequestId;
pub use update::{MessageUpdated, ReactionBody, StateBody, UpdateBody, UpdateMessage, UpdateName, update_body};
