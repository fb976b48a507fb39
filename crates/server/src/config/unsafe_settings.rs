use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;

use ports::ProcessRole;
use toml::{Table, Value};

use super::{Config, ConfigError, KafkaSecurity, LimitSettings, OtpSenderKind};

/// Shortest secret that signs calls. Shorter ones can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// A setting that works, and that exposes the service or its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsafeSetting {
    pub(crate) key: &'static str,
    pub(crate) severity: UnsafeSeverity,
    /// The danger and its remedy.
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsafeSeverity {
    /// The service starts and logs it.
    Warned,
    /// The service starts only with `insecure`, or with `dev` on a loopback address.
    Refused,
}

impl Config {
    /// The unsafe settings to serve with. One of [`UnsafeSeverity::Refused`] is an error, unless the operator accepts
    /// it. `dev` listens on loopback addresses only and admits everybody by design, so it accepts all and reports none.
    pub(crate) fn accepted_unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, ConfigError> {
        if self.dev {
            return Ok(Vec::new());
        }
        let mut found = self.unsafe_settings();
        let refused = found.iter().position(|setting| setting.severity == UnsafeSeverity::Refused && !self.insecure);
        match refused.map(|index| found.swap_remove(index)) {
            Some(UnsafeSetting { key, message, .. }) => Err(ConfigError::Unsafe { key, message }),
            None => Ok(found),
        }
    }

    /// All unsafe settings. Files that cannot be read are not among them: the service reports these when it needs
    /// them.
    pub(crate) fn unsafe_settings(&self) -> Vec<UnsafeSetting> {
        let mut found = Vec::new();
        let mut note = |key, severity, message: String| found.push(UnsafeSetting { key, severity, message });
        use UnsafeSeverity::{Refused, Warned};

        if self.serves_clients() && is_exposed(self.listen) && self.tls.cert_file.is_empty() {
            let proxies = self.trusted_proxies().unwrap_or_default();
            if proxies.is_empty() || proxies.trusts_everyone() {
                note(
                    "listen",
                    Refused,
                    format!(
                        "{} is not a loopback address and has no TLS, so tokens and messages cross the network in the \
                         clear; set `tls.cert_file` and `tls.key_file`, or `trusted_proxies` \
                         (TIDINGS_TRUSTED_PROXIES) to the proxy that terminates TLS",
                        self.listen
                    ),
                );
            }
        }
        if self.trusted_proxies().is_ok_and(|proxies| proxies.trusts_everyone()) {
            let message = "it trusts every address, so any client can evade the limits per address with a header; name \
                           the networks of your proxies";
            note("trusted_proxies", Warned, message.to_owned());
        }
        if is_exposed(self.admin.listen) && self.admin.cert_file.is_empty() {
            let message = format!(
                "{} is not a loopback address and has no TLS, so the admin token crosses the network in the clear; set \
                 `admin.cert_file` and `admin.key_file`, or admit only the network of operators",
                self.admin.listen
            );
            note("admin.listen", Warned, message);
        }
        if self.origins().any(|origin| origin == "*") {
            let message =
                "`*` lets the pages of every origin call the API with a token; name the origins of your pages";
            note("allowed_origins", Warned, message.to_owned());
        }
        let external = &self.auth.external;
        let issuer = external.is_discovered().then_some(("auth.external.issuer", &external.issuer));
        let keys = [Some(("auth.external.jwks_url", &external.jwks_url)), issuer];
        for (key, url) in keys.into_iter().flatten().filter(|(_, url)| is_clear(url)) {
            let message = format!(
                "`{url}` is not encrypted, so anyone on the network path can replace the keys and sign in as any user; \
                 use https"
            );
            note(key, Refused, message);
        }
        for (key, url, secret_key, secret_file) in self.signed_calls() {
            if is_clear(url) {
                note(key, Warned, format!("`{url}` is not encrypted; use https"));
            }
            if let Ok(secret) = fs::read_to_string(secret_file)
                && secret.trim().len() < SECRET_BYTES_MIN
            {
                let message = format!(
                    "the secret in `{secret_file}` has {} bytes and can be guessed; make one of {SECRET_BYTES_MIN} or \
                     more: openssl rand -hex 32",
                    secret.trim().len()
                );
                note(secret_key, Refused, message);
            }
        }
        for (key, file) in self.secret_files() {
            let mode = fs::metadata(file).map(|metadata| metadata.permissions().mode() & 0o777);
            if let Ok(mode) = mode
                && mode & 0o007 != 0
            {
                let message = format!("every user can read `{file}` (mode {mode:04o}); run `chmod 600 {file}`");
                note(key, Warned, message);
            }
        }
        let is_reachable = is_exposed(self.listen) || !self.trusted_proxies().unwrap_or_default().is_empty();
        if self.serves_clients() && is_reachable && self.limits.otp_verify == 0 {
            let message = "0 lets anyone try all codes of a phone; leave it at 5".to_owned();
            note("limits.otp_verify", Refused, message);
        }
        let off = self.limits_off();
        if !off.is_empty() {
            let message = format!("no limit for {}; leave them at their defaults", off.join(", "));
            note("limits", Warned, message);
        }
        if self.otp_sender() == OtpSenderKind::Log && self.auth.phone.enabled && self.serves_api() {
            let message = "one-time codes are written to the log, and anyone who can read it can sign in as any user; set \
                           `auth.otp.sender` to \"webhook\"";
            note("auth.otp.sender", Warned, message.to_owned());
        }
        if self.notify.webpush.enabled && self.notify.webpush.private_endpoints {
            let message = "any user can cause calls to addresses of your network; leave it false";
            note("notify.webpush.private_endpoints", Warned, message.to_owned());
        }
        if self.store.engine.descriptor().is_shared() {
            let clear = |key: &str, danger: &str| format!("`{key}` is not encrypted: {danger}");
            if self.redis.url.split(',').map(str::trim).any(is_clear) {
                note("redis.url", Warned, clear(&self.redis.url, "use rediss://"));
            }
            let is_remote = |broker: &str| !is_loopback(broker.rsplit_once(':').map_or(broker, |(host, _)| host));
            if self.kafka.security == KafkaSecurity::Plaintext && self.kafka.brokers.split(',').any(is_remote) {
                note("kafka.security", Warned, clear("plaintext", "use \"tls\" or \"sasl\""));
            }
            if is_exposed(self.rpc.listen) && self.rpc.cert_file.is_empty() {
                note(
                    "rpc.listen",
                    Warned,
                    clear(&self.rpc.listen.to_string(), "use certificates, or a private network"),
                );
            }
            if !self.rpc.secret_file.is_empty() && self.rpc.callers_file.is_empty() {
                let message = "all processes have the same secret, so each of them can call every service of the fleet; \
                               give each role its own and list them in `rpc.callers_file`, or use certificates";
                note("rpc.secret_file", Warned, message.to_owned());
            }
            if self.rpc.upgrading {
                let message = "a process of the fleet can send and read as any user; leave it false when all processes run \
                               this release";
                note("rpc.upgrading", Warned, message.to_owned());
            }
        }
        found
    }

