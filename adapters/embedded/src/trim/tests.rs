use domain::limits::CONTENT_BYTES_MAX;
use domain::{
    Body, ChatId, ContentType, EventBody, EventId, MessageId, PendingCode, RefreshAttempt, Sequence, Session,
    SessionId, Ttl, UpdateAction, UpdateKind, UserId,
};
use memory::ManualClock;
use ports::{
    AppendOutcome, ChatWriter, CodeStore, DeadLetter, DeadLetterId, DeadLetterStore, EventLog, ExportedSend, Ids,
    MessageReader, MessageWriter, Moved, NewGroup, NewMessage, NewUpdate, Position, RandomIds, Receipt, Record,
    RequestKey, RequestStore, SessionStore, Start, UndeliveredItem,
};
use tempfile::TempDir;
use uuid::Uuid;

use super::walk::{WALK_GRACE, WALK_LEN_MAX};
use super::*;
use crate::keys::Expiring;
use crate::records::MessageLocation;
use crate::{Config, EmbeddedStore};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A store with a manual clock and without background purging.
struct TrimFixture {
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    sender_id: UserId,
    chat_id: ChatId,
    _directory: TempDir,
}

impl TrimFixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        // The tests trigger purges and compactions themselves, and consumers read from disk.
        let config = Config { forgets: false, purged_bytes_max: u64::MAX, tail_events_max: 0, ..Config::default() };
        let store = EmbeddedStore::open(directory.path(), config, clock.clone(), Arc::new(RandomIds));
        let (store, sender_id) = (store.unwrap(), UserId::from_bytes([1; 16]));
        let group = NewGroup {
            chat_id: ChatId::from_bytes([2; 16]),
            name: "group".to_owned().try_into().unwrap(),
            created_by: sender_id,
            members: vec![],
            created_at: clock.now(),
        };
        let chat_id = store.create_group(group).await.unwrap().chat().chat_id;
        Self { store, clock, sender_id, chat_id, _directory: directory }
    }

    fn message(&self, n: u8, ttl: Option<Ttl>) -> NewMessage {
        NewMessage {
            chat_id: self.chat_id,
            sender_id: self.sender_id,
            client_message_id: Uuid::from_bytes([n; 16]).into(),
            message_id: MessageId::from_bytes([n; 16]),
            body: Body::new("words".to_owned().try_into().unwrap(), Default::default()),
            ttl,
            ttl_max: None,
            created_at: self.clock.now(),
            origin_connection_id: None,
        }
    }

    async fn send(&self, message: NewMessage) -> AppendOutcome {
        self.store.append(vec![message]).await.unwrap()[0]
    }

    /// Commits an update of the message at a sequence.
    async fn update(&self, n: u8, target: u64, action: UpdateAction) -> AppendOutcome {
        let update = NewUpdate {
            chat_id: self.chat_id,
            user_id: self.sender_id,
            client_message_id: Uuid::from_bytes([n; 16]).into(),
            update_id: MessageId::from_bytes([n; 16]),
            target: Sequence(target),
            action,
            window: None,
            ttl_max: None,
            created_at: self.clock.now(),
        };
        self.store.commit(vec![update.into()]).await.unwrap()[0]
    }

    /// Stores a session, a code and a request that expire at `end`, a day from now, and a dead letter.
    async fn store_mortals(&self, end: Timestamp) -> SessionId {
        let now = self.clock.now();
        let session = Session {
            session_id: SessionId::from_bytes([1; 16]),
            user_id: self.sender_id,
            device_id: Uuid::from_bytes([1; 16]).into(),
            created_at: now,
            last_active_at: now,
            expires_at: end,
            current: [0; 32],
            spent: None,
            overtaken: vec![],
        };
        self.store.create(session.clone()).await.unwrap();
        let code = PendingCode { digest: [2; 32], expires_at: end, tries_left: 5 };
        self.store.issue([1; 32], code).await.unwrap();
        let key = RequestKey { user_id: self.sender_id, key: Uuid::from_bytes([1; 16]) };
        self.store.begin(key, [0; 32], ports::Ids::ulid(&RandomIds), now).await.unwrap();
        let what = UndeliveredItem::Unreadable { position: Position(1) };
        let id = DeadLetterId::from_parts(1, 1);
        let letter = DeadLetter { id, what, attempts: 1, reason: "no".to_owned(), dead_at: now };
        self.store.add_dead_letter(letter).await.unwrap();
        session.session_id
    }

    /// Trims until nothing is due.
    async fn trim(&self) {
        purge_all(self.store.link().clone(), self.clock.clone()).await;
    }

    /// A message of maximum length with unique words, so that it does not compress.
    fn long_message(&self, n: u64, ttl: Option<Ttl>) -> NewMessage {
        let words = (0..CONTENT_BYTES_MAX / 64).map(|word| {
            let digest =
                aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &[n, word as u64].map(u64::to_be_bytes).concat());
            digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        NewMessage {
            client_message_id: Uuid::from_u128(n.into()).into(),
            message_id: RandomIds.ulid().into(),
            body: Body::new(words.collect::<String>().try_into().unwrap(), ContentType::Text),
            ..self.message(0, ttl)
        }
    }

    /// Bytes of the message table as the engine reports them, and of all table files as the file system reports
    /// them.
    async fn space(&self) -> (u64, u64) {
        fn files(path: &std::path::Path) -> u64 {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
            let size = |entry: std::fs::DirEntry| match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => files(&entry.path()),
                Ok(metadata) => metadata.len(),
                // The engine has deleted it in between.
                Err(_) => 0,
            };
            entries.map(size).sum()
        }
        let table = self.store.read(|tables| Ok(tables.disk_space(Table::Messages))).await.unwrap();
        (table, files(&self._directory.path().join("db").join("keyspaces")))
    }

    /// Compacts, if enough bytes are purged.
    fn compact(&self, purged_bytes_max: u64) -> impl Future<Output = ()> + use<> {
        let mut search = Search::new(self.store.link().clone(), self.clock.clone(), purged_bytes_max);
        let compacted = tokio::task::spawn_blocking(move || search.compact().map(drop));
        async { compacted.await.unwrap().unwrap() }
    }

    async fn purged_bytes(&self) -> u64 {
        let purged = self.store.read(|tables| tables.get(Table::Meta, PURGED)).await.unwrap();
        purged.unwrap_or(0)
    }

    async fn last_event(&self) -> EventBody {
        let end = self.store.link().tail.end();
        self.store.event(Position(end - 1)).await.unwrap().unwrap().body.clone()
    }

    async fn rows(&self, table: Table) -> usize {
        self.store.read(move |tables| Ok(tables.view().range::<&[u8]>(table, ..).count())).await.unwrap()
    }
}

