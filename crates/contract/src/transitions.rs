//! Tests of [`PresenceTransitions`](ports::PresenceTransitions).

use std::slice;
use std::time::Duration;

use domain::{OnlineStatus, Timestamp, UserId};

use super::fixtures::{WORKS, at_once, fresh};
use super::routes::{
    EXPIRY, MOMENT, heartbeat, new_route, on_gateway, refresh, register, routes_of, sorted, unregister,
};
use super::{Routing, Timed};
use ports::{PresenceTransition, Route, SweepResult};

/// The lifetime of a claim.
const CLAIM: Duration = Duration::from_secs(10);
/// The grace period after a user goes offline.
const BACK_WITHIN: Duration = Duration::from_secs(2);
/// More users than any test has due at once.
const ALL: usize = 1000;

/// A user's first route makes them online, and this is announced once.
pub async fn first_connection_transitions_to_online(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    assert_eq!(claim(&routes).await, []);
    register(&routes, &[&route]).await;
    let claimed = claim(&routes).await;
    assert_eq!(standings(&claimed), [(route.user_id, OnlineStatus::Online)]);
    settle(&routes, &claimed).await;
    assert_eq!(claim(&routes).await, []);
    register(&routes, &[&route]).await;
    assert_eq!(claim(&routes).await, []);
}

/// A user is offline from the end of their last route on, and this is announced once.
pub async fn last_connection_transitions_to_offline(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let route = new_route(fresh(), "a");
    bring_online(&routes, &[&route]).await;
    (routes.pass)(Duration::from_secs(7));
    unregister(&routes, &route, Duration::ZERO).await;
    (routes.pass)(Duration::from_secs(1));
    let claimed = claim(&routes).await;
    let last_seen = now + Duration::from_secs(7);
    assert_eq!(standings(&claimed), [(route.user_id, OnlineStatus::Offline { last_seen })]);
    settle(&routes, &claimed).await;
    assert_eq!(claim(&routes).await, []);
}

/// A second device that connects or disconnects is not a transition.
pub async fn multi_device_keeps_user_online(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    bring_online(&routes, &[&phone]).await;
    register(&routes, &[&laptop]).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &phone, Duration::ZERO).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &laptop, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(
        matches!(standings(&claimed)[..], [(gone, OnlineStatus::Offline { .. })] if gone == user_id),
        "{claimed:?}"
    );
}

/// Routes that are unregistered together are one transition.
pub async fn routes_that_end_together_are_one_transition(routes: Timed<dyn Routing>) {
    let (user_id, other) = (fresh(), fresh());
    let ended = [new_route(user_id, "a"), new_route(user_id, "a"), new_route(other, "a")];
    bring_online(&routes, &ended.each_ref()).await;
    routes.port.unregister(&ended, Duration::ZERO).await.expect(WORKS);
    let mut gone: Vec<UserId> = claim(&routes).await.into_iter().map(|transition| transition.user_id).collect();
    gone.sort();
    let mut expected = vec![user_id, other];
    expected.sort();
    assert_eq!(gone, expected);
}

