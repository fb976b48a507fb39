//! Tests of [`NoticeStore`](ports::NoticeStore).

use std::slice::from_ref;
use std::time::Duration;

use domain::{DeviceId, Sequence, Timestamp};
use uuid::Uuid;

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh};
use ports::{Notice, Settled};

/// A notice is due from its due time on, and not before.
pub async fn a_notice_is_due_at_its_due_time(stores: ContractStores) {
    let notice = new_notice(100);
    add_notices(&stores, &[&notice]).await;
    assert_eq!(take(&stores, 99).await, []);
    assert_eq!(take(&stores, 100).await, [notice]);
}

/// Of several notices for one user, chat and device, the first stays and is taken once. Other chats and devices have
/// their own notices.
pub async fn a_notice_is_pending_once(stores: ContractStores) {
    let notice = new_notice(100);
    let repeated = Notice { from: Sequence(9), due_at: at(50), ..notice.clone() };
    let other_chat = Notice { chat_id: fresh(), due_at: at(101), ..notice.clone() };
    let other_device = Notice { device_id: new_device(), due_at: at(102), ..notice.clone() };
    let other_user = Notice { user_id: fresh(), due_at: at(103), ..notice.clone() };
    add_notices(&stores, &[&notice, &repeated, &other_chat]).await;
    add_notices(&stores, &[&repeated, &other_device, &other_user]).await;
    assert_eq!(take(&stores, 99).await, []);
    assert_eq!(take(&stores, 200).await, [notice, other_chat, other_device, other_user]);
}

/// The longest due notices are taken first, at most `count`; the next call takes the rest.
pub async fn due_notices_are_taken_longest_due_first(stores: ContractStores) {
    let notices = [300, 100, 200, 400].map(new_notice);
    add_notices(&stores, &notices.each_ref()).await;
    let first = take_until(&stores, 350, at(1000), 2).await;
    assert_eq!(first, [notices[1].clone(), notices[2].clone()]);
    let second = take_until(&stores, 350, at(1000), 2).await;
    assert_eq!(second, [notices[0].clone()]);
    assert_eq!(take_until(&stores, 350, at(1000), 2).await, []);
}

/// A taken notice is hidden from other callers until `again_at`, and then due again, because its taker may have
/// crashed.
pub async fn a_taken_notice_is_postponed(stores: ContractStores) {
    let notice = new_notice(100);
    add_notices(&stores, &[&notice]).await;
    assert_eq!(take_until(&stores, 100, at(500), 9).await, from_ref(&notice));
    add_notices(&stores, &[&Notice { due_at: at(200), ..notice.clone() }]).await;
    assert_eq!(take(&stores, 499).await, []);
    assert_eq!(take(&stores, 500).await, [Notice { due_at: at(500), ..notice }]);
}

