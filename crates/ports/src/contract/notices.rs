//! What [`NoticeStore`](crate::NoticeStore) promises.

use std::slice::from_ref;
use std::time::Duration;

use domain::{DeviceId, Sequence, Timestamp};
use uuid::Uuid;

use super::Stores;
use super::fixtures::{WORKS, at_once, fresh};
use crate::{Notice, Settled};

/// A notice is due from its millisecond on, and not before.
pub async fn a_notice_is_due_at_its_moment(stores: Stores) {
    let owed = new_notice(100);
    owe(&stores, &[&owed]).await;
    assert_eq!(take(&stores, 99).await, []);
    assert_eq!(take(&stores, 100).await, [owed]);
}

/// Of notices for one user, chat and device the first stays, and is taken once. For another chat or device another is owed.
pub async fn a_notice_is_owed_once(stores: Stores) {
    let owed = new_notice(100);
    let repeated = Notice { from: Sequence(9), due_at: at(50), ..owed.clone() };
    let other_chat = Notice { chat_id: fresh(), due_at: at(101), ..owed.clone() };
    let other_device = Notice { device_id: new_device(), due_at: at(102), ..owed.clone() };
    let other_user = Notice { user_id: fresh(), due_at: at(103), ..owed.clone() };
    owe(&stores, &[&owed, &repeated, &other_chat]).await;
    owe(&stores, &[&repeated, &other_device, &other_user]).await;
    assert_eq!(take(&stores, 99).await, []);
    assert_eq!(take(&stores, 200).await, [owed, other_chat, other_device, other_user]);
}

/// What has been due longest is taken first, no more than asked, and the rest the next time.
pub async fn due_notices_are_taken_longest_due_first(stores: Stores) {
    let notices = [300, 100, 200, 400].map(new_notice);
    owe(&stores, &notices.each_ref()).await;
    let first = stores.notices.take_due(at(350), at(1000), 2).await.expect(WORKS);
    assert_eq!(first, [notices[1].clone(), notices[2].clone()]);
    let second = stores.notices.take_due(at(350), at(1000), 2).await.expect(WORKS);
    assert_eq!(second, [notices[0].clone()]);
    assert_eq!(stores.notices.take_due(at(350), at(1000), 2).await.expect(WORKS), []);
}

/// A taken notice is nobody else's until the moment it was put off to, and then due again: whoever took it may be dead.
pub async fn a_taken_notice_is_put_off(stores: Stores) {
    let owed = new_notice(100);
    owe(&stores, &[&owed]).await;
    assert_eq!(stores.notices.take_due(at(100), at(500), 9).await.expect(WORKS), from_ref(&owed));
    owe(&stores, &[&Notice { due_at: at(200), ..owed.clone() }]).await;
    assert_eq!(take(&stores, 499).await, []);
    assert_eq!(take(&stores, 500).await, [Notice { due_at: at(500), ..owed }]);
}

/// However many take at once, each notice has one taker.
pub async fn of_concurrent_takers_one_gets_a_notice(stores: Stores) {
    let notices: Vec<_> = (0..20).map(|n| new_notice(100 + n)).collect();
    owe(&stores, &notices.iter().collect::<Vec<_>>()).await;
    let taken = at_once((0..4).map(|_| {
        let stores = stores.clone();
        async move {
            let mut taken = vec![];
            loop {
                let next = stores.notices.take_due(at(500), at(1000), 3).await.expect(WORKS);
                if next.is_empty() {
                    return taken;
                }
                taken.extend(next);
            }
        }
    }))
    .await;
    let mut taken = taken.concat();
    taken.sort_by_key(|notice| notice.due_at);
    assert_eq!(taken, notices);
}

/// A device that was told is owed nothing that would be due in its silence, and the next thing after it, whether or not
/// anybody has taken since.
pub async fn a_device_that_was_told_is_silent_for_a_while(stores: Stores) {
    for taken_in_between in [false, true] {
        let owed = new_notice(100);
        owe(&stores, &[&owed]).await;
        assert_eq!(take(&stores, 100).await, from_ref(&owed));
        stores.notices.settle(&owed, Settled::Told { silent_until: at(500) }).await.expect(WORKS);

        owe(&stores, &[&Notice { due_at: at(499), ..owed.clone() }]).await;
        if taken_in_between {
            assert_eq!(take(&stores, 600).await, []);
        }
        let next = Notice { from: Sequence(8), due_at: at(500), ..owed };
        owe(&stores, &[&next]).await;
        assert_eq!(take(&stores, 600).await, from_ref(&next));
        stores.notices.settle(&next, Settled::Dropped).await.expect(WORKS);
    }
}

