use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, IngestError, Watermarks};
use futures_util::future::BoxFuture;
use ports::{AdvanceRequest, Ingest, Page, PeerProcess, ProcessRole, SendRequest, Sent, SyncRequest, error_chain};
use tokio::select;
use tokio::task::JoinSet;
use tonic::{Response, Status};
use tracing::error;

use crate::directory::{Directory, Links};
use crate::lane;
use crate::link::{PeerCallError, PeerLink, timed};
use crate::rendezvous::rank;
use crate::sends::{SendRouter, unavailable};
use crate::wire;

/// The durability plane of a fleet: routes each chat to the process that owns it.
///
/// Sends keep their order, see [`Ingest::send`], as long as [`run`](Self::run) runs. When a stream breaks, its
/// transmitted sends fail with `Unavailable`, because their outcomes are unknown. A send that was certainly not
/// transmitted goes to the next process.
pub struct RemoteIngest {
    directory: Arc<Directory>,
    local: Option<(PeerProcess, Arc<dyn Ingest>)>,
    sends: Arc<SendRouter>,
}

impl RemoteIngest {
    /// Uses the processes in `directory`, and this process if `local` is given, which is never called over the network.
    pub fn new(directory: Arc<Directory>, local: Option<(PeerProcess, Arc<dyn Ingest>)>) -> Self {
        let sends = Arc::new(SendRouter::new(directory.clone(), local.clone()));
        Self { directory, local, sends }
    }

    /// Keeps a stream to every process; never returns. After the future is dropped, sends are no longer carried and
    /// fail at their deadline.
    pub async fn run(&self) -> Infallible {
        let mut links = self.directory.follow(ProcessRole::Ingest);
        let mut lanes = JoinSet::new();
        let mut served = HashSet::new();
        loop {
            let others: Links = links.borrow_and_update().iter().filter(|link| !self.is_local(link)).cloned().collect();
            served.retain(|serial| others.iter().any(|link| link.serial == *serial));
            for link in others.iter().filter(|link| served.insert(link.serial)) {
                self.sends.add(link.serial);
                lanes.spawn(lane::run(link.clone(), self.sends.clone(), links.clone()));
            }
            self.sends.route(others);
            select! {
                // Cannot fail: the directory that we hold owns the sender.
                _ = links.changed() => {}
                Some(ended) = lanes.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        // The sends in its lane may be stuck permanently. A panic restarts the process in a clean
                        // state.
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
        }
    }

    fn is_local(&self, link: &PeerLink) -> bool {
        self.local.as_ref().is_some_and(|(peer, _)| peer.id == link.peer.id)
    }

    /// Calls the owners of a chat in rank order, the second only if the first has failed. Returns `None` if this
    /// process is to answer.
    async fn call<T, F>(
        &self,
        chat_id: ChatId,
        method: &'static str,
        call: impl Fn(&PeerLink, Duration) -> F,
    ) -> Result<Option<T>, IngestError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let links = self.directory.links(ProcessRole::Ingest);
        let others = links.iter().filter(|link| !self.is_local(link) && link.is_usable());
        let others = others.map(|link| (&*link.peer.id, Some(link)));
        let local = self.local.iter().map(|(peer, _)| (&*peer.id, None));
        let owners = rank(chat_id, others.chain(local).collect(), |(id, _)| id);
        let before_us: Vec<Arc<PeerLink>> = owners.into_iter().map_while(|(_, link)| link.cloned()).collect();
        let (is_ours, tries) = if self.local.is_some() { (true, 1) } else { (false, 2) };
        if is_ours && before_us.is_empty() {
            return Ok(None);
        }
        match self.directory.call(ProcessRole::Ingest, method, before_us, tries, call).await {
            Ok(reply) => Ok(Some(reply)),
            Err(PeerCallError::TooMany { .. }) => Err(IngestError::Busy),
            // No time is left for another process.
            Err(PeerCallError::TooLate { .. }) => Err(unavailable()),
            Err(error) if error.is_of_process() && is_ours => Ok(None),
            Err(error) if error.is_of_process() => Err(unavailable()),
            Err(error) => Err(unusable(&error)),
        }
    }

    fn local(&self) -> Result<&Arc<dyn Ingest>, IngestError> {
        self.local.as_ref().map(|(_, ingest)| ingest).ok_or_else(unavailable)
    }
}

#[async_trait]
impl Ingest for RemoteIngest {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        self.sends.send(request)
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let reply = self.call(request.chat_id, "sync", |link, timeout| {
            let (mut client, body) = (link.ingest(), wire::to_sync(&request));
            async move { client.sync(timed(timeout, body)).await }
        });
        match reply.await? {
            Some(reply) => wire::read_sync_reply(request.chat_id, reply).map_err(|error| unusable(&error.into()))?,
            None => self.local()?.sync(request).await,
        }
    }

    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError> {
        let reply = self.call(request.chat_id, "advance", |link, timeout| {
            let (mut client, body) = (link.ingest(), wire::to_advance(&request));
            async move { client.advance(timed(timeout, body)).await }
        });
        match reply.await? {
            Some(reply) => wire::read_advance_reply(reply).map_err(|error| unusable(&error.into()))?,
            None => self.local()?.advance(request).await,
        }
    }
}

/// Logs the errors that the link does not log: a request or reply that the other side cannot parse. A retry would not
/// help.
fn unusable(error: &PeerCallError) -> IngestError {
    error!(error = %error_chain(error), "ingest call failed; reporting it as unavailable");
    unavailable()
}
