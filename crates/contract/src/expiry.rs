//! Tests of [`MessageExpirer`](ports::MessageExpirer).

use std::time::Duration;

use domain::{ChatCommand, ChatId, ChatUpdate, Message, Sequence, Timestamp, Ttl, UpdateRefusal, UserId};

use super::ContractStores;
use super::fixtures::{ExpectNew, UNBOUNDED, WORKS, fresh, new_message, now, retry_of, sequences};
use super::updates::{edit, new_update, react};
use ports::{AppendOutcome, Expiry, MessageKey, NewMessage, SendRefusal, UnreadCount, UnreadQuery};

const AT_ONCE: Expiry = Expiry { sender: None, lifetime: None };

/// A message that was made to expire is in no read, and the inbox shows its expiry if it was the last one.
pub async fn g11_a_message_made_to_expire_is_in_no_read(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(2).await;
    let last = new_message(chat_id, sender_id, "the last");
    stores.send(last.clone()).await.expect_new();
    let ended_at = now();
    assert_eq!(expire_all(&stores, chat_id, AT_ONCE, ended_at).await, 3);

    let page = stores.message_reader.after(chat_id, Sequence::ZERO, UNBOUNDED, ended_at).await.expect(WORKS);
    assert_eq!((page.messages, page.examined, page.head), (vec![], Sequence(3), Sequence(3)));
    assert_eq!(stores.message_reader.before(chat_id, Sequence(9), 9, ended_at).await.expect(WORKS), []);
    assert_eq!(stores.message_reader.by_id(last.message_id, ended_at).await.expect(WORKS), None);
    let unread = UnreadQuery { chat_id, reader: fresh(), read: Sequence::ZERO };
    assert_eq!(stores.message_reader.unread(&[unread], ended_at).await.expect(WORKS), [UnreadCount::NONE]);
    let head = stores.head(chat_id).await;
    let last_message = head.last_message.expect("the head keeps what it says of its last message");
    assert_eq!((head.sequence, last_message.expires_at), (Sequence(3), Some(ended_at)));

    stores.sabotage.purge_expired().await;
    let last_message = stores.head(chat_id).await.last_message.expect("the head keeps it after the purge too");
    assert_eq!((last_message.message_id, last_message.preview), (last.message_id, None));
    let next = stores.send(new_message(chat_id, sender_id, "next")).await.expect_new();
    assert_eq!(next.sequence, Sequence(4), "no sequence is used again");
}

/// Expiring the messages of one sender keeps those of the other.
pub async fn the_messages_of_one_sender_expire_alone(stores: ContractStores) {
    let [owner, member]: [UserId; 2] = [fresh(), fresh()];
    let (chat_id, elsewhere) = (stores.group(owner, &[member]).await, stores.group(owner, &[]).await);
    for (chat_id, sender_id) in
        [(chat_id, owner), (chat_id, member), (chat_id, owner), (chat_id, member), (elsewhere, owner)]
    {
        stores.send(new_message(chat_id, sender_id, "words")).await.expect_new();
    }
    let of_owner = Expiry { sender: Some(owner), ..AT_ONCE };
    assert_eq!(expire_all(&stores, chat_id, of_owner, now()).await, 2);
    assert_eq!(sequences(&stores.messages(chat_id).await), [2, 4]);
    assert_eq!(sequences(&stores.messages(elsewhere).await), [1]);
    let head = stores.head(chat_id).await;
    assert_eq!(head.last_message.expect("there is a last message").expires_at, None, "the last one is another's");
}

