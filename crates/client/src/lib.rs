//! The SDK: signs in, keeps a connection, and hands out every message once and in order.
//!
//! [`Client`] is a device's way in, [`Api`] its REST calls with tokens that renew themselves. [`Client::connect`] gives a
//! [`ClientHandle`] to act with and [`Events`] to learn from; behind them one task drives
//! [`protocol::client::ClientSession`], which reconnects, syncs, retries and acknowledges as the contract asks.
//! [`RawConnection`] is the socket alone, for whoever wants to say every frame themselves.
//!
//! ```no_run
//! # extern crate tidings_client as client;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Client, ClientEvent};
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
pub use protocol::client::{ClientEvent, StopReason};
pub use raw::{Credential, RawConnection, SendFull};
