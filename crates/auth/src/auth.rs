use std::sync::Arc;

use domain::{Decision, DeviceId, Quota, Session, SessionId, Timestamp, UserId};
use jsonwebtoken::decode_header;
use ports::{
    Clock, CodeStore, Delivery, Ids, LimitKey, OtpSender, Principal, RateLimiter, SessionStore, TicketStore, UserWriter,
};

use crate::external::External;
use crate::tokens::{Claims, invalid};
use crate::{AuthError, Config, KeyRing};

/// Signs people in and says who is asking. Clones share everything.
#[derive(Clone)]
pub struct Auth(Arc<Parts>);

/// What [`Auth`] needs from the world.
pub struct Ports {
    /// Makes users at their first sign-in.
    pub users: Arc<dyn UserWriter>,
    /// Keeps logins.
    pub sessions: Arc<dyn SessionStore>,
    /// Keeps one-time codes.
    pub codes: Arc<dyn CodeStore>,
    /// Keeps tickets.
    pub tickets: Arc<dyn TicketStore>,
    /// Counts requests.
    pub limits: Arc<dyn RateLimiter>,
    /// Sends codes to phones.
    pub otp: Arc<dyn OtpSender>,
    /// Closes the sockets of sessions that have ended.
    pub delivery: Arc<dyn Delivery>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids.
    pub ids: Arc<dyn Ids>,
}

struct Parts {
    ports: Ports,
    keys: Arc<KeyRing>,
    config: Config,
    external: Option<External>,
}

impl Auth {
    /// Signs in over these ports. Fails if this machine can make no HTTP client for the keys of another system.
    pub fn new(ports: Ports, keys: Arc<KeyRing>, config: Config) -> Result<Self, reqwest::Error> {
        let external = config.external.clone().map(External::new).transpose()?;
        Ok(Self(Arc::new(Parts { ports, keys, config, external })))
    }

    /// A mark on `text` that nobody else can make, for texts that go out and come back. `text` has no NUL.
    pub fn seal(&self, purpose: &str, text: &str) -> [u8; 32] {
        self.keys().code_key().seal(purpose, text)
    }

    /// Who an access token, ours or another system's, speaks for.
    pub async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        let header = decode_header(token).map_err(invalid)?;
        let kid = header.kid.as_deref().ok_or(AuthError::InvalidToken("it names no key"))?;
        let now = self.now();
        if let Some(key) = self.keys().verifying_key(kid) {
            let claims = Claims::verify(token, &key, now)?;
            let session = self.live_session(claims.sid, now).await?;
            return Ok(Principal {
                user_id: session.user_id,
                session_id: Some(session.session_id),
                device_id: Some(session.device_id),
                token_expires_at: claims.expires_at(),
            });
        }
        let external = self.0.external.as_ref().ok_or(AuthError::InvalidToken("its key is unknown"))?;
        let identity = external.verify(token, &header, kid, now).await?;
        let user_id = external.user_id(&identity, self.ports(), now).await?;
        Ok(Principal { user_id, session_id: None, device_id: None, token_expires_at: identity.expires_at })
    }

    /// The same for one device: a session's token is good on its own device only.
    pub async fn authenticate_device(&self, token: &str, device: DeviceId) -> Result<Principal, AuthError> {
        on_device(self.authenticate(token).await?, device)
    }

    /// Forgets what is remembered of a user whose account is deleted: the next token of another system that names them is
    /// a new user's.
    pub fn forget(&self, user_id: UserId) {
        if let Some(external) = &self.0.external {
            external.forget(user_id);
        }
    }

    /// The public keys that verify our access tokens, as a JWK set (RFC 7517).
    pub fn jwks(&self) -> serde_json::Value {
        serde_json::to_value(self.keys().jwks()).expect("a JWK set is JSON")
    }

    /// A session that is there and not expired. A token of any other is void: that is how revoking works.
    pub(crate) async fn live_session(&self, session_id: SessionId, now: Timestamp) -> Result<Session, AuthError> {
        self.ports().sessions.session(session_id, now).await?.ok_or(AuthError::TokenRevoked)
    }

    /// Takes one from a bucket, unless its limit is off.
    pub(crate) async fn take(
        &self,
        limit: &'static str,
        key: LimitKey,
        quota: Option<Quota>,
    ) -> Result<Option<Decision>, AuthError> {
        let Some(quota) = quota else { return Ok(None) };
        let decision = self.ports().limits.take(key, quota).await?;
        if decision.allowed { Ok(Some(decision)) } else { Err(AuthError::RateLimited { limit, decision }) }
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.0.ports
    }

    pub(crate) fn keys(&self) -> &KeyRing {
        &self.0.keys
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.ports.clock.now()
    }
}

/// Tokens and tickets are good on the device they were given to. Users of another system may use any.
pub(crate) fn on_device(principal: Principal, device: DeviceId) -> Result<Principal, AuthError> {
    match principal.device_id {
        Some(own) if own != device => Err(AuthError::InvalidToken("it belongs to another device")),
        _ => Ok(principal),
    }
}