/// A notice that failed is due again when it was said to be, with one more try on its account.
pub async fn a_failed_notice_is_due_again_and_counts_its_tries(stores: Stores) {
    let owed = new_notice(100);
    owe(&stores, &[&owed]).await;
    let mut taken = take(&stores, 100).await;
    for (attempts, due_at) in [(1, 200), (2, 400)] {
        stores.notices.settle(&taken[0], Settled::Again { at: at(due_at) }).await.expect(WORKS);
        assert_eq!(take(&stores, due_at - 1).await, []);
        taken = take(&stores, due_at).await;
        assert_eq!(taken, [Notice { due_at: at(due_at), attempts, ..owed.clone() }]);
    }
}

/// A dropped notice is gone, and the next one is owed at once.
pub async fn a_dropped_notice_makes_room_for_the_next(stores: Stores) {
    let owed = new_notice(100);
    owe(&stores, &[&owed]).await;
    take(&stores, 100).await;
    stores.notices.settle(&owed, Settled::Dropped).await.expect(WORKS);
    assert_eq!(take(&stores, 10_000).await, []);
    let next = Notice { from: Sequence(8), due_at: at(150), ..owed };
    owe(&stores, &[&next]).await;
    assert_eq!(take(&stores, 150).await, [next]);
}

/// Whoever settles a notice too late, when somebody else has settled it, changes nothing: neither its silence nor the
/// notice that was owed since.
pub async fn a_notice_that_is_gone_stays_gone(stores: Stores) {
    let late = [Settled::Told { silent_until: at(9000) }, Settled::Again { at: at(300) }, Settled::Dropped];
    for settled in late {
        let owed = new_notice(100);
        stores.notices.settle(&owed, settled).await.expect(WORKS);
        assert_eq!(take(&stores, 10_000).await, [], "{settled:?} of nothing");

        owe(&stores, &[&owed]).await;
        take(&stores, 100).await;
        stores.notices.settle(&owed, Settled::Told { silent_until: at(500) }).await.expect(WORKS);
        stores.notices.settle(&owed, settled).await.expect(WORKS);
        let next = Notice { from: Sequence(8), due_at: at(499), ..owed.clone() };
        owe(&stores, &[&next]).await;
        assert_eq!(take(&stores, 499).await, [], "{settled:?} in its silence");

        let next = Notice { due_at: at(600), ..next };
        owe(&stores, &[&next]).await;
        stores.notices.settle(&owed, settled).await.expect(WORKS);
        assert_eq!(take(&stores, 600).await, from_ref(&next), "{settled:?} of another");
        stores.notices.settle(&next, Settled::Dropped).await.expect(WORKS);
    }
}

/// A notice is found whenever it was due: also when it is owed late, or others were taken from before and behind it.
pub async fn notices_owed_late_or_long_ago_are_found(stores: Stores) {
    let [old, new] = [100, 10_000].map(new_notice);
    owe(&stores, &[&new]).await;
    assert_eq!(take(&stores, 10_000).await, from_ref(&new));
    stores.notices.settle(&new, Settled::Dropped).await.expect(WORKS);
    assert_eq!(take(&stores, 20_000).await, []);
    owe(&stores, &[&old]).await;
    assert_eq!(take(&stores, 20_000).await, from_ref(&old));
    stores.notices.settle(&old, Settled::Again { at: at(50) }).await.expect(WORKS);
    assert_eq!(take(&stores, 100).await, [Notice { due_at: at(50), attempts: 1, ..old }]);
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn new_device() -> DeviceId {
    Uuid::new_v4().into()
}

fn new_notice(due_at: u64) -> Notice {
    Notice {
        user_id: fresh(),
        chat_id: fresh(),
        device_id: new_device(),
        from: Sequence(7),
        due_at: at(due_at),
        attempts: 0,
    }
}

async fn owe(stores: &Stores, notices: &[&Notice]) {
    stores.notices.owe(notices.iter().copied().cloned().collect()).await.expect(WORKS);
}

/// Takes what is due, and puts it off for long.
async fn take(stores: &Stores, now: u64) -> Vec<Notice> {
    stores.notices.take_due(at(now), at(now) + Duration::from_secs(3600), 100).await.expect(WORKS)
}
