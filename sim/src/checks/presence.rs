use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Invariant, PresenceView, UserId, ViewerRelation};
use memory::MemoryRoutes;
use ports::{BlockStore, ContactStore, PresenceLookup, Routes, UserReader};
use tokio::time::Instant;

use super::store::now;
use crate::world::World;

/// Interval of the presence checks. Changes within one interval are ambiguous.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a state must last before all clients must have received it.
const STEADY: Duration = Duration::from_secs(20);

/// Recent presence and visibility of users.
#[derive(Default)]
pub(crate) struct Appearances {
    users: Vec<UserId>,
    /// The last time at which each user had a route, and had none.
    routed_until: BTreeMap<UserId, Instant>,
    unrouted_until: BTreeMap<UserId, Instant>,
    /// The (viewer, user) pairs with visibility, and the time at which it ended for former pairs.
    admitted: BTreeSet<(UserId, UserId)>,
    admitted_until: BTreeMap<(UserId, UserId), Instant>,
    /// The pairs of users of which either has blocked the other, both ways, and since when.
    blocked: BTreeMap<(UserId, UserId), Instant>,
}

impl super::Checks {
    /// Sets the users of this run.
    pub(crate) fn know_users(&self, users: Vec<UserId>) {
        self.appearances().users = users;
    }

    /// Updates the visibility of users after a change.
    pub(crate) fn privacy_changed(&self, world: &World) {
        let users = self.appearances().users.clone();
        let rows = now(world.store.users(&users)).unwrap_or_default();
        let (mut admitted, mut blocked) = (BTreeSet::new(), BTreeSet::new());
        for user in rows.into_iter().flatten() {
            for viewer in &users {
                let listings = [(user.user_id, *viewer), (*viewer, user.user_id)];
                let is_mutual = now(world.store.listed(&listings)).is_some_and(|listed| listed == [true, true]);
                let is_blocked = now(world.store.blocked(&listings[..1])).is_some_and(|blocked| blocked == [true]);
                if is_blocked {
                    blocked.extend([(user.user_id, *viewer), (*viewer, user.user_id)]);
                }
                let relation = match (*viewer == user.user_id, is_blocked, is_mutual) {
                    (true, ..) => ViewerRelation::Oneself,
                    (false, true, _) => ViewerRelation::Blocked,
                    (false, false, true) => ViewerRelation::MutualContact,
                    (false, false, false) => ViewerRelation::Stranger,
                };
                if user.presence_visibility.admits(relation) {
                    admitted.insert((*viewer, user.user_id));
                }
            }
        }
        let mut appearances = self.appearances();
        appearances.blocked.retain(|pair, _| blocked.contains(pair));
        for pair in blocked {
            appearances.blocked.entry(pair).or_insert_with(Instant::now);
        }
        let before = std::mem::replace(&mut appearances.admitted, admitted.clone());
        for pair in before.difference(&admitted) {
            appearances.admitted_until.insert(*pair, Instant::now());
        }
    }

    /// Samples which users have a route.
    pub(crate) fn look_around(&self, routes: &MemoryRoutes) {
        let users = self.appearances().users.clone();
        for user_id in users {
            let is_routed = now(routes.routes(user_id)).is_some_and(|routes| !routes.is_empty());
            let mut appearances = self.appearances();
            let seen = if is_routed { &mut appearances.routed_until } else { &mut appearances.unrouted_until };
            seen.insert(user_id, Instant::now());
        }
    }

    /// Records that a user has a route.
    pub(super) fn came(&self, user_id: UserId) {
        self.appearances().routed_until.insert(user_id, Instant::now());
    }

    /// Whether a user had a route at the last sample.
    pub(crate) fn is_routed(&self, user_id: UserId) -> bool {
        let appearances = self.appearances();
        appearances.routed_until.get(&user_id) > appearances.unrouted_until.get(&user_id)
    }

    /// The last time at which a user had a route, or the beginning of the samples; `None` if they have one.
    pub(super) fn unrouted_since(&self, user_id: UserId) -> Option<Instant> {
        let appearances = self.appearances();
        let routed_until = appearances.routed_until.get(&user_id).copied();
        routed_until.filter(|at| appearances.unrouted_until.get(&user_id).is_some_and(|unrouted| unrouted > at))
    }

    /// Whether a user's presence has not changed for a while.
    fn has_been_steady(&self, user_id: UserId) -> bool {
        let appearances = self.appearances();
        let recently = |at: Option<&Instant>| at.is_some_and(|at| at.elapsed() < STEADY);
        !(recently(appearances.routed_until.get(&user_id)) && recently(appearances.unrouted_until.get(&user_id)))
    }

    /// How long either of two users has blocked the other; `None` if neither does.
    pub(super) fn blocked_for(&self, one: UserId, other: UserId) -> Option<Duration> {
        self.appearances().blocked.get(&(one, other)).map(Instant::elapsed)
    }

    /// Whether one user may see another now.
    pub(crate) fn admits(&self, viewer: UserId, user_id: UserId) -> bool {
        self.appearances().admitted.contains(&(viewer, user_id))
    }
}

impl World {
    /// Checks the answer to a presence query that started at `began`: it must have been true at some moment since.
    pub(crate) fn looked(&self, began: Instant, look: PresenceLookup, view: PresenceView) {
        let since = began - LOOK_INTERVAL * 2;
        let PresenceLookup { viewer, user_id } = look;
        let appearances = self.checks.appearances();
        let recent = |at: Option<&Instant>| at.is_some_and(|at| *at >= since);
        let was_there = recent(appearances.routed_until.get(&user_id));
        let was_away =
            recent(appearances.unrouted_until.get(&user_id)) || !appearances.routed_until.contains_key(&user_id);
        let was_admitted = appearances.admitted.contains(&(viewer, user_id))
            || recent(appearances.admitted_until.get(&(viewer, user_id)));
        drop(appearances);
        match view {
            PresenceView::Online => self.check(Invariant::PresenceDerivesFromConnections, was_there, || {
                format!("{user_id} is shown to {viewer} as online, without a route since {:?}", began.elapsed())
            }),
            PresenceView::Offline { .. } => self.check(Invariant::MultiDeviceAggregation, was_away, || {
                format!("{user_id} is shown to {viewer} as offline, but has had a route all the time")
            }),
            PresenceView::Unknown => {}
        }
        if viewer != user_id && view != PresenceView::Unknown {
            self.check(Invariant::PrivacyEnforced, was_admitted, || {
                format!("{viewer} is shown {view:?} of {user_id}, who does not let them see it")
            });
        }
    }

    /// Checks the last presence that a client received of a subscribed user, if it has not changed for long.
    pub(crate) fn shown_last(&self, viewer: UserId, user_id: UserId, is_online: bool) {
        if !self.checks.has_been_steady(user_id) {
            return;
        }
        let should_be = self.checks.is_routed(user_id) && self.checks.admits(viewer, user_id);
        self.check(Invariant::PresenceStalenessBounded, is_online == should_be, || {
            let says = if is_online { "online" } else { "gone" };
            format!("{viewer} is still shown {user_id} as {says}, long after that has changed")
        });
    }
}
