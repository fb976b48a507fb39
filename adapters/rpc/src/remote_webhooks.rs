use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use ports::{ProcessRole, StoreError, WebhookPause};
use tonic::{Code, Response};

use crate::directory::Directory;
use crate::link::{PeerLink, timed};
use crate::{proto, wire};

/// The webhooks of all other API processes.
pub struct RemoteWebhooks {
    directory: Arc<Directory>,
    /// The id of this process.
    me: Arc<str>,
}

impl RemoteWebhooks {
    /// Uses the processes in `directory`, except the process `me`.
    pub fn new(directory: Arc<Directory>, me: Arc<str>) -> Self {
        Self { directory, me }
    }

    async fn pause_at(&self, link: &Arc<PeerLink>, time: Duration) -> Result<(), StoreError> {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let reply = self.directory.call(ProcessRole::Api, "pause", [link.clone()], 1, |link, timeout| {
            let mut client = link.webhook();
            async move {
                match client.pause(timed(timeout, proto::PauseRequest { time_ms })).await {
                    // The process has no webhook, or is of an earlier release. The log refuses to move the group of a
                    // consumer that was not paused.
                    Err(status) if status.code() == Code::Unimplemented => {
                        Ok(Response::new(proto::PauseReply::default()))
                    }
                    outcome => outcome,
                }
            }
        });
        wire::read_taken(reply.await.map_err(StoreError::unavailable)?.error)
    }
}

#[async_trait]
impl WebhookPause for RemoteWebhooks {
    async fn pause(&self, time: Duration) -> Result<(), StoreError> {
        let links = self.directory.links(ProcessRole::Api);
        let others = links.iter().filter(|link| link.peer.id != self.me);
        // Calls all of them, even if some fail: the end of a pause must reach those that answer.
        let outcomes = join_all(others.map(|link| self.pause_at(link, time))).await;
        outcomes.into_iter().collect()
    }
}
