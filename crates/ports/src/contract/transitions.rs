//! What [`Transitions`](crate::Transitions) promises.

use std::slice;
use std::time::Duration;

use domain::{Standing, Timestamp, UserId};

use super::fixtures::{WORKS, at_once, fresh};
use super::routes::{EXPIRY, MOMENT, beat, new_route, on_gateway, refresh, register, routes_of, sorted, unregister};
use super::{Routing, Timed};
use crate::{Route, Swept, Transition};

/// How long a claim holds.
const CLAIM: Duration = Duration::from_secs(10);
/// A grace for somebody who goes.
const BACK_WITHIN: Duration = Duration::from_secs(2);
/// More than any test has due at once.
const ALL: usize = 1000;

/// A user's first route makes them online, and that is told once.
pub async fn first_connection_transitions_to_online(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    assert_eq!(claim(&routes).await, []);
    register(&routes, &[&route]).await;
    let claimed = claim(&routes).await;
    assert_eq!(standings(&claimed), [(route.user_id, Standing::Online)]);
    settle(&routes, &claimed).await;
    assert_eq!(claim(&routes).await, []);
    register(&routes, &[&route]).await;
    assert_eq!(claim(&routes).await, []);
}

/// A user whose last route ends is offline since then, and that is told once.
pub async fn last_connection_transitions_to_offline(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let route = new_route(fresh(), "a");
    come(&routes, &[&route]).await;
    (routes.pass)(Duration::from_secs(7));
    unregister(&routes, &route, Duration::ZERO).await;
    (routes.pass)(Duration::from_secs(1));
    let claimed = claim(&routes).await;
    let last_seen = now + Duration::from_secs(7);
    assert_eq!(standings(&claimed), [(route.user_id, Standing::Offline { last_seen })]);
    settle(&routes, &claimed).await;
    assert_eq!(claim(&routes).await, []);
}

/// Another device that comes, or goes while one is left, is no transition.
pub async fn multi_device_keeps_user_online(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    come(&routes, &[&phone]).await;
    register(&routes, &[&laptop]).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &phone, Duration::ZERO).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &laptop, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(matches!(standings(&claimed)[..], [(gone, Standing::Offline { .. })] if gone == user_id), "{claimed:?}");
}

/// Routes that are unregistered together are one going.
pub async fn routes_that_end_together_are_one_going(routes: Timed<dyn Routing>) {
    let (user_id, other) = (fresh(), fresh());
    let ended = [new_route(user_id, "a"), new_route(user_id, "a"), new_route(other, "a")];
    come(&routes, &ended.each_ref()).await;
    routes.port.unregister(&ended, Duration::ZERO).await.expect(WORKS);
    let mut gone: Vec<UserId> = claim(&routes).await.into_iter().map(|transition| transition.user_id).collect();
    gone.sort();
    let mut expected = vec![user_id, other];
    expected.sort();
    assert_eq!(gone, expected);
}

