//! What [`BlockStore`](crate::BlockStore) promises, and what blocks mean to
//! [`MessageWriter`](crate::MessageWriter) and [`ChatWriter`](crate::ChatWriter).

use domain::{ChatCommand, ChatId, ChatRefusal, Timestamp, UserId};

use super::Stores;
use super::fixtures::{WORKS, at_once, direct_chat, fresh, new_message, retry_of};
use crate::{Appended, CreatedChat, NewMessage, SendRefusal};

const BLOCKED: Appended = Appended::Refused(SendRefusal::Blocked);
const BLOCKING: Appended = Appended::Refused(SendRefusal::Blocking);

/// Somebody is blocked until the block is taken back, however often either is done.
pub async fn a_block_holds_until_it_is_taken_back(stores: Stores) {
    let (user_id, blocked_id, other) = (fresh(), fresh(), fresh());
    for blocked_id in [blocked_id, other, blocked_id] {
        assert!(stores.blocks.block(user_id, blocked_id).await.expect(WORKS));
        assert_eq!(stores.blocks.blocked(&[(user_id, blocked_id)]).await.expect(WORKS), [true]);
    }
    let mut both = [blocked_id, other];
    both.sort_unstable();
    assert_eq!(blocks(&stores, user_id).await, both);
    for _ in 0..2 {
        stores.blocks.unblock(user_id, blocked_id).await.expect(WORKS);
        assert_eq!(stores.blocks.blocked(&[(user_id, blocked_id)]).await.expect(WORKS), [false]);
        assert_eq!(blocks(&stores, user_id).await, [other]);
    }
}

/// Who is blocked has blocked nobody by that, and cannot take it back.
pub async fn a_block_is_of_one_side(stores: Stores) {
    let (user_id, blocked_id) = (fresh(), fresh());
    block(&stores, user_id, blocked_id).await;
    stores.blocks.unblock(blocked_id, user_id).await.expect(WORKS);
    let sides = [(user_id, blocked_id), (blocked_id, user_id)];
    assert_eq!(stores.blocks.blocked(&sides).await.expect(WORKS), [true, false]);
    assert_eq!(blocks(&stores, user_id).await, [blocked_id]);
    assert_eq!(blocks(&stores, blocked_id).await, []);
}

/// Blocks are listed by id, and each page goes on behind the last of the page before, whether that one is still blocked
/// or not. Nobody else's blocks are among them.
pub async fn blocks_are_by_id_page_by_page(stores: Stores) {
    let [user_id, before, behind] = [0x50, 0x4f, 0x51].map(|byte| UserId::from_bytes([byte; 16]));
    let ids = [0x00, 0x03, 0x30, 0x80, 0xff].map(|byte| UserId::from_bytes([byte; 16]));
    for blocked_id in [ids[3], ids[0], ids[4], ids[1], ids[2]] {
        for user_id in [user_id, before, behind] {
            block(&stores, user_id, blocked_id).await;
        }
    }
    let page = async |after, limit| stores.blocks.blocks(user_id, after, limit).await.expect(WORKS);
    assert_eq!(page(None, 2).await, ids[..2]);
    stores.blocks.unblock(user_id, ids[1]).await.expect(WORKS);
    assert_eq!(page(Some(ids[1]), 2).await, ids[2..4]);
    assert_eq!(page(Some(ids[3]), 2).await, ids[4..]);
    assert_eq!(page(Some(ids[4]), 2).await, []);
    assert_eq!(page(None, 0).await, []);
}

/// Any number of pairs is looked up, each for itself, in the order asked.
pub async fn blocks_are_looked_up_in_the_order_asked(stores: Stores) {
    let user_id = fresh();
    let mut pairs: Vec<(UserId, UserId)> = (0..250).map(|_| (user_id, fresh())).collect();
    // The same pair may be asked for more than once.
    pairs.push(pairs[7]);
    for n in [7, 99, 100, 249] {
        block(&stores, user_id, pairs[n].1).await;
    }
    let blocked = stores.blocks.blocked(&pairs).await.expect(WORKS);
    let found: Vec<_> = blocked.iter().enumerate().filter_map(|(n, is_blocked)| is_blocked.then_some(n)).collect();
    assert_eq!((blocked.len(), found), (251, vec![7, 99, 100, 249, 250]));
    assert_eq!(stores.blocks.blocked(&[]).await.expect(WORKS), []);
}