    /// Whether the public listener of this process serves more than health checks.
    fn serves_clients(&self) -> bool {
        self.roles().is_ok_and(|roles| roles.contains(&ProcessRole::Gateway)) || self.serves_api()
    }

    fn serves_api(&self) -> bool {
        self.roles().is_ok_and(|roles| roles.contains(&ProcessRole::Api))
    }

    /// The signed calls to other servers that are set: key of the URL, URL, key of the secret, secret file.
    fn signed_calls(&self) -> impl Iterator<Item = (&'static str, &str, &'static str, &str)> {
        let (otp, notify, events) = (&self.auth.otp, &self.notify.webhook, &self.webhook);
        let calls = [
            ("auth.otp.webhook_url", &otp.webhook_url, "auth.otp.webhook_secret_file", &otp.webhook_secret_file),
            ("notify.webhook.url", &notify.url, "notify.webhook.secret_file", &notify.secret_file),
            ("webhook.url", &events.url, "webhook.secret_file", &events.secret_file),
        ];
        // Only `api` makes these calls, so only its secrets matter.
        let set = calls.into_iter().filter(|(_, url, ..)| self.serves_api() && !url.is_empty());
        set.map(|(key, url, secret_key, file)| (key, url.as_str(), secret_key, file.as_str()))
    }

    /// The files with secrets that are set, and their keys.
    fn secret_files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let files = [
            ("auth.secret_file", &self.auth.secret_file),
            ("store.key_file", &self.store.key_file),
            ("auth.otp.webhook_secret_file", &self.auth.otp.webhook_secret_file),
            ("notify.webhook.secret_file", &self.notify.webhook.secret_file),
            ("webhook.secret_file", &self.webhook.secret_file),
            ("rpc.secret_file", &self.rpc.secret_file),
            ("rpc.key_file", &self.rpc.key_file),
            ("rpc.assertion_secret_file", &self.rpc.assertion_secret_file),
            ("redis.password_file", &self.redis.password_file),
            ("kafka.password_file", &self.kafka.password_file),
            ("tls.key_file", &self.tls.key_file),
            ("admin.key_file", &self.admin.key_file),
            ("telemetry.headers_file", &self.telemetry.headers_file),
        ];
        files.into_iter().filter(|(_, file)| !file.is_empty()).map(|(key, file)| (key, file.as_str()))
    }

    /// The names of all limits that are off, and on by default.
    fn limits_off(&self) -> Vec<String> {
        let numbers = |limits: &LimitSettings| Table::try_from(limits).expect("limits are numbers");
        let (limits, shipped) = (numbers(&self.limits), numbers(&Self::default().limits));
        let is_off = |(name, limit): &(String, Value)| *limit == Value::Integer(0) && shipped.get(name) != Some(limit);
        limits.into_iter().filter(is_off).map(|(name, _)| name).collect()
    }
}

