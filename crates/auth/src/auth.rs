use std::sync::Arc;

use domain::{AccessRefusal, DeviceId, Quota, RateDecision, Restrictions, Session, SessionId, Timestamp, UserId};
use jsonwebtoken::decode_header;
use ports::{
    Clock, CodeStore, Delivery, Ids, LimitKey, OtpSender, PasskeyStore, Principal, RateLimiter, RestrictionStore,
    SecurityEvent, SecurityEvents, SessionStore, TicketStore, UserReader, UserWriter,
};

use crate::external::ExternalProvider;
use crate::restrictions::{RestrictionAge, token_id};
use crate::tokens::{AccessClaims, invalid};
use crate::{AuthError, Config, KeyRing};

/// Signs users in and authenticates requests. Clones share their state.
#[derive(Clone)]
pub struct Auth(Arc<AuthState>);

/// The ports that [`Auth`] uses.
pub struct Ports {
    /// Creates users at their first sign-in.
    pub users: Arc<dyn UserWriter>,
    /// Finds the owner of a phone.
    pub user_reader: Arc<dyn UserReader>,
    /// Keeps sessions.
    pub sessions: Arc<dyn SessionStore>,
    /// Keeps the restrictions of users.
    pub restrictions: Arc<dyn RestrictionStore>,
    /// Keeps passkeys.
    pub passkeys: Arc<dyn PasskeyStore>,
    /// Keeps one-time codes.
    pub codes: Arc<dyn CodeStore>,
    /// Keeps tickets and spent challenges.
    pub tickets: Arc<dyn TicketStore>,
    /// Enforces rate limits.
    pub limits: Arc<dyn RateLimiter>,
    /// Sends codes to phones.
    pub otp: Arc<dyn OtpSender>,
    /// Closes the sockets of ended sessions.
    pub delivery: Arc<dyn Delivery>,
    /// Records sign-ins and the ends of sessions.
    pub security: Arc<dyn SecurityEvents>,
    /// Reads the time.
    pub clock: Arc<dyn Clock>,
    /// Generates ids.
    pub ids: Arc<dyn Ids>,
}

struct AuthState {
    ports: Ports,
    keys: Arc<KeyRing>,
    config: Config,
    external: Option<ExternalProvider>,
}

impl Auth {
    /// Creates an instance over these ports. Fails if the HTTP client for the keys of the external provider cannot be
    /// created.
    pub fn new(ports: Ports, keys: Arc<KeyRing>, config: Config) -> Result<Self, reqwest::Error> {
        let external = config.external.clone().map(ExternalProvider::new).transpose()?;
        Ok(Self(Arc::new(AuthState { ports, keys, config, external })))
    }

    /// A MAC over `text`, for texts that clients return unchanged. `text` must not contain NUL.
    pub fn seal(&self, purpose: &str, text: &str) -> [u8; 32] {
        self.keys().code_key().seal(purpose, text)
    }