/// Who is gone is due when the grace is over, not before.
pub async fn a_going_is_told_when_its_grace_is_over(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let route = new_route(fresh(), "a");
    come(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(standings(&claim(&routes).await), [(route.user_id, Standing::Offline { last_seen: now })]);
}

/// Somebody who goes and is back within the grace has never been away.
pub async fn who_is_back_within_the_grace_was_not_away(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [before, after] = [new_route(user_id, "a"), new_route(user_id, "b")];
    come(&routes, &[&before]).await;
    unregister(&routes, &before, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    register(&routes, &[&after]).await;
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(BACK_WITHIN);
    assert_eq!(claim(&routes).await, []);
}

/// Somebody who was back before anybody was told is claimed all the same, and is no news.
pub async fn who_was_back_in_time_is_claimed_and_no_news(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    come(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    register(&routes, &[&route]).await;
    (routes.pass)(BACK_WITHIN);
    let claimed = routes.port.claim(ALL).await.expect(WORKS);
    let [Transition { user_id, standing, is_news, .. }] = claimed[..] else { panic!("{claimed:?}") };
    assert_eq!((user_id, standing, is_news), (route.user_id, Standing::Online, false));
    settle(&routes, &claimed).await;
    (routes.pass)(CLAIM);
    assert_eq!(routes.port.claim(ALL).await.expect(WORKS), []);
}

/// When somebody lost their last route is known at once, before anybody is told.
pub async fn since_when_somebody_is_gone_is_known_at_once(routes: Timed<dyn Routing>) {
    let [gone, there, never] = [new_route(fresh(), "a"), new_route(fresh(), "a"), new_route(fresh(), "a")];
    come(&routes, &[&gone, &there]).await;
    unregister(&routes, &gone, BACK_WITHIN).await;
    let asked = [there.user_id, gone.user_id, never.user_id];
    let [None, Some(since), None] = routes.port.gone_since(&asked).await.expect(WORKS)[..] else {
        panic!("only one of them is gone")
    };
    (routes.pass)(BACK_WITHIN);
    assert_eq!(standings(&claim(&routes).await), [(gone.user_id, Standing::Offline { last_seen: since })]);
}

/// Somebody who comes and goes again and again has the grace from the last time on.
pub async fn the_grace_counts_from_the_last_going(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    come(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    register(&routes, &[&route]).await;
    unregister(&routes, &route, BACK_WITHIN).await;
    (routes.pass)(BACK_WITHIN - MOMENT);
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(claim(&routes).await.len(), 1);
}

/// Somebody who was told to be gone and comes back is told to be there.
pub async fn who_comes_back_later_is_told(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    come(&routes, &[&route]).await;
    go(&routes, &route).await;
    register(&routes, &[&route]).await;
    assert_eq!(standings(&claim(&routes).await), [(route.user_id, Standing::Online)]);
}

/// Those who have waited longest are claimed first, no more than asked for. Another device costs nobody their place.
pub async fn who_has_waited_longest_is_claimed_first(routes: Timed<dyn Routing>) {
    let coming: Vec<_> = (0..5).map(|_| new_route(fresh(), "a")).collect();
    for route in &coming {
        register(&routes, &[route]).await;
        (routes.pass)(MOMENT);
    }
    register(&routes, &[&new_route(coming[0].user_id, "b")]).await;
    for expected in [&coming[..2], &coming[2..4], &coming[4..], &[]] {
        let claimed = routes.port.claim(2).await.expect(WORKS);
        let expected: Vec<_> = expected.iter().map(|route| (route.user_id, Standing::Online)).collect();
        assert_eq!(standings(&claimed), expected);
    }
}

/// However many claim at once, each transition is given to one of them.
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

/// What is claimed and not settled is given out again after 10 s, and not before.
pub async fn an_unsettled_claim_comes_again(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let first = claim(&routes).await;
    assert_eq!(first.len(), 1);
    (routes.pass)(CLAIM - MOMENT);
    beat(&routes, "a").await;
    assert_eq!(claim(&routes).await, []);
    (routes.pass)(MOMENT);
    let second = claim(&routes).await;
    assert_eq!(standings(&second), standings(&first));
    assert_ne!(second[0].claim, first[0].claim);
    settle(&routes, &second).await;
    (routes.pass)(CLAIM);
    assert_eq!(claim(&routes).await, []);
}

/// Who changes while they are claimed is due when that claim is settled.
pub async fn a_change_meanwhile_is_told_behind_the_claim(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    unregister(&routes, &route, Duration::ZERO).await;
    (routes.pass)(CLAIM - MOMENT);
    assert_eq!(claim(&routes).await, []);
    settle(&routes, &coming).await;
    let going = claim(&routes).await;
    assert!(matches!(standings(&going)[..], [(gone, Standing::Offline { .. })] if gone == route.user_id), "{going:?}");
    settle(&routes, &going).await;
    assert_eq!(claim(&routes).await, []);
}

/// Who comes and goes while they are claimed is told to be gone, though that is what others were told before.
pub async fn a_coming_and_going_within_a_claim_is_told(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    settle(&routes, &claim(&routes).await).await;
    unregister(&routes, &route, Duration::ZERO).await;
    settle(&routes, &claim(&routes).await).await;
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    assert_eq!(standings(&coming), [(route.user_id, Standing::Online)]);
    unregister(&routes, &route, Duration::ZERO).await;
    settle(&routes, &coming).await;
    let going = claim(&routes).await;
    assert!(matches!(standings(&going)[..], [(gone, Standing::Offline { .. })] if gone == route.user_id), "{going:?}");
    assert!(going[0].is_news, "{going:?}");
}

/// Who goes while they are claimed has their grace all the same.
pub async fn a_going_meanwhile_has_its_grace(routes: Timed<dyn Routing>) {
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

/// Who changes and changes back while they are claimed is not due.
pub async fn a_change_and_its_undoing_meanwhile_are_nothing(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let coming = claim(&routes).await;
    unregister(&routes, &route, Duration::ZERO).await;
    register(&routes, &[&route]).await;
    settle(&routes, &coming).await;
    assert_eq!(claim(&routes).await, []);
}

/// Who settles too late does not end the claim of another.
pub async fn a_late_settlement_ends_no_other_claim(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    let first = claim(&routes).await;
    (routes.pass)(CLAIM);
    beat(&routes, "a").await;
    let second = claim(&routes).await;
    assert_eq!(second.len(), 1);
    settle(&routes, &first).await;
    unregister(&routes, &route, Duration::ZERO).await;
    assert_eq!(claim(&routes).await, []);
    settle(&routes, &second).await;
    assert_eq!(claim(&routes).await.len(), 1);
}

/// Who was lost and is refreshed is not told to be there, nor when another device comes, but is told when they go.
pub async fn a_lost_route_that_is_refreshed_announces_nobody(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    beat(&routes, "a").await;
    refresh(&routes, &[&route]).await;
    assert_eq!(claim(&routes).await, []);
    let other = new_route(route.user_id, "b");
    register(&routes, &[&other]).await;
    assert_eq!(claim(&routes).await, []);
    unregister(&routes, &other, Duration::ZERO).await;
    unregister(&routes, &route, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(matches!(standings(&claimed)[..], [(_, Standing::Offline { .. })]), "{claimed:?}");
}

/// The end of a route that was lost is told: nobody else will.
pub async fn who_goes_unknown_is_told(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    beat(&routes, "a").await;
    unregister(&routes, &route, Duration::ZERO).await;
    let claimed = claim(&routes).await;
    assert!(matches!(standings(&claimed)[..], [(_, Standing::Offline { .. })]), "{claimed:?}");
}

/// The users of a dead gateway are gone since its last beat, and nothing of its routes is left.
pub async fn presence_staleness_bounded_by_expiry_window(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let [dying, alive] = [new_route(fresh(), "a"), new_route(fresh(), "b")];
    come(&routes, &[&dying, &alive]).await;
    (routes.pass)(Duration::from_secs(5));
    beat(&routes, "a").await;
    beat(&routes, "b").await;
    (routes.pass)(EXPIRY - MOMENT);
    beat(&routes, "b").await;
    assert_eq!(sweep(&routes, ALL).await, Swept::default());
    assert_eq!(claim(&routes).await, []);

    (routes.pass)(MOMENT);
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 1, left: 0 });
    let last_seen = now + Duration::from_secs(5);
    let claimed = claim(&routes).await;
    assert_eq!(standings(&claimed), [(dying.user_id, Standing::Offline { last_seen })]);
    settle(&routes, &claimed).await;
    assert_eq!(on_gateway(&routes, "a").await, []);
    assert_eq!(sweep(&routes, ALL).await, Swept::default());
    assert_eq!(claim(&routes).await, []);

    assert!(!beat(&routes, "a").await);
    assert_eq!(routes_of(&routes, dying.user_id).await, []);
    assert_eq!(routes_of(&routes, alive.user_id).await, [alive]);
}

/// Who has another connection that lives is not gone with a gateway.
pub async fn a_sweep_leaves_users_with_another_route_online(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [dying, alive] = [new_route(user_id, "a"), new_route(user_id, "b")];
    come(&routes, &[&dying, &alive]).await;
    (routes.pass)(EXPIRY);
    beat(&routes, "b").await;
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 1, left: 0 });
    assert_eq!(claim(&routes).await, []);
    assert_eq!(routes_of(&routes, user_id).await, slice::from_ref(&alive));
    unregister(&routes, &alive, Duration::ZERO).await;
    assert_eq!(claim(&routes).await.len(), 1);
}

/// Who was on two gateways that died is gone since the later of their last beats, in whatever order they are swept.
pub async fn the_last_of_several_dead_gateways_counts(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let users: [UserId; 2] = [fresh(), fresh()];
    let on = [("a", users[0]), ("b", users[0]), ("b", users[1]), ("a", users[1])];
    let dying = on.map(|(name, user_id)| new_route(user_id, name));
    come(&routes, &dying.each_ref()).await;
    (routes.pass)(Duration::from_secs(3));
    beat(&routes, "b").await;
    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 4, left: 0 });
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| users.iter().position(|user_id| *user_id == transition.user_id));
    let last_seen = now + Duration::from_secs(3);
    assert_eq!(standings(&claimed), users.map(|user_id| (user_id, Standing::Offline { last_seen })));
}

