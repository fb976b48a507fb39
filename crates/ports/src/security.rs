use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use domain::{DeviceId, SessionId, UserId};

/// The stream of events for the operator's security monitoring.
///
/// `record` never blocks and never fails: an event that cannot be kept is dropped and counted. The order of events of one
/// task is kept. An event has no phone numbers, codes, tokens or contents.
pub trait SecurityEvents: Send + Sync {
    /// Records an event. The implementation adds the time and the [`SecurityContext`] of the task.
    fn record(&self, event: SecurityEvent);
}

/// Discards all events.
pub struct NoSecurityEvents;

impl SecurityEvents for NoSecurityEvents {
    fn record(&self, _: SecurityEvent) {}
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityEvent {
    /// The kind of the event.
    pub kind: SecurityEventKind,
    /// Whether it succeeded.
    pub outcome: SecurityOutcome,
    /// The user whom it concerns, if known.
    pub user_id: Option<UserId>,
    /// The session that it concerns.
    pub session_id: Option<SessionId>,
    /// The device that it concerns.
    pub device_id: Option<DeviceId>,
    /// The cause, of a fixed list of words.
    pub reason: Option<&'static str>,
    /// More values, by kind.
    pub details: BTreeMap<&'static str, String>,
}

/// Whether the attempt that an event describes succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityOutcome {
    /// It did.
    Success,
    /// It was refused, or failed.
    Failure,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// The kinds of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SecurityEventKind {
            $($(#[$doc])* $kind,)*
        }

        impl SecurityEventKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The name in the stream.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// A one-time code was requested.
    CodeRequested = "code_requested",
    /// A user signed in, with a code or a passkey.
    SignIn = "sign_in",
    /// A sign-in was refused.
    SignInFailed = "sign_in_failed",
    /// A spent refresh token was used again, so a copy of it exists.
    RefreshReuseDetected = "refresh_reuse_detected",
    /// A user added a passkey.
    PasskeyAdded = "passkey_added",
    /// A user removed a passkey.
    PasskeyRemoved = "passkey_removed",
    /// The counter of a passkey has not grown, so a copy of its private key may exist.
    PasskeyCopyDetected = "passkey_copy_detected",
    /// A session ended before its time.
    SessionRevoked = "session_revoked",
    /// A user was suspended.
    UserSuspended = "user_suspended",
    /// The suspension of a user ended.
    UserResumed = "user_resumed",
    /// All sessions and tokens of a user up to now are invalid.
    UserSignedOut = "user_signed_out",
    /// One token of a user is invalid.
    TokenRevoked = "token_revoked",
    /// A member of a chat has another role.
    RoleChanged = "role_changed",
    /// The deletion of an account has begun.
    AccountDeleted = "account_deleted",
    /// An operator used the admin API, for the first time in a while from this address.
    OperatorSignIn = "operator_sign_in",
    /// A request to the admin API had no valid token, or its operator lacked the role.
    OperatorRefused = "operator_refused",
    /// An operator did an action.
    OperatorAction = "operator_action",
}

impl SecurityEvent {
    /// A successful event of a kind.
    pub fn of(kind: SecurityEventKind) -> Self {
        Self {
            kind,
            outcome: SecurityOutcome::Success,
            user_id: None,
            session_id: None,
            device_id: None,
            reason: None,
            details: BTreeMap::new(),
        }
    }

    /// The same for a user.
    pub fn user(self, user_id: UserId) -> Self {
        Self { user_id: Some(user_id), ..self }
    }

    /// The same for a session.
    pub fn session(self, session_id: SessionId) -> Self {
        Self { session_id: Some(session_id), ..self }
    }

    /// The same for a device.
    pub fn device(self, device_id: DeviceId) -> Self {
        Self { device_id: Some(device_id), ..self }
    }

    /// The same with a cause.
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same as a failure.
    pub fn failed(self, reason: &'static str) -> Self {
        Self { outcome: SecurityOutcome::Failure, ..self }.because(reason)
    }

    /// The same with a further value.
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.details.insert(name, value.to_string());
        self
    }
}

/// The origin of a request. It belongs to the task that serves the request, so that planes need not pass it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityContext {
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The operator who makes the request; absent in requests of users.
    pub operator: Option<Arc<str>>,
}

tokio::task_local! {
    static CONTEXT: SecurityContext;
}

impl SecurityContext {
    /// Does some work in this context.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CONTEXT.scope(self, work).await
    }

    /// The context of the current task; empty outside of a request.
    pub fn current() -> Self {
        CONTEXT.try_with(Clone::clone).unwrap_or_default()
    }
}
