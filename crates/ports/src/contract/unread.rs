//! What [`MessageReader`](crate::MessageReader) promises of unread counts.

use std::time::Duration;

use domain::limits::UNREAD_EXACT_MAX;
use domain::{ChatId, Sequence, Timestamp, Ttl, UserId};

use super::Stores;
use super::fixtures::{WORKS, expired, fresh, new_message, now};
use crate::{NewMessage, UnreadQuery};

/// What others sent above the watermark is unread, and nothing below it or of another chat.
pub async fn g10_what_others_sent_above_the_watermark_is_unread(stores: Stores) {
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

/// Nobody has to read what they wrote.
pub async fn g10_a_readers_own_messages_are_not_unread(stores: Stores) {
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

/// An expired message is unread until the millisecond it expires, and not from then on.
pub async fn g10_expired_messages_are_not_unread(stores: Stores) {
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

/// A purged message is not unread, whatever the reader's clock says, and whether or not the head row is there.
pub async fn g10_purged_messages_are_not_unread(stores: Stores) {
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

/// Only so many rows above the watermark are looked at. Further up every sequence is unread, the reader's own too.
pub async fn g10_far_above_the_watermark_every_sequence_is_unread(stores: Stores) {
    let exact = UNREAD_EXACT_MAX as u64;
    let (reader, sender_id) = (fresh(), fresh());
    let chat_id = stores.group(sender_id, &[reader]).await;
    stores.fill(chat_id, reader, exact + 3).await;
    stores.fill(chat_id, sender_id, 2).await;
    for (read, expected) in [(0, 5), (2, 3), (5, 2), (exact + 4, 1)] {
        assert_eq!(unread(&stores, chat_id, reader, read, now()).await, expected, "read up to {read}");
    }
}

/// Counts are in the order asked, and nothing is unread in a chat that does not exist.
pub async fn unread_counts_are_in_the_order_asked(stores: Stores) {
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
    assert_eq!(stores.message_reader.unread(&asked, now()).await.expect(WORKS), [3, 0, 1, 0, 4]);
    assert_eq!(stores.message_reader.unread(&[], now()).await.expect(WORKS), []);
}

async fn unread(stores: &Stores, chat_id: ChatId, reader: UserId, read: u64, now: Timestamp) -> u64 {
    let query = UnreadQuery { chat_id, reader, read: Sequence(read) };
    let counts = stores.message_reader.unread(&[query], now).await.expect(WORKS);
    <[u64; 1]>::try_from(counts).expect("one question has one answer")[0]
}