/// While one of two has blocked the other, a send of either into their direct chat leaves no trace. Into a group of both
/// they go on writing, and so do others into theirs.
pub async fn g4_neither_writes_to_the_other_while_one_has_blocked(stores: Stores) {
    let (blocker, blocked, other) = (fresh(), fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    let unconcerned = open(&stores, blocked, other).await;
    let group = stores.group(blocker, &[blocked]).await;
    send(&stores, direct, blocked).await.expect_new();
    block(&stores, blocker, blocked).await;

    assert_eq!(send(&stores, direct, blocked).await, BLOCKED);
    assert_eq!(send(&stores, direct, blocker).await, BLOCKING);
    assert_eq!(stores.head_sequence(direct).await.0, 1);
    assert_eq!(stores.messages(direct).await.len(), 1);
    for (chat_id, sender_id) in [(group, blocker), (group, blocked), (unconcerned, blocked)] {
        send(&stores, chat_id, sender_id).await.expect_new();
    }
    // One that is refused stands in nobody's way.
    let batch = [(direct, blocked), (group, blocked), (direct, blocker)];
    let batch = batch.map(|(chat_id, sender_id)| new_message(chat_id, sender_id, "together")).to_vec();
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);
    assert!(matches!(outcomes[..], [BLOCKED, Appended::New(_), BLOCKING]), "{outcomes:?}");

    stores.blocks.unblock(blocker, blocked).await.expect(WORKS);
    assert_eq!(send(&stores, direct, blocked).await.expect_new().sequence.0, 2);
    assert_eq!(send(&stores, direct, blocker).await.expect_new().sequence.0, 3);
}

