//! Ports: the traits through which a plane uses stores, logs, routes and other external systems.
//!
//! The doc comment of a port is its contract. It states which writes are atomic, which order holds, and which state a
//! crash leaves behind. The crate `contract` holds the same guarantees as tests, and every adapter passes them against
//! its real engine. Expected outcomes are values. An `Err` means that the engine failed; a failed write may still have taken
//! effect.
//!
//! Read-only halves are separate traits where planes differ in their permissions. Fanout receives [`ChatReader`] and
//! [`EventLog`], so it cannot write to the store. The gateway receives [`Ingest`].
//!
//! [`Stores`] lists every durable port. Composition gives each plane the ports that it needs from it.
//!
//! Planes and adapters report broken invariants through [`invariants`] and pass on their trace context through
//! [`trace`].
#![warn(missing_docs)]

mod accounts;
mod assertion;
mod audit;
mod blocks;
mod chats;
mod clock;
mod commit_queue;
mod contacts;
mod engine;
mod entries;
mod error;
mod error_chain;
mod expiry;
mod health;
mod identity;
mod inbox;
mod ingest;
pub mod invariants;
mod invitations;
mod limits;
mod lock;
mod log;
mod messages;
mod notify;
mod passkeys;
mod peers;
mod presence;
mod publish;
mod reports;
mod requests;
mod restrictions;
mod routing;
mod security;
mod sessions;
mod stores;
pub mod trace;
mod transfer;
mod unread;
mod users;
mod watermarks;
mod webhook;

pub use accounts::{AccountStore, MessageDisposition, PendingDeletion};
pub use assertion::Assertion;
pub use audit::{
    AUDIT_MEMBERS_MAX, AuditLog, AuditPage, AuditRoutes, AuditSource, AuditedChatRows, AuditedChatState, AuditedRecord,
    AuditedRow, ConsumerOffset, End, IndexedLocation, ListingRows, ListingState, LoggedChange, MemberRows, MessageRows,
    PageBookmark, PairRows, ReactionCounts, RouteRows, SendKeyRows, SentEntry, StoredEntry, UpdateRows,
    count_reactions,
};
pub use blocks::BlockStore;
pub use chats::{ChatReader, ChatWriter, CreatedChat, NewDirectChat, NewGroup};
pub use clock::{Clock, Ids, RandomIds, SystemClock};
pub use commit_queue::CommitQueue;
pub use contacts::ContactStore;
pub use engine::Engine;
pub use entries::{NewEntry, NewUpdate};
pub use error::{BoxError, StoreError};
pub use error_chain::{ErrorChain, error_chain};
pub use expiry::{ChatIdPage, Expiry, ExpiryProgress, MessageExpirer};
pub use health::{EngineHealth, HealthCell};
pub use identity::{ConnectionHolder, Identity, IdentityError, Principal};
pub use inbox::{InboxPosition, InboxSelection, InboxSelector, InboxStart};
pub use ingest::{AdvanceRequest, Ingest, SendContent, SendRequest, Sent, SyncRequest};
pub use invariants::{holds, violated};
pub use invitations::InvitationStore;
pub use limits::{LimitKey, RateLimiter};
pub use lock::lock;
pub use log::{EventConsumer, EventLog, GroupActive, LogOrder, Position, Record, Start};
pub use messages::{
    AppendOutcome, Head, LastMessage, MemberReactions, MessageKey, MessageReader, MessageWriter, NewMessage, Page,
    PageBounds, Receipt, SendRefusal,
};
pub use notify::{
    DeadLetter, DeadLetterId, DeadLetterStore, Notice, NoticeStore, Notification, Notifier, NotifyError,
    PushDeviceStore, Settled, UndeliveredItem, UnusableTarget,
};
pub use passkeys::{PasskeyAddition, PasskeyStore, PasskeyUseOutcome};
pub use peers::{PeerProcess, PeerRegistry, ProcessRole};
pub use presence::{
    LastSeenStore, PresenceLookup, PresenceNotifier, PresenceReader, PresenceTransition, PresenceTransitions,
    PresenceUpdate, SweepResult,
};
pub use publish::{Committed, EventProducer, Outbox, PendingChange};
pub use reports::{FilingOutcome, ReportState, ReportStore, Resolved};
pub use requests::{Begun, RequestKey, RequestStore, StoredResponse};
pub use restrictions::RestrictionStore;
pub use routing::{
    ConnectionDisplacer, Delivery, GatewayId, MemberCache, Push, RecipientConnection, RecipientLookup, Recipients,
    RefreshedRoute, Revocation, Route, RouteWriter, Routes, Signal, SignalSender,
};
pub use security::{
    NoSecurityEvents, SecurityContext, SecurityEvent, SecurityEventKind, SecurityEvents, SecurityOutcome,
};
pub use sessions::{CodeStore, OtpError, OtpSender, PhoneKey, SessionStore, SpentChallenge, Ticket, TicketStore};
pub use stores::{DurableStore, Stores};
pub use transfer::{
    ExportKind, ExportPage, ExportSource, ExportedSend, ImportAdmission, ImportId, ImportTarget, Moved,
};
pub use unread::{UnreadCount, UnreadQuery, UnreadTally};
pub use users::{NewUser, UserKey, UserReader, UserUpdate, UserWriter};
pub use watermarks::WatermarkStore;
pub use webhook::WebhookPause;
