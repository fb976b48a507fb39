use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use domain::{Invariant, PresenceView, Relation, Timestamp, User, UserId};
use futures_util::try_join;
use ports::{Look, Presences, StoreError, holds};
use tracing::warn;

use crate::Presence;

#[async_trait]
impl Presences for Presence {
    async fn look(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError> {
        let visible = self.visible(looks).await?;
        let views = self.views(&visible).await?;
        Ok(visible.iter().map(|user| view_of(user.as_ref(), &views)).collect())
    }
}

impl Presence {
    /// The same for somebody who asks once: while routes are away, nobody's presence is known.
    pub async fn look_or_unknown(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError> {
        let visible = self.visible(looks).await?;
        let views = self.views(&visible).await.unwrap_or_else(|failure| {
            warn!(error = &failure as &dyn std::error::Error, "routes are away; nobody's presence is known");
            HashMap::new()
        });
        Ok(visible.iter().map(|user| view_of(user.as_ref(), &views)).collect())
    }

    /// Whom each viewer may see: the one place where privacy is judged.
    pub(crate) async fn visible(&self, looks: &[Look]) -> Result<Vec<Option<User>>, StoreError> {
        let users = self.users_by_id(looks.iter().map(|look| look.user_id)).await?;
        let asked: Vec<Look> = looks
            .iter()
            .copied()
            .filter(|look| users.get(&look.user_id).is_some_and(|user| user.presence_visibility.asks_contacts()))
            .collect();
        let at_others = looks.iter().copied().filter(|look| {
            let shows = users.get(&look.user_id).is_some_and(|user| user.presence_visibility.shows_anybody());
            shows && look.viewer != look.user_id
        });
        let (mutual, blocked) = try_join!(self.mutual_contacts(asked), self.blocked(at_others.collect()))?;
        let visible = looks.iter().map(|look| {
            let relation = if blocked.contains(look) { Relation::Blocked } else { relation(*look, &mutual) };
            users.get(&look.user_id).filter(|user| user.presence_visibility.admits(relation)).cloned()
        });
        Ok(visible.collect())
    }

    /// Whether a viewer may see a user as far as the setting and contacts go, blocked or not.
    pub(crate) async fn admits_by_setting(&self, user_id: UserId, viewer: UserId) -> Result<bool, StoreError> {
        let look = Look { viewer, user_id };
        let users = self.users_by_id([user_id].into_iter()).await?;
        let mutual = self.mutual_contacts(vec![look]).await?;
        Ok(users.get(&user_id).is_some_and(|user| user.presence_visibility.admits(relation(look, &mutual))))
    }

    /// Those of the looks in which the viewer is blocked by whom they look at.
    pub(crate) async fn blocked(&self, looks: Vec<Look>) -> Result<HashSet<Look>, StoreError> {
        if looks.is_empty() {
            return Ok(HashSet::new());
        }
        let pairs: Vec<_> = looks.iter().map(|look| (look.user_id, look.viewer)).collect();
        let blocked = self.blocks.blocked(&pairs).await?;
        let answers = || format!("{} answers on {} blocks", blocked.len(), pairs.len());
        if !holds(Invariant::PrivacyEnforced, blocked.len() == pairs.len(), answers) {
            return Err(StoreError::unavailable(answers()));
        }
        Ok(looks.into_iter().zip(blocked).filter_map(|(look, is_blocked)| is_blocked.then_some(look)).collect())
    }

    /// Users by id; those who do not exist are missing.
    pub(crate) async fn users_by_id(
        &self,
        user_ids: impl Iterator<Item = UserId>,
    ) -> Result<HashMap<UserId, User>, StoreError> {
        let user_ids: BTreeSet<UserId> = user_ids.collect();
        let users = self.users.users(&user_ids.into_iter().collect::<Vec<_>>()).await?;
        Ok(users.into_iter().flatten().map(|user| (user.user_id, user)).collect())
    }

    /// Those of the looks in which each has listed the other.
    pub(crate) async fn mutual_contacts(&self, looks: Vec<Look>) -> Result<HashSet<Look>, StoreError> {
        if looks.is_empty() {
            return Ok(HashSet::new());
        }
        let ways = looks.iter().flat_map(|look| [(look.viewer, look.user_id), (look.user_id, look.viewer)]);
        let ways: Vec<_> = ways.collect();
        let listed = self.contacts.listed(&ways).await?;
        // One answer too few or too many would show people to whoever asked for others.
        let answers = || format!("{} answers on {} contacts", listed.len(), ways.len());
        if !holds(Invariant::PrivacyEnforced, listed.len() == ways.len(), answers) {
            return Err(StoreError::unavailable(answers()));
        }
        let both = listed.chunks(2).map(|ways| ways.iter().all(|listed| *listed));
        Ok(looks.into_iter().zip(both).filter_map(|(look, both)| both.then_some(look)).collect())
    }

    /// How it stands with users, as whoever may see them sees it.
    async fn views(&self, visible: &[Option<User>]) -> Result<HashMap<UserId, PresenceView>, StoreError> {
        let users: BTreeMap<UserId, Option<Timestamp>> =
            visible.iter().flatten().map(|user| (user.user_id, user.last_seen_at)).collect();
        let (user_ids, stored): (Vec<UserId>, Vec<Option<Timestamp>>) = users.into_iter().unzip();
        if user_ids.is_empty() {
            return Ok(HashMap::new());
        }
        let online: HashSet<UserId> = self.routes.gateways(&user_ids).await?.into_values().flatten().collect();
        // What is written down may be of an earlier time until the end of the last connection is announced.
        let gone_since = self.transitions.gone_since(&user_ids).await?;
        let seen = user_ids.into_iter().zip(stored.into_iter().zip(gone_since));
        Ok(seen
            .map(|(user_id, (stored, gone_since))| match online.contains(&user_id) {
                true => (user_id, PresenceView::Online),
                false => (user_id, PresenceView::Offline { last_seen: stored.max(gone_since) }),
            })
            .collect())
    }
}

/// Who may not be seen, and of whom nothing is known, looks the same.
fn view_of(user: Option<&User>, views: &HashMap<UserId, PresenceView>) -> PresenceView {
    user.and_then(|user| views.get(&user.user_id)).copied().unwrap_or(PresenceView::Unknown)
}

fn relation(look: Look, mutual: &HashSet<Look>) -> Relation {
    if look.viewer == look.user_id {
        Relation::Oneself
    } else if mutual.contains(&look) {
        Relation::MutualContact
    } else {
        Relation::Stranger
    }
}
