//! Tests of updates: edits, deletions and reactions as entries of a chat's sequence.

use std::time::Duration;

use domain::limits::MESSAGE_FIELDS_BYTES;
use domain::{
    Body, ChatId, ContentType, Edited, Message, Reaction, ReactionCount, Role, Sequence, Ttl, UpdateAction, UpdateKind,
    UpdateRefusal, UserId,
};

use super::ContractStores;
use super::fixtures::{
    ExpectNew, UNBOUNDED, WORKS, body, expired, fresh, fresh_client_message_id, new_message, now, sequences,
};
use ports::{
    AppendOutcome, MemberReactions, MessageKey, NewEntry, NewMessage, NewUpdate, PageBounds, SendRefusal, UnreadCount,
    UnreadQuery,
};

/// A new update of the message at a sequence.
pub(super) fn new_update(chat_id: ChatId, user_id: UserId, target: u64, action: UpdateAction) -> NewUpdate {
    NewUpdate {
        chat_id,
        user_id,
        client_message_id: fresh_client_message_id(),
        update_id: fresh(),
        target: Sequence(target),
        action,
        window: None,
        ttl_max: None,
        created_at: now(),
    }
}

fn text(text: &str) -> Body {
    body(text, ContentType::Text)
}

fn reaction(text: &str) -> Reaction {
    text.parse().expect("contracts react with valid texts")
}

pub(super) fn edit(new: &str) -> UpdateAction {
    UpdateAction::Edit(text(new))
}

pub(super) fn react(with: &str) -> UpdateAction {
    UpdateAction::React(reaction(with))
}

fn counts(of: &[(&str, u32)]) -> Vec<ReactionCount> {
    of.iter().map(|(text, count)| ReactionCount { reaction: reaction(text), count: *count }).collect()
}

impl ContractStores {
    /// Commits one update.
    pub(super) async fn update(&self, update: NewUpdate) -> AppendOutcome {
        let outcomes = self.message_writer.commit(vec![update.into()]).await.expect(WORKS);
        <[AppendOutcome; 1]>::try_from(outcomes).expect("one update has one outcome")[0]
    }

    async fn message(&self, chat_id: ChatId, sequence: u64) -> Option<Message> {
        let messages = self.message_reader.before(chat_id, Sequence(sequence + 1), 1, now()).await.expect(WORKS);
        messages.into_iter().find(|message| message.sequence.0 == sequence)
    }

    async fn reactions_of(&self, message: &Message) -> Vec<(UserId, Vec<Reaction>)> {
        let members = self.message_reader.reactions(message.into(), None, 1000).await.expect(WORKS);
        members.into_iter().map(|MemberReactions { user_id, reactions }| (user_id, reactions)).collect()
    }
}

/// An update takes the next sequence of its chat, and a page returns it with its message in the new state.
pub async fn an_update_is_an_entry_of_the_sequence(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(2).await;
    let update = new_update(chat_id, author, 1, edit("edited"));
    let receipt = stores.update(update.clone()).await.expect_new();
    assert_eq!((receipt.sequence, receipt.message_id), (Sequence(3), update.update_id));
    let next = stores.send(new_message(chat_id, author, "next")).await.expect_new();
    assert_eq!(next.sequence, Sequence(4));

    let page = stores.after(chat_id, 2).await;
    assert_eq!((sequences(&page.messages), page.examined, page.head), (vec![4], Sequence(4), Sequence(4)));
    let [found] = &page.updates[..] else { panic!("{page:?}") };
    assert_eq!((found.sequence, found.target, &found.kind), (Sequence(3), Sequence(1), &UpdateKind::Edited));
    assert_eq!((found.user_id, found.client_message_id), (author, update.client_message_id));
    let [updated] = &page.updated[..] else { panic!("{page:?}") };
    assert_eq!((updated.sequence, &updated.body), (Sequence(1), &text("edited")));
    assert_eq!(updated.state.revision, Sequence(3));
    let edited = updated.state.edited.expect("it was edited");
    assert_eq!(edited, Edited { at: update.created_at, count: 1 });

    let all = stores.after(chat_id, 0).await;
    assert_eq!((sequences(&all.messages), all.updates.len(), all.updated), (vec![1, 2, 4], 1, vec![]));
    assert_eq!(all.messages[0].body, text("edited"), "a page has the current state");
}

