use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Backoff;
use futures_util::future::join_all;
use metrics::counter;
use ports::lock;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster_routing::Slot;
use redis::io::tcp::{TcpSettings, socket2};
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError,
    RedisResult, ServerErrorKind, TlsCertificates, Value,
};
use rustls::crypto::CryptoProvider;
use tokio::sync::OnceCell;
use tokio::time;

use crate::call::SlotCommand;
use crate::client::RedisOpenError;
use crate::config::{Config, Nodes, Url};

/// Number of attempts of a command if its connection is dead or its slot has moved.
const TRIES: usize = 8;
/// Delays between attempts.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(200) };
/// How long sent bytes may stay unacknowledged before the connection counts as dead, and the idle time before a
/// keep-alive probe.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The connections to all nodes in use, and the slot map.
///
/// The commands of a batch go out as one pipeline to each node. The library's own cluster connection sends a pipeline
/// to one slot only, and was observed to hang permanently after it lost all nodes with some forty commands in flight.
pub(crate) struct NodeConnections {
    config: Config,
    connections: Mutex<HashMap<Url, ConnectionManager>>,
    /// Loaded on demand, and reloaded when it turns out to be stale. A single Redis has all slots.
    slots: Mutex<Arc<OnceCell<Arc<Slots>>>>,
}

/// The master of each slot.
type Slots = HashMap<Slot, Url>;

