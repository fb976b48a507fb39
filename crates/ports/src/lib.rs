//! The traits a plane needs from the world.
//!
//! A port's doc comment is its contract: what is atomic, what is ordered, what a crash leaves behind. [`contract`] holds
//! the same promises as tests, which every adapter passes against its real engine. Expected outcomes are values; an
//! `Err` means that the world failed, and a write that failed may still have happened.
//!
//! Halves that may only read are traits of their own where planes differ in what they may do: fanout is handed
//! [`ChatReader`] and [`EventLog`], and could not write the store if it wanted to. The gateway is handed [`Ingest`].
//!
//! [`invariants`] is how planes and adapters say that something which must be true is not, [`trace`] how they hand on where
//! they stand in a trace.
#![warn(missing_docs)]

mod accounts;
mod audit;
mod blocks;
mod chats;
mod clock;
mod commit_queue;
mod contacts;
pub mod contract;
mod error;
mod expiry;
mod health;
mod identity;
mod ingest;
pub mod invariants;
mod limits;
mod log;
mod messages;
mod notify;
mod peers;
mod presence;
mod publish;
mod reports;
mod requests;
mod routing;
mod sessions;
pub mod trace;
mod transfer;
mod users;
mod watermarks;

pub use accounts::{AccountStore, Deletion, OwnMessages};
pub use audit::{
    AUDIT_MEMBERS_MAX, AuditLog, AuditPage, AuditRoutes, AuditSource, Audited, Bookmark, ChatRows, ChatStanding,
    ConsumerPlace, End, Lead, Listing, ListingRows, LogRow, Logged, MemberRows, MessageRows, PairRows, RouteRows,
    SendKeyRows, StoredMessage,
};
pub use blocks::BlockStore;
pub use chats::{ChatReader, ChatWriter, CreatedChat, NewDirectChat, NewGroup};
pub use clock::{Clock, Ids, RandomIds, SystemClock};
pub use commit_queue::CommitQueue;
pub use contacts::ContactStore;
pub use error::{BoxError, StoreError};
pub use expiry::{Expiry, MessageExpirer, Shortened};
pub use health::{Health, HealthCell};
pub use identity::{Identity, IdentityError, Principal};
pub use ingest::{Ingest, IngestError, SendRequest, Sent, SyncRequest};
pub use invariants::{holds, violated};
pub use limits::{LimitKey, RateLimiter};
pub use log::{EventConsumer, EventLog, Position, Record, Start};
pub use messages::{
    Appended, Head, LastMessage, MessageReader, MessageWriter, NewMessage, Page, PageBounds, Receipt, SendRefusal,
    UnreadQuery,
};
pub use notify::{
    DeadLetter, DeadLetterId, DeadLetterStore, Notice, NoticeStore, Notification, Notifier, NotifyError,
    PushDeviceStore, Settled, Undelivered, UnusableTarget,
};
pub use peers::{Peer, Peers, ProcessRole};
pub use presence::{LastSeenStore, Look, PresenceNews, Presences, Swept, Transition, Transitions, Watchers};
pub use publish::{Committed, EventProducer, Outbox, Waiting};
pub use reports::{Filed, ReportState, ReportStore, Resolved};
pub use requests::{Begun, RequestKey, RequestStore, StoredResponse};
pub use routing::{
    Delivery, Displacement, GatewayId, MemberCache, Push, Refreshed, Route, RouteWriter, Routes, Signal, Signals,
};
pub use sessions::{CodeStore, OtpError, OtpSender, PhoneKey, SessionStore, Ticket, TicketStore};
pub use transfer::{ExportSource, ImportBegun, ImportId, ImportTarget, Moved, MovedKind, MovedPage, MovedSend};
pub use users::{NewUser, UserKey, UserReader, UserWriter};
pub use watermarks::WatermarkStore;
