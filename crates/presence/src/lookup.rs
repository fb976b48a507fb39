use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use domain::{Invariant, PresenceView, Timestamp, User, UserId, ViewerRelation};
use futures_util::try_join;
use ports::{PresenceLookup, PresenceReader, StoreError, error_chain, holds};
use tracing::warn;

use crate::Presence;

#[async_trait]
impl PresenceReader for Presence {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        let visible = self.visible(lookups).await?;
        let views = self.views(&visible).await?;
        Ok(visible.iter().map(|user| view_of(user.as_ref(), &views)).collect())
    }
}

impl Presence {
    /// Like `look`, but returns unknown while the routing table is unavailable. For requests that are not retried.
    pub async fn look_or_unknown(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        let visible = self.visible(lookups).await?;
        let views = self.views(&visible).await.unwrap_or_else(|failure| {
            warn!(
                error = %error_chain(&failure),
                "routing table is unavailable; presence reads as unknown"
            );
            HashMap::new()
        });
        Ok(visible.iter().map(|user| view_of(user.as_ref(), &views)).collect())
    }

    /// The users that each viewer may see. All privacy rules are applied here.
    pub(crate) async fn visible(&self, lookups: &[PresenceLookup]) -> Result<Vec<Option<User>>, StoreError> {
        let users = self.users_by_id(lookups.iter().map(|look| look.user_id)).await?;
        let asked: Vec<PresenceLookup> = lookups
            .iter()
            .copied()
            .filter(|look| users.get(&look.user_id).is_some_and(|user| user.presence_visibility.asks_contacts()))
            .collect();
        let at_others = lookups.iter().copied().filter(|look| {
            let shows = users.get(&look.user_id).is_some_and(|user| user.presence_visibility.shows_anybody());
            shows && look.viewer != look.user_id
        });
        let (mutual, blocked) = try_join!(self.mutual_contacts(asked), self.blocked(at_others.collect()))?;
        let visible = lookups.iter().map(|look| {
            let relation = if blocked.contains(look) { ViewerRelation::Blocked } else { relation(*look, &mutual) };
            users.get(&look.user_id).filter(|user| user.presence_visibility.admits(relation)).cloned()
        });
        Ok(visible.collect())
    }

    /// Whether visibility and contacts let a viewer see a user, regardless of blocks.
    pub(crate) async fn admits_by_setting(&self, user_id: UserId, viewer: UserId) -> Result<bool, StoreError> {
        let look = PresenceLookup { viewer, user_id };
        let users = self.users_by_id([user_id].into_iter()).await?;
        let mutual = self.mutual_contacts(vec![look]).await?;
        Ok(users.get(&user_id).is_some_and(|user| user.presence_visibility.admits(relation(look, &mutual))))
    }

    /// The lookups in which the user has blocked the viewer.
    pub(crate) async fn blocked(&self, lookups: Vec<PresenceLookup>) -> Result<HashSet<PresenceLookup>, StoreError> {
        if lookups.is_empty() {
            return Ok(HashSet::new());
        }
        let pairs: Vec<_> = lookups.iter().map(|look| (look.user_id, look.viewer)).collect();
        let blocked = self.blocks.blocked(&pairs).await?;
        let answers = || format!("{} answers on {} blocks", blocked.len(), pairs.len());
        if !holds(Invariant::PrivacyEnforced, blocked.len() == pairs.len(), answers) {
            return Err(StoreError::unavailable(answers()));
        }
        Ok(lookups.into_iter().zip(blocked).filter_map(|(look, is_blocked)| is_blocked.then_some(look)).collect())
    }

    /// Users by id, without those that do not exist.
    pub(crate) async fn users_by_id(
        &self,
        user_ids: impl Iterator<Item = UserId>,
    ) -> Result<HashMap<UserId, User>, StoreError> {
        let user_ids: BTreeSet<UserId> = user_ids.collect();
        let users = self.users.users(&user_ids.into_iter().collect::<Vec<_>>()).await?;
        Ok(users.into_iter().flatten().map(|user| (user.user_id, user)).collect())
    }

    /// The lookups in which both users have listed each other as contacts.
    pub(crate) async fn mutual_contacts(
        &self,
        lookups: Vec<PresenceLookup>,
    ) -> Result<HashSet<PresenceLookup>, StoreError> {
        if lookups.is_empty() {
            return Ok(HashSet::new());
        }
        let ways = lookups.iter().flat_map(|look| [(look.viewer, look.user_id), (look.user_id, look.viewer)]);
        let ways: Vec<_> = ways.collect();
        let listed = self.contacts.listed(&ways).await?;
        // A result of the wrong length would shift answers between lookups and disclose presence to the wrong viewer.
        let answers = || format!("{} answers on {} contacts", listed.len(), ways.len());
        if !holds(Invariant::PrivacyEnforced, listed.len() == ways.len(), answers) {
            return Err(StoreError::unavailable(answers()));
        }
        let both = listed.chunks(2).map(|ways| ways.iter().all(|listed| *listed));
        Ok(lookups.into_iter().zip(both).filter_map(|(look, both)| both.then_some(look)).collect())
    }

    /// The presence of these users, for viewers that may see it.
    async fn views(&self, visible: &[Option<User>]) -> Result<HashMap<UserId, PresenceView>, StoreError> {
        let users: BTreeMap<UserId, Option<Timestamp>> =
            visible.iter().flatten().map(|user| (user.user_id, user.last_seen_at)).collect();
        let (user_ids, stored): (Vec<UserId>, Vec<Option<Timestamp>>) = users.into_iter().unzip();
        if user_ids.is_empty() {
            return Ok(HashMap::new());
        }
        let online: HashSet<UserId> = self.routes.gateways(&user_ids).await?.into_values().flatten().collect();
        // The stored time may be outdated until the end of the last connection is announced.
        let offline_since = self.transitions.offline_since(&user_ids).await?;
        let seen = user_ids.into_iter().zip(stored.into_iter().zip(offline_since));
        Ok(seen
            .map(|(user_id, (stored, offline_since))| match online.contains(&user_id) {
                true => (user_id, PresenceView::Online),
                false => (user_id, PresenceView::Offline { last_seen: stored.max(offline_since) }),
            })
            .collect())
    }
}

/// The view of a user. It is the same, unknown, for a hidden user and for one without data.
fn view_of(user: Option<&User>, views: &HashMap<UserId, PresenceView>) -> PresenceView {
    user.and_then(|user| views.get(&user.user_id)).copied().unwrap_or(PresenceView::Unknown)
}

fn relation(look: PresenceLookup, mutual: &HashSet<PresenceLookup>) -> ViewerRelation {
    if look.viewer == look.user_id {
        ViewerRelation::Oneself
    } else if mutual.contains(&look) {
        ViewerRelation::MutualContact
    } else {
        ViewerRelation::Stranger
    }
}