/// Every read of messages returns the current state, and no read of messages returns an update.
pub async fn an_edited_message_is_edited_in_every_read(stores: ContractStores) {
    let (chat_id, author) = stores.chat_of_one().await;
    let sent = new_message(chat_id, author, "first");
    stores.send(sent.clone()).await.expect_new();
    let receipt = stores.update(new_update(chat_id, author, 1, edit("second"))).await.expect_new();
    let reader = &stores.message_reader;
    let found = reader.by_id(sent.message_id, now()).await.expect(WORKS).expect("it is stored");
    assert_eq!(found.body, text("second"));
    assert_eq!(reader.before(chat_id, Sequence(99), 9, now()).await.expect(WORKS), [found]);
    assert_eq!(reader.by_id(receipt.message_id, now()).await.expect(WORKS), None);
    let head = stores.head(chat_id).await;
    let last = head.last_message.expect("there is one");
    assert_eq!((head.sequence, last.sequence), (Sequence(2), Sequence(1)));
    assert_eq!(last.preview, Some("second".to_owned().try_into().expect("it is short")));
}

/// The preview of the inbox follows only the last message.
pub async fn an_update_of_an_earlier_message_keeps_the_preview(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(2).await;
    let before = stores.head(chat_id).await.last_message;
    stores.update(new_update(chat_id, author, 1, edit("edited"))).await.expect_new();
    assert_eq!(stores.head(chat_id).await.last_message, before);
}

/// A retry of an update returns the first receipt and changes nothing; another update under its key is refused.
pub async fn g2_a_retried_update_is_one_update(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(1).await;
    let update = new_update(chat_id, author, 1, react("👍"));
    let receipt = stores.update(update.clone()).await.expect_new();
    let retry = NewUpdate { update_id: fresh(), ..update.clone() };
    assert_eq!(stores.update(retry.clone()).await, AppendOutcome::Duplicate(receipt));
    let in_one_batch = vec![retry.clone().into(), retry.into()];
    let outcomes = stores.message_writer.commit(in_one_batch).await.expect(WORKS);
    assert_eq!(outcomes, [AppendOutcome::Duplicate(receipt); 2]);
    for other in [
        NewUpdate { target: Sequence(2), ..update.clone() },
        NewUpdate { action: react("👎"), ..update.clone() },
        NewUpdate { action: UpdateAction::Unreact(reaction("👍")), ..update.clone() },
    ] {
        assert_eq!(stores.update(other).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    }
    let message = new_message(chat_id, author, "a message");
    let reused = NewMessage { client_message_id: update.client_message_id, ..message };
    assert_eq!(stores.send(reused).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    let found = stores.message(chat_id, 1).await.expect("it is stored");
    assert_eq!(found.state.reactions, counts(&[("👍", 1)]));
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(2));
}

/// Entries of one batch are decided in order, and each sees those before it.
pub async fn updates_of_one_batch_see_each_other(stores: ContractStores) {
    let (chat_id, author) = stores.chat_of_one().await;
    let again = new_update(chat_id, author, 1, react("👍"));
    let batch: Vec<NewEntry> = vec![
        new_message(chat_id, author, "first").into(),
        new_update(chat_id, author, 1, react("👍")).into(),
        again.into(),
        new_update(chat_id, author, 1, edit("second")).into(),
        new_update(chat_id, author, 1, edit("third")).into(),
        new_message(chat_id, author, "fourth").into(),
    ];
    let outcomes = stores.message_writer.commit(batch).await.expect(WORKS);
    let refused = AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::AlreadyReacted));
    let taken: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            AppendOutcome::New(receipt) => Ok(receipt.sequence.0),
            other => Err(*other),
        })
        .collect();
    assert_eq!(taken, [Ok(1), Ok(2), Err(refused), Ok(3), Ok(4), Ok(5)]);
    let message = stores.message(chat_id, 1).await.expect("it is stored");
    assert_eq!((message.body, message.state.revision), (text("third"), Sequence(4)));
    assert_eq!(message.state.edited.map(|edited| edited.count), Some(2));
    assert_eq!(message.state.reactions, counts(&[("👍", 1)]));
}