/// Purges until nothing more is due, and returns the search for reuse.
async fn purge_expired(mut search: Search) -> Search {
    let purged = tokio::task::spawn_blocking(move || {
        while search.purge_expired().unwrap() == TrimStep::Full {}
        search
    });
    purged.await.unwrap()
}

async fn walk_step(mut search: Search) -> Search {
    let walked = tokio::task::spawn_blocking(move || {
        search.purge_overdue().unwrap();
        search
    });
    walked.await.unwrap()
}

/// Walks over all rows from the first one on.
async fn walk(mut search: Search) -> Search {
    search.walk = Walk::new();
    while search.walk.is_under_way() {
        search = walk_step(search).await;
    }
    search
}

#[tokio::test]
async fn a_send_key_that_came_without_its_event_is_forgotten_after_seven_days() {
    let subject = TrimFixture::new().await;
    let send = subject.message(1, None);
    let TrimFixture { chat_id, sender_id, .. } = subject;
    let receipt = Receipt { message_id: send.message_id, sequence: Sequence(1), created_at: send.created_at };
    let (client_message_id, fingerprint) = (send.client_message_id, send.fingerprint());
    let moved = Moved::Send(ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint });
    ports::ImportTarget::write(&subject.store, vec![moved]).await.unwrap();
    let key = keys::send(chat_id, sender_id, client_message_id);
    let is_there = async || subject.store.tables().await.unwrap().get_bytes(Table::SendKeys, &key).unwrap().is_some();
    subject.clock.advance(RETENTION - Duration::from_millis(1));
    subject.trim().await;
    assert!(is_there().await);
    assert_eq!(subject.send(send).await, AppendOutcome::Duplicate(receipt));
    subject.clock.advance(Duration::from_millis(1));
    subject.trim().await;
    assert!(!is_there().await);
}