/// Whether other machines can connect to a listener.
fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Whether a URL leads to another machine without TLS.
fn is_clear(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    let clear = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "redis")));
    clear.is_some_and(|uri| uri.host().is_none_or(|host| !is_loopback(host)))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StoreEngine;

    fn unsafe_keys(change: impl FnOnce(&mut Config)) -> Vec<(&'static str, UnsafeSeverity)> {
        let mut config = Config::default();
        config.auth.otp.sender = OtpSenderKind::Webhook;
        change(&mut config);
        config.unsafe_settings().into_iter().map(|setting| (setting.key, setting.severity)).collect()
    }

    #[test]
    fn a_listener_in_the_clear_is_refused_unless_a_proxy_terminates_tls() {
        let everywhere = || "0.0.0.0:8080".parse().unwrap();
        let refused = [("listen", UnsafeSeverity::Refused)];
        assert_eq!(unsafe_keys(|_| ()), []);
        assert_eq!(unsafe_keys(|config| config.listen = everywhere()), refused);
        assert_eq!(unsafe_keys(|config| config.listen = "[::]:8080".parse().unwrap()), refused);
        assert_eq!(unsafe_keys(|config| config.listen = "[::ffff:127.0.0.1]:80".parse().unwrap()), []);
        assert_eq!(
            unsafe_keys(|config| {
                config.listen = everywhere();
                config.trusted_proxies = "10.0.0.0/8".into();
            }),
            []
        );
        assert_eq!(
            unsafe_keys(|config| {
                config.listen = everywhere();
                config.trusted_proxies = "10.0.0.0/8,0.0.0.0/0".into();
            }),
            [refused[0], ("trusted_proxies", UnsafeSeverity::Warned)]
        );
        assert_eq!(
            unsafe_keys(|config| {
                config.listen = everywhere();
                config.tls.cert_file = "cert.pem".into();
            }),
            []
        );
        assert_eq!(
            unsafe_keys(|config| {
                config.listen = everywhere();
                config.roles = "ingest,fanout".into();
            }),
            [],
            "health checks only"
        );
    }

    #[test]
    fn a_url_in_the_clear_is_one_to_another_machine_without_tls() {
        for (url, clear) in [
            ("http://issuer.example/keys", true),
            ("http://10.0.0.1/keys", true),
            ("redis://cache:6379", true),
            ("https://issuer.example/keys", false),
            ("rediss://cache:6379", false),
            ("http://localhost:8000/keys", false),
            ("http://127.0.0.1:8000/keys", false),
            ("http://[::1]:8000/keys", false),
            ("http://localhost.example/keys", true),
            ("", false),
        ] {
            assert_eq!(is_clear(url), clear, "{url}");
        }
    }

    #[test]
    fn a_fleet_without_roles_or_assertions_is_warned_of() {
        let of_fleet = |change: fn(&mut Config)| {
            unsafe_keys(|config| {
                config.store.engine = StoreEngine::Dynamodb;
                config.kafka.brokers = "127.0.0.1:9092".into();
                config.rpc.secret_file = "/missing/secret".into();
                change(config);
            })
        };
        let [secret, upgrading] = ["rpc.secret_file", "rpc.upgrading"].map(|key| (key, UnsafeSeverity::Warned));
        assert_eq!(of_fleet(|_| ()), [secret]);
        assert_eq!(of_fleet(|config| config.rpc.callers_file = "/missing/callers".into()), []);
        assert_eq!(of_fleet(|config| config.rpc.upgrading = true), [secret, upgrading]);
        assert_eq!(unsafe_keys(|config| config.rpc.upgrading = true), [], "one machine makes no calls");
    }

    #[test]
    fn unlimited_guesses_are_refused_on_a_public_listener_and_behind_a_proxy() {
        let limits = ("limits", UnsafeSeverity::Warned);
        assert_eq!(unsafe_keys(|config| config.limits.otp_verify = 0), [limits]);
        assert_eq!(
            unsafe_keys(|config| {
                config.limits.otp_verify = 0;
                config.listen = "192.0.2.1:443".parse().unwrap();
                config.tls.cert_file = "cert.pem".into();
            }),
            [("limits.otp_verify", UnsafeSeverity::Refused), limits]
        );
        assert_eq!(
            unsafe_keys(|config| {
                config.limits.otp_verify = 0;
                config.trusted_proxies = "127.0.0.1".into();
            }),
            [("limits.otp_verify", UnsafeSeverity::Refused), limits]
        );
    }
}
