use std::path::PathBuf;
use std::time::Duration;

use domain::Quota;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the operator decides about signing in.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long an access token is good.
    pub access_ttl: Duration,
    /// How long a session lives without a refresh.
    pub refresh_ttl: Duration,
    /// How long a one-time code is good.
    pub code_ttl: Duration,
    /// Wrong tries after which a code dies and its phone is locked.
    pub code_tries_max: u32,
    /// The age at which the key that signs access tokens makes way for a new one.
    pub key_rotation: Duration,
    /// How often what may be asked for.
    pub limits: Limits,
    /// The code every phone gets instead of a random one; for development only.
    pub fixed_code: Option<String>,
    /// The other system whose tokens are accepted, if there is one.
    pub external: Option<ExternalConfig>,
}

/// The limits of `[limits]` that are checked here; `None` is off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Codes asked for a phone.
    pub otp_request_per_phone: Option<Quota>,
    /// Codes asked from an address.
    pub otp_request_per_ip: Option<Quota>,
    /// Wrong codes given back from an address.
    pub otp_verify_per_ip: Option<Quota>,
    /// Refreshes of a session.
    pub refresh: Option<Quota>,
}

/// Another system whose JWTs are accepted, `[auth.external]`.
#[derive(Clone, Debug)]
pub struct ExternalConfig {
    /// Where its public keys are.
    pub jwks: JwksSource,
    /// The `iss` its tokens must carry.
    pub issuer: String,
    /// The `aud` its tokens must carry.
    pub audience: String,
    /// The claim that names the user, usually `sub`.
    pub user_claim: String,
    /// The claim with the name a new user is given, if there is one.
    pub name_claim: Option<String>,
}

/// Where the public keys of another system are.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A file on this machine.
    File(PathBuf),
    /// An address to fetch them from.
    Url(reqwest::Url),
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
            fixed_code: None,
            external: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            otp_request_per_phone: Quota::per(3, 15 * MINUTE),
            otp_request_per_ip: Quota::per(10, 15 * MINUTE),
            otp_verify_per_ip: Quota::per(30, 15 * MINUTE),
            refresh: Quota::per(30, MINUTE),
        }
    }
}