/// A lifetime counts from the time of the send. Older messages expire at once, and no message expires later than
/// before.
pub async fn a_lifetime_counts_from_the_time_of_the_send(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let (hour, now) = (Duration::from_secs(3600), now());
    let sent = |ago: Duration, ttl: Option<u64>| NewMessage {
        created_at: now.minus(ago),
        ttl: ttl.and_then(Ttl::from_secs),
        ..new_message(chat_id, sender_id, "words")
    };
    let messages =
        [sent(3 * hour, None), sent(hour, None), sent(hour, Some(4000)), sent(hour, Some(86_400)), sent(hour, None)];
    for message in &messages {
        stores.send(message.clone()).await.expect_new();
    }
    let two_hours = Expiry { sender: None, lifetime: Ttl::from_secs(7200) };
    assert_eq!(expire_all(&stores, chat_id, two_hours, now).await, 4);
    let left = stores.message_reader.after(chat_id, Sequence::ZERO, UNBOUNDED, now).await.expect(WORKS).messages;
    let ends: Vec<_> = left.iter().map(|message| (message.sequence.0, message.expires_at)).collect();
    let shorter = now.minus(hour) + Duration::from_secs(4000);
    assert_eq!(ends, [(2, Some(now + hour)), (3, Some(shorter)), (4, Some(now + hour)), (5, Some(now + hour))]);
}

/// The send key of a message that was made to expire still works: a retry is a duplicate.
pub async fn g2_a_send_key_outlives_a_message_made_to_expire(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let message = new_message(chat_id, sender_id, "once");
    let receipt = stores.send(message.clone()).await.expect_new();
    expire_all(&stores, chat_id, AT_ONCE, now()).await;
    assert_eq!(stores.send(retry_of(&message)).await, AppendOutcome::Duplicate(receipt));
    stores.sabotage.purge_expired().await;
    assert_eq!(stores.send(retry_of(&message)).await, AppendOutcome::Duplicate(receipt));
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(1));
}

/// Many messages expire in steps, each message once; repeating a step changes nothing.
pub async fn many_messages_expire_in_steps(stores: ContractStores) {
    let (chat_id, _) = stores.chat_with_head(1100).await;
    let first = stores.expirer.expire(chat_id, Sequence::ZERO, AT_ONCE, now()).await.expect(WORKS);
    assert!((1..1100).contains(&first.messages) && first.next.is_some(), "{first:?}");
    assert_eq!(first.messages + expire_all(&stores, chat_id, AT_ONCE, now()).await, 1100);
    assert_eq!(expire_all(&stores, chat_id, AT_ONCE, now()).await, 0);
    assert_eq!(stores.messages(chat_id).await, []);
}

/// No lifetime exceeds the longest one of the service: neither a requested one, nor the chat's, nor none at all. A retry
/// still matches, because it repeats the request.
pub async fn g11_no_message_outlives_the_longest_lifetime(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let created_at = now();
    let sent = |ttl: Option<u64>, ttl_max: Option<u64>| NewMessage {
        created_at,
        ttl: ttl.and_then(Ttl::from_secs),
        ttl_max: ttl_max.and_then(Ttl::from_secs),
        ..new_message(chat_id, sender_id, "words")
    };
    let cases = [(None, None), (None, Some(60)), (Some(3600), Some(60)), (Some(30), Some(60)), (Some(3600), None)];
    let sends = cases.map(|(ttl, ttl_max)| sent(ttl, ttl_max));
    for send in &sends {
        stores.send(send.clone()).await.expect_new();
    }
    let two_hours = ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(7200)));
    stores.apply(chat_id, sender_id, two_hours).await.expect("the owner may change it");
    stores.send(sent(None, Some(60))).await.expect_new();
    stores.send(sent(None, None)).await.expect_new();
    let ends: Vec<_> = stores.messages(chat_id).await.iter().map(|message| message.expires_at).collect();
    let after = |seconds: u64| Some(created_at + Duration::from_secs(seconds));
    assert_eq!(ends, [None, after(60), after(60), after(30), after(3600), after(60), after(7200)]);

    let longer = NewMessage { ttl_max: Ttl::from_secs(600), ..retry_of(&sends[2]) };
    assert!(matches!(stores.send(longer).await, AppendOutcome::Duplicate(_)));
}

