use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use domain::{
    CodeAttempt, Decision, DeviceId, DisplayName, PendingCode, PhoneNumber, Session, SessionId, Timestamp, User, UserId,
};
use ports::{LimitKey, NewUser, UserKey};

use crate::codes::random_code;
use crate::refresh_token::RefreshToken;
use crate::{Auth, AuthError, Secret, Tokens, parse_phone};

/// A code is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtpRequested {
    /// The phone it goes to.
    pub phone_number: PhoneNumber,
    /// When it is void.
    pub expires_at: Timestamp,
    /// What is left of the phone's limit; `None` if it is off.
    pub decision: Option<Decision>,
}

impl OtpRequested {
    /// How long until another may be asked for; zero if at once.
    pub fn retry_after(&self) -> Duration {
        self.decision.map_or(Duration::ZERO, |decision| decision.retry_after)
    }
}

/// A code as its owner gives it back.
#[derive(Clone, Debug)]
pub struct VerifyOtp<'a> {
    /// The phone it went to.
    pub phone: &'a str,
    /// The code.
    pub otp: &'a str,
    /// The address it comes from.
    pub ip: IpAddr,
    /// The device that signs in.
    pub device_id: DeviceId,
    /// What to call a new user; a known one keeps the name.
    pub display_name: Option<DisplayName>,
}

/// Somebody is in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub user: User,
    /// The new login.
    pub session: Session,
    /// Its tokens.
    pub tokens: Tokens,
    /// Whether this was the first sign-in.
    pub is_new_user: bool,
}

impl Auth {
    /// Sends a one-time code to a phone. The answer is the same whether or not the number is known.
    pub async fn request_otp(&self, phone: &str, ip: IpAddr) -> Result<OtpRequested, AuthError> {
        let phone_number = parse_phone(phone)?;
        let phone_key = self.keys().code_key().phone_key(&phone_number);
        let limits = self.config().limits;
        // The address comes first: one that is over its limit takes nothing from other people's phones.
        self.take("otp_request_per_ip", LimitKey::OtpRequestIp(network(ip)), limits.otp_request_per_ip).await?;
        let per_phone = LimitKey::OtpRequestPhone(phone_key);
        let decision = self.take("otp_request_per_phone", per_phone, limits.otp_request_per_phone).await?;

        let code = self.config().fixed_code.clone().map_or_else(random_code, Secret::from);
        let digest = self.keys().code_key().code_digest(&phone_number, code.expose());
        let expires_at = self.now() + self.config().code_ttl;
        let tries_left = self.config().code_tries_max;
        self.ports().codes.issue(phone_key, PendingCode { digest, expires_at, tries_left }).await?;
        self.ports().otp.send(&phone_number, code.expose(), expires_at).await.map_err(|error| {
            tracing::error!(?phone_number, error = &error as &dyn std::error::Error, "one-time code not sent");
            AuthError::NotDelivered
        })?;
        Ok(OtpRequested { phone_number, expires_at, decision })
    }

    /// Takes a code back and signs its owner in on a device. What the device was signed in to before ends.
    pub async fn verify_otp(&self, verify: VerifyOtp<'_>) -> Result<SignedIn, AuthError> {
        let phone_number = parse_phone(verify.phone)?;
        let code_key = self.keys().code_key();
        let digest = code_key.code_digest(&phone_number, verify.otp);
        let now = self.now();
        // Codes are few, and each phone has its own tries: who guesses at one phone after the other is stopped by where
        // it comes from. Only wrong codes count, so many people behind one address sign in unhindered.
        let (from_there, per_ip) = (LimitKey::OtpVerifyIp(network(verify.ip)), self.config().limits.otp_verify_per_ip);
        let look = self.take(VERIFY_LIMIT, from_there, per_ip.map(|quota| quota.weighing(0))).await?;
        if let Some(decision) = look.filter(|decision| decision.remaining == 0) {
            return Err(AuthError::RateLimited { limit: VERIFY_LIMIT, decision });
        }
        match self.ports().codes.attempt(code_key.phone_key(&phone_number), digest, now).await? {
            CodeAttempt::Correct => {}
            CodeAttempt::Wrong => {
                self.take(VERIFY_LIMIT, from_there, per_ip).await?;
                return Err(AuthError::WrongCode);
            }
            CodeAttempt::Locked { until } => return Err(AuthError::Locked { retry_after: until.since(now) }),
        }

        let new = new_user(self.ports().ids.ulid().into(), verify.display_name, now);
        let (user, is_new_user) = self.ports().users.find_or_create(UserKey::Phone(phone_number), new).await?;
        let (session, tokens) = self.open_session(user.user_id, verify.device_id, now).await?;
        Ok(SignedIn { user, session, tokens, is_new_user })
    }

    async fn open_session(
        &self,
        user_id: UserId,
        device_id: DeviceId,
        now: Timestamp,
    ) -> Result<(Session, Tokens), AuthError> {
        let session_id = SessionId::from(self.ports().ids.ulid());
        let refresh_token = RefreshToken::random(session_id);
        let session = Session {
            session_id,
            user_id,
            device_id,
            created_at: now,
            last_active_at: now,
            expires_at: now + self.config().refresh_ttl,
            current: refresh_token.digest(),
            spent: None,
        };
        let replaced = self.ports().sessions.create(session.clone()).await?;
        self.close_sockets(&replaced).await;
        let tokens = self.tokens(&session, refresh_token, now);
        Ok((session, tokens))
    }
}

/// The name of the limit of wrong codes from an address.
const VERIFY_LIMIT: &str = "otp_verify_per_ip";

/// Who an address stands for: behind IPv6 everybody has a network of 64 bits to themselves.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

/// A user to be made if the key is new. Without a name of their own they get a neutral one, which says nothing of
/// their phone.
pub(crate) fn new_user(user_id: UserId, display_name: Option<DisplayName>, now: Timestamp) -> NewUser {
    let display_name = display_name.unwrap_or_else(|| {
        let id = user_id.to_string();
        DisplayName::try_from(format!("User {}", &id[id.len() - 4..])).expect("nine characters are a name")
    });
    NewUser { user_id, display_name, created_at: now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_and_those_of_others_are_not() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7", "an IPv4 address as IPv6 sockets see it");
    }
}
