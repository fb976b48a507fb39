use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Bytes of the head of a request or an answer, at the most.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a body, at the most: the service takes 16 MB.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A proxy in front of a server that speaks DynamoDB's protocol. It answers as the real service does on a bad day,
/// which no server on one machine does by itself. It ends when it is dropped.
#[derive(Debug)]
pub struct FaultyDynamo {
    address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    accepting: JoinHandle<()>,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut.
    Cut,
    /// No answer comes, and the connection stays open.
    Silence,
    /// `ThrottlingException`: the account asks too much.
    Throttled,
    /// `ProvisionedThroughputExceededException`: the table, or one key of it, is asked too much.
    CapacityExceeded,
    /// `TransactionConflict`: a transaction is in the way.
    Conflict,
    /// `TransactionInProgressException`: the same transaction is under way already.
    InProgress,
    /// `InternalServerError`, with status 500.
    ServerError,
    /// `ServiceUnavailable`, with status 503.
    Unavailable,
}

/// When it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The server never hears of the request.
    Before,
    /// The server has done what was asked; its answer is lost.
    After,
}

#[derive(Debug, Default)]
struct Plan {
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
    /// A proxy in front of the server at `upstream`, which may come and go. Until told otherwise it passes everything
    /// on.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let plan = Arc::<Mutex<Plan>>::default();
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

    /// What a client takes as its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Has the next `count` requests go wrong, behind those that are planned already.
    pub fn fail(&self, fault: Fault, when: When, count: usize) {
        self.plan().faults.push(Planned { operation: None, fault, when, left: count });
    }

    /// Has the next `count` requests of one operation go wrong, `TransactWriteItems` for instance.
    pub fn fail_operation(&self, operation: &'static str, fault: Fault, when: When, count: usize) {
        self.plan().faults.push(Planned { operation: Some(operation), fault, when, left: count });
    }

    /// Has nothing go wrong any more.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// How many requests are still to go wrong.
    pub fn faults_left(&self) -> usize {
        self.plan().faults.iter().fold(0, |sum, planned| sum.saturating_add(planned.left))
    }

    /// How many requests of an operation have come, those that went wrong among them.
    pub fn requests(&self, operation: &str) -> usize {
        self.plan().requests.get(operation).copied().unwrap_or(0)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }
}

impl Drop for FaultyDynamo {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().expect("nothing panics with the plan in hand")
}

impl Plan {
    /// Notes a request, and says what is to go wrong with it.
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

/// Passes the requests of a connection on, one after the other, until one of the ends closes it or it is cut.
async fn pass(downstream: TcpStream, upstream: SocketAddr, plan: Arc<Mutex<Plan>>) -> io::Result<()> {
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
            // Until the client has had enough.
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
    /// What the service says, if it says anything.
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
            // One reason for each part, all of which name a table.
            let reasons = vec![r#"{"Code":"TransactionConflict"}"#; request.count(br#""TableName":"#)];
            body += &format!(r#","CancellationReasons":[{}]"#, reasons.join(","));
        }
        body += "}";
        let headers = format!("content-type: application/x-amz-json-1.0\r\ncontent-length: {}", body.len());
        Some(Whole { head: format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n"), body: body.into_bytes() })
    }
}

/// One request or answer of HTTP/1.1, whole.
struct Whole {
    head: String,
    body: Vec<u8>,
}

impl Whole {
    /// The next one of a connection; `None` if it was closed in between.
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

    /// Writes it at once: two small writes would make the second wait for the other end's acknowledgement.
    async fn write(&self, to: &mut BufReader<TcpStream>) -> io::Result<()> {
        to.write_all(&[self.head.as_bytes(), &self.body].concat()).await
    }

    /// The operation that a request asks for.
    fn operation(&self) -> &str {
        header(&self.head, "x-amz-target").and_then(|target| target.split('.').nth(1)).unwrap_or_default()
    }

    fn is_transaction(&self) -> bool {
        self.operation() == "TransactWriteItems"
    }

    /// How often the body has these bytes.
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
        let mut plan = Plan::default();
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
