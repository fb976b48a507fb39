use std::path::{Path, PathBuf};

use toml::{Table, Value};
use tracing::info;

use super::Config;
use super::service_links::is_service_link;

/// The sources of settings besides the defaults.
#[derive(Debug, Default)]
pub struct Sources {
    /// The TOML file, if one is named.
    pub file: Option<PathBuf>,
    /// The environment: the prefix `TIDINGS_`, and `__` between levels.
    pub environment: Vec<(String, String)>,
    /// Flags, as dotted keys and strings.
    pub flags: Vec<(&'static str, String)>,
}

/// An unusable setting, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration file `{}` is not TOML: {message}", path.display())]
    NotToml { path: PathBuf, message: String },
    #[error("{origin} sets `{key}`, which does not exist{}", nearest.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    UnknownKey { origin: String, key: String, nearest: Option<String> },
    #[error("{origin} sets `{key}` to `{value}`, but it takes {expected}")]
    WrongType { origin: String, key: String, value: String, expected: &'static str },
    #[error("`{key}` is not usable: {message}")]
    Invalid { key: String, message: String },
    #[error("`{key}` is unsafe: {message}; --insecure or TIDINGS_INSECURE=true starts the service anyway")]
    Unsafe { key: &'static str, message: String },
}

/// The prefix of all our environment variables.
const PREFIX: &str = "TIDINGS_";
/// The variable of commands that names the file with an operator's token. It is not a setting of the service.
pub const ADMIN_TOKEN_FILE: &str = "TIDINGS_ADMIN_TOKEN_FILE";

impl Sources {
    /// Logs which environment variables [`load`] ignores, if any.
    pub fn log_ignored(&self) {
        let defaults = table(&Config::default());
        let mut ignored = self.environment.iter().filter_map(|(name, text)| {
            let key = key(name)?;
            is_ignored(&defaults, &key, name, text).then_some(&**name)
        });
        if let Some(first) = ignored.next() {
            info!(
                first,
                count = 1 + ignored.count(),
                "ignoring service-link variables of Kubernetes; no setting has such a name"
            );
        }
    }
}

/// Merges all sources; later ones take precedence.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let mut merged = merge_all(sources, &Config::default())?;
    if merged.get("dev") == Some(&Value::Boolean(true)) {
        // Only now is it known. Settings of the sources win over the defaults of `dev`, too.
        merged = merge_all(sources, &Config::default_of_dev())?;
    }
    let config: Config = serde_path_to_error::deserialize(merged).map_err(|error| ConfigError::Invalid {
        key: error.path().to_string(),
        message: error.inner().message().to_owned(),
    })?;
    config.check()?;
    Ok(config)
}

/// The defaults with the settings of all sources.
fn merge_all(sources: &Sources, defaults: &Config) -> Result<Table, ConfigError> {
    let defaults = table(defaults);
    let mut merged = defaults.clone();
    if let Some(path) = &sources.file {
        let origin = format!("the configuration file `{}`", path.display());
        merge(&mut merged, read(path)?, &defaults, &defaults, &origin, "")?;
    }
    for (name, text) in &sources.environment {
        let Some(key) = key(name) else { continue };
        if is_ignored(&defaults, &key, name, text) {
            continue;
        }
        set(&mut merged, &defaults, &key, text, &format!("the environment variable `{name}`"))?;
    }
    for (key, text) in &sources.flags {
        set(&mut merged, &defaults, key, text, &format!("the flag for `{key}`"))?;
    }
    Ok(merged)
}

fn table(defaults: &Config) -> Table {
    Table::try_from(defaults).expect("the defaults are plain tables, texts and numbers")
}

/// The key that an environment variable sets, if it has our prefix.
fn key(name: &str) -> Option<String> {
    let name = Some(name).filter(|name| *name != ADMIN_TOKEN_FILE)?;
    Some(name.strip_prefix(PREFIX)?.to_lowercase().replace("__", "."))
}

/// Whether a variable was set by Kubernetes. A variable that sets an existing key is never ignored.
fn is_ignored(all: &Table, key: &str, name: &str, text: &str) -> bool {
    is_service_link(name, text) && !keys(all).iter().any(|known| known == key)
}

fn read(path: &Path) -> Result<Table, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })
}

