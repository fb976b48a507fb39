//! The Rust SDK of Tidings: signs in, keeps a connection, and hands out every message once and in order.
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
//! | [`Client`], [`ClientBuilder`] | one device's way to a server |
//! | [`Api`] | the REST calls: signing in, users, chats, history; tokens renew themselves |
//! | [`ClientHandle`] | acts on a connection: sends, marks as read, types, watches |
//! | [`Events`], [`ClientEvent`] | what happens, in order |
//! | [`rest`], [`frame`] | what calls and events carry |
//! | [`ApiError`], [`SendError`] | what can go wrong; [`ErrorCode`] says what the server means, and whether to try again |
//! | [`RawConnection`] | the socket alone, for whoever wants to say every frame themselves |
//!
//! # What the SDK does
//!
//! It reconnects with growing pauses, for ever. It asks for what it has missed, puts it in order, and hands out each message
//! once. It keeps sends in their order and tries them until they are acknowledged or refused for good; retries are
//! recognized by their `client_message_id`, so a send is one message. It acknowledges what the application has taken, and
//! renews tokens in time. All of these decisions are pure code, which the server's simulator runs too.
//!
//! # What stays with the application
//!
//! The SDK writes no files. Three things outlive a process, and an application that wants them to keeps them:
//!
//! - **Who this device is**: give a [`device_id`](ClientBuilder::device_id) that is made once, let
//!   [`keep_tokens`](ClientBuilder::keep_tokens) keep the tokens, and begin the next run with [`tokens`](ClientBuilder::tokens).
//! - **Messages**: store each one before asking for the [`next`](Events::next) event, for that is what acknowledges it, and
//!   begin the next run with the [`positions`](ClientBuilder::positions) of what is stored.
//! - **Sends**: make the `client_message_id` yourself, store the message, [`submit`](ClientHandle::submit) it, and forget it
//!   when its [`Ack`] resolves. What is left in the next run is submitted again, with the same id:
//!
//! ```no_run
//! # use tidings_client::{ChatId, ClientHandle, ContentType, SendError, frame::SendMessage};
//! # async fn example(handle: ClientHandle, chat_id: ChatId) -> Result<(), SendError> {
//! # fn store(_: &SendMessage) {}
//! # fn forget(_: &SendMessage) {}
//! let message = SendMessage {
//!     client_message_id: uuid::Uuid::new_v4().into(),
//!     chat_id,
//!     content: "Hello".to_owned().try_into()?,
//!     content_type: ContentType::Text,
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
//! `tidings chat`, the client in the terminal, does all three in one small file.
//!
//! # Examples
//!
//! `examples/hello.rs` signs in and sends, `examples/echo_bot.rs` answers, `examples/export.rs` reads all history. They are
//! run against the real server by its tests.
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
pub use error::{ApiError, BaseUrlError, Closed, ConnectError, SendError};
pub use events::Events;
pub use handle::{Ack, ClientHandle};
pub use raw::{Credential, RawConnection, SendFull};

// What calls and events carry, so that nobody has to name the crates behind this one.
pub use domain::{
    ChatId, ChatType, ClientMessageId, ConnectionId, Content, ContentError, ContentType, DeviceId, IdError, MessageId,
    PresenceVisibility, Role, Sequence, SessionId, Timestamp, Ttl, UserId,
};
pub use protocol::client::{ClientEvent, Ended, QueueFull, SendBounds, StopReason};
pub use protocol::{ErrorBody, ErrorCode, Retry, frame, rest};

/// The example of the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
