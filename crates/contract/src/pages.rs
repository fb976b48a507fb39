//! Tests of [`MessageReader`](ports::MessageReader).

use std::time::Duration;

use domain::limits::MESSAGE_FIELDS_BYTES;
use domain::{ChatId, Sequence, Timestamp, Ttl};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, expired, fresh, new_message, now, sequences};
use ports::{Head, NewMessage, Page, PageBounds};

/// A page has all messages above its cursor, ascending, and the head of the chat.
pub async fn g6_a_page_holds_everything_above_its_cursor(stores: ContractStores) {
    let (chat_id, _) = stores.chat_with_head(5).await;
    for (after, expected) in [(0, vec![1, 2, 3, 4, 5]), (3, vec![4, 5]), (5, vec![])] {
        let page = stores.after(chat_id, after).await;
        assert_eq!(sequences(&page.messages), expected);
        assert_eq!((page.examined, page.head), (Sequence(5), Sequence(5)));
    }
}

/// A page has only messages of its own chat, however close the ids of two chats are.
pub async fn g6_a_page_is_of_one_chat(stores: ContractStores) {
    let (one, sender_id) = stores.chat_with_head(2).await;
    let other = stores.group(sender_id, &[]).await;
    stores.fill(other, sender_id, 3).await;
    for (chat_id, expected) in [(one, vec![1, 2]), (other, vec![1, 2, 3])] {
        let page = stores.after(chat_id, 0).await;
        assert_eq!(sequences(&page.messages), expected);
        assert!(page.messages.iter().all(|message| message.chat_id == chat_id));
        let newest_first = stores.message_reader.before(chat_id, Sequence(100), 100, now()).await.expect(WORKS);
        assert_eq!(newest_first.len(), expected.len());
    }
}

/// A page examines at most `count` rows, and the next one continues after the last examined row.
pub async fn g6_a_page_is_bounded_by_count(stores: ContractStores) {
    let (chat_id, _) = stores.chat_with_head(5).await;
    let pages = read_all(&stores, chat_id, PageBounds { count: 2, bytes: usize::MAX }, now()).await;
    assert_eq!(
        pages.iter().map(|page| sequences(&page.messages)).collect::<Vec<_>>(),
        [vec![1, 2], vec![3, 4], vec![5]]
    );
    assert_eq!(pages.iter().map(|page| page.examined.0).collect::<Vec<_>>(), [2, 4, 5]);
}

