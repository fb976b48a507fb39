use std::net::SocketAddr;
use std::time::Duration;

use auth::RelyingParty;
use domain::{Quota, Ttl};
use ports::ProcessRole;

use super::{
    AuthSettings, Config, ConfigError, ExternalAuthSettings, LimitSettings, OtpSenderKind, PasskeySettings,
    PhoneSettings,
};
use crate::forwarded::TrustedProxies;
use crate::listener::ListenerBounds;
use crate::outward::event_kinds;

/// The remedy for a setting of a fleet in a binary for one machine.
const FLEET_MISSING: &str = "this binary was built without fleet support; use a release archive or the container image, or \
                             build with `cargo build --release --features fleet`";

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const QUARTER: Duration = Duration::from_secs(15 * 60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// More GiB than any disk has.
const GIB_MAX: f64 = 1e9;

/// Why a command of a fleet cannot run. Settings of a fleet are refused earlier, by [`load`](super::load).
pub fn without_fleet() -> anyhow::Error {
    anyhow::anyhow!(FLEET_MISSING)
}

impl Config {
    /// Refuses settings that contradict each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, message: String| Err(ConfigError::Invalid { key: key.into(), message });
        self.check_supported(cfg!(feature = "fleet"))?;
        self.check_fleet()?;
        for (key, address) in self.addresses() {
            if self.dev && !address.ip().is_loopback() {
                return invalid(
                    key,
                    format!("with --dev anybody can sign in, so {address} must be a loopback address"),
                );
            }
        }
        let not_an_origin =
            |origin: &str| format!("`{origin}` is not an origin, such as https://app.example or http://localhost:3000");
        if let Some(origin) = self.origins().find(|origin| *origin != "*" && !is_origin(origin)) {
            return invalid("allowed_origins", not_an_origin(origin));
        }
        if let Some(origin) = listed(&self.frame_ancestors).find(|origin| !is_origin(origin)) {
            return invalid("frame_ancestors", not_an_origin(origin));
        }
        self.trusted_proxies()?;
        let pairs =
            [("tls", &self.tls.cert_file, &self.tls.key_file), ("admin", &self.admin.cert_file, &self.admin.key_file)];
        if let Some((table, ..)) = pairs.into_iter().find(|(_, cert, key)| cert.is_empty() != key.is_empty()) {
            return invalid(table, "a certificate needs its key: set cert_file and key_file, or neither".into());
        }
        let (ratio, endpoint) = (self.telemetry.trace_ratio, &self.telemetry.otlp_endpoint);
        if !(0.0..=1.0).contains(&ratio) {
            return invalid("telemetry.trace_ratio", format!("{ratio} is not a share from 0 to 1"));
        }
        let is_url = |text: &str| {
            let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some());
            uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
        };
        if !endpoint.is_empty() && !is_url(endpoint) {
            let message = format!("`{endpoint}` is not a URL, such as http://localhost:4318");
            return invalid("telemetry.otlp_endpoint", message);
        }
        match self.otp_sender() {
            OtpSenderKind::Fixed if !self.dev => {
                return invalid("auth.otp.sender", "`fixed` lets anybody sign in and needs --dev".into());
            }
            OtpSenderKind::Webhook if self.auth.otp.webhook_url.is_empty() => {
                return invalid("auth.otp.webhook_url", "the sender `webhook` needs it".into());
            }
            OtpSenderKind::Webhook if self.auth.otp.webhook_secret_file.is_empty() => {
                return invalid("auth.otp.webhook_secret_file", "the sender `webhook` signs its calls with it".into());
            }
            _ => {}
        }
        let (has_key_file, has_key_command) = (!self.store.key_file.is_empty(), !self.store.key_command.is_empty());
        if has_key_file && has_key_command {
            return invalid("store", "set key_file or key_command, not both".into());
        }
        if let Some(managed) = self.store.engine.descriptor().managed_data()
            && (has_key_file || has_key_command)
        {
            return invalid("store", format!("a key encrypts the embedded store; {}", managed.encryption));
        }
        self.auth.phone.prefixes()?;
        self.relying_party()?;
        let external = &self.auth.external;
        let ExternalAuthSettings { jwks_file, jwks_url, issuer, audience, .. } = external;
        if !jwks_file.is_empty() && !jwks_url.is_empty() {
            return invalid("auth.external", "set jwks_file or jwks_url, not both".into());
        }
        if external.is_set() && (issuer.is_empty() || audience.is_empty()) {
            return invalid("auth.external", "tokens are only accepted with an issuer and an audience set".into());
        }
        if external.is_discovered() && !is_url(issuer) {
            let message =
                format!("`{issuer}` is not a URL, so its keys cannot be discovered; set jwks_url or jwks_file");
            return invalid("auth.external.issuer", message);
        }
        if external.name_from_issuer && external.name_claim.is_empty() {
            return invalid("auth.external.name_from_issuer", "set name_claim to the claim with the name".into());
        }
        if !self.auth.phone.enabled && !external.is_set() {
            return invalid("auth.phone.enabled", "nobody could sign in: set `auth.external.issuer` too".into());
        }
        if let Some((key, ..)) = self.receivers().find(|(_, _, secret_file)| secret_file.is_empty()) {
            return invalid(&format!("{key}.secret_file"), format!("calls of `{key}.url` are signed with it"));
        }
        let contact = &self.notify.webpush.contact;
        if !contact.is_empty() && !contact.starts_with("mailto:") && !contact.starts_with("https:") {
            return invalid("notify.webpush.contact", format!("`{contact}` is neither a mailto: nor an https: URL"));
        }
        if self.gateway.expiry_ms < 2 * self.gateway.heartbeat_interval_ms {
            let message = format!(
                "{} is less than two heartbeat intervals of {} ms: one late heartbeat would expire all routes",
                self.gateway.expiry_ms, self.gateway.heartbeat_interval_ms
            );
            return invalid("gateway.expiry_ms", message);
        }
        event_kinds(&self.webhook.events)?;
        let (max_gib, min_free_mib) = (self.store.max_gib, self.store.min_free_mib);
        if !(0.0..=GIB_MAX).contains(&max_gib) {
            return invalid("store.max_gib", format!("{max_gib} is less than 0, or more than any disk has"));
        }
        if min_free_mib > 1 << 40 {
            return invalid("store.min_free_mib", format!("{min_free_mib} is more than any disk has"));
        }
        let days = self.retention.message_days;
        if days > 0 && self.message_ttl_max().is_none() {
            return invalid("retention.message_days", format!("{days} is not a number of days from 1 to 365, or 0"));
        }
        let zero = [
            ("http_connections_max", self.http_connections_max as u64),
            ("http_connections_per_address_max", self.http_connections_per_address_max as u64),
            ("http_requests_mib_max", self.http_requests_mib_max as u64),
            ("auth.access_token_ttl_seconds", self.auth.access_token_ttl_seconds),
            ("auth.refresh_token_ttl_seconds", self.auth.refresh_token_ttl_seconds),
            ("auth.code_ttl_seconds", self.auth.code_ttl_seconds),
            ("auth.key_rotation_days", self.auth.key_rotation_days),
            ("notify.silence_seconds", self.notify.silence_seconds),
            ("health.stuck_after_ms", self.health.stuck_after_ms),
            ("gateway.heartbeat_interval_ms", self.gateway.heartbeat_interval_ms),
            ("gateway.unhealthy_after_ms", self.gateway.unhealthy_after_ms),
            ("gateway.idle_timeout_ms", self.gateway.idle_timeout_ms),
            ("gateway.connections_max", self.gateway.connections_max as u64),
            ("ingest.queue_len_max", self.ingest.queue_len_max as u64),
            ("ingest.batch_len_max", self.ingest.batch_len_max as u64),
            ("rpc.assertion_seconds", self.rpc.assertion_seconds),
            ("store.scrub_mib_per_second", self.store.scrub_mib_per_second.into()),
            ("security_events.file_mib_max", self.security_events.file_mib_max),
            ("security_events.files_max", self.security_events.files_max.into()),
        ];
        match zero.into_iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => invalid(key, "it must be 1 or more".into()),
            None => Ok(()),
        }
    }

    /// Refuses the settings of a fleet where the binary is built for one machine.
    fn check_supported(&self, has_fleet: bool) -> Result<(), ConfigError> {
        let of_fleet = [
            ("store.engine", self.store.engine.descriptor().is_shared()),
            ("roles", self.roles()?.len() < ProcessRole::ALL.len()),
        ];
        match of_fleet.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) if !has_fleet => {
                Err(ConfigError::Invalid { key: key.into(), message: FLEET_MISSING.into() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses an incomplete fleet configuration, and single roles outside a fleet.
    fn check_fleet(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, message: &str| Err(ConfigError::Invalid { key: key.into(), message: message.into() });
        let roles = self.roles()?;
        if !self.store.engine.descriptor().is_shared() {
            if roles.len() < ProcessRole::ALL.len() {
                return invalid(
                    "roles",
                    "parts of the service need `store.engine` = \"dynamodb\"; one machine runs `all`",
                );
            }
            return Ok(());
        }
        let needed = [
            ("redis.url", &self.redis.url, true),
            ("kafka.brokers", &self.kafka.brokers, roles != [ProcessRole::Gateway]),
            ("auth.secret_file", &self.auth.secret_file, roles.contains(&ProcessRole::Api)),
        ];
        if let Some((key, ..)) = needed.into_iter().find(|(_, value, needed)| *needed && value.is_empty()) {
            return invalid(key, "a fleet needs it");
        }
        let rpc = &self.rpc;
        let checks_assertions = roles.iter().any(|role| matches!(role, ProcessRole::Api | ProcessRole::Ingest));
        if checks_assertions && rpc.assertion_secret_file.is_empty() && !rpc.upgrading {
            return invalid(
                "rpc.assertion_secret_file",
                "the roles `api` and `ingest` need it; `docs/fleet.md` has the steps of an upgrade",
            );
        }
        if !rpc.callers_file.is_empty() && rpc.secret_file.is_empty() {
            return invalid("rpc.callers_file", "it lists secrets, so `rpc.secret_file` has to be set too");
        }
        let certificates = [&rpc.ca_file, &rpc.cert_file, &rpc.key_file].map(|file| !file.is_empty());
        match (!rpc.secret_file.is_empty(), certificates) {
            (true, [false, false, false]) | (false, [true, true, true]) => Ok(()),
            (true, _) => invalid("rpc", "set secret_file or certificates, not both"),
            (false, [false, false, false]) => invalid(
                "rpc",
                "the processes of a fleet authenticate each other: set secret_file, or ca_file, cert_file and key_file",
            ),
            (false, _) => invalid("rpc", "certificates need ca_file, cert_file and key_file"),
        }
    }

    /// The facts about this server that the pages need.
    pub(crate) fn site(&self) -> web::SiteInfo {
        web::SiteInfo {
            admin: self.admin.listen,
            admin_tls: !self.admin.cert_file.is_empty(),
            dev: self.dev,
            phone: self.auth.phone.enabled,
            frame_ancestors: listed(&self.frame_ancestors).map(str::to_owned).collect(),
        }
    }

    /// The networks of `trusted_proxies`.
    pub(crate) fn trusted_proxies(&self) -> Result<TrustedProxies, ConfigError> {
        self.trusted_proxies.parse().map_err(|message| ConfigError::Invalid { key: "trusted_proxies".into(), message })
    }

    /// The bounds of the public listener.
    pub(crate) fn public_bounds(&self) -> ListenerBounds {
        ListenerBounds {
            connections: self.http_connections_max,
            connections_per_network: self.http_connections_per_address_max,
            request_bytes: self.http_requests_mib_max << 20,
            unauthenticated: self.limits.unauthenticated_per_ip(),
        }
    }

    /// The time within which deleted bytes leave the disk, if erasure is enabled.
    pub(crate) fn erase_within(&self) -> Option<Duration> {
        let within = Duration::from_secs(self.store.erase_within_seconds);
        (!within.is_zero()).then_some(within)
    }

    /// The interval of scrubs, if they are enabled.
    pub(crate) fn scrub_every(&self) -> Option<Duration> {
        let every = Duration::from_secs(self.store.scrub_every_seconds);
        (!every.is_zero()).then_some(every)
    }

    /// The origins of `allowed_origins`.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        listed(&self.allowed_origins)
    }

    /// The relying party of passkeys; `None` if they are off. With `--dev` and no settings it is that of the own listener.
    pub(crate) fn relying_party(&self) -> Result<Option<RelyingParty>, ConfigError> {
        let invalid = |message: String| ConfigError::Invalid { key: "auth.passkeys".into(), message };
        let PasskeySettings { rp_id, rp_name, origins } = &self.auth.passkeys;
        let (rp_id, origins) = match (rp_id.is_empty(), self.dev) {
            (false, _) => (rp_id.clone(), listed(origins).map(str::to_owned).collect()),
            (true, _) if !origins.is_empty() => {
                return Err(invalid("set `rp_id` too, the domain that passkeys are bound to".to_owned()));
            }
            (true, true) => ("localhost".to_owned(), vec![self.local_origin()]),
            (true, false) => return Ok(None),
        };
        let party = RelyingParty::new(rp_id, rp_name.clone(), origins);
        party.map(Some).map_err(|error| invalid(error.to_string()))
    }

    /// The origin of pages of the own listener, as a browser on this machine names it.
    fn local_origin(&self) -> String {
        match (self.tls.cert_file.is_empty(), self.listen.port()) {
            (true, 80) => "http://localhost".to_owned(),
            (true, port) => format!("http://localhost:{port}"),
            (false, 443) => "https://localhost".to_owned(),
            (false, port) => format!("https://localhost:{port}"),
        }
    }

    /// The host names of `admin.allowed_hosts`.
    pub(crate) fn admin_hosts(&self) -> Vec<String> {
        listed(&self.admin.allowed_hosts).map(str::to_owned).collect()
    }

    /// The external identity provider, if tokens of one are accepted.
    pub(crate) fn external_issuer(&self) -> Result<Option<auth::ExternalConfig>, ConfigError> {
        self.auth.external.config()
    }

    /// The roles of this process, each once.
    pub(crate) fn roles(&self) -> Result<Vec<ProcessRole>, ConfigError> {
        if self.roles == "all" {
            return Ok(ProcessRole::ALL.to_vec());
        }
        let named: Vec<&str> = self.roles.split(',').map(str::trim).collect();
        let unknown = named.iter().find(|name| ProcessRole::ALL.iter().all(|role| role.name() != **name));
        match unknown {
            Some(name) => Err(ConfigError::Invalid {
                key: "roles".into(),
                message: format!("`{name}` is none of all, gateway, ingest, fanout, api"),
            }),
            None => Ok(ProcessRole::ALL.into_iter().filter(|role| named.contains(&role.name())).collect()),
        }
    }

    /// The sender of one-time codes, with `auto` resolved.
    pub(crate) fn otp_sender(&self) -> OtpSenderKind {
        match (self.auth.otp.sender, self.dev) {
            (OtpSenderKind::Auto, true) => OtpSenderKind::Fixed,
            (OtpSenderKind::Auto, false) => OtpSenderKind::Log,
            (sender, _) => sender,
        }
    }

    pub(crate) fn gateway(&self) -> gateway::Config {
        let millis = Duration::from_millis;
        gateway::Config {
            heartbeat_interval: millis(self.gateway.heartbeat_interval_ms),
            unhealthy_after: millis(self.gateway.unhealthy_after_ms),
            expiry: self.expiry(),
            timing: protocol::Timing {
                idle_timeout: millis(self.gateway.idle_timeout_ms),
                ..protocol::Timing::default()
            },
            origins: self.origins().collect(),
            outbox: protocol::OutboxBounds::default(),
            limits: gateway::Limits {
                connections_live: (self.limits.connections_live > 0).then_some(self.limits.connections_live as usize),
                connections_new: Quota::per(self.limits.connections_new, MINUTE),
                send_per_chat: self.limits.send_per_chat(),
                send_per_user: self.limits.send_per_user(),
                message_kib: self.limits.message_kib(),
                message_kib_total: self.limits.message_kib_total(),
                sync: Quota::per(self.limits.sync, SECOND),
                typing: Quota::per(self.limits.typing, SECOND),
                typing_per_user: self.limits.typing_per_user(),
                rest_read: self.limits.rest_read(),
                frames_per_connection: self.limits.frames_per_connection(),
            },
        }
    }

    /// How long the routes of a gateway stay valid after its last heartbeat.
    pub(crate) fn expiry(&self) -> Duration {
        Duration::from_millis(self.gateway.expiry_ms)
    }

    /// How long the process may be unresponsive before it asks for a restart.
    pub(crate) fn stuck_after(&self) -> Duration {
        Duration::from_millis(self.health.stuck_after_ms)
    }

    /// The longest lifetime of a message, if it is limited.
    pub(crate) fn message_ttl_max(&self) -> Option<Ttl> {
        Ttl::from_secs(self.retention.message_days.saturating_mul(DAY.as_secs()))
    }

    /// The age up to which authors edit and delete their messages, if it is limited.
    pub(crate) fn update_window(&self) -> Option<Duration> {
        let seconds = self.messages.update_window_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    pub(crate) fn ingest(&self) -> ingest::Config {
        ingest::Config {
            queue_len_max: self.ingest.queue_len_max,
            batch_len_max: self.ingest.batch_len_max,
            ttl_max: self.message_ttl_max(),
            update_window: self.update_window(),
            ..ingest::Config::default()
        }
    }

    /// The operator's webhooks that are set: key, URL and secret file.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let (notify, events) = (&self.notify.webhook, &self.webhook);
        let receivers =
            [("notify.webhook", &notify.url, &notify.secret_file), ("webhook", &events.url, &events.secret_file)];
        let set = receivers.into_iter().filter(|(_, url, _)| !url.is_empty());
        set.map(|(key, url, secret_file)| (key, url.as_str(), secret_file.as_str()))
    }

    pub(crate) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let mut addresses = vec![("listen", self.listen), ("admin.listen", self.admin.listen)];
        if self.store.engine.descriptor().is_shared() {
            addresses.push(("rpc.listen", self.rpc.listen));
        }
        addresses
    }
}

