use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Most bytes in the head of a request or response.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most bytes in a body: the real service accepts 16 MB.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A proxy in front of a server that speaks DynamoDB's protocol. It injects faults of the real service that no local
/// server produces. It stops when it is dropped.
#[derive(Debug)]
pub struct FaultyDynamo {
    address: SocketAddr,
    plan: Arc<Mutex<FaultPlan>>,
    accepting: JoinHandle<()>,
}

/// The fault injected into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed.
    Cut,
    /// No response arrives, and the connection stays open.
    Silence,
    /// `ThrottlingException`: the account exceeds its request rate.
    Throttled,
    /// `ProvisionedThroughputExceededException`: the table, or one key of it, exceeds its capacity.
    CapacityExceeded,
    /// `TransactionConflict`: another transaction conflicts.
    Conflict,
    /// `TransactionInProgressException`: the same transaction is already in progress.
    InProgress,
    /// `InternalServerError`, with status 500.
    ServerError,
    /// `ServiceUnavailable`, with status 503.
    Unavailable,
}

/// When the fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the server receives the request.
    Before,
    /// After the server has executed the request; its response is lost.
    After,
}

#[derive(Debug, Default)]
struct FaultPlan {
    faults: Vec<Planned>,
    /// Requests so far, by operation.
    requests: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Planned {
    operation: Option<&'static str>,
    fault: Fault,
    when: When,
    left: usize,
}

impl FaultyDynamo {
    /// Starts a proxy in front of the server at `upstream`, which may stop and restart. Without planned faults it
    /// forwards everything.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let plan = Arc::<Mutex<FaultPlan>>::default();
        let planned = plan.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((downstream, _)) = listener.accept().await {
                connections.spawn(pass(downstream, upstream, planned.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, plan, accepting }
    }

    /// The endpoint URL for clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Injects a fault into the next `count` requests, after the faults already planned.
    pub fn fail(&self, fault: Fault, when: When, count: usize) {
        self.plan().faults.push(Planned { operation: None, fault, when, left: count });
    }

    /// Injects a fault into the next `count` requests of one operation, for example `TransactWriteItems`.
    pub fn fail_operation(&self, operation: &'static str, fault: Fault, when: When, count: usize) {
        self.plan().faults.push(Planned { operation: Some(operation), fault, when, left: count });
    }

    /// Removes all planned faults.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// The number of requests that will still fail.
    pub fn faults_left(&self) -> usize {
        self.plan().faults.iter().fold(0, |sum, planned| sum.saturating_add(planned.left))
    }

    /// The number of requests received for an operation, including failed ones.
    pub fn requests(&self, operation: &str) -> usize {
        self.plan().requests.get(operation).copied().unwrap_or(0)
    }

    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        lock(&self.plan)
    }
}

impl Drop for FaultyDynamo {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(plan: &Mutex<FaultPlan>) -> MutexGuard<'_, FaultPlan> {
    plan.lock().expect("nothing panics with the plan in hand")
}

impl FaultPlan {
    /// Counts a request and returns the fault planned for it.
    fn next(&mut self, operation: &str) -> Option<(Fault, When)> {
        *self.requests.entry(operation.to_owned()).or_default() += 1;
        let matches = |planned: &&mut Planned| planned.operation.is_none_or(|of| of == operation);
        let planned = self.faults.iter_mut().find(matches)?;
        let next = (planned.fault, planned.when);
        planned.left -= 1;
        self.faults.retain(|planned| planned.left > 0);
        Some(next)
    }
}

/// Forwards the requests of a connection one by one, until an end closes it or a fault cuts it.
async fn pass(downstream: TcpStream, upstream: SocketAddr, plan: Arc<Mutex<FaultPlan>>) -> io::Result<()> {
    let upstream = TcpStream::connect(upstream).await?;
    downstream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (mut client, mut server) = (BufReader::new(downstream), BufReader::new(upstream));
    while let Some(request) = Whole::read(&mut client).await? {
        let planned = lock(&plan).next(request.operation());
        let answer = match planned {
            Some((_, When::Before)) => None,
            Some((_, When::After)) | None => {
                request.write(&mut server).await?;
                Whole::read(&mut server).await?
            }
        };
        let answer = match planned {
            // Wait until the client gives up and closes the connection.
            Some((Fault::Silence, _)) => return client.read_u8().await.map(drop),
            Some((fault, _)) => fault.answer(&request),
            None => answer,
        };
        let Some(answer) = answer else { return Ok(()) };
        answer.write(&mut client).await?;
    }
    Ok(())
}

impl Fault {
    /// The response of the service for this fault, if there is one.
    fn answer(self, request: &Whole) -> Option<Whole> {
        let (status, name) = match self {
            Self::Cut | Self::Silence => return None,
            Self::Throttled => ("400 Bad Request", "ThrottlingException"),
            Self::CapacityExceeded => ("400 Bad Request", "ProvisionedThroughputExceededException"),
            Self::Conflict if request.is_transaction() => ("400 Bad Request", "TransactionCanceledException"),
            Self::Conflict => ("400 Bad Request", "TransactionConflictException"),
            Self::InProgress => ("400 Bad Request", "TransactionInProgressException"),
            Self::ServerError => ("500 Internal Server Error", "InternalServerError"),
            Self::Unavailable => ("503 Service Unavailable", "ServiceUnavailable"),
        };
        let mut body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{name}","message":"a fault""#);
        if self == Self::Conflict && request.is_transaction() {
            // One reason for each item of the transaction; every item names a table.
            let reasons = vec![r#"{"Code":"TransactionConflict"}"#; request.count(br#""TableName":"#)];
            body += &format!(r#","CancellationReasons":[{}]"#, reasons.join(","));
        }
        body += "}";
        let headers = format!("content-type: application/x-amz-json-1.0\r\ncontent-length: {}", body.len());
        Some(Whole { head: format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n"), body: body.into_bytes() })
    }
}

/// One complete HTTP/1.1 request or response.
struct Whole {
    head: String,
    body: Vec<u8>,
}

impl Whole {
    /// Reads the next message of a connection; `None` if the peer closed it between messages.
    async fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let left = (HEAD_BYTES_MAX - head.len()) as u64;
            if (&mut *from).take(left).read_line(&mut head).await? == 0 {
                return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        let len = header(&head, "content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        if len > BODY_BYTES_MAX {
            return Err(io::Error::other(format!("a body of {len} bytes, limit is {BODY_BYTES_MAX}")));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body).await?;
        Ok(Some(Self { head, body }))
    }

    /// Writes head and body in one write: with two small writes, the second would wait for the peer's acknowledgement.
    async fn write(&self, to: &mut BufReader<TcpStream>) -> io::Result<()> {
        to.write_all(&[self.head.as_bytes(), &self.body].concat()).await
    }

    /// The operation that a request names.
    fn operation(&self) -> &str {
        header(&self.head, "x-amz-target").and_then(|target| target.split('.').nth(1)).unwrap_or_default()
    }

    fn is_transaction(&self) -> bool {
        self.operation() == "TransactWriteItems"
    }

    /// Counts the occurrences of these bytes in the body.
    fn count(&self, bytes: &[u8]) -> usize {
        self.body.windows(bytes.len()).filter(|window| *window == bytes).count()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.into_iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: &str, body: &str) -> Whole {
        let head = format!("POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\r\n");
        Whole { head, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn faults_come_in_the_order_they_were_planned_to_the_operations_they_are_for() {
        let mut plan = FaultPlan::default();
        let planned = |operation, fault, left| Planned { operation, fault, when: When::After, left };
        plan.faults.push(planned(Some("Query"), Fault::Cut, 1));
        plan.faults.push(planned(None, Fault::Throttled, 2));
        let next = ["GetItem", "Query", "Query", "Query"].map(|operation| plan.next(operation).map(|(fault, _)| fault));
        assert_eq!(next, [Some(Fault::Throttled), Some(Fault::Cut), Some(Fault::Throttled), None]);
        assert_eq!(plan.requests, BTreeMap::from([("GetItem".to_owned(), 1), ("Query".to_owned(), 3)]));
    }

    #[test]
    fn a_conflict_gives_a_reason_for_each_part_of_a_transaction() {
        let parts = r#"{"TransactItems":[{"Put":{"TableName":"a"}},{"Delete":{"TableName":"b"}}]}"#;
        let answer = Fault::Conflict.answer(&request("TransactWriteItems", parts)).unwrap();
        let reasons = r#""CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"TransactionConflict"}]}"#;
        assert!(String::from_utf8(answer.body).unwrap().ends_with(reasons));
        let alone = Fault::Conflict.answer(&request("UpdateItem", r#"{"TableName":"a"}"#)).unwrap();
        assert!(String::from_utf8(alone.body).unwrap().contains("#TransactionConflictException"));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let answer = Fault::ServerError.answer(&request("Query", "{}")).unwrap();
        assert!(answer.head.starts_with("HTTP/1.1 500 "));
        assert_eq!(header(&answer.head, "Content-Length"), Some(answer.body.len().to_string().as_str()));
    }
}