/// Merges a table into another. `known` is the matching part of the defaults, `all` the whole.
fn merge(into: &mut Table, from: Table, known: &Table, all: &Table, origin: &str, at: &str) -> Result<(), ConfigError> {
    for (name, value) in from {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        let known = known.get(&name).ok_or_else(|| unknown(all, origin, &key))?;
        match (known, value) {
            (Value::Table(known), Value::Table(value)) => {
                let Some(Value::Table(into)) = into.get_mut(&name) else { unreachable!("it has the shape of `known`") };
                merge(into, value, known, all, origin, &key)?;
            }
            (Value::Float(_), Value::Integer(whole)) => {
                into.insert(name, Value::Float(whole as f64));
            }
            (known, value) if known.same_type(&value) => {
                into.insert(name, value);
            }
            (known, value) => return Err(wrong_type(origin, &key, &value.to_string(), known)),
        }
    }
    Ok(())
}

/// Sets one key from a string, parsed as the type of its default.
fn set(into: &mut Table, all: &Table, key: &str, text: &str, origin: &str) -> Result<(), ConfigError> {
    let mut into = into;
    let mut known = all;
    let (path, name) = key.rsplit_once('.').map_or((None, key), |(path, name)| (Some(path), name));
    for level in path.into_iter().flat_map(|path| path.split('.')) {
        match (into.get_mut(level), known.get(level)) {
            (Some(Value::Table(inner)), Some(Value::Table(inner_known))) => (into, known) = (inner, inner_known),
            _ => return Err(unknown(all, origin, key)),
        }
    }
    let known = known.get(name).ok_or_else(|| unknown(all, origin, key))?;
    let value = match known {
        Value::Integer(_) => text.parse().ok().map(Value::Integer),
        Value::Float(_) => text.parse().ok().map(Value::Float),
        Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
        Value::String(_) => Some(Value::String(text.to_owned())),
        _ => None,
    };
    into.insert(name.to_owned(), value.ok_or_else(|| wrong_type(origin, key, text, known))?);
    Ok(())
}

fn unknown(all: &Table, origin: &str, key: &str) -> ConfigError {
    let nearest = keys(all)
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&candidate, key), candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.7)
        .map(|(_, candidate)| candidate);
    ConfigError::UnknownKey { origin: origin.to_owned(), key: key.to_owned(), nearest }
}

/// All keys of a table, dotted.
fn keys(table: &Table) -> Vec<String> {
    let mut keys = Vec::new();
    list(table, "", &mut keys);
    keys
}

fn list(table: &Table, at: &str, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        if let Value::Table(inner) = value {
            list(inner, &key, keys);
        }
        keys.push(key);
    }
}