/// A page has at most `bytes` bytes of messages, but always at least one message.
pub async fn g6_a_page_is_bounded_by_bytes(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    for len in [10, 10, 10, 50, 10] {
        stores.send(new_message(chat_id, sender_id, &"x".repeat(len))).await.expect_new();
    }
    let bytes = 2 * MESSAGE_FIELDS_BYTES + 25;
    let pages = read_all(&stores, chat_id, PageBounds { count: 100, bytes }, now()).await;
    assert_eq!(
        pages.iter().map(|page| sequences(&page.messages)).collect::<Vec<_>>(),
        [vec![1, 2], vec![3], vec![4], vec![5]]
    );
    assert_eq!(pages.iter().map(|page| page.examined.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
}

/// The bytes of a page are those of JSON, in which some characters are longer than in the content.
pub async fn g6_a_page_counts_characters_as_json_escapes_them(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    for content in ["\u{1}\u{2}\u{1f}", "\"\\\n", "é\u{7f}x"] {
        for _ in 0..2 {
            stores.send(new_message(chat_id, sender_id, content)).await.expect_new();
        }
    }
    for (bytes, expected) in [
        (0, vec![vec![1], vec![2], vec![3], vec![4], vec![5], vec![6]]),
        (2 * (MESSAGE_FIELDS_BYTES + 18) - 1, vec![vec![1], vec![2, 3], vec![4, 5], vec![6]]),
        (2 * (MESSAGE_FIELDS_BYTES + 18), vec![vec![1, 2], vec![3, 4], vec![5, 6]]),
        (2 * (MESSAGE_FIELDS_BYTES + 4), vec![vec![1], vec![2], vec![3], vec![4], vec![5, 6]]),
    ] {
        let pages = read_all(&stores, chat_id, PageBounds { count: 100, bytes }, now()).await;
        assert_eq!(pages.iter().map(|page| sequences(&page.messages)).collect::<Vec<_>>(), expected, "{bytes}");
    }
}

/// An unknown chat has an empty page and no head.
pub async fn g6_a_chat_that_does_not_exist_has_an_empty_page(stores: ContractStores) {
    let nowhere = fresh();
    let empty = Page::default();
    assert_eq!(stores.after(nowhere, 0).await, empty);
    assert_eq!(stores.message_reader.before(nowhere, Sequence(9), 9, now()).await.expect(WORKS), []);
    assert_eq!(stores.message_reader.head(nowhere).await.expect(WORKS), None);
}

/// A cursor above the head returns an empty page and the head.
pub async fn g6_a_cursor_above_the_head_returns_the_head(stores: ContractStores) {
    let (chat_id, _) = stores.chat_with_head(3).await;
    let end = Page { examined: Sequence(3), head: Sequence(3), ..Page::default() };
    assert_eq!(stores.after(chat_id, 7).await, end);
}

/// Heads are in the order of the arguments; an unknown chat is `None`.
pub async fn heads_are_in_the_order_asked(stores: ContractStores) {
    let (one, sender_id) = stores.chat_with_head(2).await;
    let empty = stores.group(sender_id, &[]).await;
    let heads = stores.message_reader.heads(&[empty, fresh(), one, empty]).await.expect(WORKS);
    let one_head = Some(stores.head(one).await);
    let empty = Some(Head { changes: 1, ..Head::default() });
    assert_eq!(heads, [empty.clone(), None, one_head, empty]);
}

/// History is newest first, below its bound.
pub async fn history_is_newest_first_below_its_bound(stores: ContractStores) {
    let (chat_id, _) = stores.chat_with_head(5).await;
    for (before, count, expected) in
        [(6, 2, vec![5, 4]), (4, 10, vec![3, 2, 1]), (1, 10, vec![]), (100, 3, vec![5, 4, 3])]
    {
        let page = stores.message_reader.before(chat_id, Sequence(before), count, now()).await.expect(WORKS);
        assert_eq!(sequences(&page), expected);
    }
}

/// An unknown message id finds nothing.
pub async fn by_id_finds_nothing_under_an_unknown_id(stores: ContractStores) {
    stores.chat_with_head(1).await;
    assert_eq!(stores.message_reader.by_id(fresh(), now()).await.expect(WORKS), None);
}

/// A message is in every read until the millisecond at which it expires, and in none after.
pub async fn g11_an_expired_message_is_in_no_read(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let message = NewMessage { ttl: Ttl::from_secs(3600), ..new_message(chat_id, sender_id, "for an hour") };
    stores.send(message.clone()).await.expect_new();
    let expires_at = message.created_at + Duration::from_secs(3600);

    let reader = &stores.message_reader;
    let bounds = PageBounds { count: 10, bytes: usize::MAX };
    for (now, visible) in [(expires_at.minus(Duration::from_millis(1)), 1), (expires_at, 0)] {
        assert_eq!(reader.after(chat_id, Sequence::ZERO, bounds, now).await.expect(WORKS).messages.len(), visible);
        assert_eq!(reader.before(chat_id, Sequence(9), 9, now).await.expect(WORKS).len(), visible);
        assert_eq!(reader.by_id(message.message_id, now).await.expect(WORKS).iter().count(), visible);
    }
    let last_message = stores.head(chat_id).await.last_message.expect("the message was the last");
    assert_eq!(last_message.expires_at, Some(expires_at));
}

/// Expired messages count towards the page's `count`, and each page continues after the rows that it examined. A cursor
/// therefore moves through empty pages and reaches the head, even if no message is left there.
pub async fn g11_a_page_of_expired_messages_is_empty_and_moves_on(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    // The messages expire only for this reader, with a clock one hour ahead, so no background task has purged them yet.
    let expiring = || NewMessage { ttl: Ttl::from_secs(600), ..new_message(chat_id, sender_id, "gone") };
    let kept = new_message(chat_id, sender_id, "kept");
    let batch = vec![expiring(), expiring(), expiring(), kept, expiring()];
    stores.message_writer.append(batch).await.expect(WORKS);

    let later = now() + Duration::from_secs(3600);
    let pages = read_all(&stores, chat_id, PageBounds { count: 2, bytes: usize::MAX }, later).await;
    let seen: Vec<_> = pages.iter().map(|page| (sequences(&page.messages), page.examined.0, page.head.0)).collect();
    assert_eq!(seen, [(vec![], 2, 5), (vec![4], 4, 5), (vec![], 5, 5)]);
    let history = stores.message_reader.before(chat_id, Sequence(6), 1, later).await.expect(WORKS);
    assert_eq!(sequences(&history), [4], "expired messages do not count in history");
}

/// A purged message is in no read, and the inbox has no preview of it. Its sequence is skipped and never reused.
pub async fn g11_a_purged_message_keeps_its_sequence_and_no_preview(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    stores.send(new_message(chat_id, sender_id, "kept")).await.expect_new();
    let gone = expired(new_message(chat_id, sender_id, "gone"));
    stores.send(gone.clone()).await.expect_new();
    stores.sabotage.purge_expired().await;

    let page = stores.after(chat_id, 0).await;
    assert_eq!((sequences(&page.messages), page.examined, page.head), (vec![1], Sequence(2), Sequence(2)));
    // Even for a reader with a clock before the expiry time.
    let earlier = gone.created_at;
    assert_eq!(stores.message_reader.by_id(gone.message_id, earlier).await.expect(WORKS), None);
    let history = stores.message_reader.before(chat_id, Sequence(9), 9, earlier).await.expect(WORKS);
    assert_eq!(sequences(&history), [1]);
    let head = stores.head(chat_id).await;
    let last_message = head.last_message.expect("the head keeps what it says of its last message");
    assert_eq!((head.sequence, last_message.message_id, last_message.preview), (Sequence(2), gone.message_id, None));
    let next = stores.send(new_message(chat_id, sender_id, "next")).await.expect_new();
    assert_eq!(next.sequence, Sequence(3));
}

/// Reads a chat page by page like a client, until a page reaches the head.
async fn read_all(stores: &ContractStores, chat_id: ChatId, bounds: PageBounds, now: Timestamp) -> Vec<Page> {
    let mut pages: Vec<Page> = vec![];
    let mut after = Sequence::ZERO;
    loop {
        let page = stores.message_reader.after(chat_id, after, bounds, now).await.expect(WORKS);
        assert!(page.examined > after || page.examined == page.head, "a page moves on: {page:?}");
        let more = page.examined < page.head;
        after = page.examined;
        pages.push(page);
        if !more {
            return pages;
        }
    }
}