#[tokio::test]
async fn events_and_send_keys_are_kept_for_seven_days_and_then_forgotten() {
    let subject = TrimFixture::new().await;
    for n in 0..3 {
        subject.send(subject.message(n, None)).await;
    }
    subject.clock.advance(RETENTION);
    subject.send(subject.message(3, None)).await;
    subject.trim().await;
    assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::SendKeys).await), (5, 4));

    subject.clock.advance(Duration::from_millis(1));
    subject.trim().await;
    assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::SendKeys).await), (1, 1));
    assert_eq!(subject.rows(Table::Messages).await, 4);
    for to in [None, Some(Start::Oldest), Some(Start::Time(Timestamp::default())), Some(Start::At(Position(1)))] {
        if let Some(to) = to {
            subject.store.seek("late", to).await.unwrap();
        }
        assert_eq!(subject.store.lag("late").await.unwrap(), 1);
        let records = subject.store.consumer("late").await.unwrap().next().await.unwrap();
        let [Record { position: Position(4), event }] = &records[..] else { panic!("{records:?}") };
        let EventBody::MessagePersisted { message, .. } = &event.body else { panic!("{event:?}") };
        assert_eq!(message.sequence, Sequence(4));
    }
    assert_eq!(subject.store.event(Position(3)).await.unwrap(), None);
}

#[tokio::test]
async fn offsets_go_on_after_the_whole_log_was_trimmed_and_the_store_was_opened_again() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(0, None)).await;
    subject.clock.advance(2 * RETENTION);
    subject.trim().await;
    assert_eq!(subject.rows(Table::Log).await, 0);
    let TrimFixture { store, clock, _directory: directory, .. } = subject;
    store.close().await;
    let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
    assert_eq!(*store.link().log_end.borrow(), 2);
    store.close().await;
}

#[tokio::test]
async fn an_expired_send_key_is_void_before_it_is_trimmed_and_survives_if_reused() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(0, None)).await;
    subject.clock.advance(RETENTION + Duration::from_millis(1));
    let again = NewMessage { message_id: MessageId::from_bytes([9; 16]), ..subject.message(0, None) };
    let AppendOutcome::New(receipt) = subject.send(again.clone()).await else { panic!("the key is void") };
    subject.trim().await;
    assert_eq!(subject.send(again).await, AppendOutcome::Duplicate(receipt));
}

#[tokio::test]
async fn an_expired_message_leaves_no_content_but_its_send_key() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(0, None)).await;
    let mortal = subject.message(1, Ttl::from_secs(60));
    let AppendOutcome::New(receipt) = subject.send(mortal.clone()).await else { panic!("the send is new") };
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;

    assert_eq!((subject.rows(Table::Messages).await, subject.rows(Table::MessagePlaces).await), (1, 1));
    assert_eq!(subject.rows(Table::Expiries).await, 0);
    let head = subject.store.head(subject.chat_id).await.unwrap().unwrap();
    assert_eq!((head.sequence, head.last_message.unwrap().preview), (Sequence(2), None));
    assert_eq!(subject.send(mortal).await, AppendOutcome::Duplicate(receipt));
    let AppendOutcome::New(next) = subject.send(subject.message(2, None)).await else { panic!("the send is new") };
    assert_eq!(next.sequence, Sequence(3));
}

fn react() -> UpdateAction {
    UpdateAction::React("👍".parse().unwrap())
}

fn edit() -> UpdateAction {
    UpdateAction::Edit(Body::new("other words".to_owned().try_into().unwrap(), Default::default()))
}