/// An offline user is due when the grace period is over, not before.
pub async fn offline_is_announced_after_the_grace_period(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let route = new_route(fresh(), "a");
    bring_online(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(standings(&claim(&routes).await), [(route.user_id, OnlineStatus::Offline { last_seen: now })]);
}

/// A user who reconnects within the grace period is not announced.
pub async fn a_reconnect_within_the_grace_period_is_not_announced(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [before, after] = [new_route(user_id, "a"), new_route(user_id, "b")];
    bring_online(&routes, &[&before]).await;
    unregister(&routes, &before, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    register(&routes, &[&after]).await;
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(BACK_WITHIN);
    assert_eq!(claim(&routes).await, []);
}

/// A user who reconnected before the announcement is still claimed, with `is_change` unset.
pub async fn a_reconnect_before_the_announcement_announces_nothing(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    bring_online(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    register(&routes, &[&route]).await;
    (routes.pass)(BACK_WITHIN);
    let claimed = routes.port.claim(ALL).await.expect(WORKS);
    let [PresenceTransition { user_id, standing, is_change, .. }] = claimed[..] else { panic!("{claimed:?}") };
    assert_eq!((user_id, standing, is_change), (route.user_id, OnlineStatus::Online, false));
    settle(&routes, &claimed).await;
    (routes.pass)(CLAIM);
    assert_eq!(routes.port.claim(ALL).await.expect(WORKS), []);
}

/// The time at which a user lost their last route is known at once, before the announcement.
pub async fn the_last_seen_time_is_known_before_the_announcement(routes: Timed<dyn Routing>) {
    let [gone, there, never] = [new_route(fresh(), "a"), new_route(fresh(), "a"), new_route(fresh(), "a")];
    bring_online(&routes, &[&gone, &there]).await;
    unregister(&routes, &gone, BACK_WITHIN).await;
    let asked = [there.user_id, gone.user_id, never.user_id];
    let [None, Some(since), None] = routes.port.offline_since(&asked).await.expect(WORKS)[..] else {
        panic!("only one of them is gone")
    };
    (routes.pass)(BACK_WITHIN);
    assert_eq!(standings(&claim(&routes).await), [(gone.user_id, OnlineStatus::Offline { last_seen: since })]);
}

/// Each disconnection restarts the grace period.
pub async fn each_disconnection_restarts_the_grace_period(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    bring_online(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    register(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(claim(&routes).await.len(), 1);
}

/// A user who was announced as offline and reconnects is announced as online.
pub async fn a_reconnect_after_the_announcement_is_announced(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    bring_online(&routes, &[&route]).await;
    take_offline(&routes, &route).await;
    register(&routes, &[&route]).await;
    assert_eq!(standings(&claim(&routes).await), [(route.user_id, OnlineStatus::Online)]);
}

/// The longest due users are claimed first, at most `limit`. Another device of a user does not change their order.
pub async fn the_longest_due_user_is_claimed_first(routes: Timed<dyn Routing>) {
    let coming: Vec<_> = (0..5).map(|_| new_route(fresh(), "a")).collect();
    for route in &coming {
        register(&routes, &[route]).await;
        (routes.pass)(MOMENT);
    }
    register(&routes, &[&new_route(coming[0].user_id, "b")]).await;
    for expected in [&coming[..2], &coming[2..4], &coming[4..], &[]] {
        let claimed = routes.port.claim(2).await.expect(WORKS);
        let expected: Vec<_> = expected.iter().map(|route| (route.user_id, OnlineStatus::Online)).collect();
        assert_eq!(standings(&claimed), expected);
    }
}

/// Of concurrent claimants, one is given each transition.
pub async fn each_transition_is_claimed_once(routes: Timed<dyn Routing>) {
    let coming: Vec<_> = (0..100).map(|_| new_route(fresh(), "a")).collect();
    register(&routes, &coming.iter().collect::<Vec<_>>()).await;
    let claims = (0..20).map(|_| {
        let port = routes.port.clone();
        async move { port.claim(10).await.expect(WORKS) }
    });
    let mut claimed: Vec<UserId> =
        at_once(claims).await.into_iter().flatten().map(|transition| transition.user_id).collect();
    claimed.sort();
    let mut expected: Vec<UserId> = coming.iter().map(|route| route.user_id).collect();
    expected.sort();
    assert_eq!(claimed, expected);
}

/// A claim that is not settled is given out again after 10 s, and not before.
pub async fn an_unsettled_claim_is_given_out_again(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let first = claim(&routes).await;
    assert_eq!(first.len(), 1);
    (routes.pass)(CLAIM - MOMENT);
    heartbeat(&routes, "a").await;
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    let second = claim(&routes).await;
    assert_eq!(standings(&second), standings(&first));
    assert_ne!(second[0].claim, first[0].claim);
    settle(&routes, &second).await;
    (routes.pass)(CLAIM);
    assert_eq!(claim(&routes).await, []);
}

/// A user who changes during a claim is due when that claim is settled.
pub async fn a_change_during_a_claim_is_due_after_it(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    unregister(&routes, &route, Duration::ZERO).await;
    (routes.pass)(CLAIM - MOMENT);
    assert_eq!(claim(&routes).await, []);
    settle(&routes, &coming).await;
    let going = claim(&routes).await;
    assert!(
        matches!(standings(&going)[..], [(gone, OnlineStatus::Offline { .. })] if gone == route.user_id),
        "{going:?}"
    );
    settle(&routes, &going).await;
    assert_eq!(claim(&routes).await, []);
}

/// A user who goes offline while their online transition is claimed is announced as offline, although offline was also
/// the state announced before that claim.
pub async fn going_offline_during_an_online_claim_is_announced(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    settle(&routes, &claim(&routes).await).await;
    unregister(&routes, &route, Duration::ZERO).await;
    settle(&routes, &claim(&routes).await).await;
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    assert_eq!(standings(&coming), [(route.user_id, OnlineStatus::Online)]);
    unregister(&routes, &route, Duration::ZERO).await;
    settle(&routes, &coming).await;
    let going = claim(&routes).await;
    assert!(
        matches!(standings(&going)[..], [(gone, OnlineStatus::Offline { .. })] if gone == route.user_id),
        "{going:?}"
    );
    assert!(going[0].is_change, "{going:?}");
}

/// A user who goes offline during a claim still has their grace period.
pub async fn going_offline_during_a_claim_has_a_grace_period(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    settle(&routes, &coming).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(claim(&routes).await.len(), 1);
}

/// A user who changes and changes back during a claim is not due.
pub async fn a_change_undone_during_a_claim_is_not_due(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    unregister(&routes, &route, Duration::ZERO).await;
    register(&routes, &[&route]).await;
    settle(&routes, &coming).await;
    assert_eq!(claim(&routes).await, []);
}

/// Settling an expired claim does not end the claim of another process.
pub async fn a_late_settlement_ends_no_other_claim(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let first = claim(&routes).await;
    (routes.pass)(CLAIM);
    heartbeat(&routes, "a").await;
    let second = claim(&routes).await;
    assert_eq!(second.len(), 1);
    settle(&routes, &first).await;
    unregister(&routes, &route, Duration::ZERO).await;
    assert_eq!(claim(&routes).await, []);
    settle(&routes, &second).await;
    assert_eq!(claim(&routes).await.len(), 1);
}

/// A refresh of a lost route announces nothing, nor does another device; going offline is announced.
pub async fn a_refreshed_lost_route_announces_nothing(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    heartbeat(&routes, "a").await;
    refresh(&routes, &[&route]).await;
    assert_eq!(claim(&routes).await, []);
    let other = new_route(route.user_id, "b");
    register(&routes, &[&other]).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &other, Duration::ZERO).await;
    unregister(&routes, &route, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(matches!(standings(&claimed)[..], [(_, OnlineStatus::Offline { .. })]), "{claimed:?}");
}

/// Unregistering a lost route announces the user as offline, because no other route write would.
pub async fn unregistering_a_lost_route_is_announced(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    heartbeat(&routes, "a").await;
    unregister(&routes, &route, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(matches!(standings(&claimed)[..], [(_, OnlineStatus::Offline { .. })]), "{claimed:?}");
}

/// The users of a dead gateway are offline since its last heartbeat, and none of its routes are left.
pub async fn presence_staleness_bounded_by_expiry_window(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let [dying, alive] = [new_route(fresh(), "a"), new_route(fresh(), "b")];
    bring_online(&routes, &[&dying, &alive]).await;
    (routes.pass)(Duration::from_secs(5));
    heartbeat(&routes, "a").await;
    heartbeat(&routes, "b").await;
    (routes.pass)(EXPIRY - MOMENT);
    heartbeat(&routes, "b").await;
    assert_eq!(sweep(&routes, ALL).await, SweepResult::default());
    assert_eq!(claim(&routes).await, []);

    (routes.pass)(MOMENT);
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 1, remaining: 0 });
    let last_seen = now + Duration::from_secs(5);
    let claimed = claim(&routes).await;
    assert_eq!(standings(&claimed), [(dying.user_id, OnlineStatus::Offline { last_seen })]);
    settle(&routes, &claimed).await;
    assert_eq!(on_gateway(&routes, "a").await, []);
    assert_eq!(sweep(&routes, ALL).await, SweepResult::default());
    assert_eq!(claim(&routes).await, []);

    assert!(!heartbeat(&routes, "a").await);
    assert_eq!(routes_of(&routes, dying.user_id).await, []);
    assert_eq!(routes_of(&routes, alive.user_id).await, [alive]);
}

/// A sweep of a gateway leaves users with a live route elsewhere online.
pub async fn a_sweep_leaves_users_with_another_route_online(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [dying, alive] = [new_route(user_id, "a"), new_route(user_id, "b")];
    bring_online(&routes, &[&dying, &alive]).await;
    (routes.pass)(EXPIRY);
    heartbeat(&routes, "b").await;
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 1, remaining: 0 });
    assert_eq!(claim(&routes).await, []);
    assert_eq!(routes_of(&routes, user_id).await, slice::from_ref(&alive));
    unregister(&routes, &alive, Duration::ZERO).await;
    assert_eq!(claim(&routes).await.len(), 1);
}

/// A user on two dead gateways is offline since the later of the two last heartbeats, in any order of sweeps.
pub async fn the_last_of_several_dead_gateways_counts(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let users: [UserId; 2] = [fresh(), fresh()];
    let on = [("a", users[0]), ("b", users[0]), ("b", users[1]), ("a", users[1])];
    let dying = on.map(|(name, user_id)| new_route(user_id, name));
    bring_online(&routes, &dying.each_ref()).await;
    (routes.pass)(Duration::from_secs(3));
    heartbeat(&routes, "b").await;
    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 4, remaining: 0 });
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| users.iter().position(|user_id| *user_id == transition.user_id));
    let last_seen = now + Duration::from_secs(3);
    assert_eq!(standings(&claimed), users.map(|user_id| (user_id, OnlineStatus::Offline { last_seen })));
}

