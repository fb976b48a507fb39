use std::time::Duration;

use domain::{Decision, DeviceId, RefreshAttempt, RefreshOutcome, Session, SessionId, Timestamp};
use ports::LimitKey;

use crate::refresh_token::RefreshToken;
use crate::tokens::Claims;
use crate::{Auth, AuthError, Principal, Secret};

/// What a device shows to act for its user.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Shown with every request.
    pub access_token: Secret,
    /// Shown once, for the next pair.
    pub refresh_token: Secret,
    /// How long the access token is good.
    pub expires_in: Duration,
}

/// Which of a user's sessions are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoke {
    /// This one.
    One(SessionId),
    /// All but the one that asks.
    Others,
    /// All.
    All,
}

impl Auth {
    /// Gives a new pair of tokens for a refresh token, which is spent.
    ///
    /// A spent token that comes back ends its session, because somebody has a copy; `Session::refresh` says when it is
    /// forgiven instead. With the tokens comes what is left of the session's limit, unless it is off.
    pub async fn refresh(
        &self,
        refresh_token: &str,
        device: DeviceId,
    ) -> Result<(Tokens, Option<Decision>), AuthError> {
        let presented =
            RefreshToken::parse(refresh_token).ok_or(AuthError::InvalidToken("it is not a refresh token"))?;
        let session_id = presented.session_id;
        let decision = self.take("refresh", LimitKey::Refresh(session_id), self.config().limits.refresh).await?;

        let now = self.now();
        let successor = RefreshToken::random(session_id);
        let attempt = RefreshAttempt {
            presented: presented.digest(),
            device_id: device,
            successor: successor.digest(),
            now,
            expires_at: now + self.config().refresh_ttl,
        };
        let outcome = self.ports().sessions.refresh(session_id, attempt).await?;
        let (session, outcome) = outcome.ok_or(AuthError::TokenRevoked)?;
        match outcome {
            RefreshOutcome::Rotated => Ok((self.tokens(&session, successor, now), decision)),
            RefreshOutcome::Refused => {
                Err(AuthError::InvalidToken("its session has expired or belongs to another device"))
            }
            RefreshOutcome::Reused => {
                tracing::warn!(user_id = %session.user_id, %session_id, "a spent refresh token came back");
                self.close_sockets(&[session_id]).await;
                Err(AuthError::TokenRevoked)
            }
        }
    }

    /// Ends the session that asks. A user of another system has none here, and signs out there.
    pub async fn logout(&self, principal: &Principal) -> Result<(), AuthError> {
        if let Some(session_id) = principal.session_id {
            self.revoke(principal, Revoke::One(session_id)).await?;
        }
        Ok(())
    }

    /// The live sessions of whoever asks, oldest first.
    pub async fn sessions(&self, principal: &Principal) -> Result<Vec<Session>, AuthError> {
        Ok(self.ports().sessions.sessions(principal.user_id, self.now()).await?)
    }

    /// Ends sessions of whoever asks, closes their sockets, and says how many there were.
    pub async fn revoke(&self, principal: &Principal, which: Revoke) -> Result<usize, AuthError> {
        let doomed: Vec<SessionId> = match which {
            Revoke::One(session_id) => vec![session_id],
            Revoke::Others | Revoke::All => {
                let own = self.sessions(principal).await?.into_iter().map(|session| session.session_id);
                own.filter(|id| which == Revoke::All || Some(*id) != principal.session_id).collect()
            }
        };
        let ended = self.ports().sessions.revoke(principal.user_id, &doomed).await?;
        self.close_sockets(&ended).await;
        Ok(ended.len())
    }

    pub(crate) fn tokens(&self, session: &Session, refresh_token: RefreshToken, now: Timestamp) -> Tokens {
        let access_ttl = self.config().access_ttl;
        let claims = Claims::new(session, now, access_ttl, self.ports().ids.ulid().to_string());
        Tokens {
            access_token: claims.sign(&self.keys().signing_key()),
            refresh_token: refresh_token.text,
            expires_in: access_ttl,
        }
    }

    /// Has the gateways close the sockets of sessions that have ended.
    ///
    /// The sessions are gone already and a caller could not bring that about again, so a failure is reported here and
    /// to nobody else. A socket that stays open closes when its token expires.
    pub(crate) async fn close_sockets(&self, ended: &[SessionId]) {
        for session_id in ended {
            if let Err(error) = self.ports().delivery.revoke(*session_id).await {
                let error: &dyn std::error::Error = &error;
                tracing::error!(%session_id, error, "sockets of an ended session not closed");
            }
        }
    }
}
