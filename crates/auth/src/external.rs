use std::time::Duration;

use domain::{DisplayName, ExternalId, Timestamp, UserId};
use jsonwebtoken::{Header, Validation, decode};
use ports::{NewUser, SecurityEvent, SecurityEventKind, UserKey, UserUpdate};
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::jwks::ExternalKeys;
use crate::tokens::invalid;
use crate::{Auth, AuthError, ExternalConfig};

/// Maximum difference between the external provider's clock and the local clock.
const LEEWAY: Duration = Duration::from_secs(60);
/// Maximum number of cached user ids.
const USERS_CACHED_MAX: usize = 10_000;
/// Lifetime of a cached user id. After an account deletion, other processes accept the old user id for at most this
/// time.
const USER_CACHED_FOR: Duration = Duration::from_secs(60);

/// An external identity provider with accepted JWTs.
pub(crate) struct ExternalProvider {
    config: ExternalConfig,
    keys: ExternalKeys,
    /// Users by subject. A subject gets a new id after its account is deleted, possibly by another process, so entries
    /// expire.
    users: Cache<ExternalId, KnownUser>,
}

#[derive(Clone, Copy)]
struct KnownUser {
    user_id: UserId,
    looked_up_at: Timestamp,
    /// The issue time of the latest token that was seen, which has the current name.
    issued_at: Timestamp,
}

/// The verified claims of an external token.
pub(crate) struct ExternalIdentity {
    pub(crate) expires_at: Timestamp,
    /// Zero if the token does not say.
    pub(crate) issued_at: Timestamp,
    /// The claim `jti`, if the token has it.
    pub(crate) token_id: Option<String>,
    subject: ExternalId,
    name: Option<DisplayName>,
}