impl LimitSettings {
    /// Allows bursts of twice the rate.
    pub(crate) fn send_per_chat(&self) -> Option<Quota> {
        Quota::with_burst(self.send_per_chat, SECOND, self.send_per_chat.saturating_mul(2))
    }

    pub(crate) fn send_per_user(&self) -> Option<Quota> {
        Quota::per(self.send_per_user, SECOND)
    }

    pub(crate) fn rest_read(&self) -> Option<Quota> {
        Quota::per(self.rest_read, MINUTE)
    }

    pub(crate) fn rest_write(&self) -> Option<Quota> {
        Quota::per(self.rest_write, MINUTE)
    }

    /// Three times the limit of one chat over all chats, with bursts of ten times as many: a person types in one chat at
    /// a time, on few devices.
    fn typing_per_user(&self) -> Option<Quota> {
        Quota::with_burst(self.typing.saturating_mul(3), SECOND, self.typing.saturating_mul(10))
    }

    /// Allows bursts of five seconds: a client may acknowledge many chats at once.
    fn frames_per_connection(&self) -> Option<Quota> {
        Quota::with_burst(self.frames_per_connection, SECOND, self.frames_per_connection.saturating_mul(5))
    }

    pub(crate) fn lookup_numbers(&self) -> Option<Quota> {
        Quota::per(self.lookup_numbers, DAY)
    }

