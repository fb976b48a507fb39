//! Fault injection: a store that returns a result of the wrong length.

use std::sync::Arc;

use async_trait::async_trait;
use contract::Violations;
use domain::{PresenceVisibility, UserId};
use memory::MemoryStore;
use ports::{ContactStore, PresenceLookup, PresenceReader, StoreError};
use tidings_presence::Presence;

use crate::world::{World, status};

/// Returns one result less than requested.
struct FaultyContacts(Arc<MemoryStore>);

#[async_trait]
impl ContactStore for FaultyContacts {
    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        self.0.listed(&pairs[1..]).await
    }

    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.0.add(user_id, contact_id).await
    }

    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        self.0.remove(user_id, contact_id).await
    }

    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        self.0.contacts(user_id, after, limit).await
    }
}

/// Without the check, the missing result would shift the others and show the viewer the stranger's presence.
#[tokio::test(start_paused = true)]
async fn a_result_of_the_wrong_length_discloses_no_presence() {
    let violations = Violations::default();
    let _watched = violations.watch();
    let world = World::new();
    let [viewer, friend, stranger] = [
        world.user(PresenceVisibility::Everyone).await,
        world.user(PresenceVisibility::ContactsOnly).await,
        world.user(PresenceVisibility::ContactsOnly).await,
    ];
    world.befriend(viewer, friend).await;
    world.keep_heartbeat("a").await;
    for user_id in [friend, stranger] {
        world.connect(user_id, "a").await;
    }
    let lookups = [stranger, friend].map(|user_id| PresenceLookup { viewer, user_id });
    let honest = world.presence();
    let seen: Vec<_> = honest.lookup(&lookups).await.unwrap().into_iter().map(status).collect();
    assert_eq!(seen, ["unknown", "online"]);
    assert_eq!(violations.seen(), []);

    let presence =
        Presence { contacts: Arc::new(FaultyContacts(world.store.clone())), ..Arc::into_inner(honest).unwrap() };
    assert!(presence.lookup(&lookups).await.is_err());
    assert_eq!(violations.seen(), [("privacy_enforced".to_owned(), 1)]);
}
