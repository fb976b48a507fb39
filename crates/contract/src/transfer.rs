//! Tests of [`ExportSource`] and [`ImportTarget`], between two stores of the same adapter.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Advance, ChatCommand, ChatId, ChatUpdate, ContentType, DeviceId, DirectPair, DisplayName, GroupInvites, Passkey,
    PresenceVisibility, PushDevice, PushTarget, RefreshAttempt, RefreshOutcome, RestrictionChange, Role, Sequence,
    Session, SpentToken, Timestamp, TokenChain, Ttl, UpdateAction, UpdateRefusal, UserId, WatermarkKind, Watermarks,
    WebPushSubscription,
};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, body, expired, fresh, new_message, now, retry_of, sequences, with_metadata};
use super::passkeys::new_passkey;
use super::updates::{edit, new_update, react};
use ports::{
    AppendOutcome, ExportKind, ExportSource, ImportAdmission, ImportId, ImportTarget, MessageKey, Moved, NewDirectChat,
    NewMessage, NewUpdate, NewUser, Outbox, PasskeyAddition, Receipt, SendRefusal, UserKey, UserUpdate,
};

/// Rows per page: few, so that every kind takes several pages.
const PAGE_LEN: usize = 2;
/// The id of the import in these tests.
const IMPORT: ImportId = ImportId(u64::MAX);

/// An empty store with its export and import ports.
#[derive(Clone)]
pub struct TransferStore {
    /// Its durable ports.
    pub stores: ContractStores,
    /// Exports the store.
    pub source: Arc<dyn ExportSource>,
    /// Imports into the store.
    pub target: Arc<dyn ImportTarget>,
    /// The outbox of the store, if the log is separate.
    pub outbox: Option<Arc<dyn Outbox>>,
}

/// The ids of the sample data that `fill` writes.
struct TransferSample {
    ann: UserId,
    bob: UserId,
    zoe: UserId,
    restricted: UserId,
    phone: UserKey,
    external: UserKey,
    group: ChatId,
    direct: ChatId,
    /// A send of Ann to the group, and its receipt.
    send: (NewMessage, Receipt),
    /// A send with an expired and purged message.
    purged: (NewMessage, Receipt),
    /// Ann's reaction to the first message of the direct chat.
    update: (NewUpdate, Receipt),
    session: Session,
}

/// Rows of every kind are equal after a move to another store, even if they are written twice.
pub async fn every_row_is_equal_after_a_move([from, to]: [TransferStore; 2]) {
    fill(&from.stores).await;
    let at = now();
    let rows = rows(&*from.source, at).await;
    for kind in ExportKind::ALL {
        assert!(rows.iter().any(|row| row.kind() == kind), "the sample has something of {kind:?}");
    }
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::Begun);
    for _ in 0..2 {
        for page in rows.chunks(3) {
            to.target.write(page.to_vec()).await.expect(WORKS);
        }
        assert_same(&self::rows(&*to.source, at).await, &rows);
    }
    to.target.finish().await.expect(WORKS);
}

/// Rows of an earlier version have no `external_id`. The user gets it at the next sign-in, and is found by it before.
pub async fn a_user_of_an_earlier_version_gets_an_external_id([from, to]: [TransferStore; 2]) {
    let sample = fill(&from.stores).await;
    let mut rows = rows(&*from.source, now()).await;
    for row in &mut rows {
        if let Moved::User(user) = row {
            user.external_id = None;
        }
    }
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::Begun);
    to.target.write(rows).await.expect(WORKS);
    to.target.finish().await.expect(WORKS);

    let stores = &to.stores;
    let UserKey::External { issuer, subject } = &sample.external else { panic!("Bob is an external user") };
    let find = async || stores.user_reader.by_external_id(issuer, subject).await.expect(WORKS).expect("it is Bob's");
    assert_eq!((find().await.user_id, find().await.external_id), (sample.bob, None));
    let new = NewUser {
        user_id: fresh(),
        display_name: name("Bob"),
        group_invites: GroupInvites::default(),
        created_at: now(),
        proven_at: now(),
    };
    let (bob, is_new) = stores.user_writer.find_or_create(sample.external.clone(), new).await.expect(WORKS);
    assert_eq!((bob.user_id, &bob.external_id, is_new), (sample.bob, &Some(subject.clone()), false));
    assert_eq!(find().await, bob);
}