    pub(crate) fn exports(&self) -> Option<Quota> {
        Quota::per(self.exports, DAY)
    }

    pub(crate) fn groups_created(&self) -> Option<Quota> {
        Quota::per(self.groups_created, DAY)
    }

    pub(crate) fn members_added(&self) -> Option<Quota> {
        Quota::per(self.members_added, DAY)
    }

    pub(crate) fn message_kib(&self) -> Option<Quota> {
        Quota::per(self.message_mib.saturating_mul(1024), DAY)
    }

    pub(crate) fn message_kib_total(&self) -> Option<Quota> {
        Quota::per(self.message_mib_total.saturating_mul(1024), DAY)
    }

    /// Allows bursts of five seconds: a network may have many users who load a page or sign in at once.
    pub(crate) fn unauthenticated_per_ip(&self) -> Option<Quota> {
        let rate = self.unauthenticated_per_ip;
        Quota::with_burst(rate, SECOND, rate.saturating_mul(5))
    }

    fn auth(&self) -> auth::Limits {
        auth::Limits {
            otp_request_per_phone: Quota::per(self.otp_request_per_phone, QUARTER),
            otp_request_per_ip: Quota::per(self.otp_request_per_ip, QUARTER),
            otp_request_per_country: Quota::per(self.otp_request_per_country, QUARTER),
            otp_request_total: Quota::per(self.otp_request_total, QUARTER),
            otp_verify_per_phone: auth::Limits::wrong_codes(self.otp_verify),
            otp_verify_per_ip: Quota::per(self.otp_verify_per_ip, QUARTER),
            passkey_challenge_per_ip: Quota::per(self.passkey_challenge_per_ip, QUARTER),
            passkey_verify_per_ip: Quota::per(self.passkey_verify_per_ip, QUARTER),
            passkey_registration: Quota::per(self.passkey_registration, QUARTER),
            refresh: Quota::per(self.refresh, MINUTE),
        }
    }
}

