use std::sync::Arc;

use domain::{PresenceView, PresenceVisibility, UserId};
use ports::{BlockStore, ContactStore, PresenceLookup, PresenceReader};
use tokio::time;

use crate::world::{BACK_WITHIN, TIER_1, UnavailableRoutes, World};

/// Relation of a viewer to the user.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Viewer {
    Contact,
    /// The viewer has listed the user, but the user has not listed the viewer.
    OneSided,
    Stranger,
    Oneself,
    /// A contact that the user has blocked.
    Blocked,
}

const VIEWERS: [Viewer; 5] = [Viewer::Contact, Viewer::OneSided, Viewer::Stranger, Viewer::Oneself, Viewer::Blocked];

/// The matrix: for each setting and kind of viewer, the result of a lookup, the pushes, and the visible last-seen time.
#[tokio::test(start_paused = true)]
async fn privacy_enforced() {
    use PresenceVisibility::{ContactsOnly, Everyone, Nobody};
    use Viewer::{Contact, OneSided, Oneself, Stranger};
    let admitted = [
        (Everyone, vec![Contact, OneSided, Stranger, Oneself]),
        (ContactsOnly, vec![Contact, Oneself]),
        (Nobody, vec![Oneself]),
    ];
    for (visibility, admitted) in admitted {
        for viewer in VIEWERS {
            let world = World::new();
            world.keep_heartbeat("a").await;
            world.start();
            let user = world.user(visibility).await;
            let viewer_id = meet(&world, user, viewer).await;
            let is_admitted = admitted.contains(&viewer);
            let case = format!("{visibility:?} to {viewer:?}");

            if viewer != Oneself {
                world.connect(viewer_id, "a").await;
            }
            time::sleep(TIER_1).await;
            world.told.take();
            let route = world.connect(user, "a").await;
            let seen = if is_admitted { PresenceView::Online } else { PresenceView::Unknown };
            assert_eq!(world.lookup(viewer_id, user).await, seen, "{case}, online");
            time::sleep(TIER_1).await;
            // A user receives no push of their own transitions.
            let is_pushed = is_admitted && viewer != Oneself;
            assert_eq!(world.told.pushes().len(), usize::from(is_pushed), "{case}, pushed online");

            world.disconnect(route).await;
            time::sleep(BACK_WITHIN + TIER_1).await;
            assert_eq!(world.told.pushes().len(), usize::from(is_pushed), "{case}, pushed offline");
            let last_seen = world.last_seen(user).await;
            assert!(last_seen.is_some(), "{case}, it is known");
            let seen = if is_admitted { PresenceView::Offline { last_seen } } else { PresenceView::Unknown };
            assert_eq!(world.lookup(viewer_id, user).await, seen, "{case}, last seen");
        }
    }
}

/// A viewer that shares an active chat with the user.
async fn meet(world: &World, user: UserId, viewer: Viewer) -> UserId {
    if viewer == Viewer::Oneself {
        return user;
    }
    let viewer_id = world.user(PresenceVisibility::Everyone).await;
    world.chat(user, &[viewer_id]).await;
    match viewer {
        Viewer::Contact => world.befriend(viewer_id, user).await,
        Viewer::OneSided => world.store.add(viewer_id, user).await.unwrap(),
        Viewer::Blocked => {
            world.befriend(viewer_id, user).await;
            assert!(world.store.block(user, viewer_id).await.unwrap());
        }
        Viewer::Stranger | Viewer::Oneself => {}
    }
    viewer_id
}

#[tokio::test(start_paused = true)]
async fn unknown_presence_looks_the_same_for_every_reason() {
    let world = World::new();
    let viewer = world.user(PresenceVisibility::Everyone).await;
    let (hidden, private) =
        (world.user(PresenceVisibility::Nobody).await, world.user(PresenceVisibility::ContactsOnly).await);
    let nobody = UserId::from_bytes([9; 16]);
    world.keep_heartbeat("a").await;
    world.connect(hidden, "a").await;
    let lookups = [hidden, private, nobody, hidden].map(|user_id| PresenceLookup { viewer, user_id });
    assert_eq!(world.presence().lookup(&lookups).await.unwrap(), [PresenceView::Unknown; 4]);
}

#[tokio::test(start_paused = true)]
async fn presence_queries_are_answered_in_order_for_all_viewers() {
    let world = World::new();
    world.keep_heartbeat("a").await;
    let (one, other) =
        (world.user(PresenceVisibility::ContactsOnly).await, world.user(PresenceVisibility::Everyone).await);
    world.connect(one, "a").await;
    let look = |viewer, user_id| PresenceLookup { viewer, user_id };
    let lookups = [look(other, one), look(one, other), look(one, one), look(other, one)];
    let offline = PresenceView::Offline { last_seen: None };
    let seen = world.presence().lookup(&lookups).await.unwrap();
    assert_eq!(seen, [PresenceView::Unknown, offline, PresenceView::Online, PresenceView::Unknown]);
    assert_eq!(world.presence().lookup(&[]).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn while_routes_are_unavailable_answers_are_unknown_and_subscribers_receive_nothing() {
    let world = World::new();
    let (viewer, user_id) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    let mut presence = Arc::into_inner(world.presence()).unwrap();
    presence.routes = Arc::new(UnavailableRoutes);
    let lookups = [PresenceLookup { viewer, user_id }];
    assert_eq!(presence.look_or_unknown(&lookups).await.unwrap(), [PresenceView::Unknown]);
    presence.lookup(&lookups).await.unwrap_err();
}