/// Who has left a live gateway after another of theirs had died was seen until then.
pub async fn who_left_later_than_a_gateway_died_was_seen_until_then(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let user_id = fresh();
    let [dying, leaving] = [new_route(user_id, "a"), new_route(user_id, "b")];
    come(&routes, &[&dying, &leaving]).await;
    (routes.pass)(Duration::from_secs(9));
    beat(&routes, "b").await;
    (routes.pass)(EXPIRY - Duration::from_secs(9));
    unregister(&routes, &leaving, Duration::ZERO).await;
    (routes.pass)(MOMENT);
    sweep(&routes, ALL).await;
    assert_eq!(standings(&claim(&routes).await), [(user_id, Standing::Offline { last_seen: now + EXPIRY })]);
}

/// A sweep forgets no more than it may and says what is left.
pub async fn a_sweep_is_bounded(routes: Timed<dyn Routing>) {
    let dying: Vec<_> = (0..5).map(|n| new_route(fresh(), if n < 3 { "a" } else { "b" })).collect();
    come(&routes, &dying.iter().collect::<Vec<_>>()).await;
    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, 2).await, Swept { forgotten: 2, left: 3 });
    assert_eq!(claim(&routes).await.len(), 2);
    assert_eq!(sweep(&routes, 2).await, Swept { forgotten: 2, left: 1 });
    assert_eq!(sweep(&routes, 2).await, Swept { forgotten: 1, left: 0 });
    assert_eq!(claim(&routes).await.len(), 3);
    assert_eq!(sweep(&routes, 2).await, Swept::default());
}