/// Users can continue in the other store: sign-in keys, watermarks and send keys still work.
pub async fn users_continue_after_a_move([from, to]: [TransferStore; 2]) {
    let sample = fill(&from.stores).await;
    move_all(&from, &to).await;
    let stores = &to.stores;
    for (key, user_id) in [(&sample.phone, sample.ann), (&sample.external, sample.bob)] {
        let new = NewUser {
            user_id: fresh(),
            display_name: name("Somebody"),
            group_invites: GroupInvites::default(),
            created_at: now(),
            proven_at: now(),
        };
        let (user, is_new) = stores.user_writer.find_or_create(key.clone(), new).await.expect(WORKS);
        assert_eq!((user.user_id, is_new), (user_id, false));
    }
    let restrictions = from.stores.restrictions.restrictions(sample.restricted).await.expect(WORKS);
    assert!(restrictions.suspension.is_some() && restrictions.not_before.is_some() && restrictions.denied.len() == 1);
    assert_eq!(stores.restrictions.restrictions(sample.restricted).await.expect(WORKS), restrictions);
    assert_eq!(stores.contacts.listed(&[(sample.ann, sample.bob)]).await.expect(WORKS), [true]);
    let blocks = async |stores: &ContractStores| stores.blocks.blocks(sample.zoe, None, 9).await.expect(WORKS);
    assert_eq!((blocks(stores).await.len(), blocks(stores).await), (2, blocks(&from.stores).await));
    for user_id in [sample.ann, sample.bob] {
        let memberships = async |stores: &ContractStores| {
            let mut memberships = stores.chat_reader.memberships(user_id).await.expect(WORKS);
            memberships.sort_by_key(|(chat_id, _)| *chat_id);
            memberships
        };
        assert_eq!(memberships(stores).await, memberships(&from.stores).await);
    }
    let (of_ann, of_bob) = ((sample.ann, sample.group), (sample.bob, sample.group));
    let before = from.stores.watermarks.delivery_states(&[of_ann, of_bob]).await.expect(WORKS);
    assert_eq!(before[1].watermarks, Watermarks { delivered: Sequence(3), read: Sequence(2) });
    assert!(before[1].delivered_at.is_some() && before[1].read_at.is_some());
    assert_eq!(stores.watermarks.delivery_states(&[of_ann, of_bob]).await.expect(WORKS), before);
    let above = stores.watermarks.advance(sample.bob, sample.group, WatermarkKind::Read, Sequence(5), now()).await;
    assert_eq!(above.expect(WORKS), Advance::AboveHead(Sequence(4)));

    for chat_id in [sample.group, sample.direct] {
        assert_eq!(stores.messages(chat_id).await, from.stores.messages(chat_id).await);
    }
    let (send, receipt) = &sample.send;
    let found = stores.message_reader.by_id(receipt.message_id, now()).await.expect(WORKS);
    assert_eq!(found.map(|message| message.sequence), Some(receipt.sequence));
    for (send, receipt) in [&sample.send, &sample.purged] {
        assert_eq!(stores.send(retry_of(send)).await, AppendOutcome::Duplicate(*receipt));
    }
    let other = NewMessage { body: body("first", ContentType::Json), ..retry_of(send) };
    assert_eq!(stores.send(other).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    let next = stores.send(new_message(sample.group, sample.bob, "here")).await.expect_new();
    assert_eq!(next.sequence, Sequence(5));
    assert_eq!(sequences(&stores.messages(sample.group).await).last(), Some(&5));

    let Session { session_id, user_id, device_id, current, expires_at, .. } = sample.session;
    assert_eq!(stores.sessions.sessions(user_id, now()).await.expect(WORKS).len(), 1);
    let attempt = RefreshAttempt {
        presented: current,
        is_authentic: true,
        device_id,
        successor: [9; 32],
        now: now(),
        expires_at,
    };
    let refreshed = stores.sessions.refresh(session_id, attempt).await.expect(WORKS);
    assert_eq!(refreshed.map(|(_, outcome)| outcome), Some(RefreshOutcome::Rotated));
    // The device is unregistered together with its session, as in the first store.
    stores.sessions.revoke(user_id, &[session_id]).await.expect(WORKS);
    let devices = stores.push_devices.devices(&[sample.ann, sample.bob]).await.expect(WORKS);
    assert_eq!(devices.iter().map(|device| device.user_id).collect::<Vec<_>>(), [sample.bob]);
}

/// Updated messages have their state, updates and reactions in the other store, and updates continue after the head.
pub async fn updates_continue_after_a_move([from, to]: [TransferStore; 2]) {
    let sample = fill(&from.stores).await;
    move_all(&from, &to).await;
    let (stores, chat_id) = (&to.stores, sample.direct);
    let before = from.stores.after(chat_id, 0).await;
    assert_eq!((sequences(&before.messages), before.updates.len(), before.head), (vec![1, 3], 4, Sequence(7)));
    assert_eq!(stores.after(chat_id, 0).await, before);
    assert_eq!(stores.head(chat_id).await, from.stores.head(chat_id).await);
    let key = MessageKey::from(&before.messages[0]);
    let reactions = async |stores: &ContractStores| stores.message_reader.reactions(key, None, 9).await.expect(WORKS);
    assert_eq!((reactions(stores).await.len(), reactions(stores).await), (1, reactions(&from.stores).await));

    let (update, receipt) = &sample.update;
    assert_eq!(stores.update(update.clone()).await, AppendOutcome::Duplicate(*receipt));
    let other = NewUpdate { action: react("👎"), ..update.clone() };
    assert_eq!(stores.update(other).await, AppendOutcome::Refused(SendRefusal::KeyReused));
    let again = new_update(chat_id, sample.ann, 1, react("👍"));
    let refused = AppendOutcome::Refused(SendRefusal::Update(UpdateRefusal::AlreadyReacted));
    assert_eq!(stores.update(again).await, refused);
    let next = stores.update(new_update(chat_id, sample.bob, 1, react("👍"))).await.expect_new();
    assert_eq!(next.sequence, Sequence(8));
    let message = stores.after(chat_id, 0).await.messages.swap_remove(0);
    assert_eq!((message.state.revision, message.state.reactions[0].count), (Sequence(8), 2));
    assert_eq!(message.state.edited, before.messages[0].state.edited);
}

/// An import publishes nothing: neither outbox nor log has events of it. Later commits are published.
pub async fn an_import_publishes_nothing([from, to]: [TransferStore; 2]) {
    let sample = fill(&from.stores).await;
    move_all(&from, &to).await;
    assert_eq!(to.stores.log.lag("somebody").await.expect(WORKS), 0);
    if let Some(outbox) = &to.outbox {
        let much_later = now() + Duration::from_secs(24 * 3600);
        assert_eq!(outbox.overdue(much_later).await.expect(WORKS), []);
    }
    to.stores.send(new_message(sample.group, sample.ann, "next")).await.expect_new();
    match &to.outbox {
        Some(outbox) => assert_eq!(outbox.unpublished(sample.group).await.expect(WORKS).len(), 1),
        None => assert_eq!(to.stores.log.lag("somebody").await.expect(WORKS), 1),
    }
}

/// Rows that have expired at the time of the export are not exported, whether the store has purged them or not.
pub async fn expired_rows_are_not_exported([from, _]: [TransferStore; 2]) {
    let sample = fill(&from.stores).await;
    let of_kind = |rows: &[Moved], kind| rows.iter().filter(|row| row.kind() == kind).count();
    let (rows, later) = (rows(&*from.source, now()).await, now() + Duration::from_secs(8 * 24 * 3600));
    assert_eq!(of_kind(&rows, ExportKind::Send), 11);
    assert_eq!(of_kind(&rows, ExportKind::Message), 5, "one has expired, and one was deleted");
    assert_eq!((of_kind(&rows, ExportKind::Update), of_kind(&rows, ExportKind::Reactions)), (4, 2));
    let rows = self::rows(&*from.source, later).await;
    for (kind, left) in [
        (ExportKind::Send, 0),
        (ExportKind::Message, 4),
        (ExportKind::Update, 3),
        (ExportKind::Reactions, 1),
        (ExportKind::Session, 0),
        (ExportKind::PushDevice, 1),
    ] {
        assert_eq!(of_kind(&rows, kind), left, "{kind:?}");
    }
    let preview = |row: &Moved| match row {
        Moved::Chat { chat, head } if chat.chat_id == sample.direct => {
            Some(head.last_message.as_ref().is_some_and(|last| last.preview.is_some()))
        }
        _ => None,
    };
    assert_eq!(rows.iter().find_map(preview), Some(false), "the last message of the direct chat has expired");
}

/// An import begins only in an empty store.
pub async fn an_import_needs_an_empty_store([from, to]: [TransferStore; 2]) {
    to.stores.contacts.add(fresh(), fresh()).await.expect(WORKS);
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::NotEmpty { table: "contacts" });
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    from.stores.chat_of_one().await;
    assert!(matches!(from.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::NotEmpty { .. }));
}

