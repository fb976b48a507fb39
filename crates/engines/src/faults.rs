use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

mod http;
mod lasting;
mod reads;
mod replica;
mod request;

use self::http::Whole;
pub use self::lasting::LastingFault;
use self::lasting::{LastingFaults, Verdict};
pub use self::reads::ObservedRead;
use self::replica::IndexReplica;

/// A proxy in front of a server that speaks DynamoDB's protocol. It injects faults of the real service that no local
/// server produces. It stops when it is dropped.
#[derive(Debug)]
pub struct FaultyDynamo {
    address: SocketAddr,
    plan: Arc<Mutex<FaultPlan>>,
    replica: Option<Arc<IndexReplica>>,
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
    lasting: LastingFaults,
    /// Requests so far, by operation.
    requests: BTreeMap<String, usize>,
    /// The reads since they are observed; `None` if they are not.
    reads: Option<Vec<ObservedRead>>,
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
        Self::start_with(upstream, None).await
    }

    /// Starts a proxy whose indexes lag: queries of an index go to the server at `replica`, which gets the writes when
    /// [`catch_up`](Self::catch_up) is called. Both servers have to be empty.
    pub async fn start_lagging(upstream: SocketAddr, replica: SocketAddr) -> Self {
        Self::start_with(upstream, Some(Arc::new(IndexReplica::new(replica)))).await
    }

    async fn start_with(upstream: SocketAddr, replica: Option<Arc<IndexReplica>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let plan = Arc::<Mutex<FaultPlan>>::default();
        let route = ProxyRoute { upstream, plan: plan.clone(), replica: replica.clone() };
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((downstream, _)) = listener.accept().await {
                connections.spawn(pass(downstream, route.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, plan, replica, accepting }
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

    /// Injects a fault into requests until the proxy stops.
    pub fn keep_failing(&self, fault: LastingFault) {
        self.plan().lasting.add(fault);
    }

    /// The number of requests that lasting faults have hit.
    pub fn lasting_hits(&self) -> usize {
        self.plan().lasting.hits()
    }

    /// Brings lagging indexes up to date. Does nothing if they do not lag.
    pub async fn catch_up(&self) {
        if let Some(replica) = &self.replica {
            replica.catch_up().await.expect("a replica takes what the server has taken");
        }
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

    /// The reads that were requested since the last call. The first call begins to observe them.
    pub fn observed_reads(&self) -> Vec<ObservedRead> {
        self.plan().reads.replace(vec![]).unwrap_or_default()
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
    plan.lock().expect("no code panics while it holds the plan")
}

impl FaultPlan {
    /// Keeps the reads of a request if they are observed.
    fn observe(&mut self, request: &Whole) {
        if let Some(observed) = &mut self.reads {
            observed.extend(reads::reads(request));
        }
    }

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

/// The upstream servers of the proxy, and the faults that it injects.
#[derive(Clone)]
struct ProxyRoute {
    upstream: SocketAddr,
    plan: Arc<Mutex<FaultPlan>>,
    replica: Option<Arc<IndexReplica>>,
}

/// Forwards the requests of a connection one by one, until an end closes it or a fault cuts it.
async fn pass(downstream: TcpStream, route: ProxyRoute) -> io::Result<()> {
    let upstream = TcpStream::connect(route.upstream).await?;
    downstream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (mut client, mut server) = (BufReader::new(downstream), BufReader::new(upstream));
    while let Some(request) = Whole::read(&mut client).await? {
        let planned = {
            let mut plan = lock(&route.plan);
            plan.observe(&request);
            plan.next(request.operation())
        };
        let answer = match planned {
            Some((_, When::Before)) => None,
            Some((_, When::After)) | None => route.execute(&request, &mut server).await?,
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

impl ProxyRoute {
    /// Executes a request under the lasting faults.
    async fn execute(&self, request: &Whole, server: &mut BufReader<TcpStream>) -> io::Result<Option<Whole>> {
        let verdict = lock(&self.plan).lasting.judge(request);
        match verdict {
            Verdict::Pass => self.forward(request, server).await,
            Verdict::Refuse(answer) => Ok(Some(answer)),
            Verdict::Part { request, left } => {
                let answer = self.forward(&request, server).await?;
                Ok(answer.map(|answer| left.added_to(answer)))
            }
        }
    }

    async fn forward(&self, request: &Whole, server: &mut BufReader<TcpStream>) -> io::Result<Option<Whole>> {
        match &self.replica {
            Some(replica) => replica.forward(request, server).await,
            None => replica::exchange(request, server).await,
        }
    }
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
        let mut reasons = String::new();
        if self == Self::Conflict && request.is_transaction() {
            // One reason for each item of the transaction; every item names a table.
            let each = vec![r#"{"Code":"TransactionConflict"}"#; request.count(br#""TableName":"#)];
            reasons = format!(r#","CancellationReasons":[{}]"#, each.join(","));
        }
        Some(Whole::refusal(status, name, &reasons))
    }
}

#[cfg(test)]
mod tests {
    use super::http::header;
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
