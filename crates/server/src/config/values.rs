use std::net::SocketAddr;
use std::time::Duration;

use domain::Quota;
use ports::ProcessRole;

use super::{Auth, Config, ConfigError, Engine, External, Limits, OtpSender};
use crate::forwarded::TrustedProxies;
use crate::outward::event_kinds;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const QUARTER: Duration = Duration::from_secs(15 * 60);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// Refuses settings that contradict each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, message: String| Err(ConfigError::Invalid { key: key.into(), message });
        self.check_fleet()?;
        for (key, address) in self.addresses() {
            if self.dev && !address.ip().is_loopback() {
                return invalid(
                    key,
                    format!("with --dev anybody can sign in, so {address} must be a loopback address"),
                );
            }
        }
        if let Some(origin) = self.origins().find(|origin| *origin != "*" && !is_origin(origin)) {
            let message = format!("`{origin}` is no origin, such as https://app.example or http://localhost:3000");
            return invalid("allowed_origins", message);
        }
        self.trusted_proxies()?;
        let pairs =
            [("tls", &self.tls.cert_file, &self.tls.key_file), ("admin", &self.admin.cert_file, &self.admin.key_file)];
        if let Some((table, ..)) = pairs.into_iter().find(|(_, cert, key)| cert.is_empty() != key.is_empty()) {
            return invalid(table, "a certificate needs its key: set cert_file and key_file, or neither".into());
        }
        let (ratio, endpoint) = (self.telemetry.trace_ratio, &self.telemetry.otlp_endpoint);
        if !(0.0..=1.0).contains(&ratio) {
            return invalid("telemetry.trace_ratio", format!("{ratio} is no share; it is from 0 to 1"));
        }
        let is_url = |text: &str| {
            let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some());
            uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
        };
        if !endpoint.is_empty() && !is_url(endpoint) {
            let message = format!("`{endpoint}` is no URL, such as http://localhost:4318");
            return invalid("telemetry.otlp_endpoint", message);
        }
        match self.otp_sender() {
            OtpSender::Fixed if !self.dev => {
                return invalid("auth.otp.sender", "`fixed` lets anybody sign in and needs --dev".into());
            }
            OtpSender::Webhook if self.auth.otp.webhook_url.is_empty() => {
                return invalid("auth.otp.webhook_url", "the sender `webhook` needs it".into());
            }
            OtpSender::Webhook if self.auth.otp.webhook_secret_file.is_empty() => {
                return invalid("auth.otp.webhook_secret_file", "the sender `webhook` signs its calls with it".into());
            }
            _ => {}
        }
        let External { jwks_file, jwks_url, issuer, audience, .. } = &self.auth.external;
        if !jwks_file.is_empty() && !jwks_url.is_empty() {
            return invalid("auth.external", "set jwks_file or jwks_url, not both".into());
        }
        let external = !jwks_file.is_empty() || !jwks_url.is_empty();
        if external && (issuer.is_empty() || audience.is_empty()) {
            return invalid("auth.external", "tokens are only accepted with an issuer and an audience set".into());
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
                "{} is less than two beats of {} ms: one that is late would take all connections away",
                self.gateway.expiry_ms, self.gateway.heartbeat_interval_ms
            );
            return invalid("gateway.expiry_ms", message);
        }
        event_kinds(&self.webhook.events)?;
        let zero = [
            ("http_connections_max", self.http_connections_max as u64),
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
        ];
        match zero.into_iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => invalid(key, "it must be 1 or more".into()),
            None => Ok(()),
        }
    }

    /// Refuses a fleet that lacks something, and parts of a service that is no fleet.
    fn check_fleet(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, message: &str| Err(ConfigError::Invalid { key: key.into(), message: message.into() });
        let roles = self.roles()?;
        if self.store.engine == Engine::Embedded {
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
        let certificates = [&rpc.ca_file, &rpc.cert_file, &rpc.key_file].map(|file| !file.is_empty());
        match (!rpc.secret_file.is_empty(), certificates) {
            (true, [false, false, false]) | (false, [true, true, true]) => Ok(()),
            (true, _) => invalid("rpc", "set secret_file or certificates, not both"),
            (false, [false, false, false]) => invalid(
                "rpc",
                "the processes of a fleet know each other by secret_file, or by ca_file, cert_file and key_file",
            ),
            (false, _) => invalid("rpc", "certificates need ca_file, cert_file and key_file"),
        }
    }

    /// What the pages are told about this server.
    pub(crate) fn site(&self) -> web::Site {
        web::Site { admin: self.admin.listen, admin_tls: !self.admin.cert_file.is_empty(), dev: self.dev }
    }

    /// The networks of `trusted_proxies`.
    pub(crate) fn trusted_proxies(&self) -> Result<TrustedProxies, ConfigError> {
        self.trusted_proxies.parse().map_err(|message| ConfigError::Invalid { key: "trusted_proxies".into(), message })
    }

    /// The origins of `allowed_origins`, one by one.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        self.allowed_origins.split(',').map(str::trim).filter(|origin| !origin.is_empty())
    }

    /// The parts of the service that this process is, each once.
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

    /// The sender of one-time codes, with the default decided.
    pub(crate) fn otp_sender(&self) -> OtpSender {
        match (self.auth.otp.sender, self.dev) {
            (OtpSender::Auto, true) => OtpSender::Fixed,
            (OtpSender::Auto, false) => OtpSender::Log,
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
            limits: gateway::Limits {
                connections_live: (self.limits.connections_live > 0).then_some(self.limits.connections_live as usize),
                connections_new: Quota::per(self.limits.connections_new, MINUTE),
                send_per_chat: self.limits.send_per_chat(),
                send_per_user: self.limits.send_per_user(),
                sync: Quota::per(self.limits.sync, SECOND),
                typing: Quota::per(self.limits.typing, SECOND),
                rest_read: self.limits.rest_read(),
            },
        }
    }

    /// How long the routes of a gateway outlive its last beat.
    pub(crate) fn expiry(&self) -> Duration {
        Duration::from_millis(self.gateway.expiry_ms)
    }

    /// How long nothing may be answered before a restart is asked for.
    pub(crate) fn stuck_after(&self) -> Duration {
        Duration::from_millis(self.health.stuck_after_ms)
    }

    pub(crate) fn ingest(&self) -> ingest::Config {
        ingest::Config {
            queue_len_max: self.ingest.queue_len_max,
            batch_len_max: self.ingest.batch_len_max,
            ..ingest::Config::default()
        }
    }

    /// The operator's servers that are called, each by its key with URL and file of the secret.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let (notify, events) = (&self.notify.webhook, &self.webhook);
        let receivers =
            [("notify.webhook", &notify.url, &notify.secret_file), ("webhook", &events.url, &events.secret_file)];
        let set = receivers.into_iter().filter(|(_, url, _)| !url.is_empty());
        set.map(|(key, url, secret_file)| (key, url.as_str(), secret_file.as_str()))
    }

    pub(crate) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let mut addresses = vec![("listen", self.listen), ("admin.listen", self.admin.listen)];
        if self.store.engine == Engine::Dynamodb {
            addresses.push(("rpc.listen", self.rpc.listen));
        }
        addresses
    }
}

