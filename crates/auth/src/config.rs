use std::path::PathBuf;
use std::time::Duration;

use domain::{GroupInvites, Quota};

use crate::{PhonePrefixes, RelyingParty};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Settings of sign-in.
#[derive(Clone, Debug)]
pub struct Config {
    /// Lifetime of an access token.
    pub access_ttl: Duration,
    /// Lifetime of a session without a refresh.
    pub refresh_ttl: Duration,
    /// Lifetime of a one-time code.
    pub code_ttl: Duration,
    /// Wrong attempts after which a code is invalidated and its phone is locked. Codes that follow each other share
    /// them.
    pub code_tries_max: u32,
    /// The age at which a new key replaces the signing key of access tokens.
    pub key_rotation: Duration,
    /// Rate limits of sign-in.
    pub limits: Limits,
    /// Whether users can sign in with a phone number.
    pub phone_sign_in: bool,
    /// The numbers that codes are sent to.
    pub prefixes: PhonePrefixes,
    /// A code for every phone instead of a random one; for development only.
    pub fixed_code: Option<String>,
    /// The users who may add a new user to a group at once, until the user changes it.
    pub group_invites: GroupInvites,
    /// The relying party of passkeys; passkeys are off without one.
    pub passkeys: Option<RelyingParty>,
    /// The external identity provider, if one is configured.
    pub external: Option<ExternalConfig>,
}

/// The limits of `[limits]` that this crate enforces; `None` is off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests of codes for a phone.
    pub otp_request_per_phone: Option<Quota>,
    /// Requests of codes from an IP address.
    pub otp_request_per_ip: Option<Quota>,
    /// Requests of codes for the numbers of a country.
    pub otp_request_per_country: Option<Quota>,
    /// All requests of codes.
    pub otp_request_total: Option<Quota>,
    /// Wrong codes for a phone, over all its codes.
    pub otp_verify_per_phone: Option<Quota>,
    /// Wrong codes from an IP address.
    pub otp_verify_per_ip: Option<Quota>,
    /// Challenges for sign-ins with a passkey from an IP address.
    pub passkey_challenge_per_ip: Option<Quota>,
    /// Refused sign-ins with a passkey from an IP address.
    pub passkey_verify_per_ip: Option<Quota>,
    /// Registrations of passkeys that a user begins.
    pub passkey_registration: Option<Quota>,
    /// Token refreshes of a session.
    pub refresh: Option<Quota>,
}

/// An external identity provider with accepted JWTs, `[auth.external]`.
#[derive(Clone, Debug)]
pub struct ExternalConfig {
    /// The source of its public keys.
    pub jwks: JwksSource,
    /// The `iss` that its tokens must have.
    pub issuer: String,
    /// The `aud` that its tokens must have.
    pub audience: String,
    /// The claim with the user's id, usually `sub`.
    pub user_claim: String,
    /// The claim with the display name of a new user, if any.
    pub name_claim: Option<String>,
    /// Whether the name of the claim replaces the user's name whenever it changes, so that users cannot rename
    /// themselves.
    pub name_from_issuer: bool,
    /// The clients whose tokens are accepted: the `azp` of a token, if present, has to be one of them. If it is empty,
    /// the `azp` of a token for several audiences has to be the audience.
    pub clients: Vec<String>,
}

/// The source of an external provider's public keys.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A file on this machine.
    File(PathBuf),
    /// A URL to fetch them from.
    Url(reqwest::Url),
    /// The issuer, a URL below which their URL is published (OpenID Connect Discovery 1.0). It is compared as text.
    Discovery(String),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            access_ttl: 60 * MINUTE,
            refresh_ttl: 30 * DAY,
            code_ttl: 5 * MINUTE,
            code_tries_max: 5,
            key_rotation: 30 * DAY,
            limits: Limits::default(),
            phone_sign_in: true,
            prefixes: PhonePrefixes::default(),
            fixed_code: None,
            group_invites: GroupInvites::default(),
            passkeys: None,
            external: None,
        }
    }
}

impl Limits {
    /// No limits, for tests.
    pub const OFF: Self = Self {
        otp_request_per_phone: None,
        otp_request_per_ip: None,
        otp_request_per_country: None,
        otp_request_total: None,
        otp_verify_per_phone: None,
        otp_verify_per_ip: None,
        passkey_challenge_per_ip: None,
        passkey_verify_per_ip: None,
        passkey_registration: None,
        refresh: None,
    };

    /// The quota of wrong codes for a phone: `tries` at once, then one in 15 minutes, so never more than `tries` in 15
    /// minutes. `None` for 0.
    pub fn wrong_codes(tries: u32) -> Option<Quota> {
        Quota::with_burst(1, 15 * MINUTE, tries)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            otp_request_per_phone: Quota::per(3, 15 * MINUTE),
            otp_request_per_ip: Quota::per(10, 15 * MINUTE),
            otp_request_per_country: Quota::per(500, 15 * MINUTE),
            otp_request_total: Quota::per(1000, 15 * MINUTE),
            otp_verify_per_phone: Self::wrong_codes(5),
            otp_verify_per_ip: Quota::per(30, 15 * MINUTE),
            passkey_challenge_per_ip: Quota::per(300, 15 * MINUTE),
            passkey_verify_per_ip: Quota::per(30, 15 * MINUTE),
            passkey_registration: Quota::per(10, 15 * MINUTE),
            refresh: Quota::per(30, MINUTE),
        }
    }
}
