use std::time::Duration;

use domain::{DeviceId, Timestamp};
use ports::Ticket;

use crate::auth::on_device;
use crate::refresh_token::sha256;
use crate::{Auth, AuthError, Principal, Secret};

/// How long a ticket is good: the time it takes a browser to open a WebSocket.
const TICKET_TTL: Duration = Duration::from_secs(30);

/// A ticket for one WebSocket.
#[derive(Clone, Debug)]
pub struct IssuedTicket {
    /// Its text, for the address of the WebSocket.
    pub ticket: Secret,
    /// When it is void.
    pub expires_at: Timestamp,
}

impl Auth {
    /// Gives a ticket for one WebSocket, for clients that cannot send headers.
    pub async fn issue_ticket(&self, principal: &Principal) -> Result<IssuedTicket, AuthError> {
        let ticket = Secret::random();
        let expires_at = (self.now() + TICKET_TTL).min(principal.token_expires_at);
        let kept = Ticket {
            user_id: principal.user_id,
            session_id: principal.session_id,
            device_id: principal.device_id,
            token_expires_at: principal.token_expires_at,
            expires_at,
        };
        self.ports().tickets.put(sha256(ticket.expose()), kept).await?;
        Ok(IssuedTicket { ticket, expires_at })
    }

    /// Takes a ticket back and says who it was given to. It is spent even if it is refused.
    pub async fn redeem_ticket(&self, ticket: &str, device: DeviceId) -> Result<Principal, AuthError> {
        let now = self.now();
        let kept = self.ports().tickets.take(sha256(ticket), now).await?;
        let kept = kept.ok_or(AuthError::InvalidToken("the ticket is unknown, spent or expired"))?;
        if let Some(session_id) = kept.session_id {
            self.live_session(session_id, now).await?;
        }
        let principal = Principal {
            user_id: kept.user_id,
            session_id: kept.session_id,
            device_id: kept.device_id,
            token_expires_at: kept.token_expires_at,
        };
        on_device(principal, device)
    }
}