#[tokio::test]
async fn updates_expire_with_their_message_and_their_send_keys_with_their_log_records() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(1, None)).await;
    subject.send(subject.message(2, Ttl::from_secs(60))).await;
    for (n, target, action) in [(3, 1, react()), (4, 2, react()), (5, 2, edit()), (6, 1, edit())] {
        assert!(matches!(subject.update(n, target, action).await, AppendOutcome::New(_)));
    }
    let tables = [Table::Messages, Table::Updates, Table::Reactions, Table::Expiries, Table::SendKeys];
    let rows = async || {
        let mut rows = vec![];
        for table in tables {
            rows.push(subject.rows(table).await);
        }
        rows
    };
    assert_eq!(rows().await, [2, 4, 2, 3, 6]);
    subject.clock.advance(Duration::from_millis(59_999));
    subject.trim().await;
    assert_eq!(rows().await, [2, 4, 2, 3, 6]);
    subject.clock.advance(Duration::from_millis(1));
    subject.trim().await;
    assert_eq!(rows().await, [1, 2, 1, 0, 6]);
    assert!(matches!(subject.update(5, 2, edit()).await, AppendOutcome::Duplicate(_)));

    let mut consumer = subject.store.consumer("group").await.unwrap();
    let records = consumer.next().await.unwrap();
    let updates = records.iter().filter_map(|record| match &record.event.body {
        EventBody::MessageUpdated { update, message } => Some((update.sequence.0, message.is_some())),
        _ => None,
    });
    assert_eq!(updates.collect::<Vec<_>>(), [(3, true), (6, true)]);
    let expired = EventBody::MessagesExpired { chat_id: subject.chat_id, sequences: vec![Sequence(2)] };
    assert_eq!(subject.last_event().await, expired);

    subject.clock.advance(RETENTION);
    subject.trim().await;
    assert_eq!(rows().await, [1, 2, 1, 0, 0]);
}

#[tokio::test]
async fn a_deleted_message_is_purged_and_its_deletion_stays() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(1, Ttl::from_secs(60))).await;
    for (n, action) in [(2, react()), (3, UpdateAction::Delete)] {
        assert!(matches!(subject.update(n, 1, action).await, AppendOutcome::New(_)));
    }
    subject.trim().await;
    let rows = [Table::Messages, Table::MessagePlaces, Table::Reactions, Table::Updates];
    for (table, left) in rows.into_iter().zip([0, 0, 0, 2]) {
        assert_eq!(subject.rows(table).await, left, "{table:?}");
    }
    let expired = EventBody::MessagesExpired { chat_id: subject.chat_id, sequences: vec![Sequence(1)] };
    assert_eq!(subject.last_event().await, expired);
    let head = subject.store.head(subject.chat_id).await.unwrap().unwrap();
    let last = head.last_message.unwrap();
    assert_eq!((head.sequence, last.sequence, last.preview), (Sequence(3), Sequence(1), None));

    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    assert_eq!((subject.rows(Table::Updates).await, subject.rows(Table::Expiries).await), (1, 0));
    let records = subject.store.consumer("group").await.unwrap().next().await.unwrap();
    let kinds = records.iter().filter_map(|record| match &record.event.body {
        EventBody::MessageUpdated { update, message: None } => Some(update.kind.clone()),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [UpdateKind::Deleted]);
}

#[tokio::test]
async fn expired_updates_that_have_lost_their_expiry_rows_are_found() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(1, Ttl::from_secs(60))).await;
    subject.send(subject.message(2, None)).await;
    for (n, target) in [(3, 1), (4, 2)] {
        subject.update(n, target, react()).await;
    }
    let lose = subject.store.write(|tx| {
        for key in tx.keys(Table::Expiries, &[])? {
            tx.delete(Table::Expiries, &key);
        }
        Ok(())
    });
    lose.await.unwrap();
    subject.clock.advance(Duration::from_secs(60) + WALK_GRACE);
    let search = Search::new(subject.store.link().clone(), subject.clock.clone(), u64::MAX);
    walk(search).await;
    assert_eq!((subject.rows(Table::Messages).await, subject.rows(Table::Updates).await), (1, 1));
}