/// From begin to finish the store is marked as unfinished, and only the same import may continue.
pub async fn an_unfinished_import_is_marked_and_can_restart([from, to]: [TransferStore; 2]) {
    fill(&from.stores).await;
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::Begun);
    let rows = rows(&*from.source, now()).await;
    to.target.write(rows[..3].to_vec()).await.expect(WORKS);
    assert!(to.target.is_unfinished().await.expect(WORKS));
    assert_eq!(to.target.begin(ImportId(1)).await.expect(WORKS), ImportAdmission::Other);
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::Again);
    to.target.write(rows.clone()).await.expect(WORKS);
    assert_same(&self::rows(&*to.source, now()).await, &rows);
    to.target.finish().await.expect(WORKS);
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    assert!(matches!(to.target.begin(IMPORT).await.expect(WORKS), ImportAdmission::NotEmpty { .. }));
}

async fn move_all(from: &TransferStore, to: &TransferStore) {
    to.target.begin(IMPORT).await.expect(WORKS);
    to.target.write(rows(&*from.source, now()).await).await.expect(WORKS);
    to.target.finish().await.expect(WORKS);
}

/// All rows of a source.
async fn rows(source: &dyn ExportSource, at: Timestamp) -> Vec<Moved> {
    let mut rows = vec![];
    for kind in ExportKind::ALL {
        let mut after = None;
        loop {
            let page = source.rows(kind, after.as_ref(), PAGE_LEN, at).await.expect(WORKS);
            assert!(page.rows.len() <= PAGE_LEN && page.rows.iter().all(|row| row.kind() == kind), "{page:?}");
            rows.extend(page.rows);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    rows
}

/// Asserts that both lists have the same rows, in any order.
#[track_caller]
fn assert_same(found: &[Moved], expected: &[Moved]) {
    for row in expected {
        assert!(found.contains(row), "{row:?} is missing in {found:?}");
    }
    assert_eq!(found.len(), expected.len());
}

fn name(text: &str) -> DisplayName {
    text.to_owned().try_into().expect("contracts give valid names")
}

async fn fill(stores: &ContractStores) -> TransferSample {
    let (ann, bob, zoe, restricted): (UserId, UserId, UserId, UserId) = (fresh(), fresh(), fresh(), fresh());
    let phone = |number: &str| UserKey::Phone(number.parse().expect("the number is valid"));
    let external =
        UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob#1".parse().expect("it is short") };
    let keys =
        [(phone("+14155550101"), ann, "Ann"), (external.clone(), bob, "Bob"), (phone("+14155550102"), zoe, "Zoe")];
    for (key, user_id, called) in keys {
        let new = NewUser {
            user_id,
            display_name: name(called),
            group_invites: GroupInvites::default(),
            created_at: now(),
            proven_at: now(),
        };
        stores.user_writer.find_or_create(key, new).await.expect(WORKS);
    }
    stores
        .user_writer
        .update(
            ann,
            UserUpdate {
                presence_visibility: Some(PresenceVisibility::Everyone),
                group_invites: Some(GroupInvites::Contacts),
                ..UserUpdate::default()
            },
            now(),
        )
        .await
        .expect(WORKS);
    stores.last_seen.update_last_seen(&[(ann, now())]).await.expect(WORKS);
    for (user_id, contact_id) in [(ann, bob), (bob, ann), (ann, zoe)] {
        stores.contacts.add(user_id, contact_id).await.expect(WORKS);
    }
    for (user_id, blocked_id) in [(zoe, ann), (zoe, bob)] {
        assert!(stores.blocks.block(user_id, blocked_id).await.expect(WORKS));
    }
    let used = Passkey { sign_count: 7, is_backup_eligible: true, last_used_at: Some(now()), ..new_passkey(ann) };
    for passkey in [used, new_passkey(zoe)] {
        assert_eq!(stores.passkeys.add(passkey).await.expect(WORKS), PasskeyAddition::Added);
    }
    for change in [
        RestrictionChange::Suspend { reason: "spam".to_owned().try_into().ok() },
        RestrictionChange::SignOut,
        RestrictionChange::DenyToken { token_id: [1; 32], lifetime: Duration::from_secs(3600) },
    ] {
        stores.restrictions.restrict(fresh(), change.clone(), now()).await.expect(WORKS).expect("there is room");
        stores.restrictions.restrict(restricted, change, now()).await.expect(WORKS).expect("there is room");
    }
    let session = sign_in(stores, ann, bob).await;
    let (group, send, purged) = talk_in_group(stores, ann, bob, zoe).await;
    invite(stores, ann, zoe, group).await;
    let pair = DirectPair::new(ann, bob).expect("they are two");
    let opened = NewDirectChat { chat_id: fresh(), pair, created_by: bob, created_at: now() };
    let direct = stores.chat_writer.create_direct(opened).await.expect(WORKS).expect("there is no block");
    let direct = direct.chat().chat_id;
    let brief = NewMessage { ttl: Ttl::from_secs(3600), ..new_message(direct, ann, "gone in an hour") };
    for send in [new_message(direct, bob, "hello \u{1f600}\n\"\\"), new_message(direct, ann, "hi"), brief] {
        stores.send(send).await.expect_new();
    }
    let update = update(stores, ann, bob, direct).await;
    TransferSample {
        ann,
        bob,
        zoe,
        restricted,
        phone: phone("+14155550101"),
        external,
        group,
        direct,
        send,
        purged,
        update,
        session,
    }
}

/// Bob edits the first message of the direct chat, Ann reacts to it, Bob reacts to the third one, and Ann deletes the
/// second one.
async fn update(stores: &ContractStores, ann: UserId, bob: UserId, direct: ChatId) -> (NewUpdate, Receipt) {
    stores.update(new_update(direct, bob, 1, edit("hello, Ann"))).await.expect_new();
    let reaction = new_update(direct, ann, 1, react("👍"));
    let receipt = stores.update(reaction.clone()).await.expect_new();
    for update in [new_update(direct, bob, 3, react("❤️")), new_update(direct, ann, 2, UpdateAction::Delete)] {
        stores.update(update).await.expect_new();
    }
    (reaction, receipt)
}

/// Zoe has a pending invitation to the group, and has declined one to another group.
async fn invite(stores: &ContractStores, ann: UserId, zoe: UserId, group: ChatId) {
    let update = UserUpdate { group_invites: Some(GroupInvites::Nobody), ..UserUpdate::default() };
    stores.user_writer.update(zoe, update, now()).await.expect(WORKS);
    let declined = stores.group(fresh(), &[zoe]).await;
    stores.invitations.decline(declined, zoe, now()).await.expect(WORKS);
    let add = ChatCommand::AddMember { user_id: zoe, role: Role::Member };
    let change = stores.apply(group, ann, add).await.expect("it is allowed");
    assert_eq!(change.invitations.len(), 1);
}

/// Ann has a session with a device. Bob has a device without a session, since he signs in with an external token.
async fn sign_in(stores: &ContractStores, ann: UserId, bob: UserId) -> Session {
    let device_id = DeviceId::from_bytes([1; 16]);
    let session = Session {
        session_id: fresh(),
        user_id: ann,
        device_id,
        created_at: now(),
        last_active_at: now(),
        expires_at: now() + Duration::from_secs(24 * 3600),
        current: [2; 32],
        spent: Some(SpentToken { digest: [3; 32], spent_at: now(), forgiven: true }),
        overtaken: vec![TokenChain { current: [4; 32], spent: None }],
    };
    stores.sessions.create(session.clone()).await.expect(WORKS);
    let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[5; 16]);
    let web_push = PushTarget::WebPush(subscription.expect("the subscription is valid"));
    let webhook = PushTarget::Webhook("token".to_owned().try_into().expect("the token is valid"));
    for (user_id, target) in [(ann, web_push), (bob, webhook)] {
        let device = PushDevice { user_id, device_id, target, registered_at: now() };
        assert!(stores.push_devices.put(device).await.expect(WORKS));
    }
    session
}

/// A group with changed name, ttl and members and with four messages. The third one has expired and was purged.
async fn talk_in_group(
    stores: &ContractStores,
    ann: UserId,
    bob: UserId,
    zoe: UserId,
) -> (ChatId, (NewMessage, Receipt), (NewMessage, Receipt)) {
    let group = stores.group(ann, &[bob, zoe]).await;
    let [send, purged] = [new_message(group, ann, "first"), expired(new_message(group, ann, "soon gone"))];
    let receipt = stores.send(send.clone()).await.expect_new();
    let secret = with_metadata(body("secret", ContentType::Encrypted), r#"{"key":"é"}"#);
    stores.send(NewMessage { body: secret, ..new_message(group, zoe, "-") }).await;
    let purged_receipt = stores.send(purged.clone()).await.expect_new();
    stores.send(new_message(group, bob, "last")).await.expect_new();
    for (kind, to) in [(WatermarkKind::Delivered, 3), (WatermarkKind::Read, 2)] {
        stores.watermarks.advance(bob, group, kind, Sequence(to), now()).await.expect(WORKS);
    }
    stores.sabotage.purge_expired().await;
    let muted = ChatCommand::Mute { until: Some(Timestamp::MAX) };
    for (actor, command) in [
        (ann, ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(9 * 24 * 3600)))),
        (ann, ChatCommand::ChangeRole { user_id: bob, role: Role::Admin }),
        (ann, ChatCommand::RemoveMember { user_id: zoe }),
        (bob, muted),
    ] {
        stores.apply(group, actor, command).await.expect("it is allowed");
    }
    (group, (send, receipt), (purged, purged_receipt))
}
