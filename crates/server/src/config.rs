//! What an operator can set, where it comes from, and what it means.
//!
//! Flags win over environment, environment over file, file over defaults. The tree of the defaults is the list of the
//! keys there are: whatever else somebody sets is an error that names the nearest right one.

mod sources;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use sources::{ConfigError, Sources, load};

/// Everything that can be set, as it stands in the file. An empty text means that the key is not set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the store, the log and the keys are.
    pub data_dir: PathBuf,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Whose pages may call the API from a browser, beside our own: origins with commas between, or `*`.
    pub allowed_origins: String,
    /// Whose word on where a request comes from is believed: networks with commas between.
    pub trusted_proxies: String,
    /// Connections of the public listener that are no WebSockets, at the most.
    pub http_connections_max: usize,
    /// Allows the one-time code `000000`, on loopback only.
    pub dev: bool,
    /// Which parts of the service this process is.
    pub roles: String,
    pub tls: Tls,
    pub admin: Admin,
    pub health: Health,
    pub log: Log,
    pub telemetry: Telemetry,
    pub auth: Auth,
    pub gateway: Gateway,
    pub ingest: Ingest,
    pub store: Store,
    pub dynamodb: Dynamodb,
    pub kafka: Kafka,
    pub redis: Redis,
    pub rpc: Rpc,
    pub notify: Notify,
    pub webhook: Webhook,
    pub limits: Limits,
}

/// The certificate of the public listener; it speaks plain HTTP while none is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate and those that vouch for it, in PEM.
    pub cert_file: String,
    /// Its key, in PEM.
    pub key_file: String,
}

/// The listener for operators.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    pub listen: SocketAddr,
    /// Its certificate and key, as of [`Tls`].
    pub cert_file: String,
    pub key_file: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// How long the committer may answer nobody before the process asks for its restart.
    pub stuck_after_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
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

/// Where traces and metrics go; nowhere while no endpoint is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// A collector of OpenTelemetry that takes OTLP over HTTP.
    pub otlp_endpoint: String,
    /// The share of traces that is kept, from 0 to 1. What fails is always kept.
    pub trace_ratio: f64,
    pub service_name: String,
    /// A file that holds headers for the collector, `name: value` on each line.
    pub headers_file: String,
    /// Whether metrics go to the collector too.
    pub metrics: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// A file that holds the secret from which a fleet derives its keys. One machine makes its own.
    pub secret_file: String,
    pub access_token_ttl_seconds: u64,
    pub refresh_token_ttl_seconds: u64,
    pub code_ttl_seconds: u64,
    pub key_rotation_days: u64,
    pub otp: Otp,
    pub external: External,
}

/// How one-time codes reach people.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otp {
    pub sender: OtpSender,
    pub webhook_url: String,
    /// A file that holds the key with which calls of the webhook are signed.
    pub webhook_secret_file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtpSender {
    /// `fixed` with `--dev`, otherwise `log`.
    Auto,
    Log,
    Webhook,
    Fixed,
}

/// Another system whose tokens are accepted; off while neither file nor URL is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    pub jwks_file: String,
    pub jwks_url: String,
    pub issuer: String,
    pub audience: String,
    pub user_claim: String,
    pub name_claim: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    pub heartbeat_interval_ms: u64,
    pub unhealthy_after_ms: u64,
    /// How long a gateway's connections count after its last beat.
    pub expiry_ms: u64,
    pub idle_timeout_ms: u64,
    pub connections_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    pub queue_len_max: usize,
    pub batch_len_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    pub engine: Engine,
    /// Memory for blocks of the store that were read from disk.
    pub cache_mib: u64,
}

/// What the service stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Store and log in the data directory, for one process.
    Embedded,
    /// Tables in DynamoDB, the log in Kafka, the rest in Redis, for as many processes as one likes.
    Dynamodb,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dynamodb {
    pub endpoint: String,
    pub region: String,
    pub table_prefix: String,
    pub point_in_time_recovery: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    pub brokers: String,
    pub topic_prefix: String,
    /// For `tidings schema apply`.
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
    /// TLS, and a name and a password on top (SCRAM-SHA-512).
    Sasl,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// The address, or some addresses of a cluster with commas between.
    pub url: String,
    pub cluster: bool,
    pub username: String,
    pub password_file: String,
    pub ca_file: String,
}

/// How the processes of a fleet call each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rpc {
    pub listen: SocketAddr,
    /// Where the others reach it, `HOST:PORT`; where it listens, if it is not set.
    pub advertise: String,
    /// A file that holds the secret by which they know each other, unless they have certificates.
    pub secret_file: String,
    pub ca_file: String,
    pub cert_file: String,
    pub key_file: String,
}