/// A user who disconnects from a live gateway after another one died was last seen at the disconnection.
pub async fn a_disconnection_after_a_gateway_died_sets_last_seen(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let user_id = fresh();
    let [dying, leaving] = [new_route(user_id, "a"), new_route(user_id, "b")];
    bring_online(&routes, &[&dying, &leaving]).await;
    (routes.pass)(Duration::from_secs(9));
    heartbeat(&routes, "b").await;
    (routes.pass)(EXPIRY - Duration::from_secs(9));
    unregister(&routes, &leaving, Duration::ZERO).await;
    (routes.pass)(MOMENT);
    sweep(&routes, ALL).await;
    assert_eq!(standings(&claim(&routes).await), [(user_id, OnlineStatus::Offline { last_seen: now + EXPIRY })]);
}

/// A sweep deletes at most `limit` routes and returns the number that is left.
pub async fn a_sweep_is_bounded(routes: Timed<dyn Routing>) {
    let dying: Vec<_> = (0..5).map(|n| new_route(fresh(), if n < 3 { "a" } else { "b" })).collect();
    bring_online(&routes, &dying.iter().collect::<Vec<_>>()).await;
    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, 2).await, SweepResult { deleted: 2, remaining: 3 });
    assert_eq!(claim(&routes).await.len(), 2);
    assert_eq!(sweep(&routes, 2).await, SweepResult { deleted: 2, remaining: 1 });
    assert_eq!(sweep(&routes, 2).await, SweepResult { deleted: 1, remaining: 0 });
    assert_eq!(claim(&routes).await.len(), 3);
    assert_eq!(sweep(&routes, 2).await, SweepResult::default());
}

