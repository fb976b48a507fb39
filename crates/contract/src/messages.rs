//! Tests of [`MessageWriter`](ports::MessageWriter).

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{ChatCommand, ChatUpdate, ContentType, Sequence, Ttl};
use futures_util::FutureExt;

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, at_once, body, fresh, new_message, now, retry_of, sequences, with_metadata};
use ports::{AppendOutcome, LastMessage, NewMessage, Receipt, SendRefusal};

/// A send to a chat with head 10 gets sequence 11; head, message and send key are written.
pub async fn adr_004_scenario_1_basic_sequence_allocation(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let message = new_message(chat_id, sender_id, "eleventh");
    let receipt = stores.send(message.clone()).await.expect_new();

    let expected = Receipt { message_id: message.message_id, sequence: Sequence(11), created_at: message.created_at };
    assert_eq!(receipt, expected);
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(11));
    assert_eq!(stores.after(chat_id, 10).await.messages[0].message_id, message.message_id);
    assert_eq!(stores.send(retry_of(&message)).await, AppendOutcome::Duplicate(expected));
}

/// A retry returns the first receipt and writes nothing.
pub async fn adr_004_scenario_2_idempotent_retry(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let message = new_message(chat_id, sender_id, "eleventh");
    let first = stores.send(message.clone()).await.expect_new();
    let (head, messages) = (stores.head(chat_id).await, stores.messages(chat_id).await);

    assert_eq!(stores.send(retry_of(&message)).await, AppendOutcome::Duplicate(first));
    assert_eq!(stores.head(chat_id).await, head);
    assert_eq!(stores.messages(chat_id).await, messages);
}

/// Three concurrent writers get 11, 12 and 13, in some order.
pub async fn adr_004_scenario_3_concurrent_writers(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let outcomes = at_once((0..3).map(|n| {
        let (stores, message) = (stores.clone(), new_message(chat_id, sender_id, &format!("writer {n}")));
        async move { stores.append_racing(vec![message]).await[0].sequence.0 }
    }))
    .await;

    assert_eq!(outcomes.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([11, 12, 13]));
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(13));
    assert_eq!(sequences(&stores.after(chat_id, 10).await.messages), [11, 12, 13]);
}

/// Concurrent attempts of one send create one message, one receipt and, unlike in the ADR, no gap (correction C1).
pub async fn adr_004_scenario_4_race_on_idempotency(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let message = new_message(chat_id, sender_id, "raced");
    let outcomes = at_once((0..8).map(|_| {
        let (stores, retry) = (stores.clone(), retry_of(&message));
        async move { stores.send(retry).await }
    }))
    .await;

    let winner = outcomes.iter().find_map(|outcome| match outcome {
        AppendOutcome::New(receipt) => Some(*receipt),
        _ => None,
    });
    let winner = winner.expect("one of the tries is the first");
    assert_eq!(winner.sequence, Sequence(11));
    let duplicates = outcomes.iter().filter(|outcome| **outcome == AppendOutcome::Duplicate(winner)).count();
    assert_eq!(duplicates, 7);
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(11));
    assert_eq!(sequences(&stores.after(chat_id, 10).await.messages), [11]);
}

/// If a caller is cancelled during a send, the send is either complete or absent, and a retry returns which. No
/// sequence is lost in either case (correction C1).
pub async fn adr_004_scenario_5_failure_after_allocation(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let message = new_message(chat_id, sender_id, "interrupted");
    // The future is polled once and then dropped, at any stage of the commit.
    drop(stores.message_writer.append(vec![message.clone()]).now_or_never());

    let sequence = match stores.send(retry_of(&message)).await {
        AppendOutcome::New(receipt) | AppendOutcome::Duplicate(receipt) => receipt.sequence,
        refused => panic!("the retry was not taken: {refused:?}"),
    };
    assert_eq!(sequence, Sequence(11));
    assert_eq!(sequences(&stores.after(chat_id, 10).await.messages), [11]);
    let next = stores.send(new_message(chat_id, sender_id, "next")).await.expect_new();
    assert_eq!(next.sequence, Sequence(12));
}