impl Limits {
    /// Twice the rate may come at once.
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

    pub(crate) fn lookup_numbers(&self) -> Option<Quota> {
        Quota::per(self.lookup_numbers, DAY)
    }

    pub(crate) fn exports(&self) -> Option<Quota> {
        Quota::per(self.exports, DAY)
    }

    fn auth(&self) -> auth::Limits {
        auth::Limits {
            otp_request_per_phone: Quota::per(self.otp_request_per_phone, QUARTER),
            otp_request_per_ip: Quota::per(self.otp_request_per_ip, QUARTER),
            otp_verify_per_ip: Quota::per(self.otp_verify_per_ip, QUARTER),
            refresh: Quota::per(self.refresh, MINUTE),
        }
    }
}

impl Auth {
    pub(crate) fn config(&self, limits: &Limits, fixed_code: Option<String>) -> Result<auth::Config, ConfigError> {
        Ok(auth::Config {
            access_ttl: Duration::from_secs(self.access_token_ttl_seconds),
            refresh_ttl: Duration::from_secs(self.refresh_token_ttl_seconds),
            code_ttl: Duration::from_secs(self.code_ttl_seconds),
            code_tries_max: if limits.otp_verify == 0 { u32::MAX } else { limits.otp_verify },
            key_rotation: Duration::from_secs(self.key_rotation_days.saturating_mul(24 * 3600)),
            limits: limits.auth(),
            fixed_code,
            external: self.external.config()?,
        })
    }
}

impl External {
    fn config(&self) -> Result<Option<auth::ExternalConfig>, ConfigError> {
        let jwks = match (self.jwks_file.as_str(), self.jwks_url.as_str()) {
            ("", "") => return Ok(None),
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
        }))
    }
}

/// Whether a browser would name a page so: a scheme and a host, and nothing behind them.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_bare = |authority: &str| !authority.contains(['/', '?', '#', '@', '*']);
    authority.is_some_and(is_bare) && text.parse::<http::Uri>().is_ok_and(|uri| uri.host().is_some())
}
