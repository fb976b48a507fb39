//! The users, chats and times of the examples in the OpenAPI and AsyncAPI documents.
//!
//! Ada and Bob have a direct chat with two messages, and a group. A test replays the examples on a real server: it
//! creates the same data and substitutes the real ids for these.

use std::fmt::Debug;
use std::str::FromStr;

use domain::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, PasskeyId, Reaction, ReportId, SessionId, Timestamp,
    UserId,
};

macro_rules! story {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $text:literal,)*) => {$(
        $(#[doc = $doc])*
        pub fn $name() -> $type {
            parse($text)
        }
    )*};
}

story! {
    /// Ada, the caller in the examples.
    ada: UserId = "user_01K9D2ZT5QW4N7XH8TB5CN0ADA",
    /// Bob, her contact.
    bob: UserId = "user_01K9D31E8ZR6V2M9QK3PFS0B0B",
    /// Cleo, a later member of the group.
    cleo: UserId = "user_01K9D33S2KG8Y5T1WD7MJXC1E0",
    /// The direct chat of Ada and Bob.
    direct_chat: ChatId = "chat_01K9D36Y4MC2G8JT5XN7D1RECT",
    /// The group of Ada and Bob.
    group: ChatId = "chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX",
    /// A group of Bob's, to which he invites Ada.
    bobs_group: ChatId = "chat_01K9D3D4ZXR7T2VB5NM8REGATT",
    /// Ada's first message.
    first_message: MessageId = "msg_01K9D36Z8HE5T1RV7MN3MSG001",
    /// Bob's answer.
    second_message: MessageId = "msg_01K9D37Q2WB8X4KC6PF9MSG002",
    /// The message that Ada sends in the examples.
    third_message: MessageId = "msg_01K9D3CVT0N6Z2XG4QH8MSG003",
    /// The entry of Ada's reaction to Bob's answer.
    reaction_entry: MessageId = "msg_01K9D3H1BXE5T1RV7MN3MSG004",
    /// The entry of the removal of her reaction.
    removal_entry: MessageId = "msg_01K9D3H2CYE5T1RV7MN3MSG005",
    /// The entry of Ada's edit of her first message.
    edit_entry: MessageId = "msg_01K9D3H3DZE5T1RV7MN3MSG006",
    /// The entry of its deletion.
    deletion_entry: MessageId = "msg_01K9D3H4E0E5T1RV7MN3MSG007",
    /// Ada's report.
    report: ReportId = "rep_01K9D3E2RNV5X7KB1ZS6REP001",
    /// Ada's session on her phone.
    session: SessionId = "sess_01K9D2ZT9AF3J7NQ1SW5SESS0A",
    /// Ada's session on her laptop.
    other_session: SessionId = "sess_01K9D3B1FYK8P2VR6XT4SESS0B",
    /// Ada's session on her laptop after a sign-in with her passkey.
    passkey_session: SessionId = "sess_01K9D3G4TBN6W8XS2PK7SESS0C",
    /// Ada's passkey.
    passkey: PasskeyId = "pk_01K9D3F6QHZ4M8RT2VX5PASS01",
    /// The connection of Ada's phone.
    connection: ConnectionId = "conn_01K9D38D5CH6M2RT8VX4C0NN0A",
    /// Ada's phone.
    device: DeviceId = "5b0f6c1e-3a8d-4f27-9c64-2e7d1b9a8f30",
    /// Ada's laptop.
    other_device: DeviceId = "c47d2e90-6f15-4b38-a1c9-8d03f5e6b72a",
    /// Ada's client message id of her first send.
    first_send: ClientMessageId = "0d9f4c52-7b1e-4a63-8f25-6c3e9a7b1d04",
    /// Ada's client message id of the send in the examples.
    send: ClientMessageId = "e83a1b67-2c5d-4e90-b7f4-91d60c8e35a2",
    /// Ada's client message id of her reaction.
    update: ClientMessageId = "3f6a08d1-95c2-4e7b-a0d4-57b1e2c96f83",
    /// Ada's client message id of the removal of her reaction.
    unreact: ClientMessageId = "a1c95e27-40d8-4b63-9f12-8e6d73b0f54c",
    /// Ada's client message id of her edit.
    edit: ClientMessageId = "6be2f7d4-1a09-4c58-b3e6-0d94a5c7218f",
    /// Ada's client message id of her deletion.
    deletion: ClientMessageId = "d50b8c36-7e24-4f91-a86d-29f1e3b7c045",
    /// Ada's reaction to Bob's answer.
    reaction: Reaction = "👍",
    /// When Ada signed in.
    morning: Timestamp = "2026-03-14T09:00:00.000Z",
    /// The time of Ada's first message.
    first_moment: Timestamp = "2026-03-14T09:15:04.120Z",
    /// The time of Bob's answer.
    second_moment: Timestamp = "2026-03-14T09:15:31.480Z",
    /// When Ada's session expires unless she is active again.
    session_end: Timestamp = "2026-04-13T09:26:53.589Z",
    /// When Bob's invitation of Ada expires.
    invitation_end: Timestamp = "2026-04-13T09:26:53.589Z",
    /// The current time of the examples.
    now: Timestamp = "2026-03-14T09:26:53.589Z",
}

/// Ada's phone number.
pub const ADA_PHONE: &str = "+14155550101";
/// Bob's phone number.
pub const BOB_PHONE: &str = "+14155550102";
/// Ada's first message.
pub const FIRST_CONTENT: &str = "Are we still sailing on Saturday?";
/// Ada's first message after her edit.
pub const EDITED_CONTENT: &str = "Are we still sailing on Sunday?";
/// Bob's answer.
pub const SECOND_CONTENT: &str = "Wind is good. See you at ten.";
/// The access token of Ada's phone, shortened.
pub const ACCESS_TOKEN: &str = "eyJhbGciOiJFZERTQSJ9.eyJkZXZpY2UiOiJwaG9uZSJ9.c2lnbmF0dXJl";
/// The message that Ada sends in the examples.
pub const CONTENT: &str = "I bring the charts.";

fn parse<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the ids and moments of the story are well formed")
}
