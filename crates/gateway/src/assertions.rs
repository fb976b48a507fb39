use std::time::Duration;

use ports::{Assertion, IdentityError, StoreError, error_chain, lock};
use protocol::{CloseReason, Command, ErrorBody};
use tracing::warn;

use crate::Gateway;
use crate::commands::unavailable;
use crate::peer::ConnectionPeer;

/// How long a failed renewal is not retried while the assertion is still valid.
const RETRY_AFTER: Duration = Duration::from_secs(10);

impl Gateway {
    /// The assertion for a command of this connection, renewed if that is due. `None` on one machine, and for commands
    /// that do not act for the user at ingest.
    ///
    /// Idle connections renew nothing: the first command after the expiry waits for the renewal. If the renewal is refused,
    /// the session has ended or the token has expired, so the connection closes.
    pub(crate) async fn assertion(
        &self,
        peer: &ConnectionPeer,
        command: &Command,
    ) -> Result<Option<Assertion>, ErrorBody> {
        let Some(cell) = peer.assertion.as_ref().filter(|_| acts_at_ingest(command)) else { return Ok(None) };
        let held = lock(cell).clone();
        if self.now() < held.renew_at {
            return Ok(Some(held));
        }
        let renewed = match self.identity.renew(&held).await {
            Ok(renewed) => renewed,
            Err(IdentityError::Unavailable(failure)) if self.now() < held.expires_at => {
                warn!(error = %error_chain(&failure), "renewal of an assertion failed; using it until it expires");
                Assertion { renew_at: self.now() + RETRY_AFTER, ..held }
            }
            Err(IdentityError::Unavailable(failure)) => return Err(unavailable(failure)),
            Err(refusal) => {
                peer.mailbox.close(match refusal {
                    IdentityError::InvalidToken(_) => CloseReason::TokenExpired,
                    _ => CloseReason::SessionRevoked,
                });
                return Err(unavailable(StoreError::unavailable(refusal)));
            }
        };
        lock(cell).clone_from(&renewed);
        Ok(Some(renewed))
    }
}

/// Whether ingest executes the command for the user, and therefore asks for an assertion.
fn acts_at_ingest(command: &Command) -> bool {
    match command {
        Command::Send { .. } | Command::Update { .. } | Command::Sync { .. } | Command::Advance(_) => true,
        Command::Typing { .. }
        | Command::PresenceSubscribe { .. }
        | Command::PresenceUnsubscribe { .. }
        | Command::Reauth { .. }
        | Command::CountUnknown => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use domain::{Body, ChatId, ClientMessageId, ContentType, Sequence, SessionId, UpdateAction};
    use protocol::ErrorCode;
    use protocol::frame::{RequestId, SendMessage, UpdateMessage};

    use super::*;
    use crate::hub::Admitted;
    use crate::test_world::{ASSERTION_LIFETIME, World};

    fn send() -> Command {
        let message = SendMessage {
            client_message_id: ClientMessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
        };
        Command::Send { request_id: RequestId::new("r1").unwrap(), message }
    }

    fn update() -> Command {
        let update = UpdateMessage {
            client_message_id: ClientMessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            target: Sequence(1),
            action: UpdateAction::Delete,
        };
        Command::Update { request_id: RequestId::new("r1").unwrap(), update }
    }

    /// The number of the assertion that a send of the connection presents: 0 for the first, 1 after a renewal.
    async fn presented(world: &World, connection: &Admitted) -> Result<Option<u8>, ErrorCode> {
        let assertion = world.gateway.assertion(&connection.peer, &send()).await;
        assertion.map(|assertion| assertion.map(|assertion| assertion.proof[0])).map_err(|error| error.code)
    }

    #[tokio::test(start_paused = true)]
    async fn one_machine_presents_none_and_a_fleet_one_that_is_renewed_when_due() {
        let world = World::start().await;
        let alone = world.connect(world.user()).await;
        assert_eq!(presented(&world, &alone).await, Ok(None));
        let connection = world.connect_asserted(None).await;
        let typing = Command::Typing { chat_id: ChatId::from_bytes([2; 16]), is_typing: true };
        assert_eq!(world.gateway.assertion(&connection.peer, &typing).await.unwrap(), None);
        assert_eq!(presented(&world, &connection).await, Ok(Some(0)));
        let of_update = world.gateway.assertion(&connection.peer, &update()).await.unwrap();
        assert_eq!(of_update.map(|assertion| assertion.proof[0]), Some(0));
        for n in 1..=3 {
            tokio::time::advance(ASSERTION_LIFETIME / 2).await;
            assert_eq!(presented(&world, &connection).await, Ok(Some(n)));
            assert_eq!(presented(&world, &connection).await, Ok(Some(n)), "it is renewed once");
        }
        tokio::time::advance(2 * ASSERTION_LIFETIME).await;
        assert_eq!(presented(&world, &connection).await, Ok(Some(4)), "an idle connection renews an expired one");
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_process_renews_it_is_used_until_it_expires() {
        let world = World::start().await;
        let connection = world.connect_asserted(None).await;
        world.others.is_unavailable.store(true, Ordering::SeqCst);
        tokio::time::advance(ASSERTION_LIFETIME / 2).await;
        assert_eq!(presented(&world, &connection).await, Ok(Some(0)));
        tokio::time::advance(ASSERTION_LIFETIME / 2).await;
        assert_eq!(presented(&world, &connection).await, Err(ErrorCode::ServiceUnavailable));
        assert_eq!(connection.peer.mailbox.close_order(), None);
        world.others.is_unavailable.store(false, Ordering::SeqCst);
        assert_eq!(presented(&world, &connection).await, Ok(Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_session_has_ended_is_closed_when_its_assertion_is_due() {
        let world = World::start().await;
        let session_id = SessionId::from_bytes([3; 16]);
        let connection = world.connect_asserted(Some(session_id)).await;
        world.others.ended_sessions.lock().unwrap().insert(session_id);
        tokio::time::advance(ASSERTION_LIFETIME / 2).await;
        assert_eq!(presented(&world, &connection).await, Err(ErrorCode::ServiceUnavailable));
        assert_eq!(connection.peer.mailbox.close_order(), Some(CloseReason::SessionRevoked));
    }
}
