//! Tests of [`WatermarkStore`](ports::WatermarkStore).

use domain::{
    Advance, ChatCommand, ChatId, DeliveryState, Role, Sequence, Timestamp, UserId, WatermarkKind, Watermarks,
};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};

/// A watermark moves forward and never back.
pub async fn g7_a_watermark_only_moves_forward(stores: ContractStores) {
    let (chat_id, user_id) = stores.chat_with_head(5).await;
    let delivered = |to| advance(&stores, user_id, chat_id, WatermarkKind::Delivered, to);
    assert_eq!(delivered(3).await, Advance::Moved(marks(3, 0)));
    assert_eq!(delivered(2).await, Advance::Unchanged(marks(3, 0)));
    assert_eq!(delivered(3).await, Advance::Unchanged(marks(3, 0)));
    assert_eq!(delivered(5).await, Advance::Moved(marks(5, 0)));
    assert_eq!(stores.watermarks.watermarks(&[(user_id, chat_id)]).await.expect(WORKS), [marks(5, 0)]);
}

/// A watermark above the head is refused with the head sequence, and can follow the head later.
pub async fn g7_a_watermark_never_passes_the_head(stores: ContractStores) {
    let (chat_id, user_id) = stores.chat_with_head(2).await;
    for kind in [WatermarkKind::Delivered, WatermarkKind::Read] {
        assert_eq!(advance(&stores, user_id, chat_id, kind, 3).await, Advance::AboveHead(Sequence(2)));
    }
    assert_eq!(stores.watermarks.watermarks(&[(user_id, chat_id)]).await.expect(WORKS), [marks(0, 0)]);
    stores.fill(chat_id, user_id, 1).await;
    let moved = advance(&stores, user_id, chat_id, WatermarkKind::Delivered, 3).await;
    assert_eq!(moved, Advance::Moved(marks(3, 0)));
}

/// Advancing read also advances delivered.
pub async fn g10_read_implies_delivered(stores: ContractStores) {
    let (chat_id, user_id) = stores.chat_with_head(5).await;
    let read = advance(&stores, user_id, chat_id, WatermarkKind::Read, 4).await;
    assert_eq!(read, Advance::Moved(marks(4, 4)));
    let delivered = advance(&stores, user_id, chat_id, WatermarkKind::Delivered, 5).await;
    assert_eq!(delivered, Advance::Moved(marks(5, 4)));
    assert_eq!(stores.watermarks.watermarks(&[(user_id, chat_id)]).await.expect(WORKS), [marks(5, 4)]);
}

/// With concurrent devices of a user, the highest sequence is kept.
pub async fn g10_concurrent_devices_keep_the_highest_sequence(stores: ContractStores) {
    let (chat_id, user_id) = stores.chat_with_head(20).await;
    at_once((1..=20).map(|to| {
        let stores = stores.clone();
        let kind = if to % 2 == 0 { WatermarkKind::Delivered } else { WatermarkKind::Read };
        async move { advance(&stores, user_id, chat_id, kind, to).await }
    }))
    .await;
    assert_eq!(stores.watermarks.watermarks(&[(user_id, chat_id)]).await.expect(WORKS), [marks(20, 19)]);
}

/// Only members of an existing chat have watermarks.
pub async fn only_members_move_watermarks(stores: ContractStores) {
    let (owner, former) = (fresh(), fresh());
    let chat_id = stores.group(owner, &[former]).await;
    stores.fill(chat_id, owner, 1).await;
    stores.apply(chat_id, former, ChatCommand::Leave).await.expect("a member leaves");
    for user_id in [fresh(), former] {
        assert_eq!(advance(&stores, user_id, chat_id, WatermarkKind::Read, 1).await, Advance::NotAMember);
    }
    assert_eq!(advance(&stores, owner, fresh(), WatermarkKind::Read, 1).await, Advance::ChatNotFound);
}

/// Watermarks are in the order of the arguments, per user and chat, and zero if none are stored.
pub async fn watermarks_are_in_the_order_asked(stores: ContractStores) {
    let (one, other) = (fresh(), fresh());
    let chat_id = stores.group(one, &[other]).await;
    let elsewhere = stores.group(one, &[]).await;
    stores.fill(chat_id, one, 3).await;
    stores.fill(elsewhere, one, 3).await;
    advance(&stores, one, chat_id, WatermarkKind::Delivered, 1).await;
    advance(&stores, other, chat_id, WatermarkKind::Delivered, 2).await;
    advance(&stores, one, elsewhere, WatermarkKind::Delivered, 3).await;

    let of = [(other, chat_id), (one, elsewhere), (fresh(), chat_id), (one, chat_id), (one, fresh())];
    let kept = stores.watermarks.watermarks(&of).await.expect(WORKS);
    assert_eq!(kept, [marks(2, 0), marks(3, 0), marks(0, 0), marks(1, 0), marks(0, 0)]);
}

/// Each watermark has the time of its last move, until its member leaves. An acknowledgement that changes nothing
/// changes no time.
pub async fn a_watermark_has_the_time_of_its_move(stores: ContractStores) {
    let (owner, member) = (fresh(), fresh());
    let chat_id = stores.group(owner, &[member]).await;
    stores.fill(chat_id, owner, 5).await;
    let state = async || stores.watermarks.delivery_states(&[(member, chat_id)]).await.expect(WORKS)[0];
    let advance = async |kind, to, at| {
        stores.watermarks.advance(member, chat_id, kind, Sequence(to), at).await.expect(WORKS);
        state().await
    };
    assert_eq!(state().await, DeliveryState::from(marks(0, 0)));

    let [first, second, third] = [1, 2, 3].map(|millis| Timestamp::from_millis(now().as_millis() + millis));
    let delivered = DeliveryState { watermarks: marks(3, 0), delivered_at: Some(first), read_at: None };
    assert_eq!(advance(WatermarkKind::Delivered, 3, first).await, delivered);
    assert_eq!(advance(WatermarkKind::Delivered, 3, second).await, delivered);
    let read = DeliveryState { watermarks: marks(3, 2), read_at: Some(second), ..delivered };
    assert_eq!(advance(WatermarkKind::Read, 2, second).await, read);
    let both = DeliveryState { watermarks: marks(5, 5), delivered_at: Some(third), read_at: Some(third) };
    assert_eq!(advance(WatermarkKind::Read, 5, third).await, both);

    stores.apply(chat_id, member, ChatCommand::Leave).await.expect("a member leaves");
    assert_eq!(state().await, DeliveryState::default());
    let command = ChatCommand::AddMember { user_id: member, role: Role::Member };
    stores.apply(chat_id, owner, command).await.expect("the owner adds members");
    assert_eq!(state().await, DeliveryState::from(marks(5, 5)));
}

fn marks(delivered: u64, read: u64) -> Watermarks {
    Watermarks { delivered: Sequence(delivered), read: Sequence(read) }
}

async fn advance(stores: &ContractStores, user_id: UserId, chat_id: ChatId, kind: WatermarkKind, to: u64) -> Advance {
    stores.watermarks.advance(user_id, chat_id, kind, Sequence(to), now()).await.expect(WORKS)
}