/// The first message of a new chat has sequence 1.
pub async fn adr_004_scenario_6_first_message_of_a_new_chat(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    assert_eq!(stores.head_sequence(chat_id).await, Sequence::ZERO);
    let first = stores.send(new_message(chat_id, sender_id, "first")).await.expect_new();
    assert_eq!(first.sequence, Sequence(1));
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(1));
    assert_eq!(sequences(&stores.messages(chat_id).await), [1]);
}

/// A chat without a head row accepts no new message, in any batch, and never starts at 1 again. A retry of an earlier
/// send still returns its receipt, because the key is checked before the head.
pub async fn adr_004_scenario_7_counter_missing(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(10).await;
    let committed = new_message(chat_id, sender_id, "eleventh");
    let receipt = stores.send(committed.clone()).await.expect_new();
    let other_chat = stores.group(sender_id, &[]).await;
    stores.sabotage.drop_head(chat_id).await;

    let lost = new_message(chat_id, sender_id, "no place for it");
    let batch = vec![lost.clone(), new_message(other_chat, sender_id, "elsewhere"), retry_of(&committed)];
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);
    assert_eq!(outcomes[0], AppendOutcome::Refused(SendRefusal::CounterMissing));
    assert_eq!(outcomes[1].expect_new().sequence, Sequence(1));
    assert_eq!(outcomes[2], AppendOutcome::Duplicate(receipt));
    assert_eq!(stores.message_reader.head(chat_id).await.expect(WORKS), None);
    assert_eq!(stores.message_reader.by_id(lost.message_id, now()).await.expect(WORKS), None);
}