impl NodeConnections {
    pub(crate) fn new(config: Config) -> Result<Self, RedisOpenError> {
        if config.nodes.urls().is_empty() {
            return Err(RedisOpenError::NoUrl);
        }
        let link = Self { config, connections: Mutex::default(), slots: Mutex::default() };
        // Reports invalid settings here instead of in the first command.
        for url in link.config.nodes.urls() {
            let connection = connect(&link.config, url)?;
            lock(&link.connections).insert(url.clone(), connection);
        }
        Ok(link)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Runs each command at the node that serves its slot.
    pub(crate) async fn run(&self, calls: &[SlotCommand]) -> RedisResult<Vec<Value>> {
        let mut answers: Vec<Option<Value>> = calls.iter().map(|_| None).collect();
        let mut command: fn(&SlotCommand) -> Cmd = SlotCommand::command;
        let (mut tries, mut delays) = (1, 0);
        while let Err(error) = self.run_once(calls, &mut answers, command).await {
            if tries == TRIES || !self.is_curable(&error) {
                return Err(error);
            }
            tries += 1;
            // A node loses its cached scripts when it restarts.
            if is(&error, ServerErrorKind::NoScript) {
                command = SlotCommand::command_with_text;
                continue;
            }
            self.forget_slots();
            delays += 1;
            time::sleep(BACKOFF.delay(delays)).await;
        }
        let answers: Option<Vec<Value>> = answers.into_iter().collect();
        answers.ok_or_else(|| (ErrorKind::Client, "a command was left without an answer").into())
    }

    /// Runs a command without a key at each master.
    pub(crate) async fn run_at_each(&self, name: &str) -> RedisResult<Vec<Value>> {
        let slots = self.slots().await?;
        let one_of_each: BTreeMap<&Url, Slot> = slots.iter().map(|(slot, url)| (url, *slot)).collect();
        let calls: Vec<SlotCommand> = one_of_each.into_values().map(|slot| SlotCommand::to_node(name, slot)).collect();
        self.run(&calls).await
    }

    /// Discards the slot map, so that the next command reloads it.
    pub(crate) fn forget_slots(&self) {
        if self.is_cluster() {
            *lock(&self.slots) = Arc::default();
        }
    }

    fn is_cluster(&self) -> bool {
        matches!(self.config.nodes, Nodes::Cluster(_))
    }

    /// Sends the commands without an answer to their nodes once. Of several errors it returns a permanent one, if there
    /// is one.
    async fn run_once(
        &self,
        calls: &[SlotCommand],
        answers: &mut [Option<Value>],
        command: fn(&SlotCommand) -> Cmd,
    ) -> RedisResult<()> {
        counter!("tidings_redis_round_trips_total").increment(1);
        let slots = self.slots().await?;
        let mut numbers: BTreeMap<&Url, Vec<usize>> = BTreeMap::new();
        for (number, call) in calls.iter().enumerate().filter(|(number, _)| answers[*number].is_none()) {
            let url = slots.get(&call.slot()).ok_or(NO_NODE)?;
            numbers.entry(url).or_default().push(number);
        }
        let asked = numbers.into_iter().map(async |(url, numbers)| {
            let commands = numbers.iter().map(|number| command(&calls[*number]));
            let outcome = self.call(url, commands).await;
            (numbers, outcome)
        });
        let mut errors = vec![];
        for (numbers, outcome) in join_all(asked).await {
            match outcome {
                Ok(values) => {
                    for (number, value) in numbers.into_iter().zip(values) {
                        match self.settle(value, command(&calls[number])).await {
                            Ok(value) => answers[number] = Some(value),
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let worst = errors.iter().position(|error| !self.is_curable(error)).unwrap_or(0);
        if errors.is_empty() { Ok(()) } else { Err(errors.swap_remove(worst)) }
    }

    /// The answer to a command. Follows an `ASK` redirection, which a node returns while it migrates the slot.
    async fn settle(&self, value: Value, command: Cmd) -> RedisResult<Value> {
        let error = match value.extract_error() {
            Err(error) if is(&error, ServerErrorKind::Ask) => error,
            outcome => return outcome,
        };
        let (address, _) = error.redirect_node().ok_or_else(|| error.clone())?;
        let url = self.config.nodes.urls()[0].with_address(address);
        let values = self.call(&url, [redis::cmd("ASKING"), command].into_iter()).await?;
        values.into_iter().next_back().map_or(Err(error), Value::extract_error)
    }

    /// Sends commands to one node as one pipeline. Each answer may itself be an error.
    async fn call(&self, url: &Url, commands: impl Iterator<Item = Cmd>) -> RedisResult<Vec<Value>> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command);
        }
        let mut connection = self.connection(url)?;
        connection.req_packed_commands(&pipeline, 0, pipeline.len()).await
    }

    fn connection(&self, url: &Url) -> RedisResult<ConnectionManager> {
        let mut connections = lock(&self.connections);
        if let Some(connection) = connections.get(url) {
            return Ok(connection.clone());
        }
        let connection = connect(&self.config, url).map_err(|error| match error {
            RedisOpenError::Settings(error) => error,
            RedisOpenError::PlainUrl(_) | RedisOpenError::NoUrl => NO_NODE.into(),
        })?;
        connections.insert(url.clone(), connection.clone());
        Ok(connection)
    }

    async fn slots(&self) -> RedisResult<Arc<Slots>> {
        let cell = lock(&self.slots).clone();
        cell.get_or_try_init(|| self.load_slots()).await.cloned()
    }

    async fn load_slots(&self) -> RedisResult<Arc<Slots>> {
        let urls = match &self.config.nodes {
            Nodes::Single(url) => return Ok(Arc::new(all_slots().map(|slot| (slot, url.clone())).collect())),
            Nodes::Cluster(urls) => urls,
        };
        // Discovered nodes may have outlived those of the settings. Start at a random node, because a hanging one uses
        // up the command's timeout.
        let mut known: Vec<Url> = lock(&self.connections).keys().cloned().collect();
        let first = rand::random_range(0..known.len());
        known.rotate_left(first);
        let mut failure = NO_NODE.into();
        for url in known {
            let mut command = redis::cmd("CLUSTER");
            command.arg("SLOTS");
            let answer = self.call(&url, [command].into_iter()).await;
            match answer.and_then(|mut values| values.pop().unwrap_or(Value::Nil).extract_error()) {
                Ok(answer) => {
                    let slots = parse_slots(&answer, &url);
                    if !slots.is_empty() {
                        lock(&self.connections).retain(|url, _| urls.contains(url) || slots.values().any(|u| u == url));
                        return Ok(Arc::new(slots));
                    }
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Whether a retry may succeed, after reloading the slot map.
    fn is_curable(&self, error: &RedisError) -> bool {
        use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, NoScript, ReadOnly, TryAgain};
        match error.kind() {
            ErrorKind::Server(NoScript | BusyLoading) => true,
            ErrorKind::Server(Ask | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain) => self.is_cluster(),
            ErrorKind::ClusterConnectionNotFound => true,
            // A refusing cluster node may have been replaced; a refusing single Redis is down.
            _ => error.is_connection_dropped() || (self.is_cluster() && error.is_connection_refusal()),
        }
    }
}

const NO_NODE: (ErrorKind, &str) = (ErrorKind::ClusterConnectionNotFound, "no cluster node is known for the slot");

fn is(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == ErrorKind::Server(kind)
}

fn all_slots() -> impl Iterator<Item = Slot> {
    (0..).map_while(Slot::new)
}

/// Parses the answer to `CLUSTER SLOTS`: ranges, each with its first and last slot and its master's host and port.
/// Malformed ranges are left out.
fn parse_slots(answer: &Value, asked: &Url) -> Slots {
    let mut slots = Slots::new();
    let Value::Array(ranges) = answer else { return slots };
    for range in ranges {
        if let Value::Array(range) = range
            && let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &range[..]
            && let [host, Value::Int(port), ..] = &master[..]
        {
            let url = match host {
                Value::BulkString(host) if !host.is_empty() => {
                    asked.with_address(&format!("{}:{port}", String::from_utf8_lossy(host)))
                }
                // An empty host means the address at which the node was asked.
                _ => asked.clone(),
            };
            let numbers = (*first..=*last).map_while(|number| u16::try_from(number).ok());
            slots.extend(numbers.map_while(Slot::new).map(|slot| (slot, url.clone())));
        }
    }
    slots
}

/// A connection that opens on first use, and reconnects when it is lost.
fn connect(config: &Config, url: &Url) -> Result<ConnectionManager, RedisOpenError> {
    let settings = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(config.connect_timeout))
        .set_response_timeout(Some(config.command_timeout))
        // A refused connection is reported at once. The next command connects again.
        .set_number_of_retries(0);
    client(config, url)?.get_connection_manager_lazy(settings).map_err(RedisOpenError::Settings)
}

/// A client of one node.
pub(crate) fn client(config: &Config, url: &Url) -> Result<Client, RedisOpenError> {
    let info = connection_info(config, url)?;
    match certificates(config) {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
    .map_err(RedisOpenError::Settings)
}

fn connection_info(config: &Config, url: &Url) -> Result<ConnectionInfo, RedisOpenError> {
    let info = url.as_str().into_connection_info().map_err(RedisOpenError::Settings)?;
    match info.addr() {
        ConnectionAddr::TcpTls { .. } => choose_cryptography(),
        _ if config.ca_pem.is_some() => return Err(RedisOpenError::PlainUrl(url.clone())),
        _ => {}
    }
    // With RESP3 the client notices a lost connection immediately, and not with the next command.
    let mut settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    if let Some(username) = &config.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = &config.password {
        settings = settings.set_password(password.expose());
    }
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp_settings()))
}

fn certificates(config: &Config) -> Option<TlsCertificates> {
    config.ca_pem.clone().map(|ca_pem| TlsCertificates { client_tls: None, root_cert: Some(ca_pem) })
}

/// Without these settings a vanished peer would be noticed only after many minutes.
fn tcp_settings() -> TcpSettings {
    let keepalive = socket2::TcpKeepalive::new().with_time(SILENCE_MAX).with_interval(SILENCE_MAX);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(SILENCE_MAX)
}

/// Installs the process-wide crypto provider unless there is one.
fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed one meanwhile.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node])
    }