#[tokio::test]
async fn sessions_codes_and_requests_are_purged_when_they_expire_and_not_before() {
    let subject = TrimFixture::new().await;
    let now = subject.clock.now();
    let session = Session {
        session_id: SessionId::from_bytes([1; 16]),
        user_id: subject.sender_id,
        device_id: Uuid::from_bytes([1; 16]).into(),
        created_at: now,
        last_active_at: now,
        expires_at: now + DAY,
        current: [0; 32],
        spent: None,
        overtaken: vec![],
    };
    subject.store.create(session.clone()).await.unwrap();
    let attempt = RefreshAttempt {
        presented: [0; 32],
        is_authentic: true,
        device_id: session.device_id,
        successor: [1; 32],
        now,
        expires_at: now + 2 * DAY,
    };
    subject.store.refresh(session.session_id, attempt).await.unwrap();
    let code = PendingCode { digest: [2; 32], expires_at: now + DAY, tries_left: 5 };
    subject.store.issue([1; 32], code).await.unwrap();
    let key = RequestKey { user_id: subject.sender_id, key: Uuid::from_bytes([1; 16]) };
    subject.store.begin(key, [0; 32], ports::Ids::ulid(&RandomIds), now).await.unwrap();

    let tables = [Table::Sessions, Table::Devices, Table::Codes, Table::Requests];
    for (later, rows) in [(Duration::ZERO, [1, 1, 1, 1]), (DAY, [1, 1, 0, 0]), (DAY, [0, 0, 0, 0])] {
        subject.clock.advance(later);
        subject.trim().await;
        for (table, rows) in tables.into_iter().zip(rows) {
            assert_eq!(subject.rows(table).await, rows, "{table:?} at {later:?}");
        }
    }
}

/// The commit may have begun before the search read its clock. The time of the commit counts.
#[tokio::test]
async fn rows_expire_by_the_time_of_the_commit_and_not_of_the_search() {
    let subject = TrimFixture::new().await;
    let now = subject.clock.now();
    let send = subject.message(1, Ttl::from_secs(DAY.as_secs()));
    subject.send(send.clone()).await;
    subject.store_mortals(now + DAY).await;
    let receipt = Receipt { message_id: send.message_id, sequence: Sequence(9), created_at: now };
    let (chat_id, sender_id, fingerprint) = (subject.chat_id, subject.sender_id, send.fingerprint());
    let client_message_id = Uuid::from_bytes([9; 16]).into();
    let moved = Moved::Send(ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint });
    ports::ImportTarget::write(&subject.store, vec![moved]).await.unwrap();
    let mortal = [Table::Messages, Table::Sessions, Table::Codes, Table::Requests, Table::DeadLetters, Table::Expiries];
    let rows = async || {
        let mut rows = vec![];
        for table in mortal {
            rows.push(subject.rows(table).await);
        }
        rows
    };
    assert_eq!(rows().await, [1, 1, 1, 1, 1, 6]);
    let keys = subject.rows(Table::SendKeys).await;

    let ahead = Arc::new(ManualClock::at(now + RETENTION));
    let search = Search::new(subject.store.link().clone(), ahead, u64::MAX);
    let search = purge_expired(search).await;
    assert_eq!(rows().await, [1, 1, 1, 1, 1, 6], "nothing is over");
    subject.clock.set(now + DAY);
    let search = purge_expired(search).await;
    assert_eq!(rows().await, [0, 0, 0, 0, 1, 2], "the same search goes on with what it found");
    subject.clock.set(now + RETENTION);
    purge_expired(search).await;
    assert_eq!(rows().await, [0, 0, 0, 0, 0, 0]);
    assert_eq!(subject.rows(Table::SendKeys).await, keys - 1, "the one whose event is in the log goes with that");
    let expired = EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1)] };
    assert_eq!(subject.last_event().await, expired);
}