#[derive(Deserialize)]
struct ExternalClaims {
    /// Seconds since 1970; fractions are allowed (RFC 7519).
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    jti: Option<String>,
    #[serde(default)]
    aud: Value,
    azp: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl ExternalProvider {
    pub(crate) fn new(config: ExternalConfig) -> Result<Self, reqwest::Error> {
        let keys = ExternalKeys::new(config.jwks.clone())?;
        Ok(Self { config, keys, users: Cache::new(USERS_CACHED_MAX) })
    }

    /// Verifies a token of the external provider.
    pub(crate) async fn verify(
        &self,
        token: &str,
        header: &Header,
        kid: &str,
        now: Timestamp,
    ) -> Result<ExternalIdentity, AuthError> {
        // RFC 7515: a token with a critical header that the receiver does not understand is invalid. This server
        // supports none.
        if header.crit.is_some() {
            return Err(AuthError::InvalidToken("it has a critical header"));
        }
        // RFC 8725, 3.11: a token for another purpose, such as a logout token, must not pass for an access token.
        if header.typ.as_deref().is_some_and(|kind| !is_access_type(kind)) {
            return Err(AuthError::InvalidToken("its type is neither JWT nor at+jwt"));
        }
        let key = self.keys.key(kid).await?;
        let mut validation = Validation::new(key.algorithm);
        // The library would use the system clock; the code below checks the times against the injected clock.
        validation.validate_exp = false;
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&[&self.config.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let claims: ExternalClaims = decode(token, &key.key, &validation).map_err(invalid)?.claims;

        let expires_at = timestamp(claims.exp) + LEEWAY;
        if expires_at <= now {
            return Err(AuthError::InvalidToken("it has expired"));
        }
        if claims.nbf.is_some_and(|nbf| timestamp(nbf) > now + LEEWAY) {
            return Err(AuthError::InvalidToken("it is not valid yet"));
        }
        if !self.is_allowed_client(&claims) {
            return Err(AuthError::InvalidToken("it was issued to another client"));
        }
        let subject = subject(claims.others.get(&self.config.user_claim))
            .ok_or(AuthError::InvalidToken("its user claim is missing or not a valid id"))?;
        let name = self.config.name_claim.as_ref().and_then(|claim| name(claims.others.get(claim)));
        let issued_at = timestamp(claims.iat.unwrap_or(0.0));
        Ok(ExternalIdentity { expires_at, issued_at, token_id: claims.jti, subject, name })
    }

    /// Whether the token was issued to a client that may present it here (OpenID Connect Core 1.0, 3.1.3.7).
    fn is_allowed_client(&self, claims: &ExternalClaims) -> bool {
        let ExternalConfig { clients, audience, .. } = &self.config;
        match &claims.azp {
            None => true,
            Some(azp) if !clients.is_empty() => azp.as_str().is_some_and(|azp| clients.iter().any(|one| one == azp)),
            Some(azp) => claims.aud.as_array().is_none_or(|several| several.len() < 2) || azp == audience,
        }
    }

    /// Whether names come from the provider only.
    pub(crate) fn sets_names(&self) -> bool {
        self.config.name_from_issuer
    }

    /// The issuer of accepted tokens.
    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// The user of an identity; created at its first sign-in. If names come from the provider, a token that is newer
    /// than all before it renames the user.
    pub(crate) async fn user_id(
        &self,
        identity: &ExternalIdentity,
        auth: &Auth,
        now: Timestamp,
    ) -> Result<UserId, AuthError> {
        let ports = auth.ports();
        let known = self.users.get(&identity.subject);
        let seen_at = known.map_or(Timestamp::default(), |known| known.issued_at);
        let may_rename = self.config.name_from_issuer && identity.issued_at > seen_at;
        if let Some(known) = known.filter(|known| now.since(known.looked_up_at) < USER_CACHED_FOR && !may_rename) {
            return Ok(known.user_id);
        }
        let key = UserKey::External { issuer: self.config.issuer.clone(), subject: identity.subject.clone() };
        let new = auth.new_user(identity.name.clone(), now);
        let (user, is_new) = ports.users.find_or_create(key, NewUser { proven_at: identity.issued_at, ..new }).await?;
        if user.deleted_at.is_some() {
            return Err(AuthError::TokenRevoked);
        }
        if is_new {
            let event = SecurityEvent::of(SecurityEventKind::SignIn).user(user.user_id).because("new_external_user");
            auth.record(event.with("external_id", identity.subject.as_str()));
        }
        // An older token has an older name.
        let is_latest = identity.issued_at >= seen_at;
        let name = identity.name.as_ref().filter(|name| self.config.name_from_issuer && **name != user.display_name);
        if let Some(name) = name.filter(|_| is_latest) {
            ports
                .users
                .update(user.user_id, UserUpdate { display_name: Some(name.clone()), ..UserUpdate::default() }, now)
                .await?;
        }
        let issued_at = identity.issued_at.max(seen_at);
        self.users.insert(identity.subject.clone(), KnownUser { user_id: user.user_id, looked_up_at: now, issued_at });
        Ok(user.user_id)
    }

    /// Drops a user from the cache.
    pub(crate) fn forget(&self, user_id: UserId) {
        self.users.retain(|_, known| known.user_id != user_id);
    }
}

/// Whether a `typ` header is that of an access token or says nothing: `JWT` or `at+jwt` (RFC 9068). Media types may have
/// the prefix `application/` and ignore case.
fn is_access_type(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

/// The cast saturates: times before 1970 or beyond the range become the nearest bound.
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0) as u64)
}

/// Providers use strings or integers as user ids.
fn subject(claim: Option<&Value>) -> Option<ExternalId> {
    let subject = match claim? {
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_f64() => number.to_string(),
        _ => return None,
    };
    subject.try_into().ok()
}

/// Characters that names must not have are removed, and a name that is too long is cut. A name of which nothing is left
/// counts as absent. So no name prevents a sign-in.
fn name(claim: Option<&Value>) -> Option<DisplayName> {
    DisplayName::cleaned(claim?.as_str()?)
}
