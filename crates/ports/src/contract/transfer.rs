//! What [`ExportSource`] and [`ImportTarget`] promise, of one store to another of the same adapter.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Advance, ChatCommand, ChatId, ChatUpdate, ContentType, DeviceId, DirectPair, DisplayName, PresenceVisibility,
    PushDevice, PushTarget, RefreshAttempt, RefreshOutcome, Role, Sequence, Session, SpentToken, Timestamp, Ttl,
    UserId, WatermarkKind, Watermarks, WebPushSubscription,
};

use super::Stores;
use super::fixtures::{WORKS, expired, fresh, new_message, now, retry_of, sequences};
use crate::{
    Appended, ExportSource, ImportBegun, ImportId, ImportTarget, Moved, MovedKind, NewDirectChat, NewMessage, NewUser,
    Outbox, Receipt, SendRefusal, UserKey,
};

/// Rows of a page: few, so that every kind takes several.
const PAGE_LEN: usize = 2;
/// The import that is done here.
const IMPORT: ImportId = ImportId(u64::MAX);

/// A store with nothing in it, with both sides of a move.
#[derive(Clone)]
pub struct Movable {
    /// Its durable ports.
    pub stores: Stores,
    /// Shows what is in it.
    pub source: Arc<dyn ExportSource>,
    /// Takes what was in another.
    pub target: Arc<dyn ImportTarget>,
    /// What waits for the log, where that is beside the store.
    pub outbox: Option<Arc<dyn Outbox>>,
}

/// Somebody's things in a store, to be found again in another.
struct Scene {
    ann: UserId,
    bob: UserId,
    zoe: UserId,
    phone: UserKey,
    external: UserKey,
    group: ChatId,
    direct: ChatId,
    /// A send of Ann's to the group, and what she was told.
    send: (NewMessage, Receipt),
    /// One whose message has expired and was purged.
    purged: (NewMessage, Receipt),
    session: Session,
}

/// Every kind goes out of one store and comes into another equal, however often it is written.
pub async fn everything_comes_into_another_store_as_it_was([from, to]: [Movable; 2]) {
    fill(&from.stores).await;
    let at = now();
    let rows = rows(&*from.source, at).await;
    for kind in MovedKind::ALL {
        assert!(rows.iter().any(|row| row.kind() == kind), "the scene has something of {kind:?}");
    }
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportBegun::Begun);
    for _ in 0..2 {
        for page in rows.chunks(3) {
            to.target.write(page.to_vec()).await.expect(WORKS);
        }
        assert_same(&self::rows(&*to.source, at).await, &rows);
    }
    to.target.finish().await.expect(WORKS);
}

/// Who was in the one store goes on in the other: they are known, read what they have read, and their retries are retries.
pub async fn whoever_was_in_one_store_goes_on_in_another([from, to]: [Movable; 2]) {
    let scene = fill(&from.stores).await;
    move_all(&from, &to).await;
    let stores = &to.stores;
    for (key, user_id) in [(&scene.phone, scene.ann), (&scene.external, scene.bob)] {
        let new = NewUser { user_id: fresh(), display_name: name("Somebody"), created_at: now() };
        let (user, is_new) = stores.user_writer.find_or_create(key.clone(), new).await.expect(WORKS);
        assert_eq!((user.user_id, is_new), (user_id, false));
    }
    assert_eq!(stores.contacts.listed(&[(scene.ann, scene.bob)]).await.expect(WORKS), [true]);
    let blocks = async |stores: &Stores| stores.blocks.blocks(scene.zoe, None, 9).await.expect(WORKS);
    assert_eq!((blocks(stores).await.len(), blocks(stores).await), (2, blocks(&from.stores).await));
    for user_id in [scene.ann, scene.bob] {
        let memberships = async |stores: &Stores| {
            let mut memberships = stores.chat_reader.memberships(user_id).await.expect(WORKS);
            memberships.sort_by_key(|(chat_id, _)| *chat_id);
            memberships
        };
        assert_eq!(memberships(stores).await, memberships(&from.stores).await);
    }
    let (of_ann, of_bob) = ((scene.ann, scene.group), (scene.bob, scene.group));
    let before = from.stores.watermarks.watermarks(&[of_ann, of_bob]).await.expect(WORKS);
    assert_eq!(before[1], Watermarks { delivered: Sequence(3), read: Sequence(2) });
    assert_eq!(stores.watermarks.watermarks(&[of_ann, of_bob]).await.expect(WORKS), before);
    let above = stores.watermarks.advance(scene.bob, scene.group, WatermarkKind::Read, Sequence(5)).await;
    assert_eq!(above.expect(WORKS), Advance::AboveHead(Sequence(4)));

    for chat_id in [scene.group, scene.direct] {
        assert_eq!(stores.messages(chat_id).await, from.stores.messages(chat_id).await);
    }
    let (send, receipt) = &scene.send;
    let found = stores.message_reader.by_id(receipt.message_id, now()).await.expect(WORKS);
    assert_eq!(found.map(|message| message.sequence), Some(receipt.sequence));
    for (send, receipt) in [&scene.send, &scene.purged] {
        assert_eq!(stores.send(retry_of(send)).await, Appended::Duplicate(*receipt));
    }
    let other = NewMessage { content_type: ContentType::Json, ..retry_of(send) };
    assert_eq!(stores.send(other).await, Appended::Refused(SendRefusal::KeyReused));
    let next = stores.send(new_message(scene.group, scene.bob, "here")).await.expect_new();
    assert_eq!(next.sequence, Sequence(5));
    assert_eq!(sequences(&stores.messages(scene.group).await).last(), Some(&5));

    let Session { session_id, user_id, device_id, current, expires_at, .. } = scene.session;
    assert_eq!(stores.sessions.sessions(user_id, now()).await.expect(WORKS).len(), 1);
    let attempt = RefreshAttempt { presented: current, device_id, successor: [9; 32], now: now(), expires_at };
    let refreshed = stores.sessions.refresh(session_id, attempt).await.expect(WORKS);
    assert_eq!(refreshed.map(|(_, outcome)| outcome), Some(RefreshOutcome::Rotated));
    // The device goes with its login, as it did before.
    stores.sessions.revoke(user_id, &[session_id]).await.expect(WORKS);
    let devices = stores.push_devices.devices(&[scene.ann, scene.bob]).await.expect(WORKS);
    assert_eq!(devices.iter().map(|device| device.user_id).collect::<Vec<_>>(), [scene.bob]);
}