impl AuthSettings {
    pub(crate) fn config(
        &self,
        limits: &LimitSettings,
        fixed_code: Option<String>,
        passkeys: Option<RelyingParty>,
    ) -> Result<auth::Config, ConfigError> {
        Ok(auth::Config {
            access_ttl: Duration::from_secs(self.access_token_ttl_seconds),
            refresh_ttl: Duration::from_secs(self.refresh_token_ttl_seconds),
            code_ttl: Duration::from_secs(self.code_ttl_seconds),
            code_tries_max: if limits.otp_verify == 0 { u32::MAX } else { limits.otp_verify },
            key_rotation: Duration::from_secs(self.key_rotation_days.saturating_mul(24 * 3600)),
            limits: limits.auth(),
            phone_sign_in: self.phone.enabled,
            prefixes: self.phone.prefixes()?,
            fixed_code,
            group_invites: self.group_invites_default,
            passkeys,
            external: self.external.config()?,
        })
    }
}

impl PhoneSettings {
    fn prefixes(&self) -> Result<auth::PhonePrefixes, ConfigError> {
        let prefixes = |key: &str, list: &str| {
            let is_prefix = |text: &str| {
                let digits = text.strip_prefix('+').unwrap_or_default();
                (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
            };
            match listed(list).find(|text| !is_prefix(text)) {
                Some(text) => Err(ConfigError::Invalid {
                    key: format!("auth.phone.{key}"),
                    message: format!("`{text}` is not a prefix of phone numbers, such as +49 or +1900"),
                }),
                None => Ok(listed(list).map(str::to_owned).collect()),
            }
        };
        Ok(auth::PhonePrefixes {
            allowed: prefixes("allowed_prefixes", &self.allowed_prefixes)?,
            denied: prefixes("denied_prefixes", &self.denied_prefixes)?,
        })
    }
}

impl ExternalAuthSettings {
    /// Whether tokens of an external provider are accepted.
    fn is_set(&self) -> bool {
        [&self.jwks_file, &self.jwks_url, &self.issuer].iter().any(|text| !text.is_empty())
    }

