use std::time::Duration;

use domain::{DeviceId, Secret, Timestamp};
use ports::Ticket;

use crate::auth::on_device;
use crate::refresh_token::{random_secret, sha256};
use crate::restrictions::RestrictionAge;
use crate::{Auth, AuthError, Principal};

/// Lifetime of a ticket: enough for a browser to open a WebSocket.
const TICKET_TTL: Duration = Duration::from_secs(30);

/// A ticket for one WebSocket connection.
#[derive(Clone, Debug)]
pub struct IssuedTicket {
    /// The text of the ticket, for the URL of the WebSocket.
    pub ticket: Secret,
    /// The expiry time of the ticket.
    pub expires_at: Timestamp,
}

impl Auth {
    /// Issues a ticket for one WebSocket connection, for clients that cannot send headers.
    pub async fn issue_ticket(&self, principal: &Principal) -> Result<IssuedTicket, AuthError> {
        let ticket = random_secret();
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

    /// Redeems a ticket and returns its principal. The ticket is spent even if the call refuses it.
    pub async fn redeem_ticket(&self, ticket: &str, device: DeviceId) -> Result<Principal, AuthError> {
        let now = self.now();
        let kept = self.ports().tickets.take(sha256(ticket), now).await?;
        let kept = kept.ok_or(AuthError::InvalidToken("the ticket is unknown, spent or expired"))?;
        // Issued then, or later if its token expires first.
        let issued_at = kept.expires_at.minus(TICKET_TTL);
        self.restrictions(kept.user_id, RestrictionAge::Current).await?.check_ticket(issued_at)?;
        if let Some(session_id) = kept.session_id {
            self.live_session(session_id, now).await?;
        }
        let principal = Principal {
            user_id: kept.user_id,
            session_id: kept.session_id,
            device_id: kept.device_id,
            token_expires_at: kept.token_expires_at,
            assertion: None,
        };
        on_device(principal, device)
    }
}
