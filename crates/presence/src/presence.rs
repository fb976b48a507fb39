use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{DeviceId, PresenceView, UserId};
use futures_util::future::join_all;
use ports::{
    BlockStore, ChatReader, Clock, ContactStore, GatewayId, LastSeenStore, MessageReader, PresenceNotifier,
    PresenceTransitions, PresenceUpdate, Routes, StoreError, UserReader, error_chain,
};
use tracing::warn;

use crate::PendingRechecks;

/// The presence plane of this process.
pub struct Presence {
    /// Online state.
    pub routes: Arc<dyn Routes>,
    /// Queue of presence transitions.
    pub transitions: Arc<dyn PresenceTransitions>,
    /// Sends presence changes to gateways.
    pub notifier: Arc<dyn PresenceNotifier>,
    /// Visibility settings and stored last-seen times.
    pub users: Arc<dyn UserReader>,
    /// Stores last-seen times.
    pub last_seen: Arc<dyn LastSeenStore>,
    /// Contact lists.
    pub contacts: Arc<dyn ContactStore>,
    /// Block lists.
    pub blocks: Arc<dyn BlockStore>,
    /// Chat memberships.
    pub chats: Arc<dyn ChatReader>,
    /// Activity of chats.
    pub messages: Arc<dyn MessageReader>,
    /// Current time.
    pub clock: Arc<dyn Clock>,
    /// Users with a pending presence re-check.
    pub rechecks: PendingRechecks,
}

/// The view for viewers that may no longer see a user: offline, without a last-seen time.
pub(crate) const HIDDEN: PresenceView = PresenceView::Offline { last_seen: None };

/// A presence change of one user, with its recipients on all gateways.
pub(crate) struct PresenceChange {
    pub(crate) user_id: UserId,
    pub(crate) view: PresenceView,
    /// Recipients without a subscription, by gateway.
    pub(crate) recipients: BTreeMap<GatewayId, Vec<UserId>>,
}

impl Presence {
    /// The devices of a user that are connected now.
    pub async fn connected_devices(&self, user_id: UserId) -> Result<Vec<DeviceId>, StoreError> {
        Ok(self.routes.routes(user_id).await?.into_iter().map(|route| route.device_id).collect())
    }

    /// Sends changes to every gateway, because any of them may have subscribers, with one call to each. Returns an error if
    /// some gateway did not receive them.
    pub(crate) async fn notify_gateways(&self, updates: &[PresenceChange]) -> Result<(), StoreError> {
        if updates.is_empty() {
            return Ok(());
        }
        let gateways = self.routes.live_gateways().await?;
        let told = gateways.iter().map(async |gateway| {
            let here = updates.iter().map(|PresenceChange { user_id, view, recipients }| PresenceUpdate {
                user_id: *user_id,
                view: *view,
                recipients: recipients.get(gateway).cloned().unwrap_or_default(),
            });
            let told = self.notifier.notify(gateway, here.collect()).await;
            if let Err(failure) = &told {
                let gateway = &*gateway.0;
                warn!(
                    error = %error_chain(failure),
                    gateway, "presence changes could not be sent to a gateway"
                );
            }
            told
        });
        join_all(told).await.into_iter().collect()
    }
}