#[tokio::test]
async fn an_expiry_row_whose_session_lives_longer_now_goes_only_if_another_one_stays() {
    let subject = TrimFixture::new().await;
    let now = subject.clock.now();
    let session_id = subject.store_mortals(now + DAY).await;
    let (earlier, later) = (now + Duration::from_secs(60), now + DAY);
    let lose = move |tx: &mut Tx<'_>| {
        tx.expire(earlier, Expiring::Session(session_id));
        tx.delete(Table::Expiries, &keys::expiry(later, Expiring::Session(session_id)));
        Ok(())
    };
    subject.store.write(lose).await.unwrap();
    subject.clock.set(earlier);
    subject.trim().await;
    assert_eq!(subject.rows(Table::Sessions).await, 1);
    subject.clock.set(later);
    subject.trim().await;
    assert_eq!((subject.rows(Table::Sessions).await, subject.rows(Table::Devices).await), (0, 0));
}

#[tokio::test]
async fn a_damaged_row_holds_up_no_other_one() {
    let subject = TrimFixture::new().await;
    for n in 0..3 {
        subject.send(subject.message(n, Ttl::from_secs(60 + u64::from(n)))).await;
    }
    let key = keys::message(MessageLocation { chat_id: subject.chat_id, sequence: Sequence(1) });
    let spoil = move |tx: &mut Tx<'_>| {
        tx.put_bytes(Table::Messages, &key, vec![0xff; 3]);
        tx.put_bytes(Table::Expiries, &[0; 12], vec![]);
        Ok(())
    };
    subject.store.write(spoil).await.unwrap();
    subject.clock.advance(DAY);
    subject.trim().await;
    assert_eq!((subject.rows(Table::Messages).await, subject.rows(Table::Expiries).await), (1, 2));
}

/// Version 0.2 could delete the expiry row of a message and leave the message.
#[tokio::test]
async fn expired_rows_that_have_lost_their_expiry_rows_are_found() {
    let subject = TrimFixture::new().await;
    let now = subject.clock.now();
    for n in 0..5 {
        subject.send(subject.message(n, Ttl::from_secs(60 * u64::from(n)))).await;
    }
    subject.store_mortals(now + DAY).await;
    let lose = subject.store.write(|tx| {
        for key in tx.keys(Table::Expiries, &[])? {
            tx.delete(Table::Expiries, &key);
        }
        Ok(())
    });
    lose.await.unwrap();
    let link = subject.store.link().clone();
    let mut search = Search::new(link, subject.clock.clone(), u64::MAX);
    let tables = [Table::Messages, Table::Sessions, Table::Codes, Table::Requests, Table::DeadLetters];
    let over = [
        (Duration::from_secs(120), [5, 1, 1, 1, 1]),
        (Duration::from_secs(120) + WALK_GRACE, [3, 1, 1, 1, 1]),
        (DAY + WALK_GRACE, [1, 0, 0, 0, 1]),
        (RETENTION + WALK_GRACE, [1, 0, 0, 0, 0]),
    ];
    for (later, rows) in over {
        subject.clock.set(now + later);
        search = walk(search).await;
        for (table, rows) in tables.into_iter().zip(rows) {
            assert_eq!(subject.rows(table).await, rows, "{table:?} after {later:?}");
        }
    }
    assert_eq!((subject.rows(Table::MessagePlaces).await, subject.rows(Table::SendKeys).await), (1, 0));
    let told = async |at| subject.store.event(Position(at)).await.unwrap().unwrap().body.clone();
    let (first, second) = (vec![Sequence(2), Sequence(3)], vec![Sequence(4), Sequence(5)]);
    let chat_id = subject.chat_id;
    assert_eq!(told(6).await, EventBody::MessagesExpired { chat_id, sequences: first });
    assert_eq!(told(7).await, EventBody::MessagesExpired { chat_id, sequences: second });
}