/// A deleted message is in no read at once, its preview disappears, and its deletion stays an entry.
pub async fn g11_a_deleted_message_is_in_no_read(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(1).await;
    let last = new_message(chat_id, author, "the last");
    stores.send(last.clone()).await.expect_new();
    stores.update(new_update(chat_id, author, 2, react("👍"))).await.expect_new();
    stores.update(new_update(chat_id, author, 2, UpdateAction::Delete)).await.expect_new();
    let key = MessageKey { chat_id, sequence: Sequence(2), message_id: last.message_id };
    for purged in [false, true] {
        if purged {
            stores.sabotage.purge_expired().await;
        }
        let page = stores.after(chat_id, 0).await;
        assert_eq!((sequences(&page.messages), page.updated, page.head), (vec![1], vec![], Sequence(4)));
        assert_eq!(page.updates.last().map(|update| &update.kind), Some(&UpdateKind::Deleted));
        assert_eq!(stores.message_reader.by_id(last.message_id, now()).await.expect(WORKS), None);
        assert_eq!(sequences(&stores.message_reader.before(chat_id, Sequence(9), 9, now()).await.expect(WORKS)), [1]);
        let unread = UnreadQuery { chat_id, reader: fresh(), read: Sequence(1) };
        assert_eq!(stores.message_reader.unread(&[unread], now()).await.expect(WORKS), [UnreadCount::NONE]);
        let last_message = stores.head(chat_id).await.last_message.expect("the head keeps its id");
        assert!(last_message.expires_at.is_some_and(|at| at <= now()));
        assert!(!purged || last_message.preview.is_none());
    }
    assert_eq!(stores.message_reader.reactions(key, None, 9).await.expect(WORKS), []);
    let refused = stores.update(new_update(chat_id, author, 2, edit("again"))).await;
    assert_eq!(refused, AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::MessageNotFound)));
}

/// An update gets the expiry time that its message has, or the end of the service's longest lifetime if that is earlier.
/// A deletion gets the latter alone. A later deletion of the message changes none of them.
pub async fn g11_the_expiry_of_an_update_is_fixed_when_it_is_committed(stores: ContractStores) {
    let (chat_id, author) = stores.chat_of_one().await;
    let created_at = now();
    let ttl = |seconds| Ttl::from_secs(seconds);
    let brief = NewMessage { ttl: ttl(3600), created_at, ..new_message(chat_id, author, "gone in an hour") };
    for message in [brief, new_message(chat_id, author, "stays")] {
        stores.send(message).await.expect_new();
    }
    let updates = [
        (1, react("👍"), None),
        (1, edit("edited"), ttl(60)),
        (1, UpdateAction::Unreact(reaction("👍")), ttl(7200)),
        (2, react("👍"), None),
        (2, react("❤️"), ttl(60)),
        (1, UpdateAction::Delete, None),
        (2, UpdateAction::Delete, ttl(60)),
    ];
    for (target, action, ttl_max) in updates {
        let update = NewUpdate { ttl_max, created_at, ..new_update(chat_id, author, target, action) };
        stores.update(update).await.expect_new();
    }
    let after = |seconds| Some(created_at + Duration::from_secs(seconds));
    let expected = [after(3600), after(60), after(3600), None, after(60), None, after(60)];
    for _ in 0..2 {
        let page = stores.message_reader.after(chat_id, Sequence::ZERO, UNBOUNDED, created_at).await.expect(WORKS);
        let ends: Vec<_> = page.updates.iter().map(|update| update.expires_at).collect();
        assert_eq!((page.messages, ends), (vec![], expected.to_vec()));
        stores.sabotage.purge_expired().await;
    }
}

/// An expired update is in no page, and the page still proves its range. Its message keeps the change, its send key
/// works, and its sequence is not used again.
pub async fn g11_an_expired_update_is_in_no_page(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(2).await;
    let ended = NewUpdate {
        ttl_max: Ttl::from_secs(60),
        created_at: now().minus(Duration::from_secs(120)),
        ..new_update(chat_id, author, 1, react("👍"))
    };
    let receipt = stores.update(ended.clone()).await.expect_new();
    stores.update(new_update(chat_id, author, 2, edit("edited"))).await.expect_new();
    let NewUpdate { ttl_max, created_at, .. } = ended;
    let last = NewUpdate { ttl_max, created_at, ..new_update(chat_id, author, 1, react("❤️")) };
    stores.update(last).await.expect_new();
    for _ in 0..2 {
        let page = stores.after(chat_id, 2).await;
        let found: Vec<_> = page.updates.iter().map(|update| update.sequence.0).collect();
        assert_eq!((found, sequences(&page.updated)), (vec![4], vec![2]));
        assert_eq!((page.examined, page.head), (Sequence(5), Sequence(5)));
        let page = stores.after(chat_id, 4).await;
        assert_eq!((page.updates, page.updated, page.examined), (vec![], vec![], Sequence(5)));
        let message = stores.message(chat_id, 1).await.expect("it has not expired");
        assert_eq!(message.state.reactions, counts(&[("👍", 1), ("❤️", 1)]));
        assert_eq!(stores.reactions_of(&message).await.len(), 1);
        assert_eq!(stores.update(ended.clone()).await, AppendOutcome::Duplicate(receipt));
        stores.sabotage.purge_expired().await;
    }
    assert_eq!(stores.send(new_message(chat_id, author, "next")).await.expect_new().sequence, Sequence(6));
}