/// Of many who sweep at once, each announces whom the others do not.
pub async fn concurrent_sweeps_announce_each_user_once(routes: Timed<dyn Routing>) {
    let dying: Vec<_> = (0..60).map(|_| new_route(fresh(), "a")).collect();
    come(&routes, &dying.iter().collect::<Vec<_>>()).await;
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

/// What a gateway has written behind its last beat is kept for as long as a beat holds. If it never beats again, who came
/// then was seen then, and the others until its last beat.
pub async fn what_a_silent_gateway_has_just_written_outlives_a_sweep(routes: Timed<dyn Routing>) {
    let now = clock(&routes).await;
    let [old, refreshed, late] = [(); 3].map(|()| new_route(fresh(), "a"));
    come(&routes, &[&old, &refreshed]).await;
    (routes.pass)(EXPIRY);
    refresh(&routes, &[&refreshed]).await;
    routes.port.register(&late).await.expect(WORKS);
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 1, left: 2 });
    assert_eq!(on_gateway(&routes, "a").await, sorted(vec![refreshed.clone(), late.clone()]));
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| transition.user_id == late.user_id);
    let gone = |route: &Route, last_seen| (route.user_id, Standing::Offline { last_seen });
    assert_eq!(standings(&claimed), [gone(&old, now), (late.user_id, Standing::Online)]);
    settle(&routes, &claimed).await;

    (routes.pass)(EXPIRY);
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 0, left: 2 });
    (routes.pass)(MOMENT);
    assert_eq!(sweep(&routes, ALL).await, Swept { forgotten: 2, left: 0 });
    let mut claimed = claim(&routes).await;
    claimed.sort_by_key(|transition| transition.user_id == late.user_id);
    assert_eq!(standings(&claimed), [gone(&refreshed, now), gone(&late, now + EXPIRY)]);
}