    /// Whether the keys are discovered from the issuer.
    pub(super) fn is_discovered(&self) -> bool {
        self.is_set() && self.jwks_file.is_empty() && self.jwks_url.is_empty()
    }

    fn config(&self) -> Result<Option<auth::ExternalConfig>, ConfigError> {
        let jwks = match (self.jwks_file.as_str(), self.jwks_url.as_str()) {
            _ if !self.is_set() => return Ok(None),
            ("", "") => auth::JwksSource::Discovery(self.issuer.clone()),
            (file, "") => auth::JwksSource::File(file.into()),
            (_, url) => auth::JwksSource::Url(url.parse().map_err(|error| ConfigError::Invalid {
                key: "auth.external.jwks_url".into(),
                message: format!("`{url}` is not a URL: {error}"),
            })?),
        };
        Ok(Some(auth::ExternalConfig {
            jwks,
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            user_claim: self.user_claim.clone(),
            name_claim: (!self.name_claim.is_empty()).then(|| self.name_claim.clone()),
            name_from_issuer: self.name_from_issuer,
            clients: listed(&self.clients).map(str::to_owned).collect(),
        }))
    }
}

/// The entries of a list that is separated by commas.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Whether it has the form of an `Origin` header: scheme and host only.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_bare = |authority: &str| !authority.contains(['/', '?', '#', '@', '*', ';']);
    authority.is_some_and(is_bare) && text.parse::<http::Uri>().is_ok_and(|uri| uri.host().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StoreEngine;

    #[test]
    fn settings_of_a_fleet_need_a_binary_with_fleet_support() {
        let mut engine = Config::default();
        engine.store.engine = StoreEngine::Dynamodb;
        let roles = Config { roles: "gateway".to_owned(), ..Config::default() };
        for (key, config) in [("store.engine", engine), ("roles", roles)] {
            config.check_supported(true).unwrap();
            let refusal = config.check_supported(false).unwrap_err().to_string();
            assert!(
                refusal.starts_with(&format!("`{key}` is not usable: this binary was built without fleet support;"))
            );
            assert!(refusal.contains("`cargo build --release --features fleet`"), "{refusal}");
        }
    }

    #[test]
    fn one_machine_needs_no_fleet_support() {
        Config::default().check_supported(false).unwrap();
    }
}