/// Reactions are counted, listed by member and page, and removed by their member alone.
pub async fn reactions_are_counted_and_listed(stores: ContractStores) {
    let mut users: Vec<UserId> = (0..3).map(|_| fresh()).collect();
    users.sort();
    let [one, two, three] = users[..] else { unreachable!("there are three") };
    let chat_id = stores.group(one, &[two, three]).await;
    stores.fill(chat_id, one, 2).await;
    for (user_id, action) in [
        (two, react("👍")),
        (one, react("❤️")),
        (one, react("👍")),
        (three, react("👍")),
        (three, UpdateAction::Unreact(reaction("👍"))),
    ] {
        stores.update(new_update(chat_id, user_id, 1, action)).await.expect_new();
    }
    let refused = stores.update(new_update(chat_id, three, 1, UpdateAction::Unreact(reaction("❤️")))).await;
    assert_eq!(refused, AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::NotReacted)));
    let message = stores.message(chat_id, 1).await.expect("it is stored");
    assert_eq!(message.state.reactions, counts(&[("👍", 2), ("❤️", 1)]));
    let of_one = vec![reaction("❤️"), reaction("👍")];
    assert_eq!(stores.reactions_of(&message).await, [(one, of_one.clone()), (two, vec![reaction("👍")])]);

    let first = stores.message_reader.reactions((&message).into(), None, 1).await.expect(WORKS);
    assert_eq!(first.iter().map(|member| member.user_id).collect::<Vec<_>>(), [one]);
    let second = stores.message_reader.reactions((&message).into(), Some(one), 9).await.expect(WORKS);
    assert_eq!(second.iter().map(|member| member.user_id).collect::<Vec<_>>(), [two]);
    let other = stores.message(chat_id, 2).await.expect("it is stored");
    let keys = [MessageKey::from(&other), MessageKey::from(&message)];
    assert_eq!(stores.message_reader.own_reactions(&keys, one).await.expect(WORKS), [vec![], of_one]);
    assert_eq!(stores.message_reader.own_reactions(&keys, three).await.expect(WORKS), [vec![], vec![]]);
}

/// An update is refused by the rules of its message, and changes nothing.
pub async fn a_refused_update_changes_nothing(stores: ContractStores) {
    let [owner, member, outsider]: [UserId; 3] = [fresh(), fresh(), fresh()];
    let chat_id = stores.group(owner, &[member]).await;
    stores.send(new_message(chat_id, owner, "of the owner")).await.expect_new();
    stores.send(expired(new_message(chat_id, owner, "gone"))).await.expect_new();
    stores.update(new_update(chat_id, member, 1, react("👍"))).await.expect_new();
    let before = stores.message(chat_id, 1).await;
    let window = Some(Duration::from_secs(60));
    let late = NewUpdate {
        window,
        created_at: now() + Duration::from_secs(3600),
        ..new_update(chat_id, owner, 1, edit("late"))
    };
    let refused = |refusal| AppendOutcome::Refused(SendRefusal::Update(refusal));
    for (update, expected) in [
        (new_update(chat_id, member, 1, edit("not mine")), refused(UpdateRefusal::NotTheAuthor)),
        (new_update(chat_id, member, 1, UpdateAction::Delete), refused(UpdateRefusal::MayNotDelete)),
        (late, refused(UpdateRefusal::TooOld(60))),
        (new_update(chat_id, member, 1, react("👍")), refused(UpdateRefusal::AlreadyReacted)),
        (new_update(chat_id, owner, 2, edit("expired")), refused(UpdateRefusal::MessageNotFound)),
        (new_update(chat_id, owner, 3, edit("an update")), refused(UpdateRefusal::MessageNotFound)),
        (new_update(chat_id, owner, 4, react("👍")), refused(UpdateRefusal::MessageNotFound)),
        (new_update(chat_id, owner, 0, react("👍")), refused(UpdateRefusal::MessageNotFound)),
        (new_update(chat_id, outsider, 1, react("👍")), AppendOutcome::Refused(SendRefusal::NotAMember)),
        (new_update(fresh(), owner, 1, react("👍")), AppendOutcome::Refused(SendRefusal::ChatNotFound)),
    ] {
        assert_eq!(stores.update(update.clone()).await, expected, "{update:?}");
    }
    assert_eq!(stores.message(chat_id, 1).await, before);
    assert_eq!(stores.head_sequence(chat_id).await, Sequence(3), "no sequence is used");
}