/// A gateway that was silent for too long, came back and has refreshed loses nothing to a sweep, and nobody is told.
pub async fn a_gateway_that_is_back_loses_nothing(routes: Timed<dyn Routing>) {
    let kept = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    come(&routes, &kept.each_ref()).await;
    (routes.pass)(EXPIRY + MOMENT);
    assert!(!beat(&routes, "a").await);
    refresh(&routes, &kept.each_ref()).await;
    assert_eq!(sweep(&routes, ALL).await, Swept::default());
    assert_eq!(on_gateway(&routes, "a").await, sorted(kept.to_vec()));
    assert_eq!(claim(&routes).await, []);
}

/// A gateway that comes back after it was swept brings its users back: told to be there if they were told to be gone.
pub async fn a_gateway_that_is_back_too_late_brings_its_users_back(routes: Timed<dyn Routing>) {
    let [told, untold] = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    come(&routes, &[&told, &untold]).await;
    (routes.pass)(EXPIRY);
    sweep(&routes, ALL).await;
    let gone = claim(&routes).await;
    assert_eq!(gone.len(), 2);
    let of_told: Vec<Transition> = gone.into_iter().filter(|transition| transition.user_id == told.user_id).collect();
    settle(&routes, &of_told).await;

    assert!(!beat(&routes, "a").await);
    let stood = refresh(&routes, &[&told, &untold]).await;
    assert!(stood.iter().all(|stood| !stood.was_known && stood.connections == 1), "{stood:?}");
    assert_eq!(standings(&claim(&routes).await), [(told.user_id, Standing::Online)]);
    (routes.pass)(CLAIM);
    beat(&routes, "a").await;
    assert_eq!(standings(&claim(&routes).await), [(told.user_id, Standing::Online)]);
}

/// Makes users come, and everybody told.
async fn come(routes: &Timed<dyn Routing>, coming: &[&Route]) {
    register(routes, coming).await;
    let claimed = claim(routes).await;
    assert!(claimed.iter().all(|transition| transition.standing == Standing::Online), "{claimed:?}");
    settle(routes, &claimed).await;
}

/// Makes a user go, and everybody told; says since when they are gone.
async fn go(routes: &Timed<dyn Routing>, route: &Route) -> Timestamp {
    unregister(routes, route, Duration::ZERO).await;
    let claimed = claim(routes).await;
    let [Transition { standing: Standing::Offline { last_seen }, .. }] = claimed[..] else {
        panic!("one user has gone: {claimed:?}");
    };
    settle(routes, &claimed).await;
    last_seen
}

/// What the port's clock says: when somebody goes who is gone since now.
async fn clock(routes: &Timed<dyn Routing>) -> Timestamp {
    let route = new_route(fresh(), "clock");
    come(routes, &[&route]).await;
    let now = go(routes, &route).await;
    (routes.pass)(MOMENT);
    let again = new_route(fresh(), "clock");
    come(routes, &[&again]).await;
    assert_eq!(go(routes, &again).await, now + MOMENT, "the clock moves as the contract moves it");
    now + MOMENT
}

/// Claims all who are due, and settles those who are no news.
async fn claim(routes: &Timed<dyn Routing>) -> Vec<Transition> {
    let claimed = routes.port.claim(ALL).await.expect(WORKS);
    let (news, rest): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|transition| transition.is_news);
    settle(routes, &rest).await;
    news
}

async fn settle(routes: &Timed<dyn Routing>, announced: &[Transition]) {
    routes.port.settle(announced).await.expect(WORKS);
}

async fn sweep(routes: &Timed<dyn Routing>, limit: usize) -> Swept {
    routes.port.sweep(limit).await.expect(WORKS)
}

fn standings(transitions: &[Transition]) -> Vec<(UserId, Standing)> {
    transitions.iter().map(|transition| (transition.user_id, transition.standing)).collect()
}