/// Of concurrent callers, one takes each notice.
pub async fn of_concurrent_takers_one_gets_a_notice(stores: ContractStores) {
    let notices: Vec<_> = (0..20).map(|n| new_notice(100 + n)).collect();
    add_notices(&stores, &notices.iter().collect::<Vec<_>>()).await;
    let taken = at_once((0..4).map(|_| {
        let stores = stores.clone();
        async move {
            let mut taken = vec![];
            loop {
                let next = take_until(&stores, 500, at(1000), 3).await;
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

/// After a notification, a notice due within the silence is discarded and a later one is kept, whether or not a call
/// has taken notices in between.
pub async fn a_notified_device_gets_no_notice_during_its_silence(stores: ContractStores) {
    for taken_in_between in [false, true] {
        let notice = new_notice(100);
        add_notices(&stores, &[&notice]).await;
        assert_eq!(take(&stores, 100).await, from_ref(&notice));
        stores.notices.settle(&notice, Settled::Notified { silent_until: at(500) }).await.expect(WORKS);

        add_notices(&stores, &[&Notice { due_at: at(499), ..notice.clone() }]).await;
        if taken_in_between {
            assert_eq!(take(&stores, 600).await, []);
        }
        let next = Notice { from: Sequence(8), due_at: at(500), ..notice };
        add_notices(&stores, &[&next]).await;
        assert_eq!(take(&stores, 600).await, from_ref(&next));
        stores.notices.settle(&next, Settled::Dropped).await.expect(WORKS);
    }
}

/// A failed notice is due again at the given time, with one more attempt.
pub async fn a_failed_notice_is_due_again_and_counts_its_attempts(stores: ContractStores) {
    let notice = new_notice(100);
    add_notices(&stores, &[&notice]).await;
    let mut taken = take(&stores, 100).await;
    for (attempts, due_at) in [(1, 200), (2, 400)] {
        stores.notices.settle(&taken[0], Settled::Again { at: at(due_at) }).await.expect(WORKS);
        assert_eq!(take(&stores, due_at - 1).await, []);
        taken = take(&stores, due_at).await;
        assert_eq!(taken, [Notice { due_at: at(due_at), attempts, ..notice.clone() }]);
    }
}

/// A dropped notice is deleted, and a new notice becomes pending at once.
pub async fn a_dropped_notice_allows_a_new_one(stores: ContractStores) {
    let notice = new_notice(100);
    add_notices(&stores, &[&notice]).await;
    take(&stores, 100).await;
    stores.notices.settle(&notice, Settled::Dropped).await.expect(WORKS);
    assert_eq!(take(&stores, 10_000).await, []);
    let next = Notice { from: Sequence(8), due_at: at(150), ..notice };
    add_notices(&stores, &[&next]).await;
    assert_eq!(take(&stores, 150).await, [next]);
}

/// Settling a notice that another caller has already settled changes nothing: neither its silence nor a notice that was
/// added since.
pub async fn settling_a_settled_notice_changes_nothing(stores: ContractStores) {
    let late = [Settled::Notified { silent_until: at(9000) }, Settled::Again { at: at(300) }, Settled::Dropped];
    for settled in late {
        let notice = new_notice(100);
        stores.notices.settle(&notice, settled).await.expect(WORKS);
        assert_eq!(take(&stores, 10_000).await, [], "{settled:?} of nothing");

        add_notices(&stores, &[&notice]).await;
        take(&stores, 100).await;
        stores.notices.settle(&notice, Settled::Notified { silent_until: at(500) }).await.expect(WORKS);
        stores.notices.settle(&notice, settled).await.expect(WORKS);
        let next = Notice { from: Sequence(8), due_at: at(499), ..notice.clone() };
        add_notices(&stores, &[&next]).await;
        assert_eq!(take(&stores, 499).await, [], "{settled:?} in its silence");

        let next = Notice { due_at: at(600), ..next };
        add_notices(&stores, &[&next]).await;
        stores.notices.settle(&notice, settled).await.expect(WORKS);
        assert_eq!(take(&stores, 600).await, from_ref(&next), "{settled:?} of another");
        stores.notices.settle(&next, Settled::Dropped).await.expect(WORKS);
    }
}

/// A notice is found even if it is added after its due time, or after notices around it were taken.
pub async fn notices_added_late_are_found(stores: ContractStores) {
    let [old, new] = [100, 10_000].map(new_notice);
    add_notices(&stores, &[&new]).await;
    assert_eq!(take(&stores, 10_000).await, from_ref(&new));
    stores.notices.settle(&new, Settled::Dropped).await.expect(WORKS);
    assert_eq!(take(&stores, 20_000).await, []);
    add_notices(&stores, &[&old]).await;
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

async fn add_notices(stores: &ContractStores, notices: &[&Notice]) {
    stores.notices.add_notices(notices.iter().copied().cloned().collect()).await.expect(WORKS);
}

/// Takes all due notices, and postpones them for a long time.
async fn take(stores: &ContractStores, now: u64) -> Vec<Notice> {
    take_until(stores, now, at(now) + Duration::from_secs(3600), 100).await
}

/// Takes up to `count` due notices, and postpones them.
async fn take_until(stores: &ContractStores, now: u64, again_at: Timestamp, count: usize) -> Vec<Notice> {
    stores.sabotage.indexed().await;
    stores.notices.take_due(at(now), again_at, count).await.expect(WORKS)
}