    /// The principal of an access token, issued by this server or by the external provider.
    ///
    /// A restriction of the user may be a second old before it applies, as the port allows.
    pub async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        self.authenticate_by(token, RestrictionAge::Cached).await
    }

    async fn authenticate_by(&self, token: &str, lookup: RestrictionAge) -> Result<Principal, AuthError> {
        let header = decode_header(token).map_err(invalid)?;
        let kid = header.kid.as_deref().ok_or(AuthError::InvalidToken("it names no key"))?;
        let now = self.now();
        if let Some(key) = self.keys().verifying_key(kid) {
            let claims = AccessClaims::verify(token, &key, now)?;
            // Independent lookups. The session names the user again, so a claim alone decides nothing.
            let (session, restrictions) =
                tokio::try_join!(self.live_session(claims.sid, now), self.restrictions(claims.sub, lookup))?;
            restrictions.check(session.created_at, Some(&token_id(&claims.jti)))?;
            return Ok(Principal {
                user_id: session.user_id,
                session_id: Some(session.session_id),
                device_id: Some(session.device_id),
                token_expires_at: claims.expires_at(),
                assertion: None,
            });
        }
        let external = self.0.external.as_ref().ok_or(AuthError::InvalidToken("its key is unknown"))?;
        let identity = external.verify(token, &header, kid, now).await?;
        let user_id = external.user_id(&identity, self, now).await?;
        let token_id = identity.token_id.as_deref().map(token_id);
        let checked = self.restrictions(user_id, lookup).await?.check(identity.issued_at, token_id.as_ref());
        if checked == Err(AccessRefusal::Suspended) {
            // Perhaps the account was deleted, and its subject has a new one by now.
            external.forget(user_id);
        }
        checked?;
        Ok(Principal {
            user_id,
            session_id: None,
            device_id: None,
            token_expires_at: identity.expires_at,
            assertion: None,
        })
    }

    /// Like [`authenticate`](Self::authenticate), for one device: the token of a session is valid on its own device
    /// only. Restrictions apply at once: a connection outlives the check of its token by far.
    pub async fn authenticate_device(&self, token: &str, device: DeviceId) -> Result<Principal, AuthError> {
        on_device(self.authenticate_by(token, RestrictionAge::Current).await?, device)
    }

    /// Drops a user with a deleted account from the cache. The next token of the external provider for the same subject
    /// creates a new user.
    pub fn forget(&self, user_id: UserId) {
        if let Some(external) = &self.0.external {
            external.forget(user_id);
        }
    }

    /// The issuer of the external provider, if one is configured.
    pub fn external_issuer(&self) -> Option<&str> {
        self.0.external.as_ref().map(ExternalProvider::issuer)
    }

    /// Whether the name of a user comes from the external provider, so that the user cannot change it here.
    pub fn is_name_from_issuer(&self, principal: &Principal) -> bool {
        // Users of an external provider have no session here, and only they have none.
        principal.session_id.is_none() && self.0.external.as_ref().is_some_and(ExternalProvider::sets_names)
    }

    /// The public keys that verify access tokens of this server, as a JWK set (RFC 7517).
    pub fn jwks(&self) -> serde_json::Value {
        serde_json::to_value(self.keys().jwks()).expect("a JWK set is JSON")
    }

    pub(crate) async fn restrictions(
        &self,
        user_id: UserId,
        lookup: RestrictionAge,
    ) -> Result<Restrictions, AuthError> {
        let store = &self.ports().restrictions;
        Ok(match lookup {
            RestrictionAge::Cached => store.restrictions(user_id).await?,
            RestrictionAge::Current => store.current_restrictions(user_id).await?,
        })
    }

    /// A session that exists and has not expired. Tokens of any other session are invalid; revocation relies on this.
    pub(crate) async fn live_session(&self, session_id: SessionId, now: Timestamp) -> Result<Session, AuthError> {
        self.ports().sessions.session(session_id, now).await?.ok_or(AuthError::TokenRevoked)
    }

    /// Takes one request from a bucket, unless the limit is off.
    pub(crate) async fn take(
        &self,
        limit: &'static str,
        key: LimitKey,
        quota: Option<Quota>,
    ) -> Result<Option<RateDecision>, AuthError> {
        let Some(quota) = quota else { return Ok(None) };
        let decision = self.ports().limits.take(key, quota).await?;
        if decision.allowed { Ok(Some(decision)) } else { Err(AuthError::RateLimited { limit, decision }) }
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.0.ports
    }

    pub(crate) fn record(&self, event: SecurityEvent) {
        self.0.ports.security.record(event);
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

/// Tokens and tickets are valid on the device that they were issued to. Users of an external provider may use any
/// device.
pub(crate) fn on_device(principal: Principal, device: DeviceId) -> Result<Principal, AuthError> {
    match principal.device_id {
        Some(own) if own != device => Err(AuthError::InvalidToken("it belongs to another device")),
        _ => Ok(principal),
    }
}
