//! The settings of a process, their sources and their meaning.
//!
//! Flags take precedence over the environment, the environment over the file, the file over the defaults. The tree of
//! defaults defines the existing keys; any other key is an error that suggests the nearest existing one. Variables that
//! Kubernetes sets for a Service with our name (`service_links`) are ignored.

mod service_links;
mod sources;
mod unsafe_settings;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use domain::GroupInvites;
use serde::{Deserialize, Serialize};

pub use sources::{ADMIN_TOKEN_FILE, ConfigError, Sources, load};
pub(crate) use unsafe_settings::UnsafeSeverity;
pub use values::without_fleet;

/// All settings, structured as in the file. An empty string means that the key is not set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory of the store, the log and the keys.
    pub data_dir: PathBuf,
    /// The address of the public listener.
    pub listen: SocketAddr,
    /// Origins of other pages that may call the API from a browser, separated by commas, or `*`.
    pub allowed_origins: String,
    /// Origins of pages that may show the web client in a frame, separated by commas.
    pub frame_ancestors: String,
    /// Networks of proxies that are trusted to forward client addresses, separated by commas.
    pub trusted_proxies: String,
    /// Most connections of the public listener that are not WebSockets.
    pub http_connections_max: usize,
    /// Most of them from one address; an IPv6 /64 prefix counts as one.
    pub http_connections_per_address_max: usize,
    /// Memory for the bodies and long heads of requests in progress, in MiB.
    pub http_requests_mib_max: usize,
    /// Allows the one-time code `000000`, on loopback only.
    pub dev: bool,
    /// Starts with settings that expose the service, such as a public listener without TLS.
    pub insecure: bool,
    /// The roles that this process runs.
    pub roles: String,
    pub tls: TlsSettings,
    pub admin: AdminSettings,
    pub health: HealthSettings,
    pub log: LogSettings,
    pub telemetry: TelemetrySettings,
    pub security_events: SecurityEventSettings,
    pub auth: AuthSettings,
    pub gateway: GatewaySettings,
    pub ingest: IngestSettings,
    pub store: StoreSettings,
    pub dynamodb: DynamodbSettings,
    pub kafka: KafkaSettings,
    pub redis: RedisSettings,
    pub rpc: RpcSettings,
    pub notify: NotifySettings,
    pub webhook: WebhookSettings,
    pub messages: MessageSettings,
    pub retention: RetentionSettings,
    pub limits: LimitSettings,
}

/// The certificate of the public listener; without one it serves plain HTTP.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate and its chain, in PEM.
    pub cert_file: String,
    /// The private key, in PEM.
    pub key_file: String,
}

/// The admin listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminSettings {
    pub listen: SocketAddr,
    /// Host names that clients use for this listener, separated by commas. Addresses and `localhost` need no entry.
    pub allowed_hosts: String,
    /// Its certificate and key, as in [`TlsSettings`].
    pub cert_file: String,
    pub key_file: String,
    /// The file with the named operators; `operators.json` in the data directory if not set.
    pub operators_file: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthSettings {
    /// How long the committer may be unresponsive before `/healthz` fails and asks for a restart.
    pub stuck_after_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// A level, or directives such as `info,gateway=debug`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

/// The export of traces and metrics; off while no endpoint is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// An OpenTelemetry collector that accepts OTLP over HTTP.
    pub otlp_endpoint: String,
    /// The share of traces to keep, from 0 to 1. Traces with a failure are always kept.
    pub trace_ratio: f64,
    pub service_name: String,
    /// A file with headers for the collector, `name: value` on each line.
    pub headers_file: String,
    /// Whether to export metrics too.
    pub metrics: bool,
}

/// The stream of security events; off while it has no output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityEventSettings {
    /// The file that gets a line for each event.
    pub file: String,
    /// Size at which the file is replaced, in MiB.
    pub file_mib_max: u64,
    /// Most files, the current one included; the oldest is deleted.
    pub files_max: u32,
    /// Whether the log of the process gets the events too.
    pub log: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthSettings {
    /// A file with the secret from which a fleet derives its keys. A single machine generates its own.
    pub secret_file: String,
    pub access_token_ttl_seconds: u64,
    pub refresh_token_ttl_seconds: u64,
    pub code_ttl_seconds: u64,
    pub key_rotation_days: u64,
    /// The setting `group_invites` of new users.
    pub group_invites_default: GroupInvites,
    pub phone: PhoneSettings,
    pub otp: OtpSettings,
    pub passkeys: PasskeySettings,
    pub external: ExternalAuthSettings,
}

