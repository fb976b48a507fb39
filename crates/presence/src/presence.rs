use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{PresenceView, UserId};
use futures_util::future::join_all;
use ports::{
    BlockStore, ChatReader, Clock, ContactStore, GatewayId, LastSeenStore, MessageReader, PresenceNews, Routes,
    StoreError, Transitions, UserReader, Watchers,
};
use tracing::warn;

use crate::Doubts;

/// Presence in this process.
pub struct Presence {
    /// Says who is online.
    pub routes: Arc<dyn Routes>,
    /// Gives out who has come or gone.
    pub transitions: Arc<dyn Transitions>,
    /// Tells gateways.
    pub watchers: Arc<dyn Watchers>,
    /// Reads who may be seen by whom, and when they were last.
    pub users: Arc<dyn UserReader>,
    /// Keeps when users were last seen.
    pub last_seen: Arc<dyn LastSeenStore>,
    /// Reads who has listed whom.
    pub contacts: Arc<dyn ContactStore>,
    /// Reads who has blocked whom.
    pub blocks: Arc<dyn BlockStore>,
    /// Reads who shares a chat with whom.
    pub chats: Arc<dyn ChatReader>,
    /// Reads which chats are active.
    pub messages: Arc<dyn MessageReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Whose watchers could not be told of a change.
    pub doubts: Doubts,
}

/// What those see who may not see any more: somebody who is not there.
pub(crate) const HIDDEN: PresenceView = PresenceView::Offline { last_seen: None };

/// What some users see of one from now on, wherever they are.
pub(crate) struct News {
    pub(crate) user_id: UserId,
    pub(crate) view: PresenceView,
    /// Who is told unasked, by gateway.
    pub(crate) recipients: BTreeMap<GatewayId, Vec<UserId>>,
}

impl Presence {
    /// Tells every gateway, because anyone may hold somebody who watches. One call for each, however many news there are. An
    /// error means that some were not told.
    pub(crate) async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        if news.is_empty() {
            return Ok(());
        }
        let gateways = self.routes.live_gateways().await?;
        let told = gateways.iter().map(async |gateway| {
            let here = news.iter().map(|News { user_id, view, recipients }| PresenceNews {
                user_id: *user_id,
                view: *view,
                recipients: recipients.get(gateway).cloned().unwrap_or_default(),
            });
            let told = self.watchers.tell(gateway, here.collect()).await;
            if let Err(failure) = &told {
                let gateway = &*gateway.0;
                warn!(error = failure as &dyn std::error::Error, gateway, "a gateway was not told of presence");
            }
            told
        });
        join_all(told).await.into_iter().collect()
    }
}
