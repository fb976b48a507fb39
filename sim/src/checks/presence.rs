use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Invariant, PresenceView, Relation, UserId};
use memory::MemoryRoutes;
use ports::{BlockStore, ContactStore, Look, Routes, UserReader};
use tokio::time::Instant;

use super::store::now;
use crate::world::World;

/// How often it is looked at who is there; what happens in between is in doubt.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// For how long something has to have been so before everybody has to know it.
const STEADY: Duration = Duration::from_secs(20);

/// Who was there and who could see it, lately.
#[derive(Default)]
pub(crate) struct Appearances {
    users: Vec<UserId>,
    /// When each user was last seen to have a route, and to have none.
    routed_until: BTreeMap<UserId, Instant>,
    unrouted_until: BTreeMap<UserId, Instant>,
    /// Who may see whom, and when those last could who may not any more.
    admitted: BTreeSet<(UserId, UserId)>,
    admitted_until: BTreeMap<(UserId, UserId), Instant>,
}

impl super::Checks {
    /// Takes note of the users of this run.
    pub(crate) fn know_users(&self, users: Vec<UserId>) {
        self.appearances().users = users;
    }

    /// Looks at who may see whom, after a change.
    pub(crate) fn privacy_changed(&self, world: &World) {
        let users = self.appearances().users.clone();
        let rows = now(world.store.users(&users)).unwrap_or_default();
        let mut admitted = BTreeSet::new();
        for user in rows.into_iter().flatten() {
            for viewer in &users {
                let listings = [(user.user_id, *viewer), (*viewer, user.user_id)];
                let is_mutual = now(world.store.listed(&listings)).is_some_and(|listed| listed == [true, true]);
                let is_blocked = now(world.store.blocked(&listings[..1])).is_some_and(|blocked| blocked == [true]);
                let relation = match (*viewer == user.user_id, is_blocked, is_mutual) {
                    (true, ..) => Relation::Oneself,
                    (false, true, _) => Relation::Blocked,
                    (false, false, true) => Relation::MutualContact,
                    (false, false, false) => Relation::Stranger,
                };
                if user.presence_visibility.admits(relation) {
                    admitted.insert((*viewer, user.user_id));
                }
            }
        }
        let mut appearances = self.appearances();
        let before = std::mem::replace(&mut appearances.admitted, admitted.clone());
        for pair in before.difference(&admitted) {
            appearances.admitted_until.insert(*pair, Instant::now());
        }
    }

    /// Looks at who is there.
    pub(crate) fn look_around(&self, routes: &MemoryRoutes) {
        let users = self.appearances().users.clone();
        for user_id in users {
            let is_routed = now(routes.routes(user_id)).is_some_and(|routes| !routes.is_empty());
            let mut appearances = self.appearances();
            let seen = if is_routed { &mut appearances.routed_until } else { &mut appearances.unrouted_until };
            seen.insert(user_id, Instant::now());
        }
    }

    /// Takes note that a user has a route.
    pub(super) fn came(&self, user_id: UserId) {
        self.appearances().routed_until.insert(user_id, Instant::now());
    }

    /// Whether a user has a route, as far as was last seen.
    pub(crate) fn is_routed(&self, user_id: UserId) -> bool {
        let appearances = self.appearances();
        appearances.routed_until.get(&user_id) > appearances.unrouted_until.get(&user_id)
    }

    /// Whether a user has had a route, or had none, for a while.
    fn has_been_steady(&self, user_id: UserId) -> bool {
        let appearances = self.appearances();
        let recently = |at: Option<&Instant>| at.is_some_and(|at| at.elapsed() < STEADY);
        !(recently(appearances.routed_until.get(&user_id)) && recently(appearances.unrouted_until.get(&user_id)))
    }

    /// Whether one user may see another now.
    pub(crate) fn admits(&self, viewer: UserId, user_id: UserId) -> bool {
        self.appearances().admitted.contains(&(viewer, user_id))
    }
}

impl World {
    /// Looks at what somebody was shown, who asked at `began`: it was so at some moment since.
    pub(crate) fn looked(&self, began: Instant, look: Look, view: PresenceView) {
        let since = began - LOOK_INTERVAL * 2;
        let Look { viewer, user_id } = look;
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
                format!("{user_id} is shown to {viewer} as gone, and has had a route all the time")
            }),
            PresenceView::Unknown => {}
        }
        if viewer != user_id && view != PresenceView::Unknown {
            self.check(Invariant::PrivacyEnforced, was_admitted, || {
                format!("{viewer} is shown {view:?} of {user_id}, who does not let them see it")
            });
        }
    }

    /// Looks at what a client was last shown of a user it watches, when nothing has changed for long.
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