fn wrong_type(origin: &str, key: &str, value: &str, known: &Value) -> ConfigError {
    let expected = match known {
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Table(_) => "a table of keys",
        _ => "a text",
    };
    ConfigError::WrongType { origin: origin.to_owned(), key: key.to_owned(), value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn from_file(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tidings.toml");
        std::fs::write(&path, text).unwrap();
        load(&Sources { file: Some(path), ..Sources::default() })
    }

    fn from_environment(name: &str, value: &str) -> Result<Config, ConfigError> {
        load(&Sources { environment: vec![(name.to_owned(), value.to_owned())], ..Sources::default() })
    }

    fn refused(outcome: Result<Config, ConfigError>, expected: Expect) {
        let text = outcome.expect_err("it is refused").to_string();
        let start = text.find("sets ").unwrap_or(0);
        expected.assert_eq(&text[start..]);
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tidings.toml");
        std::fs::write(&path, "data_dir = \"file\"\nlisten = \"127.0.0.1:1\"\n[limits]\nsync = 7\n").unwrap();
        let config = load(&Sources {
            file: Some(path),
            environment: vec![
                ("TIDINGS_DATA_DIR".into(), "environment".into()),
                ("TIDINGS_LIMITS__SEND_PER_CHAT".into(), "0".into()),
                ("PATH".into(), "ignored".into()),
            ],
            flags: vec![("data_dir", "flag".into()), ("admin.listen", "127.0.0.1:0".into())],
        })
        .unwrap();
        assert_eq!(config.data_dir, PathBuf::from("flag"));
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.admin.listen.port(), 0);
        assert_eq!((config.limits.sync, config.limits.send_per_chat, config.limits.typing), (7, 0, 1));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_right_one() {
        refused(
            from_file("[limits]\nsend_per_chats = 1"),
            expect!["sets `limits.send_per_chats`, which does not exist; did you mean `limits.send_per_chat`?"],
        );
        refused(
            from_file("lisen = \"127.0.0.1:1\""),
            expect!["sets `lisen`, which does not exist; did you mean `listen`?"],
        );
        refused(
            from_environment("TIDINGS_LIMIT__SYNC", "1"),
            expect!["sets `limit.sync`, which does not exist; did you mean `limits.sync`?"],
        );
        refused(from_environment("TIDINGS_QQQ", "1"), expect!["sets `qqq`, which does not exist"]);
    }

    #[test]
    fn variables_that_kubernetes_sets_for_a_service_are_ignored() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = load(&Sources {
            environment: vec![
                set("TIDINGS_SERVICE_HOST", "10.96.0.11"),
                set("TIDINGS_PORT", "tcp://10.96.0.11:80"),
                set("TIDINGS_PORT_80_TCP_PROTO", "tcp"),
                set("TIDINGS_GATEWAY_SERVICE_PORT_PUBLIC", "80"),
                set("TIDINGS_LIMITS__SYNC", "7"),
            ],
            ..Sources::default()
        });
        assert_eq!(config.unwrap().limits.sync, 7);
        refused(from_environment("TIDINGS_PORT", "8080"), expect!["sets `port`, which does not exist"]);
    }

    #[test]
    fn no_key_of_ours_has_the_name_of_a_service_link() {
        for key in keys(&table(&Config::default())) {
            let name = format!("{PREFIX}{}", key.replace('.', "__").to_uppercase());
            for value in ["10.96.0.11", "80", "tcp://10.96.0.11:80", "tcp"] {
                assert!(!is_service_link(&name, value), "{name}={value}");
            }
        }
    }

    #[test]
    fn a_key_of_ours_wins_over_a_service_link() {
        let all: Table = "service_port = 1".parse().unwrap();
        assert!(!is_ignored(&all, "service_port", "TIDINGS_SERVICE_PORT", "80"));
        assert!(is_ignored(&all, "service_host", "TIDINGS_SERVICE_HOST", "10.96.0.11"));
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_the_accepted_kind() {
        refused(
            from_file("[limits]\nsync = \"many\""),
            expect![[r#"sets `limits.sync` to `"many"`, but it takes a whole number"#]],
        );
        refused(
            from_environment("TIDINGS_TELEMETRY__TRACE_RATIO", "all"),
            expect!["sets `telemetry.trace_ratio` to `all`, but it takes a number"],
        );
        refused(from_environment("TIDINGS_DEV", "maybe"), expect!["sets `dev` to `maybe`, but it takes true or false"]);
        refused(
            from_environment("TIDINGS_LIMITS__SYNC", "-1"),
            expect!["`limits.sync` is not usable: invalid value: integer `-1`, expected u32"],
        );
        refused(
            from_environment("TIDINGS_LISTEN", "here"),
            expect!["`listen` is not usable: invalid socket address syntax"],
        );
        refused(
            from_environment("TIDINGS_LOG__FORMAT", "xml"),
            expect!["`log.format` is not usable: unknown variant `xml`, expected `text` or `json`"],
        );
    }

    #[test]
    fn dev_relaxes_the_limits_that_nothing_sets() {
        let shipped = Config::default().limits;
        let flags = || vec![("dev", "true".to_owned())];
        let of_dev = load(&Sources { flags: flags(), ..Sources::default() }).unwrap().limits;
        let [shipped, of_dev] = [shipped, of_dev].map(|limits| Table::try_from(limits).unwrap());
        let changed: Vec<_> = of_dev.iter().filter(|(name, value)| shipped[*name] != **value).collect();
        let off = |name: &str| changed.iter().any(|(changed, value)| *changed == name && **value == Value::Integer(0));
        for name in ["otp_request_per_phone", "otp_request_per_ip", "connections_live", "send_per_chat", "rest_write"] {
            assert!(off(name), "{name}: {changed:?}");
        }
        assert_eq!(changed.len(), 10, "{changed:?}");
        assert!(!off("otp_verify") && !off("message_mib"), "{changed:?}");

        let environment = vec![("TIDINGS_LIMITS__SEND_PER_CHAT".to_owned(), "7".to_owned())];
        let set = load(&Sources { environment, flags: flags(), ..Sources::default() }).unwrap().limits;
        assert_eq!((set.send_per_chat, set.send_per_user), (7, 0));
        let in_file = from_file("dev = true\n[limits]\nsend_per_user = 8").unwrap().limits;
        assert_eq!((in_file.send_per_chat, in_file.send_per_user), (0, 8));
        assert_eq!(load(&Sources::default()).unwrap().limits.send_per_chat, 10);
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        refused(
            from_file("dev = true\nlisten = \"0.0.0.0:8080\""),
            expect![
                "`listen` is not usable: with --dev anybody can sign in, so 0.0.0.0:8080 must be a loopback address"
            ],
        );
        refused(
            from_environment("TIDINGS_ALLOWED_ORIGINS", "https://a.example, https://b.example/"),
            expect![[
                r#"`allowed_origins` is not usable: `https://b.example/` is not an origin, such as https://app.example or http://localhost:3000"#
            ]],
        );
        for ancestor in ["https://a.example/page", "*", "'self'", "https://a.example;sandbox"] {
            let error = from_environment("TIDINGS_FRAME_ANCESTORS", ancestor).unwrap_err().to_string();
            assert!(error.starts_with("`frame_ancestors` is not usable: "), "{error}");
        }
        refused(
            from_environment("TIDINGS_TRUSTED_PROXIES", "10.0.0.0/8, balancer"),
            expect!["`trusted_proxies` is not usable: `balancer` is not a network, such as 10.0.0.0/8 or fd00::/8"],
        );
        for (table, key) in [("tls", "TIDINGS_TLS__CERT_FILE"), ("admin", "TIDINGS_ADMIN__KEY_FILE")] {
            let refused = from_environment(key, "file.pem").unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{table}` is not usable: a certificate needs its key")), "{refused}");
        }
        refused(
            from_file("[telemetry]\ntrace_ratio = 2"),
            expect!["`telemetry.trace_ratio` is not usable: 2 is not a share from 0 to 1"],
        );
        refused(
            from_file("[retention]\nmessage_days = 366"),
            expect!["`retention.message_days` is not usable: 366 is not a number of days from 1 to 365, or 0"],
        );
        refused(
            from_environment("TIDINGS_TELEMETRY__OTLP_ENDPOINT", "collector:4318"),
            expect![
                "`telemetry.otlp_endpoint` is not usable: `collector:4318` is not a URL, such as http://localhost:4318"
            ],
        );
        refused(
            from_environment("TIDINGS_AUTH__OTP__SENDER", "fixed"),
            expect!["`auth.otp.sender` is not usable: `fixed` lets anybody sign in and needs --dev"],
        );
        refused(
            from_environment("TIDINGS_AUTH__OTP__SENDER", "webhook"),
            expect!["`auth.otp.webhook_url` is not usable: the sender `webhook` needs it"],
        );
        refused(
            from_environment("TIDINGS_ROLES", "gateway"),
            expect![[
                r#"`roles` is not usable: parts of the service need `store.engine` = "dynamodb"; one machine runs `all`"#
            ]],
        );
        refused(
            from_environment("TIDINGS_ROLES", "gateway, fan-out"),
            expect!["`roles` is not usable: `fan-out` is none of all, gateway, ingest, fanout, api"],
        );
        refused(
            from_file("[auth.external]\njwks_file = \"keys.json\""),
            expect!["`auth.external` is not usable: tokens are only accepted with an issuer and an audience set"],
        );
        refused(
            from_environment("TIDINGS_AUTH__PHONE__ALLOWED_PREFIXES", "+49, 43"),
            expect![
                "`auth.phone.allowed_prefixes` is not usable: `43` is not a prefix of phone numbers, such as +49 or +1900"
            ],
        );
        refused(
            from_environment("TIDINGS_AUTH__PHONE__ENABLED", "false"),
            expect!["`auth.phone.enabled` is not usable: nobody could sign in: set `auth.external.issuer` too"],
        );
        refused(
            from_file("[auth.external]\nissuer = \"shop\"\naudience = \"tidings\""),
            expect![[
                r#"`auth.external.issuer` is not usable: `shop` is not a URL, so its keys cannot be discovered; set jwks_url or jwks_file"#
            ]],
        );
        refused(
            from_file("[auth.passkeys]\norigins = \"https://chat.example.com\""),
            expect!["`auth.passkeys` is not usable: set `rp_id` too, the domain that passkeys are bound to"],
        );
        refused(
            from_file("[auth.passkeys]\nrp_id = \"chat.example.com\""),
            expect!["`auth.passkeys` is not usable: `origins` has 0 entries, allowed are 1 to 20"],
        );
        refused(
            from_file("[auth.passkeys]\nrp_id = \"https://chat.example.com\"\norigins = \"https://chat.example.com\""),
            expect![
                "`auth.passkeys` is not usable: `rp_id` is `https://chat.example.com`; it has to be a domain in lower case, such as `chat.example.com`, without scheme and port"
            ],
        );
        refused(
            from_file(
                "[auth.passkeys]\nrp_id = \"example.com\"\norigins = \"https://example.com, http://chat.example.com\"",
            ),
            expect![
                "`auth.passkeys` is not usable: `origins` has `http://chat.example.com`; an origin has to begin with `https://`, except for the host `localhost`"
            ],
        );
        refused(
            from_file("[auth.passkeys]\nrp_id = \"chat.example.com\"\norigins = \"https://example.com\""),
            expect![
                "`auth.passkeys` is not usable: `origins` has `https://example.com`, whose host is neither `chat.example.com` nor below it"
            ],
        );
        refused(
            from_environment("TIDINGS_WEBHOOK__URL", "https://app.example/hook"),
            expect!["`webhook.secret_file` is not usable: calls of `webhook.url` are signed with it"],
        );
        refused(
            from_environment("TIDINGS_WEBHOOK__EVENTS", "message, chats"),
            expect!["`webhook.events` is not usable: `chats` is none of message, member, chat"],
        );
        refused(
            from_environment("TIDINGS_NOTIFY__WEBPUSH__CONTACT", "me@example.com"),
            expect!["`notify.webpush.contact` is not usable: `me@example.com` is neither a mailto: nor an https: URL"],
        );
    }

    #[test]
    fn an_incomplete_fleet_configuration_names_the_missing_key() {
        let mut settings = vec!["TIDINGS_STORE__ENGINE=dynamodb"];
        let mut lacks = |next: &'static str, expected: expect_test::Expect| {
            let environment = settings.iter().map(|set| set.split_once('=').unwrap());
            let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            refused(load(&Sources { environment, ..Sources::default() }), expected);
            settings.push(next);
        };
        lacks("TIDINGS_REDIS__URL=redis://127.0.0.1", expect!["`redis.url` is not usable: a fleet needs it"]);
        lacks("TIDINGS_KAFKA__BROKERS=127.0.0.1:9092", expect!["`kafka.brokers` is not usable: a fleet needs it"]);
        lacks("TIDINGS_AUTH__SECRET_FILE=secret", expect!["`auth.secret_file` is not usable: a fleet needs it"]);
        lacks(
            "TIDINGS_RPC__ASSERTION_SECRET_FILE=secret",
            expect![
                "`rpc.assertion_secret_file` is not usable: the roles `api` and `ingest` need it; `docs/fleet.md` has the steps of an upgrade"
            ],
        );
        lacks(
            "TIDINGS_RPC__CALLERS_FILE=callers",
            expect![
                "`rpc` is not usable: the processes of a fleet authenticate each other: set secret_file, or ca_file, cert_file and key_file"
            ],
        );
        lacks(
            "TIDINGS_RPC__CALLERS_FILE=",
            expect!["`rpc.callers_file` is not usable: it lists secrets, so `rpc.secret_file` has to be set too"],
        );
        lacks(
            "TIDINGS_RPC__CERT_FILE=cert.pem",
            expect![
                "`rpc` is not usable: the processes of a fleet authenticate each other: set secret_file, or ca_file, cert_file and key_file"
            ],
        );
        lacks(
            "TIDINGS_RPC__SECRET_FILE=secret",
            expect!["`rpc` is not usable: certificates need ca_file, cert_file and key_file"],
        );
        lacks("", expect!["`rpc` is not usable: set secret_file or certificates, not both"]);
    }

    #[test]
    fn the_annotated_example_shows_every_key_with_its_default() {
        let example: Table = include_str!("../../../../docs/tidings.example.toml").parse().unwrap();
        assert_eq!(example, Table::try_from(Config::default()).unwrap());
    }
}
