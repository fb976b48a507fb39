//! What Tidings talks about: ids, limits, and the rules of users, chats, members, messages and sessions.
//!
//! Pure data and functions. Nothing here does I/O, reads a clock or draws a random number, so every rule can be
//! proofread and tested on its own, and every adapter that keeps state applies the same one. Values are parsed at the
//! edge: holding a [`Content`], a [`ChatName`] or a [`PhoneNumber`] proves that it is valid.
//!
//! Ids and plain values serialize as the text of the contract; structs do not, because a record on a disk and a body on
//! the wire are promises that belong to whoever makes them.

mod chat;
mod code;
mod event;
mod ids;
mod invariant;
pub mod limits;
mod message;
mod presence;
mod push;
mod rate;
mod report;
mod sequence;
mod session;
mod text;
mod time;
mod trace;
mod user;
mod watermark;

pub use chat::{
    Chat, ChatChange, ChatCommand, ChatRefusal, ChatType, ChatUpdate, DirectPair, Member, MemberChange, Role, decide,
};
pub use code::{CodeAttempt, CodeDigest, OneTimeCode, PendingCode};
pub use event::{Event, EventBody, EventKind, MembershipChange};
pub use ids::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, EventId, IdError, MessageId, ReportId, SessionId, UserId,
};
pub use invariant::{Invariant, Plane};
pub use message::{Content, ContentError, ContentType, Message, Ttl, UnknownContentType};
pub use presence::{PresenceView, PresenceVisibility, Relation, Standing};
pub use push::{PushDevice, PushTarget, PushTargetError, PushToken, WebPushSubscription};
pub use rate::{Decision, Quota};
pub use report::{Evidence, Report, ReportReason, ReportText, ReportTextError, Resolution, UnknownReason};
pub use sequence::Sequence;
pub use session::{RefreshAttempt, RefreshOutcome, Session, SpentToken, TokenDigest};
pub use text::{ChatName, DisplayName, TextError};
pub use time::Timestamp;
pub use trace::{TraceContext, TraceContextError};
pub use user::{PhoneNumber, PhoneNumberError, User};
pub use watermark::{Advance, WatermarkKind, Watermarks};
