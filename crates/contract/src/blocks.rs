//! Tests of [`BlockStore`](ports::BlockStore), and of the effect of blocks on [`MessageWriter`](ports::MessageWriter)
//! and [`ChatWriter`](ports::ChatWriter).

use domain::{ChatCommand, ChatId, ChatRefusal, ChatUpdate, ContentType, Timestamp, Ttl, UserId};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, at_once, body, direct_chat, fresh, new_message, retry_of};
use ports::{AppendOutcome, CreatedChat, NewMessage, SendRefusal};

const BLOCKED: AppendOutcome = AppendOutcome::Refused(SendRefusal::Blocked);
const BLOCKING: AppendOutcome = AppendOutcome::Refused(SendRefusal::Blocking);

/// A block holds until it is removed; repeating either call changes nothing.
pub async fn a_block_holds_until_it_is_removed(stores: ContractStores) {
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

/// A block has one direction: the blocked user has not blocked the blocker, and cannot remove the block.
pub async fn a_block_has_one_direction(stores: ContractStores) {
    let (user_id, blocked_id) = (fresh(), fresh());
    block(&stores, user_id, blocked_id).await;
    stores.blocks.unblock(blocked_id, user_id).await.expect(WORKS);
    let sides = [(user_id, blocked_id), (blocked_id, user_id)];
    assert_eq!(stores.blocks.blocked(&sides).await.expect(WORKS), [true, false]);
    assert_eq!(blocks(&stores, user_id).await, [blocked_id]);
    assert_eq!(blocks(&stores, blocked_id).await, []);
}

/// Blocks are listed by id. Each page continues after the last id of the page before, even if that block was removed.
/// The list contains no blocks of other users.
pub async fn blocks_are_by_id_page_by_page(stores: ContractStores) {
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

/// Any number of pairs is looked up independently, in the order of the arguments.
pub async fn blocks_are_looked_up_in_the_order_asked(stores: ContractStores) {
    let user_id = fresh();
    let mut pairs: Vec<(UserId, UserId)> = (0..250).map(|_| (user_id, fresh())).collect();
    // The same pair may occur more than once.
    pairs.push(pairs[7]);
    for n in [7, 99, 100, 249] {
        block(&stores, user_id, pairs[n].1).await;
    }
    let blocked = stores.blocks.blocked(&pairs).await.expect(WORKS);
    let found: Vec<_> = blocked.iter().enumerate().filter_map(|(n, is_blocked)| is_blocked.then_some(n)).collect();
    assert_eq!((blocked.len(), found), (251, vec![7, 99, 100, 249, 250]));
    assert!(stores.blocks.blocked(&[]).await.expect(WORKS).is_empty());
}

/// While either user has blocked the other, no send of either into their direct chat is committed. Sends into a group
/// of both, and sends of other users, are not affected.
pub async fn g4_neither_user_sends_to_a_direct_chat_during_a_block(stores: ContractStores) {
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
    // A refused send does not affect the others of its batch.
    let batch = [(direct, blocked), (group, blocked), (direct, blocker)];
    let batch = batch.map(|(chat_id, sender_id)| new_message(chat_id, sender_id, "together")).to_vec();
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);
    assert!(matches!(outcomes[..], [BLOCKED, AppendOutcome::New(_), BLOCKING]), "{outcomes:?}");

    stores.blocks.unblock(blocker, blocked).await.expect(WORKS);
    assert_eq!(send(&stores, direct, blocked).await.expect_new().sequence.0, 2);
    assert_eq!(send(&stores, direct, blocker).await.expect_new().sequence.0, 3);
}

/// A retry of a send that was committed before the block returns the first receipt.
pub async fn g2_a_retry_of_a_send_before_the_block_returns_its_receipt(stores: ContractStores) {
    let (blocker, blocked) = (fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    let sends = [blocker, blocked].map(|sender_id| new_message(direct, sender_id, "before"));
    let mut receipts = vec![];
    for send in &sends {
        receipts.push(stores.send(send.clone()).await.expect_new());
    }
    block(&stores, blocker, blocked).await;
    for (send, receipt) in sends.iter().zip(receipts) {
        assert_eq!(stores.send(retry_of(send)).await, AppendOutcome::Duplicate(receipt));
        let reused = NewMessage { body: body("other", ContentType::Text), ..retry_of(send) };
        assert_eq!(stores.send(reused).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    }
}

/// If both users have blocked each other, each sees their own block, and removing one leaves the other.
pub async fn mutual_blocks_are_removed_one_by_one(stores: ContractStores) {
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

/// A pair without a direct chat cannot open one during a block; an existing chat is returned.
pub async fn no_direct_chat_is_opened_during_a_block(stores: ContractStores) {
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

/// Whether the block or the opening of the chat commits first, no message of the blocked user is committed.
pub async fn a_block_and_a_concurrent_opening_are_serialized(stores: ContractStores) {
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

/// Changing a member row keeps their blocks.
pub async fn a_mute_keeps_blocks(stores: ContractStores) {
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

/// Only direct chats with a block between their users are blocked, for either user; groups of both are not.
pub async fn direct_chats_with_a_block_are_found_in_the_order_asked(stores: ContractStores) {
    let (blocker, blocked, other) = (fresh(), fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    let unconcerned = open(&stores, blocked, other).await;
    let group = stores.group(blocker, &[blocked]).await;
    let chats = [(group, blocker), (direct, blocker), (unconcerned, blocked), (direct, blocked), (fresh(), blocked)];
    let is_blocked = async || stores.chat_reader.blocked_chats(&chats).await.expect(WORKS);
    assert_eq!(is_blocked().await, [false; 5]);
    block(&stores, blocker, blocked).await;
    assert_eq!(is_blocked().await, [false, true, false, true, false]);
    stores.blocks.unblock(blocker, blocked).await.expect(WORKS);
    assert_eq!(is_blocked().await, [false; 5]);
    assert!(stores.chat_reader.blocked_chats(&[]).await.expect(WORKS).is_empty());
}

/// While either user has blocked the other, neither changes the settings of their direct chat. A group of both is not
/// affected.
pub async fn neither_user_changes_the_settings_of_a_direct_chat_during_a_block(stores: ContractStores) {
    let (blocker, blocked) = (fresh(), fresh());
    let direct = open(&stores, blocker, blocked).await;
    let group = stores.group(blocked, &[blocker]).await;
    let change = || ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(60)));
    block(&stores, blocker, blocked).await;
    for (user_id, refusal) in [(blocked, ChatRefusal::Blocked), (blocker, ChatRefusal::Blocking)] {
        assert_eq!(stores.apply(direct, user_id, change()).await.map(drop), Err(refusal));
    }
    assert_eq!(stores.apply(direct, fresh(), change()).await.map(drop), Err(ChatRefusal::NotAMember));
    stores.apply(group, blocked, change()).await.expect("a group is not affected");
    stores.blocks.unblock(blocker, blocked).await.expect(WORKS);
    stores.apply(direct, blocked, change()).await.expect("the block is taken back");
}

/// Deleting an account removes its blocks. Blocks of other users stay.
pub async fn deleting_an_account_removes_its_blocks(stores: ContractStores) {
    let (gone, other, third) = (fresh(), fresh(), fresh());
    let direct = open(&stores, gone, other).await;
    for (user_id, blocked_id) in [(gone, other), (gone, third), (third, gone)] {
        block(&stores, user_id, blocked_id).await;
    }
    for _ in 0..2 {
        stores.blocks.erase_user(gone).await.expect(WORKS);
        assert_eq!(blocks(&stores, gone).await, []);
        assert_eq!(blocks(&stores, third).await, [gone]);
    }
    send(&stores, direct, other).await.expect_new();
}

async fn blocks(stores: &ContractStores, user_id: UserId) -> Vec<UserId> {
    stores.blocks.blocks(user_id, None, 100).await.expect(WORKS)
}

async fn block(stores: &ContractStores, user_id: UserId, blocked_id: UserId) {
    assert!(stores.blocks.block(user_id, blocked_id).await.expect(WORKS));
}

async fn open(stores: &ContractStores, one: UserId, other: UserId) -> ChatId {
    let opened = stores.chat_writer.create_direct(direct_chat(one, other)).await.expect(WORKS);
    opened.expect("there is no block").chat().chat_id
}

async fn send(stores: &ContractStores, chat_id: ChatId, sender_id: UserId) -> AppendOutcome {
    stores.send(new_message(chat_id, sender_id, "hello")).await
}
