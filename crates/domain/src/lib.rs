//! The domain model of Tidings: ids, limits, and the rules of users, chats, members, messages and sessions.
//!
//! Pure data and functions. No code here does I/O, reads a clock or draws a random number. Every rule can therefore be
//! reviewed and tested alone, and every adapter that keeps state applies the same one. Values are parsed at the edge: a
//! [`Content`], a [`ChatName`] or a [`PhoneNumber`] is always valid.
//!
//! Ids and plain values serialize to the text form of the wire contract. Structs do not, because each storage format
//! and each wire format is defined by the crate that writes it.

mod backoff;
mod chat;
mod code;
mod event;
mod ids;
mod ingest_error;
mod invariant;
mod invitation;
pub mod limits;
mod message;
mod metadata;
mod name;
mod passkey;
mod presence;
mod push;
mod rate;
mod reaction;
mod report;
mod restrictions;
mod secret;
mod sequence;
mod session;
mod text;
mod time;
mod trace;
mod update;
mod user;
mod watermark;

pub use backoff::Backoff;
pub use chat::{
    Chat, ChatChange, ChatCommand, ChatRefusal, ChatType, ChatUpdate, DirectPair, Member, MemberChange, Role, decide,
};
pub use code::{CodeAttempt, CodeDevice, CodeDigest, OneTimeCode, PendingCode};
pub use event::{Event, EventBody, EventKind, EventNumber, MembershipChange};
pub use ids::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, EventId, IdError, MessageId, PasskeyId, ReportId, SessionId,
    UserId, UuidSpelling,
};
pub use ingest_error::{IngestError, StorageLimit};
pub use invariant::{Invariant, InvariantPlane};
pub use invitation::{GroupInvites, Invitation, UnknownGroupInvites};
pub use message::{Body, Content, ContentError, ContentType, Message, Ttl, UnknownContentType};
pub use metadata::{Metadata, MetadataError};
pub use passkey::{CredentialId, CredentialIdError, Passkey, PasskeyUse};
pub use presence::{OnlineStatus, PresenceView, PresenceVisibility, ViewerRelation};
pub use push::{PushDevice, PushTarget, PushTargetError, PushToken, WebPushSubscription};
pub use rate::{Quota, RateDecision, network};
pub use reaction::{Reaction, ReactionError};
pub use report::{MessageEvidence, Report, ReportReason, ReportText, ReportTextError, Resolution, UnknownReason};
pub use restrictions::{
    AccessRefusal, DeniedToken, RestrictionChange, Restrictions, Suspension, TokenIdDigest, TooManyDeniedTokens,
};
pub use secret::Secret;
pub use sequence::Sequence;
pub use session::{RefreshAttempt, RefreshOutcome, Session, SpentToken, TokenChain, TokenDigest};
pub use text::{ChatName, DisplayName, SuspensionReason, TextError};
pub use time::Timestamp;
pub use trace::{TraceContext, TraceContextError};
pub use update::{
    Edited, MessageState, MessageUpdate, ReactionCount, UpdateAction, UpdateKind, UpdateRefusal, Updater, apply_update,
};
pub use user::{ExternalId, ExternalIdError, PhoneNumber, PhoneNumberError, User};
pub use watermark::{Advance, DeliveryState, WatermarkKind, Watermarks};