/// Nobody hears again of what has moved: nothing waits for the log, and there is nothing in it. What comes next is heard of.
pub async fn what_has_moved_is_not_published_again([from, to]: [Movable; 2]) {
    let scene = fill(&from.stores).await;
    move_all(&from, &to).await;
    assert_eq!(to.stores.log.lag("somebody").await.expect(WORKS), 0);
    if let Some(outbox) = &to.outbox {
        let much_later = now() + Duration::from_secs(24 * 3600);
        assert_eq!(outbox.overdue(much_later).await.expect(WORKS), []);
    }
    to.stores.send(new_message(scene.group, scene.ann, "next")).await.expect_new();
    match &to.outbox {
        Some(outbox) => assert_eq!(outbox.unpublished(scene.group).await.expect(WORKS).len(), 1),
        None => assert_eq!(to.stores.log.lag("somebody").await.expect(WORKS), 1),
    }
}

/// What is over at a moment is no part of what moves then, whether or not the store has been there.
pub async fn what_is_over_stays_behind([from, _]: [Movable; 2]) {
    let scene = fill(&from.stores).await;
    let of_kind = |rows: &[Moved], kind| rows.iter().filter(|row| row.kind() == kind).count();
    let (rows, later) = (rows(&*from.source, now()).await, now() + Duration::from_secs(8 * 24 * 3600));
    assert_eq!(of_kind(&rows, MovedKind::Send), 7);
    assert_eq!(of_kind(&rows, MovedKind::Message), 6, "one has expired");
    let rows = self::rows(&*from.source, later).await;
    for (kind, left) in
        [(MovedKind::Send, 0), (MovedKind::Message, 5), (MovedKind::Session, 0), (MovedKind::PushDevice, 1)]
    {
        assert_eq!(of_kind(&rows, kind), left, "{kind:?}");
    }
    let preview = |row: &Moved| match row {
        Moved::Chat { chat, head } if chat.chat_id == scene.direct => {
            Some(head.last_message.as_ref().is_some_and(|last| last.preview.is_some()))
        }
        _ => None,
    };
    assert_eq!(rows.iter().find_map(preview), Some(false), "the last message of the direct chat has expired");
}

/// An import goes into a store with nothing in it.
pub async fn a_store_that_holds_something_takes_no_import([from, to]: [Movable; 2]) {
    to.stores.contacts.add(fresh(), fresh()).await.expect(WORKS);
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportBegun::NotEmpty { table: "contacts" });
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    from.stores.chat_of_one().await;
    assert!(matches!(from.target.begin(IMPORT).await.expect(WORKS), ImportBegun::NotEmpty { .. }));
}