/// An admin deletes the messages of others, and a plain member does not.
pub async fn an_admin_deletes_the_messages_of_others(stores: ContractStores) {
    let [owner, member]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(owner, &[member]).await;
    stores.send(new_message(chat_id, member, "of the member")).await.expect_new();
    let role = stores.chat_reader.member(chat_id, owner).await.expect(WORKS).expect("the owner is a member").role;
    assert_eq!(role, Role::Owner);
    stores.update(new_update(chat_id, owner, 1, UpdateAction::Delete)).await.expect_new();
    assert_eq!(sequences(&stores.messages(chat_id).await), [0; 0]);
}

/// Updates are neither unread nor listed as messages, and the read watermark may stand on one.
pub async fn g10_updates_are_not_unread(stores: ContractStores) {
    let [author, reader]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(author, &[reader]).await;
    stores.fill(chat_id, author, 2).await;
    for text in ["one", "two", "three"] {
        stores.update(new_update(chat_id, author, 1, edit(text))).await.expect_new();
    }
    let unread = |read| UnreadQuery { chat_id, reader, read: Sequence(read) };
    let of = [unread(0), unread(1), unread(2), unread(4)];
    let found = stores.message_reader.unread(&of, now()).await.expect(WORKS);
    assert_eq!(found.iter().map(|unread| unread.count).collect::<Vec<_>>(), [2, 1, 0, 0]);
}

/// A page counts updates, and the messages that it adds for them with their reactions.
pub async fn g6_a_page_with_updates_is_bounded(stores: ContractStores) {
    let (chat_id, author) = stores.chat_with_head(3).await;
    for target in [1, 1, 2, 3] {
        stores.update(new_update(chat_id, author, target, edit("edited"))).await.expect_new();
    }
    let page = async |after, bounds| {
        let page = stores.message_reader.after(chat_id, Sequence(after), bounds, now()).await.expect(WORKS);
        let updates: Vec<u64> = page.updates.iter().map(|update| update.sequence.0).collect();
        (updates, sequences(&page.updated), page.examined.0)
    };
    let by_count = PageBounds { count: 2, ..UNBOUNDED };
    assert_eq!(page(3, by_count).await, (vec![4, 5], vec![1], 5));
    assert_eq!(page(5, by_count).await, (vec![6, 7], vec![2, 3], 7));
    let edited = stores.message(chat_id, 1).await.expect("it is stored").json_size();
    let by_bytes = PageBounds { bytes: 2 * MESSAGE_FIELDS_BYTES + edited, ..UNBOUNDED };
    assert_eq!(page(3, by_bytes).await, (vec![4, 5], vec![1], 5), "the same message counts once");
    assert_eq!(page(5, by_bytes).await, (vec![6], vec![2], 6));

    stores.update(new_update(chat_id, author, 1, react("👍"))).await.expect_new();
    assert_eq!(page(3, by_bytes).await, (vec![4], vec![1], 4), "reactions count too");
    let two_without_reactions = PageBounds { bytes: 2 * edited, ..UNBOUNDED };
    assert_eq!(page(0, two_without_reactions).await.2, 1, "also in the messages of the page");
    assert_eq!(page(1, two_without_reactions).await.2, 3);
}

/// Updates of one message by many writers at once are all counted.
pub async fn concurrent_reactions_are_all_counted(stores: ContractStores) {
    let owner = fresh();
    let members: Vec<UserId> = (0..12).map(|_| fresh()).collect();
    let chat_id = stores.group(owner, &members).await;
    stores.fill(chat_id, owner, 1).await;
    let writers = members.iter().map(|user_id| {
        let (writer, update) = (stores.message_writer.clone(), new_update(chat_id, *user_id, 1, react("👍")));
        async move {
            loop {
                match writer.commit(vec![update.clone().into()]).await {
                    Err(ports::StoreError::Unavailable(_)) => {}
                    outcomes => break outcomes.expect(WORKS)[0],
                }
            }
        }
    });
    let mut taken: Vec<u64> = super::fixtures::at_once(writers.collect::<Vec<_>>())
        .await
        .into_iter()
        .map(|outcome| match outcome {
            AppendOutcome::New(receipt) | AppendOutcome::Duplicate(receipt) => receipt.sequence.0,
            refused @ AppendOutcome::Refused(_) => panic!("{refused:?}"),
        })
        .collect();
    taken.sort_unstable();
    assert_eq!(taken, (2..=13).collect::<Vec<_>>());
    let message = stores.message(chat_id, 1).await.expect("it is stored");
    assert_eq!(message.state.reactions, counts(&[("👍", 12)]));
    assert_eq!(stores.reactions_of(&message).await.len(), 12);
}