/// An acknowledged message is in every later read, unchanged.
pub async fn g1_an_acknowledged_message_is_in_every_read(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = NewMessage {
        body: with_metadata(body("*hello*", ContentType::Markdown), r#"{"a":[1,null]}"#),
        ttl: Ttl::from_secs(3600),
        ..new_message(chat_id, sender_id, "-")
    };
    stores.send(sent.clone()).await.expect_new();

    let message = stores.messages(chat_id).await.remove(0);
    assert_eq!(message.message_id, sent.message_id);
    assert_eq!(message.chat_id, chat_id);
    assert_eq!(message.sequence, Sequence(1));
    assert_eq!(message.sender_id, sender_id);
    assert_eq!(message.client_message_id, sent.client_message_id);
    assert_eq!(message.body, sent.body);
    assert_eq!(message.created_at, sent.created_at);
    assert_eq!(message.expires_at, Some(sent.created_at + Duration::from_secs(3600)));

    let reader = &stores.message_reader;
    assert_eq!(reader.by_id(sent.message_id, now()).await.expect(WORKS).as_ref(), Some(&message));
    assert_eq!(reader.before(chat_id, Sequence(2), 10, now()).await.expect(WORKS), [message]);
}

/// The head has the last message of the chat, without a preview if the content is opaque.
pub async fn g1_the_head_follows_the_last_message(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    assert_eq!(stores.head(chat_id).await.last_message, None);

    let long = new_message(chat_id, sender_id, &"é".repeat(200));
    let encrypted =
        NewMessage { body: body("unreadable", ContentType::Encrypted), ..new_message(chat_id, sender_id, "-") };
    for (sent, preview) in [(long, Some("é".repeat(100).try_into().expect("it is short enough"))), (encrypted, None)] {
        let receipt = stores.send(sent.clone()).await.expect_new();
        let head = stores.head(chat_id).await;
        assert_eq!(head.sequence, receipt.sequence);
        let expected = LastMessage {
            message_id: sent.message_id,
            sequence: receipt.sequence,
            sender_id,
            preview,
            created_at: sent.created_at,
            expires_at: None,
        };
        assert_eq!(head.last_message, Some(expected));
    }
}

/// Two members with the same client message id send two messages (correction C4).
pub async fn g2_the_key_includes_the_sender(stores: ContractStores) {
    let (one, other) = (fresh(), fresh());
    let chat_id = stores.group(one, &[other]).await;
    let first = new_message(chat_id, one, "mine");
    let second = NewMessage { client_message_id: first.client_message_id, ..new_message(chat_id, other, "mine too") };

    assert_eq!(stores.send(first).await.expect_new().sequence, Sequence(1));
    assert_eq!(stores.send(second).await.expect_new().sequence, Sequence(2));
}

/// The same client message id in another chat is another send.
pub async fn g2_the_key_includes_the_chat(stores: ContractStores) {
    let (one_chat, sender_id) = stores.chat_of_one().await;
    let other_chat = stores.group(sender_id, &[]).await;
    let first = new_message(one_chat, sender_id, "here");
    let second =
        NewMessage { client_message_id: first.client_message_id, ..new_message(other_chat, sender_id, "there") };

    stores.send(first).await.expect_new();
    stores.send(second).await.expect_new();
    assert_eq!(stores.messages(other_chat).await[0].body.content.as_str(), "there");
}

/// A retry with other content, content type or ttl is refused and changes nothing.
pub async fn g2_a_key_reused_for_something_else_is_refused(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let first = NewMessage { ttl: Ttl::from_secs(600), ..new_message(chat_id, sender_id, "the first") };
    let receipt = stores.send(first.clone()).await.expect_new();

    let other_content = NewMessage { body: body("another", ContentType::Text), ..retry_of(&first) };
    let other_metadata =
        NewMessage { body: with_metadata(body("the first", ContentType::Text), "{}"), ..retry_of(&first) };
    let other_type = NewMessage { body: body("the first", ContentType::Markdown), ..retry_of(&first) };
    let other_ttl = NewMessage { ttl: Ttl::from_secs(601), ..retry_of(&first) };
    let no_ttl = NewMessage { ttl: None, ..retry_of(&first) };
    for reused in [other_content, other_metadata, other_type, other_ttl, no_ttl] {
        assert_eq!(stores.send(reused).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    }
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(1));
    assert_eq!(stores.send(retry_of(&first)).await, AppendOutcome::Duplicate(receipt));
}

/// In one batch, too, the second attempt of a send is a duplicate, or is refused if it differs.
pub async fn g2_a_batch_may_hold_a_send_twice(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let message = new_message(chat_id, sender_id, "once");
    let reused = NewMessage { body: body("twice", ContentType::Text), ..retry_of(&message) };
    let last = new_message(chat_id, sender_id, "last");
    let batch = vec![message.clone(), retry_of(&message), reused, last];
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);

    let receipt = outcomes[0].expect_new();
    assert_eq!(receipt.message_id, message.message_id);
    assert_eq!(outcomes[1], AppendOutcome::Duplicate(receipt));
    assert_eq!(outcomes[2], AppendOutcome::Refused(SendRefusal::KeyReused));
    assert_eq!(outcomes[3].expect_new().sequence, Sequence(2));
    assert_eq!(sequences(&stores.messages(chat_id).await), [1, 2]);
}

/// A retry of a send with an expired message is a duplicate, not a second message.
pub async fn g2_a_key_outlives_its_message(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let message = NewMessage {
        ttl: Ttl::from_secs(1),
        created_at: now().minus(Duration::from_secs(60)),
        ..new_message(chat_id, sender_id, "gone soon")
    };
    let receipt = stores.send(message.clone()).await.expect_new();
    assert_eq!(stores.messages(chat_id).await, []);
    assert_eq!(stores.send(NewMessage { created_at: now(), ..message }).await, AppendOutcome::Duplicate(receipt));
}