/// Concurrent sweeps announce each user once.
pub async fn concurrent_sweeps_announce_each_user_once(routes: Timed<dyn Routing>) {
    let dying: Vec<_> = (0..60).map(|_| new_route(fresh(), "a")).collect();
    bring_online(&routes, &dying.iter().collect::<Vec<_>>()).await;
    (routes.pass)(EXPIRY);
    let sweeps = (0..8).map(|_| {
        let port = routes.port.clone();
        async move { port.sweep(ALL).await.expect(WORKS) }
    });
    at_once(sweeps).await;
    assert_eq!(on_gateway(&routes, "a").await, []);
    let claimed = claim(&routes).await;
    assert_eq!(claimed.len(), 60);
    settle(&routes, &claimed).await;
    assert_eq!(claim(&routes).await, []);
}

/// Routes that a gateway has written after its last heartbeat are kept for the lifetime of a heartbeat. If the gateway
/// never returns, users who connected then were last seen then, and the others at its last heartbeat.
pub async fn routes_written_after_the_last_heartbeat_outlive_a_sweep(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let [old, refreshed, late] = [(); 3].map(|()| new_route(fresh(), "a"));
    bring_online(&routes, &[&old, &refreshed]).await;
    (routes.pass)(EXPIRY);
    refresh(&routes, &[&refreshed]).await;
    routes.port.register(&late).await.expect(WORKS);
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 1, remaining: 2 });
    assert_eq!(on_gateway(&routes, "a").await, sorted(vec![refreshed.clone(), late.clone()]));
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| transition.user_id == late.user_id);
    let gone = |route: &Route, last_seen| (route.user_id, OnlineStatus::Offline { last_seen });
    assert_eq!(standings(&claimed), [gone(&old, now), (late.user_id, OnlineStatus::Online)]);
    settle(&routes, &claimed).await;

    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 0, remaining: 2 });
    (routes.pass)(MOMENT);
    assert_eq!(sweep(&routes, ALL).await, SweepResult { deleted: 2, remaining: 0 });
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| transition.user_id == late.user_id);
    assert_eq!(standings(&claimed), [gone(&refreshed, now), gone(&late, now + EXPIRY)]);
}