/// The walk over all chats finds each chat once, with pages of any size.
pub async fn every_chat_is_listed_once(stores: ContractStores) {
    let owner = fresh();
    let mut expected: Vec<ChatId> = vec![];
    for _ in 0..5 {
        expected.push(stores.group(owner, &[]).await);
    }
    expected.sort();
    for count in [1, 2, 5, 100] {
        let (mut listed, mut after) = (vec![], None);
        loop {
            let page = stores.expirer.chat_ids(after.as_ref(), count).await.expect(WORKS);
            listed.extend(page.chat_ids);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        listed.sort();
        assert_eq!(listed, expected, "pages of {count}");
    }
}

/// A message that was updated is made to expire like any other: its state stays until then, its reactions are purged with
/// it, and no update of it is accepted afterwards. Its earlier updates stay, because they have no content.
pub async fn g11_an_updated_message_made_to_expire_loses_its_reactions(stores: ContractStores) {
    let [owner, member]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(owner, &[member]).await;
    let messages = [(owner, "first"), (member, "stays"), (owner, "last")];
    let messages = messages.map(|(sender_id, text)| new_message(chat_id, sender_id, text));
    for message in &messages {
        stores.send(message.clone()).await.expect_new();
    }
    for (user_id, target, action) in
        [(member, 1, react("👍")), (owner, 1, edit("edited")), (owner, 2, react("👍")), (member, 3, react("👍"))]
    {
        stores.update(new_update(chat_id, user_id, target, action)).await.expect_new();
    }
    let before = stores.messages(chat_id).await;
    let hour = Expiry { sender: Some(owner), lifetime: Ttl::from_secs(3600) };
    assert_eq!(expire_all(&stores, chat_id, hour, now()).await, 2);
    let shortened = stores.messages(chat_id).await;
    let states = |messages: &[Message]| {
        messages.iter().map(|message| (message.body.clone(), message.state.clone())).collect::<Vec<_>>()
    };
    assert_eq!(states(&shortened), states(&before));
    assert_eq!(shortened.iter().filter(|message| message.expires_at.is_some()).count(), 2);
    let again = new_update(chat_id, owner, 3, edit("the last"));
    stores.update(again.clone()).await.expect_new();

    let ended_at = now();
    assert_eq!(expire_all(&stores, chat_id, Expiry { sender: Some(owner), ..AT_ONCE }, ended_at).await, 2);
    let [first, stays, last] = [1, 2, 3].map(|n| {
        let message_id = messages[n - 1].message_id;
        MessageKey { chat_id, sequence: Sequence(n as u64), message_id }
    });
    for purged in [false, true] {
        if purged {
            stores.sabotage.purge_expired().await;
        }
        let page = stores.message_reader.after(chat_id, Sequence::ZERO, UNBOUNDED, ended_at).await.expect(WORKS);
        let updates: Vec<_> = page.updates.iter().map(|update| (update.sequence.0, update.target.0)).collect();
        assert_eq!((sequences(&page.messages), page.updated), (vec![2], vec![]));
        assert_eq!(updates, [(4, 1), (5, 1), (6, 2), (7, 3), (8, 3)]);
        for target in [1, 3] {
            let late = stores.update(new_update(chat_id, member, target, react("❤️"))).await;
            assert_eq!(late, AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::MessageNotFound)));
        }
        assert!(matches!(stores.update(again.clone()).await, AppendOutcome::Duplicate(_)));
    }
    let mut left = vec![];
    for key in [first, stays, last] {
        left.push(stores.message_reader.reactions(key, None, 9).await.expect(WORKS).len());
    }
    assert_eq!(left, [0, 1, 0]);
    let last_message = stores.head(chat_id).await.last_message.expect("the head keeps it");
    assert_eq!((last_message.message_id, last_message.preview), (last.message_id, None));
}

/// In an unknown chat there is nothing to expire.
pub async fn an_unknown_chat_has_nothing_to_expire(stores: ContractStores) {
    assert_eq!(expire_all(&stores, fresh(), AT_ONCE, now()).await, 0);
}

/// Runs all steps, and returns the number of changed messages.
async fn expire_all(stores: &ContractStores, chat_id: ChatId, which: Expiry, now: Timestamp) -> usize {
    let (mut from, mut messages) = (Sequence::ZERO, 0);
    loop {
        let step = stores.expirer.expire(chat_id, from, which, now).await.expect(WORKS);
        messages += step.messages;
        let Some(next) = step.next else { return messages };
        assert!(next > from, "a step moves on: {step:?} from {from}");
        from = next;
    }
}