/// A retry is compared by the requested values, so it still matches after the chat's message ttl has changed.
pub async fn g2_a_retry_matches_after_the_chat_has_changed_its_ttl(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let message = new_message(chat_id, sender_id, "asked once");
    let receipt = stores.send(message.clone()).await.expect_new();
    let shorten = ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(600)));
    stores.apply(chat_id, sender_id, shorten).await.expect("owners decide how long messages live");

    assert_eq!(stores.send(retry_of(&message)).await, AppendOutcome::Duplicate(receipt));
    let as_now = NewMessage { ttl: Ttl::from_secs(600), ..retry_of(&message) };
    assert_eq!(stores.send(as_now).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    assert_eq!(stores.messages(chat_id).await[0].expires_at, None);
}

/// With concurrent writers, the sequences of a chat are 1 to n, each once.
pub async fn g3_sequences_are_contiguous_under_concurrent_writers(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let sent = at_once((0..8).map(|writer| {
        let stores = stores.clone();
        async move {
            let mut sequences = vec![];
            for len in 1..=6 {
                let batch = (0..len).map(|n| new_message(chat_id, sender_id, &format!("{writer}: {n}"))).collect();
                let receipts = stores.append_racing(batch).await;
                sequences.extend(receipts.into_iter().map(|receipt| receipt.sequence.0));
            }
            // The sends of one caller commit in their order.
            assert!(sequences.is_sorted(), "{sequences:?}");
            sequences
        }
    }))
    .await;

    let total = 8 * (1 + 2 + 3 + 4 + 5 + 6);
    let everything: Vec<u64> = (1..=total).collect();
    let mut acknowledged = sent.concat();
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, everything);
    assert_eq!(sequences(&stores.messages(chat_id).await), everything);
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(total));
}

/// A concurrent reader never sees a sequence before all lower ones.
pub async fn g3_sequences_become_visible_in_order(stores: ContractStores) {
    const WRITERS: u64 = 4;
    const SENDS: u64 = 50;
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let stores = stores.clone();
            tokio::spawn(async move {
                for _ in 0..SENDS {
                    stores.append_racing(vec![new_message(chat_id, sender_id, "racing")]).await;
                }
            })
        })
        .collect();

    let mut seen = 0;
    loop {
        // Read before the page, so that the last round sees all messages.
        let finished = writers.iter().all(|writer| writer.is_finished());
        let page = stores.after(chat_id, 0).await;
        let contiguous: Vec<u64> = (1..=page.examined.0).collect();
        assert_eq!(sequences(&page.messages), contiguous);
        assert!(page.examined.0 >= seen && page.head == page.examined);
        seen = page.examined.0;
        if finished {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(seen, WRITERS * SENDS);
}

/// Refused sends use no sequence: the next accepted send of the batch continues without a gap.
pub async fn g3_refused_sends_use_no_sequence(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_with_head(3).await;
    let outsider = fresh();
    let batch = vec![
        new_message(chat_id, sender_id, "fourth"),
        new_message(chat_id, outsider, "let me in"),
        new_message(fresh(), sender_id, "nowhere"),
        new_message(chat_id, sender_id, "fifth"),
    ];
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);
    assert_eq!(outcomes[0].expect_new().sequence, Sequence(4));
    assert_eq!(outcomes[1], AppendOutcome::Refused(SendRefusal::NotAMember));
    assert_eq!(outcomes[2], AppendOutcome::Refused(SendRefusal::ChatNotFound));
    assert_eq!(outcomes[3].expect_new().sequence, Sequence(5));
    assert_eq!(sequences(&stores.after(chat_id, 3).await.messages), [4, 5]);
}

