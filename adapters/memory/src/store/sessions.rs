use async_trait::async_trait;
use domain::{RefreshAttempt, RefreshOutcome, Session, SessionId, Timestamp, UserId};
use ports::{SessionStore, StoreError};

use super::{MemoryStore, MemoryStoreState};

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create(&self, session: Session) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.transaction(|state| {
            let same_device = |_: &SessionId, earlier: &mut Session| {
                earlier.user_id == session.user_id && earlier.device_id == session.device_id
            };
            let ended = state.sessions.extract_if(.., same_device).map(|(session_id, _)| session_id).collect();
            state.sessions.insert(session.session_id, session);
            ended
        }))
    }

    async fn session(&self, session_id: SessionId, now: Timestamp) -> Result<Option<Session>, StoreError> {
        Ok(self
            .transaction(|state| state.sessions.get(&session_id).filter(|session| session.expires_at > now).cloned()))
    }

    async fn sessions(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        Ok(self.transaction(|state| {
            let live = |session: &&Session| session.user_id == user_id && session.expires_at > now;
            let mut sessions: Vec<_> = state.sessions.values().filter(live).cloned().collect();
            sessions.sort_by_key(|session| session.created_at);
            sessions
        }))
    }

    async fn refresh(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, StoreError> {
        Ok(self.transaction(|state| {
            let session = state.sessions.get_mut(&session_id)?;
            let outcome = session.refresh(&attempt);
            let session = session.clone();
            if outcome == RefreshOutcome::Reused {
                state.end_session(session_id);
            }
            Some((session, outcome))
        }))
    }

    async fn revoke(&self, user_id: UserId, session_ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.transaction(|state| {
            let mut revoked = vec![];
            for session_id in session_ids {
                if state.sessions.get(session_id).is_some_and(|session| session.user_id == user_id) {
                    state.end_session(*session_id);
                    revoked.push(*session_id);
                }
            }
            revoked
        }))
    }
}

impl MemoryStoreState {
    /// Ends the current session of a device, and removes the registration of the device.
    pub(super) fn end_session(&mut self, session_id: SessionId) {
        if let Some(session) = self.sessions.remove(&session_id) {
            self.push_devices.remove(&(session.user_id, session.device_id));
        }
    }
}
