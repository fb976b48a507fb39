use std::collections::BTreeSet;

use domain::{PresenceView, PresenceVisibility, UserId};
use ports::{Look, Presences, StoreError};
use tracing::warn;

use crate::Presence;
use crate::presence::{HIDDEN, News};
use crate::reach::{ByGateway, people};

impl Presence {
    /// Tells everybody whom it concerns that a user is seen by others from now on than before. Whoever watches hears it, later
    /// if not now; for the others it is best effort: what is not told now is true in every answer, and in every push from
    /// now on.
    pub async fn visibility_changed(&self, user_id: UserId, before: PresenceVisibility, after: PresenceVisibility) {
        if let Err(failure) = self.tell_visibility(user_id, before, after).await {
            warn!(error = &failure as &dyn std::error::Error, "not everybody was told of a change of visibility");
            self.doubt([user_id]);
        }
    }

    /// Tells two users who have become mutual contacts, or are so no longer, what they see of each other.
    pub async fn contacts_changed(&self, user_id: UserId, contact_id: UserId, are_mutual: bool) {
        if let Err(failure) = self.tell_contacts(user_id, contact_id, are_mutual).await {
            warn!(error = &failure as &dyn std::error::Error, "two users were not told of a change of contacts");
            self.doubt([user_id, contact_id]);
        }
    }

    /// Tells somebody whom a user has blocked, or blocks no longer, what they see of that user from now on. They are not told
    /// why: it looks as if the user went, or came.
    pub async fn block_changed(&self, user_id: UserId, blocked_id: UserId, is_blocked: bool) {
        if let Err(failure) = self.tell_block(user_id, blocked_id, is_blocked).await {
            warn!(error = &failure as &dyn std::error::Error, "a user was not told of what they may see no longer");
            self.doubt([user_id]);
        }
    }

    async fn tell_visibility(
        &self,
        user_id: UserId,
        before: PresenceVisibility,
        after: PresenceVisibility,
    ) -> Result<(), StoreError> {
        let view = self.look(&[Look { viewer: user_id, user_id }]).await?.remove(0);
        let (mut lost, mut gained) = (ByGateway::new(), ByGateway::new());
        // Of somebody who is not there, nobody has to be told that they are not.
        if view == PresenceView::Online {
            lost = self.recipients(user_id, before).await?;
            gained = self.recipients(user_id, after).await?;
            let kept: BTreeSet<UserId> = people(&lost).intersection(&people(&gained)).copied().collect();
            for viewers in lost.values_mut().chain(gained.values_mut()) {
                viewers.retain(|viewer| !kept.contains(viewer));
            }
        }
        let news = [(HIDDEN, lost), (view, gained)];
        self.tell(&news.map(|(view, recipients)| News { user_id, view, recipients })).await
    }

    async fn tell_contacts(&self, one: UserId, other: UserId, are_mutual: bool) -> Result<(), StoreError> {
        let users = self.users_by_id([one, other].into_iter()).await?;
        let share_a_chat = self.partners(one).await?.contains(&other);
        let mut news = vec![];
        for (viewer, user_id) in [(one, other), (other, one)] {
            // Whoever is seen by everybody or by nobody is seen as before.
            if !users.get(&user_id).is_some_and(|user| user.presence_visibility.asks_contacts()) {
                continue;
            }
            let view = self.look(&[Look { viewer: user_id, user_id }]).await?.remove(0);
            let is_blocked = !self.blocked(vec![Look { viewer, user_id }]).await?.is_empty();
            let is_told = share_a_chat && view == PresenceView::Online && !is_blocked;
            let recipients = if is_told { self.routes.gateways(&[viewer]).await? } else { ByGateway::new() };
            news.push(News { user_id, view: if are_mutual { view } else { HIDDEN }, recipients });
        }
        self.tell(&news).await
    }

    async fn tell_block(&self, user_id: UserId, viewer: UserId, is_blocked: bool) -> Result<(), StoreError> {
        let view = self.look(&[Look { viewer: user_id, user_id }]).await?.remove(0);
        // Whom the setting does not admit has seen nothing, and learns nothing now.
        let is_told = view == PresenceView::Online
            && self.admits_by_setting(user_id, viewer).await?
            && self.partners(user_id).await?.contains(&viewer);
        let recipients = if is_told { self.routes.gateways(&[viewer]).await? } else { ByGateway::new() };
        self.tell(&[News { user_id, view: if is_blocked { HIDDEN } else { view }, recipients }]).await
    }
}
