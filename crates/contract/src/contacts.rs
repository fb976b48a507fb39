//! Tests of [`ContactStore`](ports::ContactStore).

use domain::UserId;

use super::ContractStores;
use super::fixtures::{WORKS, fresh};

/// A contact is listed until it is removed; repeating either call changes nothing.
pub async fn a_contact_is_listed_until_it_is_removed(stores: ContractStores) {
    let (user_id, contact_id, other) = (fresh(), fresh(), fresh());
    for contact_id in [contact_id, other, contact_id] {
        stores.contacts.add(user_id, contact_id).await.expect(WORKS);
        assert_eq!(stores.contacts.listed(&[(user_id, contact_id)]).await.expect(WORKS), [true]);
    }
    assert_eq!(contacts(&stores, user_id).await, sorted([contact_id, other]));
    for _ in 0..2 {
        stores.contacts.remove(user_id, contact_id).await.expect(WORKS);
        assert_eq!(stores.contacts.listed(&[(user_id, contact_id)]).await.expect(WORKS), [false]);
        assert_eq!(contacts(&stores, user_id).await, [other]);
    }
}

/// A contact entry has one direction.
pub async fn a_contact_is_listed_by_one_side(stores: ContractStores) {
    let (user_id, contact_id) = (fresh(), fresh());
    stores.contacts.add(user_id, contact_id).await.expect(WORKS);
    stores.contacts.remove(contact_id, user_id).await.expect(WORKS);
    let sides = [(user_id, contact_id), (contact_id, user_id)];
    assert_eq!(stores.contacts.listed(&sides).await.expect(WORKS), [true, false]);
    assert_eq!(contacts(&stores, user_id).await, [contact_id]);
    assert_eq!(contacts(&stores, contact_id).await, []);
}

/// Contacts are listed by id. Each page continues after the last id of the page before, even if that contact was
/// removed. The list contains no contacts of other users.
pub async fn contacts_are_by_id_page_by_page(stores: ContractStores) {
    let [user_id, before, behind] = [0x50, 0x4f, 0x51].map(|byte| UserId::from_bytes([byte; 16]));
    let ids = [0x00, 0x03, 0x50, 0x80, 0xff].map(|byte| UserId::from_bytes([byte; 16]));
    for contact_id in [ids[3], ids[0], ids[4], ids[1], ids[2]] {
        for user_id in [user_id, before, behind] {
            stores.contacts.add(user_id, contact_id).await.expect(WORKS);
        }
    }
    let page = async |after, limit| stores.contacts.contacts(user_id, after, limit).await.expect(WORKS);
    assert_eq!(page(None, 2).await, ids[..2]);
    stores.contacts.remove(user_id, ids[1]).await.expect(WORKS);
    assert_eq!(page(Some(ids[1]), 2).await, ids[2..4]);
    assert_eq!(page(Some(ids[3]), 2).await, ids[4..]);
    assert_eq!(page(Some(ids[4]), 2).await, []);
    assert_eq!(page(None, 0).await, []);
}

/// Any number of pairs is looked up independently, in the order of the arguments.
pub async fn contacts_are_looked_up_in_the_order_asked(stores: ContractStores) {
    let user_id = fresh();
    let mut pairs: Vec<(UserId, UserId)> = (0..250).map(|_| (user_id, fresh())).collect();
    // The same pair may occur more than once.
    pairs.push(pairs[7]);
    for n in [7, 99, 100, 249] {
        stores.contacts.add(user_id, pairs[n].1).await.expect(WORKS);
    }
    let listed = stores.contacts.listed(&pairs).await.expect(WORKS);
    let found: Vec<_> = listed.iter().enumerate().filter_map(|(n, is_listed)| is_listed.then_some(n)).collect();
    assert_eq!((listed.len(), found), (251, vec![7, 99, 100, 249, 250]));
    assert!(stores.contacts.listed(&[]).await.expect(WORKS).is_empty());
}

async fn contacts(stores: &ContractStores, user_id: UserId) -> Vec<UserId> {
    stores.contacts.contacts(user_id, None, 100).await.expect(WORKS)
}

fn sorted<const N: usize>(mut ids: [UserId; N]) -> [UserId; N] {
    ids.sort_unstable();
    ids
}