/// A gateway that returns after its heartbeat expired and refreshes its routes loses none to a sweep, and no user is
/// announced.
pub async fn a_returning_gateway_keeps_its_refreshed_routes(routes: Timed<dyn Routing>) {
    let kept = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    bring_online(&routes, &kept.each_ref()).await;
    (routes.pass)(EXPIRY + MOMENT);
    assert!(!heartbeat(&routes, "a").await);
    refresh(&routes, &kept.each_ref()).await;
    assert_eq!(sweep(&routes, ALL).await, SweepResult::default());
    assert_eq!(on_gateway(&routes, "a").await, sorted(kept.to_vec()));
    assert_eq!(claim(&routes).await, []);
}

/// A gateway that returns after a sweep restores its users; those announced as offline are announced as online.
pub async fn a_gateway_that_returns_after_a_sweep_restores_its_users(routes: Timed<dyn Routing>) {
    let [announced, unannounced] = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    bring_online(&routes, &[&announced, &unannounced]).await;
    (routes.pass)(EXPIRY);
    sweep(&routes, ALL).await;
    let offline = claim(&routes).await;
    assert_eq!(offline.len(), 2);
    let of_announced: Vec<PresenceTransition> =
        offline.into_iter().filter(|transition| transition.user_id == announced.user_id).collect();
    settle(&routes, &of_announced).await;

    assert!(!heartbeat(&routes, "a").await);
    let stood = refresh(&routes, &[&announced, &unannounced]).await;
    assert!(stood.iter().all(|stood| !stood.was_known && stood.connections == 1), "{stood:?}");
    assert_eq!(standings(&claim(&routes).await), [(announced.user_id, OnlineStatus::Online)]);
    (routes.pass)(CLAIM);
    heartbeat(&routes, "a").await;
    assert_eq!(standings(&claim(&routes).await), [(announced.user_id, OnlineStatus::Online)]);
}

/// Brings users online and settles the announcements.
async fn bring_online(routes: &Timed<dyn Routing>, coming: &[&Route]) {
    register(routes, coming).await;
    let claimed = claim(routes).await;
    assert!(claimed.iter().all(|transition| transition.standing == OnlineStatus::Online), "{claimed:?}");
    settle(routes, &claimed).await;
}

/// Takes a user offline and settles the announcement; returns the last-seen time.
async fn take_offline(routes: &Timed<dyn Routing>, route: &Route) -> Timestamp {
    unregister(routes, route, Duration::ZERO).await;
    let claimed = claim(routes).await;
    let [PresenceTransition { standing: OnlineStatus::Offline { last_seen }, .. }] = claimed[..] else {
        panic!("one user has gone: {claimed:?}");
    };
    settle(routes, &claimed).await;
    last_seen
}

/// The time of the port's clock, read from the last-seen time of a user who goes offline now.
async fn clock(routes: &Timed<dyn Routing>) -> Timestamp {
    let route = new_route(fresh(), "clock");
    bring_online(routes, &[&route]).await;
    let now = take_offline(routes, &route).await;
    (routes.pass)(MOMENT);
    let again = new_route(fresh(), "clock");
    bring_online(routes, &[&again]).await;
    assert_eq!(take_offline(routes, &again).await, now + MOMENT, "the clock moves as the contract moves it");
    now + MOMENT
}

/// Claims all due users, and settles those with `is_change` unset.
async fn claim(routes: &Timed<dyn Routing>) -> Vec<PresenceTransition> {
    let claimed = routes.port.claim(ALL).await.expect(WORKS);
    let (updates, rest): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|transition| transition.is_change);
    settle(routes, &rest).await;
    updates
}

async fn settle(routes: &Timed<dyn Routing>, announced: &[PresenceTransition]) {
    routes.port.settle(announced).await.expect(WORKS);
}

async fn sweep(routes: &Timed<dyn Routing>, limit: usize) -> SweepResult {
    routes.port.sweep(limit).await.expect(WORKS)
}

fn standings(transitions: &[PresenceTransition]) -> Vec<(UserId, OnlineStatus)> {
    transitions.iter().map(|transition| (transition.user_id, transition.standing)).collect()
}
