use aws_lc_rs::digest::{SHA256, digest};
use domain::{RestrictionChange, Restrictions, TokenIdDigest, TooManyDeniedTokens, UserId};
use ports::Revocation;

use crate::{Auth, AuthError, Principal, Revoke};

impl Auth {
    /// Restricts a user, or ends a restriction, and closes the sockets that are invalid from now on.
    ///
    /// Tokens are refused at once by this process, and by others within a second. Signing out also deletes the sessions
    /// of the user. A suspension keeps them: they are valid again when it ends.
    pub async fn restrict(
        &self,
        user_id: UserId,
        change: RestrictionChange,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, AuthError> {
        self.to_the_end(|auth| async move { auth.apply(user_id, change).await }).await
    }

    async fn apply(
        &self,
        user_id: UserId,
        change: RestrictionChange,
    ) -> Result<Result<Restrictions, TooManyDeniedTokens>, AuthError> {
        let now = self.now();
        let restricted = self.ports().restrictions.restrict(user_id, change.clone(), now).await?;
        if restricted.is_ok() {
            match change {
                RestrictionChange::Resume => {}
                RestrictionChange::Suspend { .. } => self.close(Revocation::User(user_id)).await,
                RestrictionChange::SignOut => {
                    self.close(Revocation::User(user_id)).await;
                    let as_user = Principal {
                        user_id,
                        session_id: None,
                        device_id: None,
                        token_expires_at: now,
                        assertion: None,
                    };
                    self.revoke(&as_user, Revoke::All).await?;
                }
                RestrictionChange::DenyToken { .. } => self.close(Revocation::Token(user_id)).await,
            }
        }
        Ok(restricted)
    }
}

/// How recent restrictions have to be.
#[derive(Clone, Copy)]
pub(crate) enum RestrictionAge {
    /// At most one second old, usually without a request to the store.
    Cached,
    /// As of now.
    Current,
}

/// The stored form of the id of a token, its claim `jti`.
pub fn token_id(jti: &str) -> TokenIdDigest {
    digest(&SHA256, jti.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}