#[tokio::test]
async fn a_walk_goes_over_all_rows_in_steps_and_then_rests() {
    let subject = TrimFixture::new().await;
    let (mortal, all) = (STEP_LEN_MAX as u128 + 1, WALK_LEN_MAX as u128 + STEP_LEN_MAX as u128);
    let batch = (0..all).map(|n| NewMessage {
        client_message_id: Uuid::from_u128(n).into(),
        message_id: MessageId::from_bytes(n.to_be_bytes()),
        ..subject.message(0, if n < mortal { Ttl::from_secs(1) } else { None })
    });
    subject.store.append(batch.collect()).await.unwrap();
    subject.clock.advance(Duration::from_secs(1) + WALK_GRACE);
    let mut search = Search::new(subject.store.link().clone(), subject.clock.clone(), u64::MAX);
    let mut left = vec![];
    for _ in 0..2 {
        search = walk_step(search).await;
        left.push(subject.rows(Table::Messages).await as u128);
    }
    assert_eq!(left, [all - STEP_LEN_MAX as u128, all - mortal], "a step purges no more than a step may");
    let mut search = walk(search).await;
    subject.clock.advance(DAY);
    assert!(search.walk.step(&subject.store.tables().await.unwrap(), subject.clock.now()).unwrap().is_none());
}

#[tokio::test]
async fn more_than_one_step_of_expiries_is_purged() {
    let subject = TrimFixture::new().await;
    let batch = (0..STEP_LEN_MAX as u128 + 1).map(|n| NewMessage {
        client_message_id: Uuid::from_u128(n).into(),
        message_id: MessageId::from_bytes(n.to_be_bytes()),
        ..subject.message(0, Ttl::from_secs(1))
    });
    subject.store.append(batch.collect()).await.unwrap();
    subject.clock.advance(Duration::from_secs(1));
    subject.trim().await;
    assert_eq!(subject.rows(Table::Messages).await, 0);
}

#[tokio::test]
async fn a_purge_is_logged_once_and_not_for_messages_already_gone() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(0, Ttl::from_secs(60))).await;
    subject.send(subject.message(1, None)).await;
    let location = MessageLocation { chat_id: subject.chat_id, sequence: Sequence(1) };
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    let expired = EventBody::MessagesExpired { chat_id: subject.chat_id, sequences: vec![Sequence(1)] };
    assert_eq!(subject.last_event().await, expired);

    let again = move |tx: &mut Tx<'_>| {
        tx.expire(Timestamp::from_millis(1), Expiring::Message(location));
        Ok(())
    };
    subject.store.write(again).await.unwrap();
    let logged = subject.rows(Table::Log).await;
    subject.trim().await;
    assert_eq!((subject.rows(Table::Log).await, subject.rows(Table::Expiries).await), (logged, 0));
}

#[tokio::test]
async fn purged_bytes_are_counted_and_survive_a_restart() {
    let subject = TrimFixture::new().await;
    subject.send(subject.message(0, Ttl::from_secs(60))).await;
    let rows = |tables: &Tables| {
        let view = tables.view();
        let rows = [Table::Messages, Table::MessagePlaces].map(|table| view.range::<&[u8]>(table, ..).next());
        Ok(rows.map(|row| row.unwrap().unwrap()).map(|(key, row)| (key.len() + row.len()) as u64).iter().sum::<u64>())
    };
    let bytes = subject.store.read(rows).await.unwrap();
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    let TrimFixture { store, clock, _directory: directory, .. } = subject;
    store.close().await;
    let store = EmbeddedStore::open(directory.path(), Config::default(), clock, Arc::new(RandomIds)).unwrap();
    let purged = store.read(|tables| tables.get::<u64>(Table::Meta, PURGED)).await.unwrap();
    assert_eq!(purged, Some(bytes));
    store.close().await;
}