    #[test]
    fn slots_are_read_with_their_masters_and_malformed_entries_are_ignored() {
        let asked: Url = "rediss://seed:1".parse().unwrap();
        let answer = Value::Array(vec![
            master(0, 1, Value::BulkString(b"10.0.0.1".to_vec()), 7000),
            master(2, 2, Value::BulkString(b"::1".to_vec()), 7001),
            master(3, 3, Value::Nil, 7002),
            master(16383, i64::MAX, Value::BulkString(b"last".to_vec()), 7003),
            master(-5, 9, Value::BulkString(b"nowhere".to_vec()), 7004),
            Value::Array(vec![Value::Int(4)]),
            Value::Int(5),
        ]);
        let slots = parse_slots(&answer, &asked);
        let expected = [
            (0, "rediss://10.0.0.1:7000"),
            (1, "rediss://10.0.0.1:7000"),
            (2, "rediss://[::1]:7001"),
            (3, "rediss://seed:1"),
            (16383, "rediss://last:7003"),
        ];
        assert_eq!(slots, expected.map(|(slot, url)| (Slot::new(slot).unwrap(), url.parse().unwrap())).into());
        assert_eq!(parse_slots(&Value::Nil, &asked), Slots::new());
    }

    #[test]
    fn one_redis_has_all_slots() {
        assert_eq!(all_slots().count(), 16384);
    }
}
