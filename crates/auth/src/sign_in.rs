use std::net::IpAddr;
use std::time::Duration;

use domain::{
    CodeAttempt, CodeDevice, DeviceId, DisplayName, PendingCode, PhoneNumber, Quota, RateDecision, Secret, Session,
    SessionId, Timestamp, User, UserId, network,
};
use ports::{LimitKey, NewUser, SecurityEvent, SecurityEventKind, UserKey, error_chain};

use crate::codes::random_code;
use crate::phone::calling_code;
use crate::refresh_token::RefreshToken;
use crate::restrictions::RestrictionAge;
use crate::{Auth, AuthError, Tokens, parse_phone};

/// A one-time code was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtpRequested {
    /// The phone that receives the code.
    pub phone_number: PhoneNumber,
    /// The expiry time of the code.
    pub expires_at: Timestamp,
    /// The state of the phone's rate limit; `None` if the limit is off.
    pub decision: Option<RateDecision>,
}

impl OtpRequested {
    /// The delay until another code may be requested; zero if it may be requested now.
    pub fn retry_after(&self) -> Duration {
        self.decision.map_or(Duration::ZERO, |decision| decision.retry_after)
    }
}

/// A sign-in with a one-time code.
#[derive(Clone, Debug)]
pub struct VerifyOtp<'a> {
    /// The phone that received the code.
    pub phone: &'a str,
    /// The code.
    pub otp: &'a str,
    /// The client's IP address.
    pub ip: IpAddr,
    /// The device that signs in.
    pub device_id: DeviceId,
    /// The display name of a new user; an existing user keeps theirs.
    pub display_name: Option<DisplayName>,
}

/// A successful sign-in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The user.
    pub user: User,
    /// The new session.
    pub session: Session,
    /// The tokens of the session.
    pub tokens: Tokens,
    /// Whether the sign-in created the user.
    pub is_new_user: bool,
}

impl Auth {
    /// Sends a one-time code to a phone, unless sign-in with a phone is off. The answer is the same for known and unknown
    /// numbers.
    pub async fn request_otp(&self, phone: &str, ip: IpAddr) -> Result<OtpRequested, AuthError> {
        let requested = self.send_code(phone, ip).await;
        let event = SecurityEvent::of(SecurityEventKind::CodeRequested);
        self.record(match &requested {
            Ok(_) => event,
            Err(refusal) => event.failed(refusal.reason()),
        });
        requested
    }

    async fn send_code(&self, phone: &str, ip: IpAddr) -> Result<OtpRequested, AuthError> {
        self.require_phone_sign_in()?;
        let phone_number = parse_phone(phone)?;
        if !self.config().prefixes.admit(&phone_number) {
            return Err(AuthError::PhoneNumberRefused);
        }
        let phone_key = self.keys().code_key().phone_key(&phone_number);
        let limits = self.config().limits;
        // The IP limit is checked first, so that a client over its limit does not use up the limits of other users'
        // phones.
        self.take("otp_request_per_ip", LimitKey::OtpRequestIp(network(ip)), limits.otp_request_per_ip).await?;
        let per_phone = LimitKey::OtpRequestPhone(phone_key);
        let decision = self.take("otp_request_per_phone", per_phone, limits.otp_request_per_phone).await?;
        // These two bound the cost of an attacker with many addresses and many numbers.
        let country = LimitKey::OtpRequestCountry(calling_code(&phone_number));
        self.take("otp_request_per_country", country, limits.otp_request_per_country).await?;
        self.take("otp_request_total", LimitKey::OtpRequestTotal, limits.otp_request_total).await?;

        let code = self.config().fixed_code.clone().map_or_else(random_code, Secret::from);
        let digest = self.keys().code_key().code_digest(&phone_number, code.expose());
        let expires_at = self.now() + self.config().code_ttl;
        let tries_left = self.config().code_tries_max;
        self.ports().codes.issue(phone_key, PendingCode { digest, expires_at, tries_left }).await?;
        self.ports().otp.send(&phone_number, code.expose(), expires_at).await.map_err(|error| {
            tracing::error!(
                ?phone_number,
                error = %error_chain(&error),
                "could not send the one-time code"
            );
            AuthError::NotDelivered
        })?;
        Ok(OtpRequested { phone_number, expires_at, decision })
    }

    /// Verifies a code and signs its owner in on a device. Earlier sessions of the device end.
    ///
    /// Wrong codes lock the phone, also against its owner. So that others cannot keep the owner out, a lock does not
    /// apply to a device with a session of the owner: its tries are bounded by those of each code.
    pub async fn verify_otp(&self, verify: VerifyOtp<'_>) -> Result<SignedIn, AuthError> {
        let device_id = verify.device_id;
        let signed_in = self.sign_in(verify).await;
        let event = match &signed_in {
            Ok(SignedIn { session, is_new_user, .. }) => {
                let event = SecurityEvent::of(SecurityEventKind::SignIn).session(session.session_id);
                event.user(session.user_id).because(if *is_new_user { "new_user" } else { "known_user" })
            }
            Err(refusal) => SecurityEvent::of(SecurityEventKind::SignInFailed).failed(refusal.reason()),
        };
        self.record(event.device(device_id));
        signed_in
    }

