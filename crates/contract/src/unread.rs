//! Tests of the unread counts of [`MessageReader`](ports::MessageReader).

use std::time::Duration;

use domain::limits::{UNREAD_EXACT_MAX, UNREAD_ROWS_MAX};
use domain::{ChatId, Sequence, Timestamp, Ttl, UserId};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, expired, fresh, new_message, now};
use ports::{NewMessage, UnreadCount, UnreadQuery};

/// Messages of others above the watermark are unread; messages below it or of other chats are not.
pub async fn g10_messages_of_others_above_the_watermark_are_unread(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    let other_chat = stores.group(sender_id, &[reader]).await;
    stores.fill(chat_id, sender_id, 5).await;
    stores.fill(other_chat, sender_id, 3).await;
    for (read, expected) in [(0, 5), (2, 3), (5, 0), (9, 0)] {
        assert_eq!(unread(&stores, chat_id, reader, read, now()).await, expected, "read up to {read}");
    }
    assert_eq!(unread(&stores, other_chat, reader, 1, now()).await, 2);
}

/// A reader's own messages are not unread.
pub async fn g10_a_readers_own_messages_are_not_unread(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    for author in [sender_id, reader, reader, sender_id, reader] {
        stores.fill(chat_id, author, 1).await;
    }
    for (read, expected) in [(0, 2), (1, 1), (3, 1), (4, 0)] {
        assert_eq!(unread(&stores, chat_id, reader, read, now()).await, expected, "read up to {read}");
    }
    assert_eq!(unread(&stores, chat_id, sender_id, 0, now()).await, 3);
}

/// An expired message is unread until the millisecond at which it expires, and not after.
pub async fn g10_expired_messages_are_not_unread(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    let message = NewMessage { ttl: Ttl::from_secs(3600), ..new_message(chat_id, sender_id, "for an hour") };
    let expires_at = message.created_at + Duration::from_secs(3600);
    stores.send(message).await.expect_new();
    stores.fill(chat_id, sender_id, 1).await;
    let before = expires_at.minus(Duration::from_millis(1));
    assert_eq!(unread(&stores, chat_id, reader, 0, before).await, 2);
    assert_eq!(unread(&stores, chat_id, reader, 0, expires_at).await, 1);
}

/// A purged message is not unread, for any clock of the reader, with or without a head row.
pub async fn g10_purged_messages_are_not_unread(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    let gone = || expired(new_message(chat_id, sender_id, "gone"));
    let kept = || new_message(chat_id, sender_id, "kept");
    let batch = vec![kept(), gone(), kept(), gone()];
    let long_ago = batch[1].created_at;
    stores.message_writer.append(batch).await.expect(WORKS);
    stores.sabotage.purge_expired().await;
    assert_eq!(unread(&stores, chat_id, reader, 0, long_ago).await, 2);
    assert_eq!(unread(&stores, chat_id, reader, 3, long_ago).await, 0);
    stores.sabotage.drop_head(chat_id).await;
    assert_eq!(unread(&stores, chat_id, reader, 0, long_ago).await, 2);
}

/// A count is exact up to its limit, however many of the reader's own messages lie in between. Above the limit it is a
/// lower bound.
pub async fn g10_a_large_unread_count_is_exact_or_a_lower_bound(stores: ContractStores) {
    let exact = UNREAD_EXACT_MAX;
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    stores.fill(chat_id, sender_id, 600).await;
    stores.fill(chat_id, reader, 50).await;
    stores.fill(chat_id, sender_id, exact - 500).await;
    for (read, count, is_exact) in [(0, exact, false), (99, exact, false), (100, exact, true), (101, exact - 1, true)] {
        let query = UnreadQuery { chat_id, reader, read: Sequence(read) };
        let counts = stores.message_reader.unread(&[query], now()).await.expect(WORKS);
        assert_eq!(counts, [UnreadCount { count, is_exact }], "read up to {read}");
    }
    assert_eq!(unread(&stores, chat_id, sender_id, 0, now()).await, 50);
}

/// Only a limited number of rows above the watermark is examined, the newest first, and the answer is marked as
/// inexact.
pub async fn g10_an_unread_count_over_too_many_rows_is_inexact(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    stores.fill(chat_id, sender_id, 1).await;
    stores.fill(chat_id, reader, UNREAD_ROWS_MAX as u64 - 2).await;
    stores.fill(chat_id, sender_id, 2).await;
    for (read, count, is_exact) in [(0, 2, false), (1, 2, true)] {
        let query = UnreadQuery { chat_id, reader, read: Sequence(read) };
        let counts = stores.message_reader.unread(&[query], now()).await.expect(WORKS);
        assert_eq!(counts, [UnreadCount { count, is_exact }], "read up to {read}");
    }
}

/// Counts are in the order of the arguments, and zero for an unknown chat.
pub async fn unread_counts_are_in_the_order_asked(stores: ContractStores) {
    let (reader, sender_id) = (fresh(), fresh());
    let one = stores.group(sender_id, &[reader]).await;
    let other = stores.group(sender_id, &[reader]).await;
    stores.fill(one, sender_id, 1).await;
    stores.fill(other, sender_id, 4).await;
    let query = |chat_id, reader, read| UnreadQuery { chat_id, reader, read: Sequence(read) };
    let asked = [
        query(other, reader, 1),
        query(fresh(), reader, 0),
        query(one, reader, 0),
        query(other, sender_id, 0),
        query(other, reader, 0),
    ];
    let exactly = |count| UnreadCount { count, is_exact: true };
    assert_eq!(stores.message_reader.unread(&asked, now()).await.expect(WORKS), [3, 0, 1, 0, 4].map(exactly));
    assert_eq!(stores.message_reader.unread(&[], now()).await.expect(WORKS), []);
}

async fn unread(stores: &ContractStores, chat_id: ChatId, reader: UserId, read: u64, now: Timestamp) -> u64 {
    let query = UnreadQuery { chat_id, reader, read: Sequence(read) };
    let counts = stores.message_reader.unread(&[query], now).await.expect(WORKS);
    match counts[..] {
        [UnreadCount { count, is_exact: true }] => count,
        _ => panic!("one question has one answer, and few messages are counted exactly: {counts:?}"),
    }
}
