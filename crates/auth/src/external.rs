use std::time::Duration;

use domain::{DisplayName, Timestamp, UserId, limits};
use jsonwebtoken::{Header, Validation, decode};
use ports::UserKey;
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::Ports;
use crate::jwks::ExternalKeys;
use crate::sign_in::new_user;
use crate::tokens::invalid;
use crate::{AuthError, ExternalConfig};

/// How far the other system's clock may be from ours.
const LEEWAY: Duration = Duration::from_secs(60);
/// The longest subject, as `UserKey::External` has it.
const SUBJECT_BYTES_MAX: usize = 255;
/// Users whose ids are remembered between requests.
const USERS_CACHED_MAX: usize = 10_000;
/// How long: in other processes a deleted account of another system's user is there for so long.
const USER_CACHED_FOR: Duration = Duration::from_secs(60);

/// Another system whose JWTs are accepted.
pub(crate) struct External {
    config: ExternalConfig,
    keys: ExternalKeys,
    /// User ids by subject, and when each was looked up. A subject gets another id when its account is deleted, which may
    /// happen in another process, so that an entry is good for a while only.
    user_ids: Cache<String, (UserId, Timestamp)>,
}

/// What a token of the other system says.
pub(crate) struct Identity {
    pub(crate) expires_at: Timestamp,
    subject: String,
    name: Option<DisplayName>,
}

#[derive(Deserialize)]
struct ExternalClaims {
    /// Seconds since 1970; fractions are allowed (RFC 7519).
    exp: f64,
    nbf: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl External {
    pub(crate) fn new(config: ExternalConfig) -> Result<Self, reqwest::Error> {
        let keys = ExternalKeys::new(config.jwks.clone())?;
        Ok(Self { config, keys, user_ids: Cache::new(USERS_CACHED_MAX) })
    }

    /// Reads a token of the other system.
    pub(crate) async fn verify(
        &self,
        token: &str,
        header: &Header,
        kid: &str,
        now: Timestamp,
    ) -> Result<Identity, AuthError> {
        // RFC 7515: a header that must be understood and is not makes the token void. We know no such header.
        if header.crit.is_some() {
            return Err(AuthError::InvalidToken("it has a critical header"));
        }
        let key = self.keys.key(kid).await?;
        let mut validation = Validation::new(key.algorithm);
        // The library would ask the machine's clock; time is checked below, by ours.
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
        let subject = subject(claims.others.get(&self.config.user_claim))
            .ok_or(AuthError::InvalidToken("its user claim is missing or is no id"))?;
        let name = self.config.name_claim.as_ref().and_then(|claim| name(claims.others.get(claim)));
        Ok(Identity { expires_at, subject, name })
    }

    /// The user of an identity, made on first sight.
    pub(crate) async fn user_id(
        &self,
        identity: &Identity,
        ports: &Ports,
        now: Timestamp,
    ) -> Result<UserId, AuthError> {
        let known = self.user_ids.get(&identity.subject);
        if let Some((user_id, _)) = known.filter(|(_, looked_up_at)| now.since(*looked_up_at) < USER_CACHED_FOR) {
            return Ok(user_id);
        }
        let key = UserKey::External { issuer: self.config.issuer.clone(), subject: identity.subject.clone() };
        let new = new_user(ports.ids.ulid().into(), identity.name.clone(), now);
        let (user, _) = ports.users.find_or_create(key, new).await?;
        self.user_ids.insert(identity.subject.clone(), (user.user_id, now));
        Ok(user.user_id)
    }

    /// Looks a user up again the next time.
    pub(crate) fn forget(&self, user_id: UserId) {
        self.user_ids.retain(|_, (known, _)| *known != user_id);
    }
}

/// The cast saturates, so times before 1970 and beyond the calendar are its ends.
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0) as u64)
}

/// Systems name their users by text or by whole numbers.
fn subject(claim: Option<&Value>) -> Option<String> {
    let subject = match claim? {
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_f64() => number.to_string(),
        _ => return None,
    };
    (1..=SUBJECT_BYTES_MAX).contains(&subject.len()).then_some(subject)
}

/// A name that does not fit ours is cut or left out: it is no reason to keep somebody out.
fn name(claim: Option<&Value>) -> Option<DisplayName> {
    let name: String = claim?.as_str()?.trim().chars().take(limits::DISPLAY_NAME_CHARS_MAX).collect();
    DisplayName::try_from(name).ok()
}
