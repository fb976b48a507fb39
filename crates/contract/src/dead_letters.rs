//! Tests of [`DeadLetterStore`](ports::DeadLetterStore).

use std::time::Duration;

use domain::limits::RETENTION;
use domain::{DeviceId, Sequence, Timestamp};
use uuid::Uuid;

use super::ContractStores;
use super::fixtures::{WORKS, fresh, now};
use ports::{DeadLetter, DeadLetterId, Position, UndeliveredItem};

/// A dead letter of any kind is kept as it was first added.
pub async fn a_dead_letter_is_kept_as_it_was_buried_first(stores: ContractStores) {
    let event = UndeliveredItem::Event { position: Position(7), event_id: fresh(), chat_id: fresh() };
    let notification = UndeliveredItem::Notification {
        user_id: fresh(),
        device_id: DeviceId::from(Uuid::new_v4()),
        chat_id: fresh(),
        from: Sequence(3),
    };
    for (n, what) in [(1, event), (2, notification)] {
        let letter = DeadLetter { what, ..letter(n, now()) };
        stores.dead_letters.add_dead_letter(letter.clone()).await.expect(WORKS);
        let again = DeadLetter { reason: "another".to_owned(), attempts: 99, ..letter.clone() };
        stores.dead_letters.add_dead_letter(again).await.expect(WORKS);
        assert_eq!(stores.dead_letters.dead_letter(letter.id).await.expect(WORKS), Some(letter));
    }
    assert_eq!(stores.dead_letters.dead_letter(DeadLetterId::from_parts(3, 0)).await.expect(WORKS), None);
}

/// Dead letters are listed oldest first, and each page continues after the last of the page before.
pub async fn dead_letters_are_listed_oldest_first_page_by_page(stores: ContractStores) {
    for n in [2, 5, 1, 4, 3] {
        stores.dead_letters.add_dead_letter(letter(n, now())).await.expect(WORKS);
    }
    let mut pages = vec![];
    let mut after = None;
    loop {
        let page = stores.dead_letters.dead_letters(after, 2).await.expect(WORKS);
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        pages.push(page.iter().map(|letter| letter.id.timestamp_ms()).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec![1, 2], vec![3, 4], vec![5]]);
}

/// A deleted dead letter is gone; its neighbours stay.
pub async fn a_removed_dead_letter_is_absent(stores: ContractStores) {
    let (one, other) = (letter(1, now()), letter(2, now()));
    for letter in [&one, &other] {
        stores.dead_letters.add_dead_letter(letter.clone()).await.expect(WORKS);
    }
    assert!(stores.dead_letters.remove_dead_letter(one.id).await.expect(WORKS));
    assert!(!stores.dead_letters.remove_dead_letter(one.id).await.expect(WORKS));
    assert_eq!(stores.dead_letters.dead_letter(one.id).await.expect(WORKS), None);
    assert_eq!(stores.dead_letters.dead_letters(None, 9).await.expect(WORKS), [other]);
}

/// A dead letter is purged after seven days.
pub async fn a_dead_letter_is_kept_for_seven_days(stores: ContractStores) {
    let old = letter(1, now().minus(RETENTION));
    let younger = letter(2, now().minus(RETENTION - Duration::from_secs(3600)));
    for letter in [&old, &younger] {
        stores.dead_letters.add_dead_letter(letter.clone()).await.expect(WORKS);
    }
    stores.sabotage.purge_expired().await;
    assert_eq!(stores.dead_letters.dead_letters(None, 9).await.expect(WORKS), [younger]);
}

/// The n-th dead letter.
fn letter(n: u64, dead_at: Timestamp) -> DeadLetter {
    let what = UndeliveredItem::Event { position: Position(n), event_id: fresh(), chat_id: fresh() };
    let id = DeadLetterId::from_parts(n, 0);
    DeadLetter { id, what, attempts: 5, reason: "answered 500".to_owned(), dead_at }
}