/// Sign-in with a phone number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneSettings {
    pub enabled: bool,
    /// Prefixes of the numbers that get codes, such as `+49`, separated by commas; all numbers, if it is empty.
    pub allowed_prefixes: String,
    /// Prefixes of numbers that get no codes. The longest prefix of both lists decides.
    pub denied_prefixes: String,
}

/// Delivery of one-time codes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtpSettings {
    pub sender: OtpSenderKind,
    pub webhook_url: String,
    /// A file with the key that signs webhook calls.
    pub webhook_secret_file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtpSenderKind {
    /// `fixed` with `--dev`, otherwise `log`.
    Auto,
    Log,
    Webhook,
    Fixed,
}

/// Sign-in with passkeys (WebAuthn); off while `rp_id` is empty, except with `--dev`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PasskeySettings {
    /// The domain that passkeys are bound to. A change of it invalidates all of them.
    pub rp_id: String,
    /// The name of the service in the dialogs of browsers.
    pub rp_name: String,
    /// Origins of the pages that may use passkeys, separated by commas.
    pub origins: String,
}

/// An external identity provider whose tokens are accepted; off while neither file, URL nor issuer is set. With the
/// issuer alone its keys are discovered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAuthSettings {
    pub jwks_file: String,
    pub jwks_url: String,
    pub issuer: String,
    pub audience: String,
    pub user_claim: String,
    pub name_claim: String,
    /// Whether the name of the claim wins over the user's own, at each new token.
    pub name_from_issuer: bool,
    /// Clients (`azp`) whose tokens are accepted, separated by commas.
    pub clients: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySettings {
    pub heartbeat_interval_ms: u64,
    pub unhealthy_after_ms: u64,
    /// How long a gateway's routes stay valid after its last heartbeat.
    pub expiry_ms: u64,
    pub idle_timeout_ms: u64,
    pub connections_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngestSettings {
    pub queue_len_max: usize,
    pub batch_len_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    pub engine: StoreEngine,
    /// Memory for cached blocks of the store.
    pub cache_mib: u64,
    /// Time within which the bytes of deleted rows leave the files of the store; 0 leaves them to the engine.
    pub erase_within_seconds: u64,
    /// Bytes of the embedded store's tables from which on sends are refused, in GiB or parts of one; 0 means unlimited.
    pub max_gib: f64,
    /// Free bytes of the disk below which sends are refused, in MiB; 0 means none.
    pub min_free_mib: u64,
    /// Interval between scrubs, which verify the checksums of all files; 0 disables them.
    pub scrub_every_seconds: u64,
    /// Rate at which a scrub reads, in MiB per second.
    pub scrub_mib_per_second: u32,
    /// File with the secret that encrypts the embedded store.
    pub key_file: String,
    /// Program, with arguments, that prints the secret instead.
    pub key_command: String,
}

/// The storage engine of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreEngine {
    /// Store and log in the data directory, for one process.
    Embedded,
    /// Tables in DynamoDB, the log in Kafka, shared state in Redis, for any number of processes.
    Dynamodb,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamodbSettings {
    pub endpoint: String,
    pub region: String,
    pub table_prefix: String,
    pub point_in_time_recovery: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSettings {
    pub brokers: String,
    pub topic_prefix: String,
    /// For `tidings store schema apply`.
    pub partitions: u16,
    pub replication: u16,
    pub security: KafkaSecurity,
    pub ca_file: String,
    pub username: String,
    pub password_file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KafkaSecurity {
    Plaintext,
    Tls,
    /// TLS with a user name and password (SCRAM-SHA-512).
    Sasl,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    /// The URL, or several URLs of a cluster separated by commas.
    pub url: String,
    pub cluster: bool,
    pub username: String,
    pub password_file: String,
    pub ca_file: String,
}

/// Calls between the processes of a fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcSettings {
    pub listen: SocketAddr,
    /// The address where peers reach it, `HOST:PORT`; the listen address if not set.
    pub advertise: String,
    /// A file with the secret that this process presents, unless processes use certificates.
    pub secret_file: String,
    /// A file with the digests of the secrets that this process accepts, and the roles of each. Without it, all processes
    /// share one secret.
    pub callers_file: String,
    pub ca_file: String,
    pub cert_file: String,
    pub key_file: String,
    /// A file with the secret that authenticates assertions, for the roles `api` and `ingest` only.
    pub assertion_secret_file: String,
    /// The lifetime of an assertion.
    pub assertion_seconds: u64,
    /// Whether processes of a release without assertions and without roles in certificates may call this one.
    pub upgrading: bool,
}

/// Notifications to users without a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifySettings {
    /// How long to wait before a notification, in case the user reconnects, and to coalesce a burst.
    pub delay_ms: u64,
    /// The pause between two notifications of a chat on a device.
    pub silence_seconds: u64,
    /// Whether a notification contains the beginning of the message.
    pub previews: bool,
    pub webhook: NotifyWebhookSettings,
    pub webpush: NotifyWebpushSettings,
}

/// The operator's service that delivers notifications to devices; off while no URL is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyWebhookSettings {
    pub url: String,
    /// A file with the key that signs calls.
    pub secret_file: String,
}

