use std::collections::BTreeSet;

use domain::{PresenceView, PresenceVisibility, UserId};
use ports::{PresenceLookup, PresenceReader, StoreError, error_chain};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, PresenceChange};
use crate::recipients::{UsersByGateway, all_users};

impl Presence {
    /// Notifies viewers of a changed visibility setting. Subscribers are notified with retries. Other recipients are best
    /// effort: every lookup and every later push applies the new setting.
    pub async fn visibility_changed(&self, user_id: UserId, before: PresenceVisibility, after: PresenceVisibility) {
        if let Err(failure) = self.notify_visibility(user_id, before, after).await {
            warn!(
                error = %error_chain(&failure),
                "notification of a visibility change failed; subscribers are re-checked"
            );
            self.recheck([user_id]);
        }
    }

    /// Notifies two users of a change in their mutual contact of the presence that each now sees.
    pub async fn contacts_changed(&self, user_id: UserId, contact_id: UserId, are_mutual: bool) {
        if let Err(failure) = self.notify_contacts(user_id, contact_id, are_mutual).await {
            warn!(
                error = %error_chain(&failure),
                "notification of a contact change failed; subscribers are re-checked"
            );
            self.recheck([user_id, contact_id]);
        }
    }

    /// Notifies a user who was blocked or unblocked of the presence they now see. It looks like an ordinary transition,
    /// so the reason stays private.
    pub async fn block_changed(&self, user_id: UserId, blocked_id: UserId, is_blocked: bool) {
        if let Err(failure) = self.notify_block(user_id, blocked_id, is_blocked).await {
            warn!(
                error = %error_chain(&failure),
                "notification of a block change failed; subscribers are re-checked"
            );
            self.recheck([user_id]);
        }
    }

    async fn notify_visibility(
        &self,
        user_id: UserId,
        before: PresenceVisibility,
        after: PresenceVisibility,
    ) -> Result<(), StoreError> {
        let view = self.lookup(&[PresenceLookup { viewer: user_id, user_id }]).await?.remove(0);
        let (mut lost, mut gained) = (UsersByGateway::new(), UsersByGateway::new());
        // An offline user needs no pushes: viewers see no difference.
        if view == PresenceView::Online {
            lost = self.recipients(user_id, before).await?;
            gained = self.recipients(user_id, after).await?;
            let kept: BTreeSet<UserId> = all_users(&lost).intersection(&all_users(&gained)).copied().collect();
            for viewers in lost.values_mut().chain(gained.values_mut()) {
                viewers.retain(|viewer| !kept.contains(viewer));
            }
        }
        let updates = [(HIDDEN, lost), (view, gained)];
        self.notify_gateways(&updates.map(|(view, recipients)| PresenceChange { user_id, view, recipients })).await
    }

    async fn notify_contacts(&self, one: UserId, other: UserId, are_mutual: bool) -> Result<(), StoreError> {
        let users = self.users_by_id([one, other].into_iter()).await?;
        let share_a_chat = self.partners(one).await?.contains(&other);
        let mut updates = vec![];
        for (viewer, user_id) in [(one, other), (other, one)] {
            // Contacts matter only for the setting `contacts_only`.
            if !users.get(&user_id).is_some_and(|user| user.presence_visibility.asks_contacts()) {
                continue;
            }
            let view = self.lookup(&[PresenceLookup { viewer: user_id, user_id }]).await?.remove(0);
            let is_blocked = !self.blocked(vec![PresenceLookup { viewer, user_id }]).await?.is_empty();
            let is_told = share_a_chat && view == PresenceView::Online && !is_blocked;
            let recipients = if is_told { self.routes.gateways(&[viewer]).await? } else { UsersByGateway::new() };
            updates.push(PresenceChange { user_id, view: if are_mutual { view } else { HIDDEN }, recipients });
        }
        self.notify_gateways(&updates).await
    }

    async fn notify_block(&self, user_id: UserId, viewer: UserId, is_blocked: bool) -> Result<(), StoreError> {
        let view = self.lookup(&[PresenceLookup { viewer: user_id, user_id }]).await?.remove(0);
        // A viewer that the setting excludes has seen no presence before and must not learn of the block.
        let is_told = view == PresenceView::Online
            && self.admits_by_setting(user_id, viewer).await?
            && self.partners(user_id).await?.contains(&viewer);
        let recipients = if is_told { self.routes.gateways(&[viewer]).await? } else { UsersByGateway::new() };
        self.notify_gateways(&[PresenceChange { user_id, view: if is_blocked { HIDDEN } else { view }, recipients }])
            .await
    }
}
