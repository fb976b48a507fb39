use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, Sequence, UserId, WatermarkKind, Watermarks};
use futures_util::future::BoxFuture;
use ports::{Ingest, IngestError, Page, Peer, ProcessRole, SendRequest, Sent, SyncRequest};
use tokio::select;
use tokio::task::JoinSet;
use tonic::{Response, Status};
use tracing::error;

use crate::directory::{Directory, Links};
use crate::lane;
use crate::link::{CallError, Link, timed};
use crate::rendezvous::rank;
use crate::sends::{Sends, unavailable};
use crate::wire;

/// The durability plane of a fleet: each chat at the process that owns it.
///
/// Sends keep their order, see [`Ingest::send`], as long as [`run`](Self::run) runs. A send whose stream breaks is answered
/// with `Unavailable`, because its outcome is unknown. One that was surely not handed over goes to the next process.
pub struct RemoteIngest {
    directory: Arc<Directory>,
    local: Option<(Peer, Arc<dyn Ingest>)>,
    sends: Arc<Sends>,
}

impl RemoteIngest {
    /// The processes that `directory` knows, and this one, if it is given: it is never called over the network.
    pub fn new(directory: Arc<Directory>, local: Option<(Peer, Arc<dyn Ingest>)>) -> Self {
        let sends = Arc::new(Sends::new(directory.clone(), local.clone()));
        Self { directory, local, sends }
    }

    /// Keeps a stream to every process, for ever. When the future is dropped, sends are not carried any more, and are
    /// answered at their deadline.
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
                // The directory that we hold has the sender.
                _ = links.changed() => {}
                Some(ended) = lanes.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        // Sends may be stuck in its lane for good: started anew the process is whole again.
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
        }
    }

    fn is_local(&self, link: &Link) -> bool {
        self.local.as_ref().is_some_and(|(peer, _)| peer.id == link.peer.id)
    }

    /// Asks those who own a chat, in their order, the second only if the first has failed. `None` if it is for this
    /// process to answer.
    async fn ask<T, F>(
        &self,
        chat_id: ChatId,
        method: &'static str,
        call: impl Fn(&Link, Duration) -> F,
    ) -> Result<Option<T>, IngestError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let links = self.directory.links(ProcessRole::Ingest);
        let others = links.iter().filter(|link| !self.is_local(link) && link.is_usable());
        let others = others.map(|link| (&*link.peer.id, Some(link)));
        let local = self.local.iter().map(|(peer, _)| (&*peer.id, None));
        let owners = rank(chat_id, others.chain(local).collect(), |(id, _)| id);
        let before_us: Vec<Arc<Link>> = owners.into_iter().map_while(|(_, link)| link.cloned()).collect();
        let (is_ours, tries) = if self.local.is_some() { (true, 1) } else { (false, 2) };
        if is_ours && before_us.is_empty() {
            return Ok(None);
        }
        match self.directory.ask(ProcessRole::Ingest, method, before_us, tries, call).await {
            Ok(reply) => Ok(Some(reply)),
            Err(CallError::TooMany { .. }) => Err(IngestError::Busy),
            // After that there is no time left.
            Err(CallError::TooLate { .. }) => Err(unavailable()),
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
        let reply = self.ask(request.chat_id, "sync", |link, timeout| {
            let mut client = link.ingest();
            async move { client.sync(timed(timeout, wire::to_sync(&request))).await }
        });
        match reply.await? {
            Some(reply) => wire::read_sync_reply(request.chat_id, reply).map_err(|error| unusable(&error.into()))?,
            None => self.local()?.sync(request).await,
        }
    }

    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Watermarks, IngestError> {
        let reply = self.ask(chat_id, "advance", |link, timeout| {
            let mut client = link.ingest();
            async move { client.advance(timed(timeout, wire::to_advance(user_id, chat_id, kind, to))).await }
        });
        match reply.await? {
            Some(reply) => wire::read_advance_reply(reply).map_err(|error| unusable(&error.into()))?,
            None => self.local()?.advance(user_id, chat_id, kind, to).await,
        }
    }
}

/// Logs what the link has not: a request or an answer that the other side cannot use, which no other try cures.
fn unusable(error: &CallError) -> IngestError {
    error!(error = error as &dyn std::error::Error, "a call of the durability plane came to nothing");
    unavailable()
}