/// Notifications through the push services of browsers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyWebpushSettings {
    pub enabled: bool,
    /// How push service operators can contact this operator: a `mailto:` or an `https:` URL.
    pub contact: String,
    /// Whether to call push services without TLS or in private networks.
    pub private_endpoints: bool,
}

/// The application's webhook for events; off while no URL is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    pub url: String,
    /// A file with the key that signs calls.
    pub secret_file: String,
    /// The kinds of events to deliver, of `message`, `member` and `chat`, separated by commas.
    pub events: String,
}

/// What members may do with messages that are sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSettings {
    /// The age up to which authors edit and delete their messages; 0 means unlimited.
    pub update_window_seconds: u64,
}

/// Retention of the whole service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// The longest lifetime of a message in any chat, 1 to 365 days; 0 means unlimited.
    pub message_days: u64,
}

/// Rate limits; 0 means unlimited.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    pub otp_request_per_phone: u32,
    pub otp_request_per_ip: u32,
    pub otp_request_per_country: u32,
    pub otp_request_total: u32,
    pub otp_verify: u32,
    pub otp_verify_per_ip: u32,
    pub passkey_challenge_per_ip: u32,
    pub passkey_verify_per_ip: u32,
    pub passkey_registration: u32,
    pub refresh: u32,
    pub rest_read: u32,
    pub rest_write: u32,
    pub lookup_numbers: u32,
    pub connections_live: u32,
    pub connections_new: u32,
    pub send_per_chat: u32,
    pub send_per_user: u32,
    pub sync: u32,
    pub typing: u32,
    pub frames_per_connection: u32,
    pub exports: u32,
    pub groups_created: u32,
    pub members_added: u32,
    pub chats_per_user: u32,
    pub message_mib: u32,
    pub message_mib_total: u32,
    pub unauthenticated_per_ip: u32,
}

impl LimitSettings {
    /// The defaults of `--dev`: one person with a script or a few windows meets no limit of codes, sends, requests and
    /// connections. The other limits are those of production.
    fn relaxed(self) -> Self {
        Self {
            otp_request_per_phone: 0,
            otp_request_per_ip: 0,
            otp_request_per_country: 0,
            otp_request_total: 0,
            rest_read: 0,
            rest_write: 0,
            connections_live: 0,
            connections_new: 0,
            send_per_chat: 0,
            send_per_user: 0,
            ..self
        }
    }
}

