//! The Rust SDK of Tidings: signs in, maintains a connection, and hands out every message exactly once and in order.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tidings_client::{Client, ClientEvent};
//!
//! let client = Client::builder("http://127.0.0.1:8080").build()?;
//! client.api().request_otp("+14155550100").await?;
//! client.api().verify_otp("+14155550100", "000000", Some("Ann")).await?;
//!
//! let (handle, mut events) = client.connect()?;
//! while let Some(event) = events.next().await {
//!     if let ClientEvent::Message(message) = event {
//!         println!("{}: {}", message.sender_id, message.content);
//!         handle.mark_read(message.chat_id, message.sequence).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | | |
//! |---|---|
//! | [`Client`], [`ClientBuilder`] | a device's client for one server |
//! | [`Api`] | the REST calls: sign-in, users, chats, history; renews tokens automatically |
//! | [`ClientHandle`] | sends, edits, deletes, reacts, marks as read, announces typing, subscribes to presence |
//! | [`Events`], [`ClientEvent`] | the events of a session, in order |
//! | [`newer`], [`with_updated`], [`with_queued`] | keep an application's copies of messages in their current state |
//! | [`rest`], [`frame`] | the data types of calls and events |
//! | [`ApiError`], [`SendError`] | the errors; [`ErrorCode`] has the meaning and whether to retry |
//! | [`RawConnection`] | the bare socket, without any automatic frames |
//!
//! # What the SDK does
//!
//! It reconnects with exponential backoff, without limit. It syncs missed messages and updates, puts them in order, and
//! hands out each once. It sends in order and retries until a send or an update is acknowledged or refused permanently.
//! The server recognizes a retry by its `client_message_id`, so one send is one message. It acknowledges the entries that
//! the application has processed, and renews tokens before they expire. All of these decisions are pure code, which the
//! server's simulator runs too.
//!
//! # What stays with the application
//!
//! The SDK writes no files. An application that needs the following to survive a restart has to store them:
//!
//! - **The identity of the device**: generate a [`device_id`](ClientBuilder::device_id) once, store the tokens in
//!   [`keep_tokens`](ClientBuilder::keep_tokens), and start the next run with [`tokens`](ClientBuilder::tokens).
//! - **Messages and updates**: store each one before the call of [`next`](Events::next) that acknowledges it, and start
//!   the next run with the [`positions`](ClientBuilder::positions) of the stored ones. [`with_updated`] applies an update
//!   to the stored message.
//! - **Sends and updates of the user**: generate the `client_message_id` yourself, store the message,
//!   [`submit`](ClientHandle::submit) it, and delete it when its [`Ack`] resolves; an update by
//!   [`submit_update`](ClientHandle::submit_update). In the next run, submit the remaining ones again with the same ids:
//!
//! ```no_run
//! # use tidings_client::{Body, ChatId, ClientHandle, ContentType, SendError, frame::SendMessage};
//! # async fn example(handle: ClientHandle, chat_id: ChatId) -> Result<(), SendError> {
//! # fn store(_: &SendMessage) {}
//! # fn forget(_: &SendMessage) {}
//! let message = SendMessage {
//!     client_message_id: uuid::Uuid::new_v4().into(),
//!     chat_id,
//!     body: Body::new("Hello".to_owned().try_into()?, ContentType::Text),
//!     ttl: None,
//! };
//! store(&message);
//! let ack = handle.submit(message.clone()).await?.await?;
//! forget(&message);
//! println!("message {} of the chat", ack.sequence);
//! # Ok(())
//! # }
//! ```
//!
//! `tidings chat`, the terminal client, does all three in one small file.
//!
//! # Examples
//!
//! `examples/hello.rs` signs in and sends, `examples/echo_bot.rs` replies, `examples/updates.rs` edits, reacts and
//! deletes, `examples/export.rs` reads all history. The tests of the server run them against it.
#![warn(missing_docs)]

mod api;
mod builder;
mod driver;
mod errand;
mod error;
mod events;
mod handle;
mod raw;
mod tokens;

pub use api::{Api, HistoryRange};
pub use builder::{Client, ClientBuilder};
pub use error::{ApiError, BaseUrlError, ConnectError, SendError, SessionClosed};
pub use events::Events;
pub use handle::{Ack, ClientHandle};
pub use raw::{Credential, RawConnection, SendFull};

// Re-exported, so that applications need no direct dependency on `domain` and `protocol`.
pub use domain::{
    Body, ChatId, ChatType, ClientMessageId, ConnectionId, Content, ContentError, ContentType, DeviceId, IdError,
    MessageId, Metadata, MetadataError, PresenceVisibility, Reaction, ReactionError, Role, Sequence, SessionId,
    Timestamp, Ttl, UpdateAction, UserId,
};
pub use protocol::client::{ClientEvent, Ended, QueueFull, SendBounds, StopReason, newer, with_queued, with_updated};
pub use protocol::{ErrorBody, ErrorCode, Retry, frame, rest};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