/// The retry of a send that was committed before the block gets the first answer.
pub async fn g2_a_send_from_before_the_block_is_answered_as_before(stores: Stores) {
    let (blocker, blocked) = (fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    let sends = [blocker, blocked].map(|sender_id| new_message(direct, sender_id, "before"));
    let mut receipts = vec![];
    for send in &sends {
        receipts.push(stores.send(send.clone()).await.expect_new());
    }
    block(&stores, blocker, blocked).await;
    for (send, receipt) in sends.iter().zip(receipts) {
        assert_eq!(stores.send(retry_of(send)).await, Appended::Duplicate(receipt));
        let reused = NewMessage { content: "other".to_owned().try_into().expect("it is valid"), ..retry_of(send) };
        assert_eq!(stores.send(reused).await, Appended::Refused(SendRefusal::KeyReused));
    }
}

/// Of two who have blocked each other, each is told of their own block, and taking back one leaves the other.
pub async fn two_blocks_are_lifted_one_by_one(stores: Stores) {
    let (one, other) = (fresh(), fresh());
    let direct = open(&stores, one, other).await;
    block(&stores, one, other).await;
    block(&stores, other, one).await;
    let both = async || [send(&stores, direct, one).await, send(&stores, direct, other).await];
    assert_eq!(both().await, [BLOCKING, BLOCKING]);
    stores.blocks.unblock(one, other).await.expect(WORKS);
    assert_eq!(both().await, [BLOCKED, BLOCKING]);
    stores.blocks.unblock(other, one).await.expect(WORKS);
    for outcome in both().await {
        outcome.expect_new();
    }
}

/// A pair that has no direct chat gets none while one has blocked the other; one that is there is found.
pub async fn no_chat_is_opened_over_a_block(stores: Stores) {
    let (blocker, blocked) = (fresh(), fresh());
    block(&stores, blocker, blocked).await;
    let ask = async |by, other| stores.chat_writer.create_direct(direct_chat(by, other)).await.expect(WORKS);
    assert_eq!(ask(blocked, blocker).await, Err(ChatRefusal::Blocked));
    assert_eq!(ask(blocker, blocked).await, Err(ChatRefusal::Blocking));
    for user_id in [blocker, blocked] {
        assert_eq!(stores.chat_reader.memberships(user_id).await.expect(WORKS), []);
    }

    stores.blocks.unblock(blocker, blocked).await.expect(WORKS);
    let opened = ask(blocked, blocker).await.expect("the block is taken back");
    assert!(matches!(opened, CreatedChat::New(_)), "{opened:?}");
    block(&stores, blocker, blocked).await;
    assert_eq!(ask(blocked, blocker).await, Ok(CreatedChat::Existing(opened.chat().clone())));
    assert_eq!(send(&stores, opened.chat().chat_id, blocked).await, BLOCKED);
}

/// Whichever is first, a block and the opening of the pair's chat: no message of the blocked one comes through.
pub async fn of_a_block_and_an_opening_at_once_one_sees_the_other(stores: Stores) {
    let pairs: Vec<(UserId, UserId)> = (0..16).map(|_| (fresh(), fresh())).collect();
    let opened = at_once(pairs.iter().copied().map(|(blocker, blocked)| {
        let stores = stores.clone();
        async move {
            let asked = direct_chat(blocked, blocker);
            let (opened, is_blocked) =
                futures_util::join!(stores.chat_writer.create_direct(asked), stores.blocks.block(blocker, blocked));
            assert!(is_blocked.expect(WORKS));
            opened.expect(WORKS)
        }
    }))
    .await;
    for ((_, blocked), opened) in pairs.into_iter().zip(opened) {
        match opened {
            Ok(created) => assert_eq!(send(&stores, created.chat().chat_id, blocked).await, BLOCKED),
            Err(refusal) => assert_eq!(refusal, ChatRefusal::Blocked),
        }
    }
}

/// What is changed about a member leaves their blocks alone.
pub async fn a_mute_lifts_no_block(stores: Stores) {
    let (blocker, blocked) = (fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    block(&stores, blocker, blocked).await;
    for until in [Some(Timestamp::MAX), None] {
        for user_id in [blocker, blocked] {
            stores.apply(direct, user_id, ChatCommand::Mute { until }).await.expect("members mute");
            let member = stores.chat_reader.member(direct, user_id).await.expect(WORKS).expect("they are a member");
            assert_eq!(member.muted_until, until);
        }
        assert_eq!(send(&stores, direct, blocked).await, BLOCKED);
        assert_eq!(send(&stores, direct, blocker).await, BLOCKING);
    }
}

/// Whoever goes has blocked nobody any more. What others have blocked stays.
pub async fn who_goes_leaves_no_block(stores: Stores) {
    let (gone, other, third) = (fresh(), fresh(), fresh());
    let direct = open(&stores, gone, other).await;
    for (user_id, blocked_id) in [(gone, other), (gone, third), (third, gone)] {
        block(&stores, user_id, blocked_id).await;
    }
    for _ in 0..2 {
        stores.blocks.forget_user(gone).await.expect(WORKS);
        assert_eq!(blocks(&stores, gone).await, []);
        assert_eq!(blocks(&stores, third).await, [gone]);
    }
    send(&stores, direct, other).await.expect_new();
}

async fn blocks(stores: &Stores, user_id: UserId) -> Vec<UserId> {
    stores.blocks.blocks(user_id, None, 100).await.expect(WORKS)
}

async fn block(stores: &Stores, user_id: UserId, blocked_id: UserId) {
    assert!(stores.blocks.block(user_id, blocked_id).await.expect(WORKS));
}

async fn open(stores: &Stores, one: UserId, other: UserId) -> ChatId {
    let opened = stores.chat_writer.create_direct(direct_chat(one, other)).await.expect(WORKS);
    opened.expect("nobody has blocked anybody").chat().chat_id
}

async fn send(stores: &Stores, chat_id: ChatId, sender_id: UserId) -> Appended {
    stores.send(new_message(chat_id, sender_id, "hello")).await
}