impl Config {
    /// The defaults of a process with `dev`.
    fn default_of_dev() -> Self {
        let config = Self::default();
        Self { limits: config.limits.clone().relaxed(), ..config }
    }
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data_dir: "tidings-data".into(),
            listen: loopback(8080),
            allowed_origins: String::new(),
            frame_ancestors: String::new(),
            trusted_proxies: String::new(),
            http_connections_max: 10_000,
            http_connections_per_address_max: 2500,
            http_requests_mib_max: 64,
            dev: false,
            insecure: false,
            roles: "all".into(),
            tls: TlsSettings { cert_file: String::new(), key_file: String::new() },
            admin: AdminSettings {
                listen: loopback(9464),
                allowed_hosts: String::new(),
                cert_file: String::new(),
                key_file: String::new(),
                operators_file: String::new(),
            },
            health: HealthSettings { stuck_after_ms: 30_000 },
            log: LogSettings { level: "info".into(), format: LogFormat::Text },
            telemetry: TelemetrySettings {
                otlp_endpoint: String::new(),
                trace_ratio: 0.01,
                service_name: "tidings".into(),
                headers_file: String::new(),
                metrics: true,
            },
            security_events: SecurityEventSettings { file: String::new(), file_mib_max: 64, files_max: 5, log: false },
            auth: AuthSettings {
                secret_file: String::new(),
                access_token_ttl_seconds: 3600,
                refresh_token_ttl_seconds: 30 * 24 * 3600,
                code_ttl_seconds: 300,
                key_rotation_days: 30,
                group_invites_default: GroupInvites::Everyone,
                phone: PhoneSettings {
                    enabled: true,
                    allowed_prefixes: String::new(),
                    denied_prefixes: auth::PhonePrefixes::DENIED.into(),
                },
                otp: OtpSettings {
                    sender: OtpSenderKind::Auto,
                    webhook_url: String::new(),
                    webhook_secret_file: String::new(),
                },
                passkeys: PasskeySettings { rp_id: String::new(), rp_name: "Tidings".into(), origins: String::new() },
                external: ExternalAuthSettings {
                    jwks_file: String::new(),
                    jwks_url: String::new(),
                    issuer: String::new(),
                    audience: String::new(),
                    user_claim: "sub".into(),
                    name_claim: String::new(),
                    name_from_issuer: false,
                    clients: String::new(),
                },
            },
            gateway: GatewaySettings {
                heartbeat_interval_ms: 5000,
                unhealthy_after_ms: 10_000,
                expiry_ms: 15_000,
                idle_timeout_ms: 15_000,
                connections_max: 100_000,
            },
            ingest: IngestSettings { queue_len_max: 8192, batch_len_max: 1024 },
            store: StoreSettings {
                engine: StoreEngine::Embedded,
                cache_mib: 64,
                erase_within_seconds: 24 * 3600,
                max_gib: 0.0,
                min_free_mib: 256,
                scrub_every_seconds: 0,
                scrub_mib_per_second: 16,
                key_file: String::new(),
                key_command: String::new(),
            },
            dynamodb: DynamodbSettings {
                endpoint: String::new(),
                region: String::new(),
                table_prefix: "tidings_".into(),
                point_in_time_recovery: true,
            },
            kafka: KafkaSettings {
                brokers: String::new(),
                topic_prefix: String::new(),
                partitions: 12,
                replication: 3,
                security: KafkaSecurity::Plaintext,
                ca_file: String::new(),
                username: String::new(),
                password_file: String::new(),
            },
            redis: RedisSettings {
                url: String::new(),
                cluster: false,
                username: String::new(),
                password_file: String::new(),
                ca_file: String::new(),
            },
            rpc: RpcSettings {
                listen: loopback(7400),
                advertise: String::new(),
                secret_file: String::new(),
                callers_file: String::new(),
                ca_file: String::new(),
                cert_file: String::new(),
                key_file: String::new(),
                assertion_secret_file: String::new(),
                assertion_seconds: 600,
                upgrading: false,
            },
            notify: NotifySettings {
                delay_ms: 1000,
                silence_seconds: 30,
                previews: true,
                webhook: NotifyWebhookSettings { url: String::new(), secret_file: String::new() },
                webpush: NotifyWebpushSettings { enabled: true, contact: String::new(), private_endpoints: false },
            },
            webhook: WebhookSettings {
                url: String::new(),
                secret_file: String::new(),
                events: "message,member,chat".into(),
            },
            messages: MessageSettings { update_window_seconds: 48 * 60 * 60 },
            retention: RetentionSettings { message_days: 0 },
            limits: LimitSettings {
                otp_request_per_phone: 3,
                otp_request_per_ip: 10,
                otp_request_per_country: 500,
                otp_request_total: 1000,
                otp_verify: 5,
                otp_verify_per_ip: 30,
                passkey_challenge_per_ip: 300,
                passkey_verify_per_ip: 30,
                passkey_registration: 10,
                refresh: 30,
                rest_read: 300,
                rest_write: 60,
                lookup_numbers: 1000,
                connections_live: 5,
                connections_new: 10,
                send_per_chat: 10,
                send_per_user: 30,
                sync: 5,
                typing: 1,
                frames_per_connection: 200,
                exports: 3,
                groups_created: 100,
                members_added: 2000,
                chats_per_user: 5000,
                message_mib: 256,
                message_mib_total: 0,
                unauthenticated_per_ip: 100,
            },
        }
    }
}