#[tokio::test]
async fn a_dead_letter_is_kept_to_the_millisecond() {
    let subject = TrimFixture::new().await;
    let what = UndeliveredItem::Event {
        position: Position(1),
        event_id: EventId::from_bytes([1; 16]),
        chat_id: subject.chat_id,
    };
    let id = DeadLetterId::from_parts(1, 1);
    let letter = DeadLetter { id, what, attempts: 1, reason: "no".to_owned(), dead_at: subject.clock.now() };
    subject.store.add_dead_letter(letter).await.unwrap();
    for (later, rows) in [(RETENTION - Duration::from_millis(1), 1), (Duration::from_millis(1), 0)] {
        subject.clock.advance(later);
        subject.trim().await;
        assert_eq!(subject.rows(Table::DeadLetters).await, rows);
    }
}

#[tokio::test]
async fn a_few_purged_messages_are_not_worth_a_compaction() {
    let subject = TrimFixture::new().await;
    for n in 0..20 {
        let ttl = if n < 2 { Ttl::from_secs(60) } else { None };
        subject.send(subject.long_message(n, ttl)).await;
    }
    let flush = |tables: &Tables| tables.compact(Table::Messages).map_err(StoreError::unavailable);
    subject.store.read(flush).await.unwrap();
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    let purged = subject.purged_bytes().await;
    assert!(purged > 2 * CONTENT_BYTES_MAX as u64, "{purged}");
    subject.compact(0).await;
    assert_eq!(subject.purged_bytes().await, purged, "less than a quarter");

    for n in 20..30 {
        subject.send(subject.long_message(n, Ttl::from_secs(60))).await;
    }
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    let purged = subject.purged_bytes().await;
    subject.compact(purged).await;
    assert_eq!(subject.purged_bytes().await, purged, "no more than the bound");
    subject.compact(purged - 1).await;
    assert_eq!(subject.purged_bytes().await, 0);
}

/// Measures that deleting rows alone frees no space and that compaction does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_purged_messages_comes_back_while_commits_go_on() {
    const MESSAGES: u64 = 8_000;
    const KEPT_EACH: u64 = 10;
    let subject = TrimFixture::new().await;
    for batch in 0..MESSAGES / 200 {
        let messages = (batch * 200..(batch + 1) * 200).map(|n| {
            let ttl = if n % KEPT_EACH == 0 { None } else { Ttl::from_secs(60) };
            subject.long_message(n, ttl)
        });
        subject.store.append(messages.collect()).await.unwrap();
    }
    let flush = |tables: &Tables| tables.compact(Table::Messages).map_err(StoreError::unavailable);
    subject.store.read(flush).await.unwrap();
    let nothing_purged = |tx: &mut Tx<'_>| {
        tx.put(Table::Meta, PURGED, &0u64);
        Ok(())
    };
    subject.store.write(nothing_purged).await.unwrap();
    let drop_old_files = |tables: &Tables| tables.drop_old_files().map_err(StoreError::unavailable);
    subject.store.read(drop_old_files).await.unwrap();
    let (table_before, files_before) = subject.space().await;
    subject.clock.advance(Duration::from_secs(60));
    subject.trim().await;
    let (table_purged, files_purged) = subject.space().await;

    let started = Instant::now();
    let compacting = tokio::spawn(subject.compact(1 << 20));
    let (mut sends, mut longest) = (0, Duration::ZERO);
    while !compacting.is_finished() {
        let sent = Instant::now();
        subject.send(subject.long_message(MESSAGES + sends, None)).await;
        longest = longest.max(sent.elapsed());
        sends += 1;
    }
    compacting.await.unwrap();
    let took = started.elapsed();
    let (table_after, files_after) = subject.space().await;
    println!("table: {table_before} bytes, purged {table_purged}, compacted {table_after}");
    println!("files: {files_before} bytes, purged {files_purged}, compacted {files_after}");
    println!("took {took:?}, meanwhile {sends} sends, the longest {longest:?}");

    assert!(table_before > 30 << 20, "{table_before}");
    assert!(table_after < table_before / 5, "{table_after} of {table_before}");
    assert!(files_after < files_before / 4, "{files_after} of {files_before}");
    assert!(sends > 1, "{sends}");
    assert_eq!(subject.rows(Table::Messages).await as u64, MESSAGES / KEPT_EACH + sends);
    assert_eq!(subject.purged_bytes().await, 0);
}