/// Sequences are per chat, also within one batch, and outcomes are in the order of the batch.
pub async fn g3_sequences_of_a_batch_are_per_chat(stores: ContractStores) {
    let (one, sender_id) = stores.chat_with_head(2).await;
    let other = stores.group(sender_id, &[]).await;
    let batch: Vec<_> =
        [one, other, other, one].into_iter().map(|chat_id| new_message(chat_id, sender_id, "to many")).collect();
    let message_ids: Vec<_> = batch.iter().map(|message| message.message_id).collect();
    let receipts: Vec<_> =
        stores.message_writer.append(batch).await.expect(WORKS).into_iter().map(AppendOutcome::expect_new).collect();

    assert_eq!(receipts.iter().map(|receipt| receipt.message_id).collect::<Vec<_>>(), message_ids);
    assert_eq!(receipts.iter().map(|receipt| receipt.sequence.0).collect::<Vec<_>>(), [3, 1, 2, 4]);
    assert_eq!(stores.head_sequence(one).await, Sequence(4));
    assert_eq!(stores.head_sequence(other).await, Sequence(2));
}

/// Non-members cannot send. Former members cannot either, not even to get the receipt of an earlier send (C4).
pub async fn g4_only_members_send(stores: ContractStores) {
    let (owner, member, outsider) = (fresh(), fresh(), fresh());
    let chat_id = stores.group(owner, &[member]).await;
    let committed = new_message(chat_id, member, "while I was here");
    stores.send(committed.clone()).await.expect_new();

    let remove = ChatCommand::RemoveMember { user_id: member };
    stores.apply(chat_id, owner, remove).await.expect("an owner removes members");
    for refused in [new_message(chat_id, outsider, "hello?"), new_message(chat_id, member, "?"), retry_of(&committed)] {
        assert_eq!(stores.send(refused).await, AppendOutcome::Refused(SendRefusal::NotAMember));
    }
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(1));
}

/// Every send of a batch has its own outcome at its own index; an empty batch has none.
pub async fn g5_every_send_of_a_batch_has_an_outcome_at_its_index(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let early = new_message(chat_id, sender_id, "early");
    let receipt = stores.send(early.clone()).await.expect_new();
    let batch =
        vec![new_message(fresh(), sender_id, "nowhere"), retry_of(&early), new_message(chat_id, sender_id, "late")];
    let outcomes = stores.message_writer.append(batch).await.expect(WORKS);
    assert_eq!(outcomes.len(), 3);
    assert_eq!(outcomes[0], AppendOutcome::Refused(SendRefusal::ChatNotFound));
    assert_eq!(outcomes[1], AppendOutcome::Duplicate(receipt));
    assert_eq!(outcomes[2].expect_new().sequence, Sequence(2));
    assert_eq!(stores.message_writer.append(vec![]).await.expect(WORKS), []);
}

/// The lifetime of a message is its own ttl, or else the chat's message ttl at the time of the commit.
pub async fn g11_a_message_lives_as_long_as_it_or_its_chat_says(stores: ContractStores) {
    let (chat_id, sender_id) = stores.chat_of_one().await;
    let mut expected = vec![];
    for message_ttl in [None, Ttl::from_secs(600), Ttl::from_secs(900), None] {
        let update = ChatCommand::Update(ChatUpdate::message_ttl(message_ttl));
        stores.apply(chat_id, sender_id, update).await.expect("owners decide how long messages live");
        let silent = new_message(chat_id, sender_id, "as the chat says");
        let own = NewMessage { ttl: Ttl::from_secs(60), ..new_message(chat_id, sender_id, "for a minute") };
        expected.push(Some(own.created_at + Duration::from_secs(60)));
        expected.push(message_ttl.map(|ttl| silent.created_at + ttl.as_duration()));
        // In this order, so that the send without a ttl follows a head row that a send has written.
        for message in [own, silent] {
            stores.send(message).await.expect_new();
        }
        assert_eq!(stores.head(chat_id).await.message_ttl, message_ttl);
    }
    let lives: Vec<_> = stores.messages(chat_id).await.iter().map(|message| message.expires_at).collect();
    assert_eq!(lives, expected);
}
