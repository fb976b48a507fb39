use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::{
    CodeAttempt, CodeDevice, CodeDigest, OneTimeCode, PendingCode, RefreshAttempt, RefreshOutcome, Session, SessionId,
    Timestamp, UserId,
};
use ports::{CodeStore, PhoneKey, SessionStore, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys::{self, Expiring};
use crate::records::Stored;
use crate::tables::Table;
use crate::tx::Tx;

#[async_trait]
impl SessionStore for EmbeddedStore {
    async fn create(&self, session: Session) -> Result<Vec<SessionId>, StoreError> {
        self.write(move |tx| {
            let earlier = tx.get::<SessionId>(Table::Devices, &keys::device(session.user_id, session.device_id))?;
            if let Some(session_id) = earlier {
                tx.delete(Table::Sessions, &session_id.to_bytes());
            }
            sign_in(tx, &session);
            Ok(earlier.into_iter().collect())
        })
        .await
    }

    async fn session(&self, session_id: SessionId, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let session: Option<Session> = self.tables().await?.get(Table::Sessions, &session_id.to_bytes())?;
        Ok(session.filter(|session| session.expires_at > now))
    }

    async fn sessions(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        self.read(move |tables| {
            let view = tables.view();
            let mut sessions = vec![];
            for row in view.prefix(Table::Devices, &keys::user(user_id)) {
                let session_id = SessionId::decode(&row?.1).map_err(|error| unreadable(Table::Devices, error))?;
                let session: Option<Session> = view.get(Table::Sessions, &session_id.to_bytes())?;
                sessions.extend(session.filter(|session| session.expires_at > now));
            }
            sessions.sort_by_key(|session| (session.created_at, session.session_id));
            Ok(sessions)
        })
        .await
    }

    async fn refresh(
        &self,
        session_id: SessionId,
        attempt: RefreshAttempt,
    ) -> Result<Option<(Session, RefreshOutcome)>, StoreError> {
        self.write(move |tx| {
            let Some(mut session) = tx.get::<Session>(Table::Sessions, &session_id.to_bytes())? else {
                return Ok(None);
            };
            let outcome = session.refresh(&attempt);
            match outcome {
                RefreshOutcome::Rotated => put(tx, &session),
                RefreshOutcome::Reused => drop(end(tx, session.user_id, session_id)?),
                RefreshOutcome::Refused => {}
            }
            Ok(Some((session, outcome)))
        })
        .await
    }

    async fn revoke(&self, user_id: UserId, session_ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        let session_ids = session_ids.to_vec();
        self.write(move |tx| {
            session_ids.into_iter().filter_map(|session_id| end(tx, user_id, session_id).transpose()).collect()
        })
        .await
    }
}

/// Makes a session the current one of its device.
pub(crate) fn sign_in(tx: &mut Tx<'_>, session: &Session) {
    put(tx, session);
    tx.put(Table::Devices, &keys::device(session.user_id, session.device_id), &session.session_id);
}

fn put(tx: &mut Tx<'_>, session: &Session) {
    tx.put(Table::Sessions, &session.session_id.to_bytes(), session);
    tx.expire(session.expires_at, Expiring::Session(session.session_id));
}

/// Deletes a session if it exists and belongs to the user. If it is the current session of its device, also removes the
/// device's registration, so the device gets no more notices.
pub(crate) fn end(tx: &mut Tx<'_>, user_id: UserId, session_id: SessionId) -> Result<Option<SessionId>, StoreError> {
    let session: Option<Session> = tx.get(Table::Sessions, &session_id.to_bytes())?;
    let Some(session) = session.filter(|session| session.user_id == user_id) else { return Ok(None) };
    let device = keys::device(user_id, session.device_id);
    let is_of_device = tx.get(Table::Devices, &device)? == Some(session_id);
    tx.delete(Table::Sessions, &session_id.to_bytes());
    if is_of_device {
        tx.delete(Table::Devices, &device);
        tx.delete(Table::PushDevices, &device);
    }
    Ok(Some(session_id))
}

#[async_trait]
impl CodeStore for EmbeddedStore {
    async fn issue(&self, phone: PhoneKey, issued: PendingCode) -> Result<(), StoreError> {
        self.write(move |tx| {
            let mut code: OneTimeCode = tx.get(Table::Codes, &phone)?.unwrap_or_default();
            code.issue(issued);
            put_code(tx, phone, &code);
            Ok(())
        })
        .await
    }

    async fn attempt(
        &self,
        phone: PhoneKey,
        digest: CodeDigest,
        device: CodeDevice,
        now: Timestamp,
    ) -> Result<CodeAttempt, StoreError> {
        self.write(move |tx| {
            let Some(mut code) = tx.get::<OneTimeCode>(Table::Codes, &phone)? else { return Ok(CodeAttempt::Wrong) };
            let attempt = code.attempt(|stored| verify_slices_are_equal(stored, &digest).is_ok(), device, now);
            put_code(tx, phone, &code);
            Ok(attempt)
        })
        .await
    }
}

fn put_code(tx: &mut Tx<'_>, phone: PhoneKey, code: &OneTimeCode) {
    if *code == OneTimeCode::default() {
        tx.delete(Table::Codes, &phone);
    } else {
        tx.put(Table::Codes, &phone, code);
        tx.expire(code.forgettable_at(), Expiring::Code(phone));
    }
}
