use std::panic;
use std::time::Duration;

use domain::{DeviceId, RateDecision, RefreshAttempt, RefreshOutcome, Secret, Session, SessionId, Timestamp, UserId};
use ports::{LimitKey, Revocation, SecurityContext, SecurityEvent, SecurityEventKind, error_chain};
use tracing::Instrument;

use crate::refresh_token::RefreshToken;
use crate::restrictions::RestrictionAge;
use crate::tokens::AccessClaims;
use crate::{Auth, AuthError, Principal};

/// The tokens of a session.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Sent with every request.
    pub access_token: Secret,
    /// Used once, to get the next pair.
    pub refresh_token: Secret,
    /// Lifetime of the access token.
    pub expires_in: Duration,
}

/// The sessions of a user to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoke {
    /// The given session.
    One(SessionId),
    /// All except the current session.
    Others,
    /// All sessions.
    All,
}

impl Auth {
    /// Exchanges a refresh token for a new pair of tokens; the refresh token is then spent.
    ///
    /// Reuse of a spent token revokes its session, because a copy of it exists; `Session::refresh` defines when one
    /// reuse is forgiven. The call also returns the state of the session's rate limit, unless the limit is off.
    pub async fn refresh(
        &self,
        refresh_token: &str,
        device: DeviceId,
    ) -> Result<(Tokens, Option<RateDecision>), AuthError> {
        let presented =
            RefreshToken::parse(refresh_token).ok_or(AuthError::InvalidToken("it is not a refresh token"))?;
        let session_id = presented.session_id;
        let is_authentic = presented.is_authentic(self.keys().code_key());
        let limit = if is_authentic { LimitKey::Refresh(session_id) } else { LimitKey::UnprovenRefresh(session_id) };
        let decision = self.take("refresh", limit, self.config().limits.refresh).await?;

        let now = self.now();
        // Before the rotation, so that a suspended user keeps the valid token.
        if let Some(session) = self.ports().sessions.session(session_id, now).await? {
            self.restrictions(session.user_id, RestrictionAge::Current).await?.check(session.created_at, None)?;
        }
        let successor = RefreshToken::issue(session_id, self.keys().code_key());
        let attempt = RefreshAttempt {
            presented: presented.digest(),
            is_authentic,
            device_id: device,
            successor: successor.digest(),
            now,
            expires_at: now + self.config().refresh_ttl,
        };
        let outcome = self.to_the_end(|auth| async move { auth.rotate(session_id, attempt).await }).await?;
        let (session, outcome) = outcome.ok_or(AuthError::TokenRevoked)?;
        match outcome {
            RefreshOutcome::Rotated => Ok((self.tokens(&session, successor, now), decision)),
            RefreshOutcome::Refused => Err(AuthError::InvalidToken(
                "it was not issued here, or its session has expired or belongs to another device",
            )),
            RefreshOutcome::Reused => Err(AuthError::TokenRevoked),
        }
    }

    /// Tries to exchange a refresh token. Its reuse ends the session, of which the sockets are then closed.
    async fn rotate(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, AuthError> {
        let device = attempt.device_id;
        let outcome = self.ports().sessions.refresh(session_id, attempt).await?;
        if let Some((session, RefreshOutcome::Reused)) = &outcome {
            tracing::warn!(user_id = %session.user_id, %session_id, "spent refresh token reused; session revoked");
            let event = SecurityEvent::of(SecurityEventKind::RefreshReuseDetected).failed("spent_token");
            self.record(event.user(session.user_id).session(session_id).device(device));
            self.close_sockets(&[session_id]).await;
            self.record_ends(session.user_id, &[session_id], "refresh_reuse");
        }
        Ok(outcome)
    }

    /// Revokes the current session. A user of an external provider has no session here, and signs out there.
    pub async fn logout(&self, principal: &Principal) -> Result<(), AuthError> {
        if let Some(session_id) = principal.session_id {
            self.revoke(principal, Revoke::One(session_id)).await?;
        }
        Ok(())
    }

    /// The live sessions of the caller, oldest first.
    pub async fn sessions(&self, principal: &Principal) -> Result<Vec<Session>, AuthError> {
        Ok(self.ports().sessions.sessions(principal.user_id, self.now()).await?)
    }

    /// Revokes sessions of the caller, closes their sockets, and returns the number of revoked sessions.
    pub async fn revoke(&self, principal: &Principal, which: Revoke) -> Result<usize, AuthError> {
        let doomed: Vec<SessionId> = match which {
            Revoke::One(session_id) => vec![session_id],
            Revoke::Others | Revoke::All => {
                let own = self.sessions(principal).await?.into_iter().map(|session| session.session_id);
                own.filter(|id| which == Revoke::All || Some(*id) != principal.session_id).collect()
            }
        };
        let user_id = principal.user_id;
        self.to_the_end(|auth| async move {
            let ended = auth.ports().sessions.revoke(user_id, &doomed).await?;
            auth.close_sockets(&ended).await;
            auth.record_ends(user_id, &ended, "revoked");
            Ok(ended.len())
        })
        .await
    }

    /// Runs an operation that ends sessions in a task of its own. A client that closes its connection cancels its
    /// request, but not this task: otherwise it could keep the sockets of an ended session open.
    pub(crate) async fn to_the_end<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        operation: impl FnOnce(Self) -> F,
    ) -> T {
        let operation = SecurityContext::current().scope(operation(self.clone())).in_current_span();
        match tokio::spawn(operation).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            // The runtime shuts down, and drops this task as well.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn record_ends(&self, user_id: UserId, ended: &[SessionId], reason: &'static str) {
        for session_id in ended {
            let event = SecurityEvent::of(SecurityEventKind::SessionRevoked).user(user_id).session(*session_id);
            self.record(event.because(reason));
        }
    }

    pub(crate) fn tokens(&self, session: &Session, refresh_token: RefreshToken, now: Timestamp) -> Tokens {
        let access_ttl = self.config().access_ttl;
        let claims = AccessClaims::new(session, now, access_ttl, self.ports().ids.ulid().to_string());
        Tokens {
            access_token: claims.sign(&self.keys().signing_key()),
            refresh_token: refresh_token.text,
            expires_in: access_ttl,
        }
    }

    /// Asks the gateways to close the sockets of ended sessions.
    ///
    /// The sessions are already deleted and a caller cannot retry, so a failure is only logged. The port repeats the
    /// call at the gateways that have not acknowledged it.
    pub(crate) async fn close_sockets(&self, ended: &[SessionId]) {
        for session_id in ended {
            self.close(Revocation::Session(*session_id)).await;
        }
    }

    pub(crate) async fn close(&self, revocation: Revocation) {
        if let Err(error) = self.ports().delivery.revoke(revocation).await {
            let error = error_chain(&error);
            tracing::error!(?revocation, %error, "a gateway has not confirmed that revoked sockets are closed; retrying");
        }
    }
}