    async fn sign_in(&self, verify: VerifyOtp<'_>) -> Result<SignedIn, AuthError> {
        self.require_phone_sign_in()?;
        let phone_number = parse_phone(verify.phone)?;
        let code_key = self.keys().code_key();
        let digest = code_key.code_digest(&phone_number, verify.otp);
        let now = self.now();
        // Codes are short, and attempts are counted per phone. An attacker who tries one phone after another is stopped
        // by the limit per IP address. Only wrong codes count, so many users behind one address can sign in.
        let (from_there, per_ip) = (LimitKey::OtpVerifyIp(network(verify.ip)), self.config().limits.otp_verify_per_ip);
        let look = self.take(VERIFY_LIMIT, from_there, per_ip.map(|quota| quota.weighing(0))).await?;
        if let Some(decision) = look.filter(|decision| decision.remaining == 0) {
            return Err(AuthError::RateLimited { limit: VERIFY_LIMIT, decision });
        }
        let phone_key = code_key.phone_key(&phone_number);
        let (of_phone, per_phone) = (LimitKey::OtpVerifyPhone(phone_key), self.config().limits.otp_verify_per_phone);
        let phone_try = self.take_try(of_phone, per_phone).await?;
        let try_as = async |device| self.ports().codes.attempt(phone_key, digest, device, now).await;
        let mut outcome = match phone_try {
            PhoneTry::Refused { retry_after } => CodeAttempt::Locked { until: now + retry_after },
            PhoneTry::Taken | PhoneTry::Untaken => try_as(CodeDevice::Unknown).await?,
        };
        if matches!(outcome, CodeAttempt::Locked { .. })
            && self.is_known_device(&phone_number, verify.device_id, now).await?
        {
            outcome = try_as(CodeDevice::Known).await?;
        }
        match outcome {
            CodeAttempt::Correct => {}
            CodeAttempt::Wrong => {
                if let (PhoneTry::Untaken, Some(quota)) = (phone_try, per_phone) {
                    self.ports().limits.take(of_phone, quota).await?;
                }
                self.take(VERIFY_LIMIT, from_there, per_ip).await?;
                return Err(AuthError::WrongCode);
            }
            CodeAttempt::Locked { until } => return Err(AuthError::Locked { retry_after: until.since(now) }),
        }

        let new = self.new_user(verify.display_name, now);
        let (user, is_new_user) = self.ports().users.find_or_create(UserKey::Phone(phone_number), new).await?;
        self.restrictions(user.user_id, RestrictionAge::Current).await?.check(now, None)?;
        let (session, tokens) = self.open_session(user.user_id, verify.device_id, now).await?;
        Ok(SignedIn { user, session, tokens, is_new_user })
    }

    /// Takes a try of a phone from its limit before the try is made, if wrong codes count there already. Attempts at once
    /// would otherwise all find the same rest. If none counts, the tries of the code bound them as well as the limit does,
    /// and a right code takes nothing.
    async fn take_try(&self, phone: LimitKey, quota: Option<Quota>) -> Result<PhoneTry, AuthError> {
        let Some(quota) = quota else { return Ok(PhoneTry::Untaken) };
        let limits = &self.ports().limits;
        let look = limits.take(phone, quota.weighing(0)).await?;
        if look.remaining == look.limit {
            return Ok(PhoneTry::Untaken);
        }
        let RateDecision { allowed, retry_after, .. } = limits.take(phone, quota).await?;
        Ok(if allowed { PhoneTry::Taken } else { PhoneTry::Refused { retry_after } })
    }

    /// Whether the owner of a phone has a session on a device.
    async fn is_known_device(
        &self,
        phone_number: &PhoneNumber,
        device_id: DeviceId,
        now: Timestamp,
    ) -> Result<bool, AuthError> {
        let owner = self.ports().user_reader.by_phone(std::slice::from_ref(phone_number)).await?.pop().flatten();
        let Some(owner) = owner else { return Ok(false) };
        let sessions = self.ports().sessions.sessions(owner.user_id, now).await?;
        Ok(sessions.iter().any(|session| session.device_id == device_id))
    }

    fn require_phone_sign_in(&self) -> Result<(), AuthError> {
        if self.config().phone_sign_in { Ok(()) } else { Err(AuthError::PhoneSignInOff) }
    }

    pub(crate) async fn open_session(
        &self,
        user_id: UserId,
        device_id: DeviceId,
        now: Timestamp,
    ) -> Result<(Session, Tokens), AuthError> {
        let session_id = SessionId::from(self.ports().ids.ulid());
        let refresh_token = RefreshToken::issue(session_id, self.keys().code_key());
        let session = Session {
            session_id,
            user_id,
            device_id,
            created_at: now,
            last_active_at: now,
            expires_at: now + self.config().refresh_ttl,
            current: refresh_token.digest(),
            spent: None,
            overtaken: vec![],
        };
        let replaced = self.ports().sessions.create(session.clone()).await?;
        self.close_sockets(&replaced).await;
        self.record_ends(user_id, &replaced, "replaced");
        let tokens = self.tokens(&session, refresh_token, now);
        Ok((session, tokens))
    }
}

/// The name of the limit on wrong codes per IP address.
const VERIFY_LIMIT: &str = "otp_verify_per_ip";

/// A try of a phone, by the limit on wrong codes per phone.
#[derive(Clone, Copy, Debug)]
enum PhoneTry {
    /// It was taken before the attempt.
    Taken,
    /// It is to be taken if the code is wrong.
    Untaken,
    /// No try is left.
    Refused { retry_after: Duration },
}

impl Auth {
    /// The values of a user to create if the key is new. Without a display name, the user gets a neutral one that
    /// reveals nothing of their phone number.
    pub fn new_user(&self, display_name: Option<DisplayName>, now: Timestamp) -> NewUser {
        let user_id: UserId = self.ports().ids.ulid().into();
        let display_name = display_name.unwrap_or_else(|| {
            let id = user_id.to_string();
            DisplayName::try_from(format!("User {}", &id[id.len() - 4..])).expect("nine characters are a name")
        });
        let group_invites = self.config().group_invites;
        NewUser { user_id, display_name, group_invites, created_at: now, proven_at: now }
    }
}
