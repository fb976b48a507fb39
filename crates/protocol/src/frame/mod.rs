//! What is said on the socket: [`ClientFrame`]s one way, [`ServerFrame`]s the other, each in an envelope.
//!
//! `{type, request_id?, timestamp?, payload}`. Unknown fields are ignored on both sides, unknown types on both sides too.

mod client_payload;
mod described;
mod from_client;
mod from_server;
mod request_id;

pub(crate) use client_payload::{ClientFrameType, SendMessagePayload};
pub(crate) use described::Described;
pub use from_client::{ClientFrame, FrameError, Inbound, SendMessage, Sync};
pub use from_server::{
    ChatChangeKind, ChatUpdated, ConnectionClosing, ConnectionEstablished, HeartbeatAck, MessageBody, MessageExpired,
    Outbound, Presence, PresenceChanged, PresenceSnapshot, PresenceStatus, ReceiptBody, Resync, SendMessageAck,
    ServerFrame, SyncResponse, TypingIndicator, message_body,
};
pub use request_id::RequestId;