/// From its beginning to its end an import is seen, and only the same one goes on.
pub async fn an_unfinished_import_is_marked_and_begun_again([from, to]: [Movable; 2]) {
    fill(&from.stores).await;
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportBegun::Begun);
    let rows = rows(&*from.source, now()).await;
    to.target.write(rows[..3].to_vec()).await.expect(WORKS);
    assert!(to.target.is_unfinished().await.expect(WORKS));
    assert_eq!(to.target.begin(ImportId(1)).await.expect(WORKS), ImportBegun::Other);
    assert_eq!(to.target.begin(IMPORT).await.expect(WORKS), ImportBegun::Again);
    to.target.write(rows.clone()).await.expect(WORKS);
    assert_same(&self::rows(&*to.source, now()).await, &rows);
    to.target.finish().await.expect(WORKS);
    assert!(!to.target.is_unfinished().await.expect(WORKS));
    assert!(matches!(to.target.begin(IMPORT).await.expect(WORKS), ImportBegun::NotEmpty { .. }));
}

async fn move_all(from: &Movable, to: &Movable) {
    to.target.begin(IMPORT).await.expect(WORKS);
    to.target.write(rows(&*from.source, now()).await).await.expect(WORKS);
    to.target.finish().await.expect(WORKS);
}

/// Everything that a source shows.
async fn rows(source: &dyn ExportSource, at: Timestamp) -> Vec<Moved> {
    let mut rows = vec![];
    for kind in MovedKind::ALL {
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

/// The same rows, in whatever order.
#[track_caller]
fn assert_same(found: &[Moved], expected: &[Moved]) {
    for row in expected {
        assert!(found.contains(row), "{row:?} has not come; there are {found:?}");
    }
    assert_eq!(found.len(), expected.len());
}

fn name(text: &str) -> DisplayName {
    text.to_owned().try_into().expect("contracts give valid names")
}

async fn fill(stores: &Stores) -> Scene {
    let (ann, bob, zoe): (UserId, UserId, UserId) = (fresh(), fresh(), fresh());
    let phone = |number: &str| UserKey::Phone(number.parse().expect("the number is valid"));
    let external = UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob#1".to_owned() };
    let keys =
        [(phone("+14155550101"), ann, "Ann"), (external.clone(), bob, "Bob"), (phone("+14155550102"), zoe, "Zoe")];
    for (key, user_id, called) in keys {
        let new = NewUser { user_id, display_name: name(called), created_at: now() };
        stores.user_writer.find_or_create(key, new).await.expect(WORKS);
    }
    stores.user_writer.update(ann, None, Some(PresenceVisibility::Everyone), now()).await.expect(WORKS);
    stores.last_seen.saw(&[(ann, now())]).await.expect(WORKS);
    for (user_id, contact_id) in [(ann, bob), (bob, ann), (ann, zoe)] {
        stores.contacts.add(user_id, contact_id).await.expect(WORKS);
    }
    for (user_id, blocked_id) in [(zoe, ann), (zoe, bob)] {
        assert!(stores.blocks.block(user_id, blocked_id).await.expect(WORKS));
    }
    let session = sign_in(stores, ann, bob).await;
    let (group, send, purged) = talk_in_group(stores, ann, bob, zoe).await;
    let pair = DirectPair::new(ann, bob).expect("they are two");
    let opened = NewDirectChat { chat_id: fresh(), pair, created_by: bob, created_at: now() };
    let direct = stores.chat_writer.create_direct(opened).await.expect(WORKS).expect("nobody has blocked anybody");
    let direct = direct.chat().chat_id;
    let brief = NewMessage { ttl: Ttl::from_secs(3600), ..new_message(direct, ann, "gone in an hour") };
    for send in [new_message(direct, bob, "hello \u{1f600}\n\"\\"), new_message(direct, ann, "hi"), brief] {
        stores.send(send).await.expect_new();
    }
    Scene { ann, bob, zoe, phone: phone("+14155550101"), external, group, direct, send, purged, session }
}

/// Ann has a login with a device, and Bob a device without: he comes with another system's tokens.
async fn sign_in(stores: &Stores, ann: UserId, bob: UserId) -> Session {
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

/// A group whose name, ttl and members have changed, with four messages, the third of which has expired and was purged.
async fn talk_in_group(
    stores: &Stores,
    ann: UserId,
    bob: UserId,
    zoe: UserId,
) -> (ChatId, (NewMessage, Receipt), (NewMessage, Receipt)) {
    let group = stores.group(ann, &[bob, zoe]).await;
    let [send, purged] = [new_message(group, ann, "first"), expired(new_message(group, ann, "soon gone"))];
    let receipt = stores.send(send.clone()).await.expect_new();
    stores.send(NewMessage { content_type: ContentType::Encrypted, ..new_message(group, zoe, "secret") }).await;
    let purged_receipt = stores.send(purged.clone()).await.expect_new();
    stores.send(new_message(group, bob, "last")).await.expect_new();
    for (kind, to) in [(WatermarkKind::Delivered, 3), (WatermarkKind::Read, 2)] {
        stores.watermarks.advance(bob, group, kind, Sequence(to)).await.expect(WORKS);
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