/// How people are told of messages while they have no connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// How long to wait for whoever comes back by themselves, and for the rest of a burst.
    pub delay_ms: u64,
    /// How long a chat is silent on a device after a notification.
    pub silence_seconds: u64,
    /// Whether a notification holds the start of the message.
    pub previews: bool,
    pub webhook: NotifyWebhook,
    pub webpush: NotifyWebpush,
}

/// The operator's service that brings notifications to devices; off while no URL is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyWebhook {
    pub url: String,
    /// A file that holds the key with which calls are signed.
    pub secret_file: String,
}

/// Notifications through the push services of browsers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyWebpush {
    pub enabled: bool,
    /// How the operators of push services reach the operator of this one: a `mailto:` or an `https:` URL.
    pub contact: String,
    /// Whether push services without TLS or in private networks are called.
    pub private_endpoints: bool,
}

/// The application that hears of everything that happens; off while no URL is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    /// A file that holds the key with which calls are signed.
    pub secret_file: String,
    /// What it hears of, of `message`, `member` and `chat`, with commas between.
    pub events: String,
}

/// How often what may happen; 0 is as often as one likes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub otp_request_per_phone: u32,
    pub otp_request_per_ip: u32,
    pub otp_verify: u32,
    pub otp_verify_per_ip: u32,
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
    pub exports: u32,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data_dir: "tidings-data".into(),
            listen: loopback(8080),
            allowed_origins: String::new(),
            trusted_proxies: String::new(),
            http_connections_max: 10_000,
            dev: false,
            roles: "all".into(),
            tls: Tls { cert_file: String::new(), key_file: String::new() },
            admin: Admin { listen: loopback(9464), cert_file: String::new(), key_file: String::new() },
            health: Health { stuck_after_ms: 30_000 },
            log: Log { level: "info".into(), format: LogFormat::Text },
            telemetry: Telemetry {
                otlp_endpoint: String::new(),
                trace_ratio: 0.01,
                service_name: "tidings".into(),
                headers_file: String::new(),
                metrics: true,
            },
            auth: Auth {
                secret_file: String::new(),
                access_token_ttl_seconds: 3600,
                refresh_token_ttl_seconds: 30 * 24 * 3600,
                code_ttl_seconds: 300,
                key_rotation_days: 30,
                otp: Otp { sender: OtpSender::Auto, webhook_url: String::new(), webhook_secret_file: String::new() },
                external: External {
                    jwks_file: String::new(),
                    jwks_url: String::new(),
                    issuer: String::new(),
                    audience: String::new(),
                    user_claim: "sub".into(),
                    name_claim: String::new(),
                },
            },
            gateway: Gateway {
                heartbeat_interval_ms: 5000,
                unhealthy_after_ms: 10_000,
                expiry_ms: 15_000,
                idle_timeout_ms: 15_000,
                connections_max: 100_000,
            },
            ingest: Ingest { queue_len_max: 8192, batch_len_max: 1024 },
            store: Store { engine: Engine::Embedded, cache_mib: 64 },
            dynamodb: Dynamodb {
                endpoint: String::new(),
                region: String::new(),
                table_prefix: "tidings_".into(),
                point_in_time_recovery: true,
            },
            kafka: Kafka {
                brokers: String::new(),
                topic_prefix: String::new(),
                partitions: 12,
                replication: 3,
                security: KafkaSecurity::Plaintext,
                ca_file: String::new(),
                username: String::new(),
                password_file: String::new(),
            },
            redis: Redis {
                url: String::new(),
                cluster: false,
                username: String::new(),
                password_file: String::new(),
                ca_file: String::new(),
            },
            rpc: Rpc {
                listen: loopback(7400),
                advertise: String::new(),
                secret_file: String::new(),
                ca_file: String::new(),
                cert_file: String::new(),
                key_file: String::new(),
            },
            notify: Notify {
                delay_ms: 1000,
                silence_seconds: 30,
                previews: true,
                webhook: NotifyWebhook { url: String::new(), secret_file: String::new() },
                webpush: NotifyWebpush { enabled: true, contact: String::new(), private_endpoints: false },
            },
            webhook: Webhook { url: String::new(), secret_file: String::new(), events: "message,member,chat".into() },
            limits: Limits {
                otp_request_per_phone: 3,
                otp_request_per_ip: 10,
                otp_verify: 5,
                otp_verify_per_ip: 30,
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
                exports: 3,
            },
        }
    }
}
