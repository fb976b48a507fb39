use std::fs;
use std::sync::Arc;

use domain::{Body, Content, ContentType, Reaction, Role, UpdateAction};
use ports::{
    AppendOutcome, ChatReader, ChatWriter, Clock, Ids, MessageKey, MessageReader, MessageWriter, NewGroup, NewMessage,
    NewUpdate, PageBounds, SystemClock,
};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{EmbeddedStore, journal};

const MESSAGES: u64 = 200;

/// A closed store of three chats, with rows in table files, in the journal, or in both.
struct DamagedStore {
    directory: TempDir,
    chats: Vec<ChatId>,
    key: Option<StoreKey>,
}

fn try_open(directory: &Path, key: Option<&StoreKey>) -> Result<EmbeddedStore, StoreOpenError> {
    let config = Config { key: key.cloned(), ..Config::default() };
    EmbeddedStore::open(directory, config, Arc::new(SystemClock), Arc::new(RandomIds))
}

fn store_key(byte: u8) -> StoreKey {
    StoreKey::derive(&[byte; 32]).unwrap()
}

/// A chat with its owner as the only member.
async fn new_chat(store: &EmbeddedStore, owner: UserId) -> ChatId {
    let group = NewGroup {
        chat_id: RandomIds.ulid().into(),
        name: "damaged".to_owned().try_into().unwrap(),
        created_by: owner,
        members: vec![],
        created_at: SystemClock.now(),
    };
    store.create_group(group).await.unwrap().chat().chat_id
}

fn new_message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        body: Body::new(Content::try_from("x".repeat(128)).unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}

impl DamagedStore {
    /// Every chat has half of its messages in table files and half in the journal only, one commit each.
    async fn new() -> Self {
        Self::with_key(None).await
    }

    /// The same, encrypted with a key if there is one.
    async fn with_key(key: Option<StoreKey>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = try_open(directory.path(), key.as_ref()).unwrap();
        let sender_id = RandomIds.ulid().into();
        let mut chats = vec![];
        for _ in 0..3 {
            chats.push(new_chat(&store, sender_id).await);
        }
        let send = async |count: u64| {
            for _ in 0..count {
                let messages = chats.iter().map(|chat_id| new_message(*chat_id, sender_id)).collect();
                let appended = store.append(messages).await.unwrap();
                assert!(appended.iter().all(|appended| matches!(appended, AppendOutcome::New(_))));
            }
        };
        send(MESSAGES).await;
        let tables = store.tables().await.unwrap();
        tokio::task::spawn_blocking(move || Table::ALL.iter().for_each(|table| tables.compact(*table).unwrap()))
            .await
            .unwrap();
        let journal = directory.path().join("db").join("1.jnl");
        let flushed = journal::scan(&journal, None, &mut ()).unwrap().end;
        send(MESSAGES).await;
        store.close().await;
        // The engine removes whole flushed journals, once they are long.
        let bytes = fs::read(&journal).unwrap();
        fs::write(&journal, &bytes[flushed as usize..]).unwrap();
        Self { directory, chats, key }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The only file of a table.
    fn file(&self, table: Table) -> PathBuf {
        let source = RawDatabase::open(&self.path().join("db")).unwrap();
        let number = source.number(table.name()).expect("the table is there");
        let tables = self.path().join("db").join("keyspaces").join(number.to_string()).join("tables");
        let mut files: Vec<_> = fs::read_dir(tables).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort_by_key(|file| fs::metadata(file).unwrap().len());
        files.pop().expect("it was flushed")
    }

    /// Runs a repair, and asserts that it does not change the damaged store.
    async fn repaired(&self) -> (TempDir, Repaired) {
        let (into, repaired) = self.try_repair(self.key.clone()).await;
        assert!(!into.path().join(SALVAGED).exists());
        (into, repaired.unwrap())
    }

    /// The same with another key, which may be refused.
    async fn try_repair(&self, key: Option<StoreKey>) -> (TempDir, Result<Repaired, RepairError>) {
        let before = contents(self.path());
        let into = tempfile::tempdir().unwrap();
        let (from, path) = (self.path().to_owned(), into.path().to_owned());
        let repaired =
            tokio::task::spawn_blocking(move || repair(&from, &path, key.as_ref(), SystemClock.now(), |_| {}));
        let repaired = repaired.await.unwrap();
        assert_eq!(contents(self.path()), before, "the original is as it was");
        (into, repaired)
    }

    /// The sequences of the messages in a repaired copy of this store by chat. Also sends a message into each chat.
    async fn sequences(&self, copy: &Path) -> Vec<BTreeSet<u64>> {
        let store = try_open(copy, self.key.as_ref()).unwrap();
        let mut found = vec![];
        for chat_id in &self.chats {
            let messages = store.before(*chat_id, Sequence(u64::MAX), 10_000, SystemClock.now()).await.unwrap();
            found.push(messages.iter().map(|message| message.sequence.0).collect());
            let sender_id = store.members(*chat_id).await.unwrap()[0].user_id;
            let head = store.head(*chat_id).await.unwrap().unwrap().sequence.0;
            match store.append(vec![new_message(*chat_id, sender_id)]).await.unwrap()[0] {
                AppendOutcome::New(receipt) => assert_eq!(receipt.sequence.0, head + 1),
                refused => panic!("{refused:?}"),
            }
        }
        store.close().await;
        found
    }
}

/// An update of the message at a sequence.
fn new_update(chat_id: ChatId, user_id: UserId, target: u64, action: UpdateAction) -> NewUpdate {
    NewUpdate {
        chat_id,
        user_id,
        client_message_id: Uuid::new_v4().into(),
        update_id: RandomIds.ulid().into(),
        target: Sequence(target),
        action,
        window: None,
        ttl_max: None,
        created_at: SystemClock.now(),
    }
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0xff;
    fs::write(file, bytes).unwrap();
}

/// Every file below a directory, with its content.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn all() -> BTreeSet<u64> {
    (1..=2 * MESSAGES).collect()
}

#[tokio::test]
async fn an_undamaged_store_is_copied_whole() {
    let subject = DamagedStore::new().await;
    let (into, repaired) = subject.repaired().await;
    assert_eq!(repaired.unreadable, []);
    assert_eq!((repaired.missing, repaired.left_out), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(repaired.saved["message"], 3 * 2 * MESSAGES);
    assert_eq!(subject.sequences(into.path()).await, [all(), all(), all()]);
}

#[tokio::test]
async fn an_unreadable_block_loses_its_messages_and_they_are_listed_one_by_one() {
    let subject = DamagedStore::new().await;
    let file = subject.file(Table::Messages);
    flip(&file, fs::metadata(&file).unwrap().len() as usize / 3);
    let (into, repaired) = subject.repaired().await;
    assert!(repaired.unreadable.iter().all(|unreadable| unreadable.file == file), "{:?}", repaired.unreadable);
    assert_eq!(repaired.unreadable.len(), 1);
    let found = subject.sequences(into.path()).await;
    let mut lost = 0;
    for (chat_id, found) in subject.chats.iter().zip(found) {
        let missing = repaired.missing.get(chat_id).cloned().unwrap_or_default();
        assert_eq!(missing.lost_or_expired, BTreeSet::new(), "their places are readable");
        lost += missing.lost.len();
        assert_eq!(found.union(&missing.lost).copied().collect::<BTreeSet<_>>(), all());
        assert!(found.is_disjoint(&missing.lost));
    }
    assert!((1..MESSAGES as usize).contains(&lost), "{lost}");
}

#[tokio::test]
async fn a_file_without_its_index_is_read_from_the_beginning() {
    let subject = DamagedStore::new().await;
    let file = subject.file(Table::Messages);
    let len = fs::metadata(&file).unwrap().len();
    fs::File::options().write(true).open(&file).unwrap().set_len(len - 40).unwrap();
    let (into, repaired) = subject.repaired().await;
    assert_eq!(repaired.unreadable.len(), 1);
    assert_eq!(repaired.missing, BTreeMap::new());
    assert_eq!(subject.sequences(into.path()).await, [all(), all(), all()]);
}

#[tokio::test]
async fn commits_after_a_hole_in_the_journal_are_saved() {
    let subject = DamagedStore::new().await;
    let journal = subject.path().join("db").join("1.jnl");
    let bytes = fs::read(&journal).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    flip(&journal, used - used / 8);
    let into = tempfile::tempdir().unwrap();
    assert!(matches!(try_open(subject.path(), None).err(), Some(StoreOpenError::Engine { .. })));
    drop(into);
    let (into, repaired) = subject.repaired().await;
    assert_eq!(repaired.unreadable.len(), 1, "{:?}", repaired.unreadable);
    let found = subject.sequences(into.path()).await;
    // One commit is lost: one message of each chat, with all references to it.
    for (chat_id, found) in subject.chats.iter().zip(found) {
        let missing = &repaired.missing[chat_id];
        assert_eq!((missing.lost.len(), missing.lost_or_expired.len()), (0, 1));
        assert_eq!(found.union(&missing.lost_or_expired).copied().collect::<BTreeSet<_>>(), all());
    }
}

#[tokio::test]
async fn a_chat_that_lost_its_row_and_head_is_made_again_from_its_members_and_messages() {
    let subject = DamagedStore::new().await;
    for table in [Table::Chats, Table::Heads] {
        let file = subject.file(table);
        fs::write(&file, vec![0; 100]).unwrap();
    }
    // Heads are in the journal too, but chats are not.
    let (into, repaired) = subject.repaired().await;
    let mut expected = subject.chats.clone();
    expected.sort_unstable();
    assert_eq!(repaired.recovered_chats, expected);
    assert_eq!(subject.sequences(into.path()).await, [all(), all(), all()]);
}

/// Two messages and four updates. The head row is lost, in the second round with the last update.
#[tokio::test]
async fn a_chat_that_lost_its_head_goes_on_above_its_updates() {
    for last_is_lost in [false, true] {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = try_open(from.path(), None).unwrap();
        let owner: UserId = RandomIds.ulid().into();
        let chat_id = new_chat(&store, owner).await;
        let [thumb, heart]: [Reaction; 2] = ["👍", "❤️"].map(|text| text.parse().unwrap());
        let edited = Body::new("edited".to_owned().try_into().unwrap(), ContentType::Text);
        store.append(vec![new_message(chat_id, owner), new_message(chat_id, owner)]).await.unwrap();
        for (target, action) in [
            (1, UpdateAction::React(thumb.clone())),
            (2, UpdateAction::Edit(edited)),
            (1, UpdateAction::Unreact(thumb)),
            (2, UpdateAction::React(heart.clone())),
        ] {
            let outcomes = store.commit(vec![new_update(chat_id, owner, target, action).into()]).await.unwrap();
            assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");
        }
        let lose = store.write(move |tx| {
            tx.delete(Table::Heads, &keys::chat(chat_id));
            if last_is_lost {
                tx.delete(Table::Updates, &keys::message(MessageLocation { chat_id, sequence: Sequence(6) }));
            }
            Ok(())
        });
        lose.await.unwrap();
        store.close().await;

        let (damaged, path) = (from.path().to_owned(), into.path().to_owned());
        let repaired =
            tokio::task::spawn_blocking(move || repair(&damaged, &path, None, SystemClock.now(), |_| {}).unwrap());
        let repaired = repaired.await.unwrap();
        let missing: Vec<_> = repaired.missing.values().flat_map(|missing| missing.lost_or_expired.clone()).collect();
        assert_eq!(missing, if last_is_lost { vec![6] } else { vec![] });
        assert_eq!(repaired.saved["update"], if last_is_lost { 3 } else { 4 });
        let store = try_open(into.path(), None).unwrap();
        let head = store.head(chat_id).await.unwrap().unwrap();
        let last = head.last_message.unwrap();
        assert_eq!((head.sequence, last.sequence), (Sequence(6), Sequence(2)));
        assert_eq!(last.preview, Some("edited".to_owned().try_into().unwrap()));
        let outcomes = store.append(vec![new_message(chat_id, owner)]).await.unwrap();
        assert!(matches!(outcomes[..], [AppendOutcome::New(receipt)] if receipt.sequence == Sequence(7)));
        let bounds = PageBounds { count: 100, bytes: usize::MAX };
        let page = store.after(chat_id, Sequence::ZERO, bounds, SystemClock.now()).await.unwrap();
        let messages: Vec<_> = page.messages.iter().map(|message| message.sequence.0).collect();
        assert_eq!((messages, page.updates.len()), (vec![1, 2, 7], if last_is_lost { 3 } else { 4 }));
        let key = MessageKey::from(&page.messages[1]);
        assert_eq!(store.own_reactions(&[key], owner).await.unwrap(), [vec![heart]]);
        store.close().await;
    }
}

/// The readable version of a head may be from before an update that its message has.
#[test]
fn an_old_head_shows_the_message_as_it_is() {
    let (chat_id, user_id) = (ChatId::from_bytes([1; 16]), UserId::from_bytes([2; 16]));
    let now = SystemClock.now();
    let sent = new_message(chat_id, user_id).at(Sequence(3), None);
    let deleted = Message {
        body: Body::new("edited".to_owned().try_into().unwrap(), ContentType::Text),
        expires_at: Some(now),
        ..sent.clone()
    };
    let traces = Traces {
        head: Some(Head::at(&sent, None, 7)),
        members: vec![Member::new(user_id, Role::Owner, now)],
        last_message: Some(deleted.clone()),
        last_entry: Sequence(5),
        ..Traces::default()
    };
    let (_, head) = traces.chat(chat_id, now, 0).unwrap();
    assert_eq!(head, Head { sequence: Sequence(5), ..Head::at(&deleted, None, 7) });
}

#[tokio::test]
async fn a_keyspace_without_its_list_of_files_is_read_from_all_of_them() {
    let subject = DamagedStore::new().await;
    let keyspace = subject.file(Table::Messages).parent().unwrap().parent().unwrap().to_owned();
    fs::remove_file(keyspace.join("current")).unwrap();
    let (into, repaired) = subject.repaired().await;
    assert_eq!(repaired.unreadable[0].file, keyspace.join("current"));
    assert_eq!(subject.sequences(into.path()).await, [all(), all(), all()]);
}

#[tokio::test]
async fn a_damaged_encrypted_store_is_repaired_into_one_with_the_same_key() {
    let subject = DamagedStore::with_key(Some(store_key(7))).await;
    let file = subject.file(Table::Messages);
    flip(&file, fs::metadata(&file).unwrap().len() as usize / 3);
    let (into, repaired) = subject.repaired().await;
    assert_eq!(repaired.unreadable.len(), 1, "{:?}", repaired.unreadable);
    assert!(try_open(into.path(), None).is_err(), "the copy is encrypted");
    let found = subject.sequences(into.path()).await;
    let lost: usize = repaired.missing.values().map(|missing| missing.lost.len()).sum();
    assert!((1..MESSAGES as usize).contains(&lost), "{lost}");
    for (chat_id, found) in subject.chats.iter().zip(found) {
        let missing = repaired.missing.get(chat_id).cloned().unwrap_or_default();
        assert_eq!(found.union(&missing.lost).copied().collect::<BTreeSet<_>>(), all());
        assert!(found.is_disjoint(&missing.lost));
    }
}

#[tokio::test]
async fn an_encrypted_store_is_not_repaired_with_another_key() {
    let subject = DamagedStore::with_key(Some(store_key(7))).await;
    for key in [None, Some(store_key(8))] {
        let (into, refused) = subject.try_repair(key).await;
        assert!(matches!(refused, Err(RepairError::Open(StoreOpenError::Engine { .. }))), "{refused:?}");
        assert_eq!(fs::read_dir(into.path()).unwrap().count(), 0, "nothing is written");
    }
    // Without the file that names the key, only the rows show that it is another one.
    fs::write(subject.path().join("db").join("STORE"), "damaged").unwrap();
    let (_, repaired) = subject.try_repair(Some(store_key(8))).await;
    let repaired = repaired.unwrap();
    assert_eq!(repaired.saved.values().sum::<u64>(), 0, "{:?}", repaired.saved);
    let reported = |what: &str| repaired.unreadable.iter().any(|unreadable| unreadable.reason.contains(what));
    assert!(reported("rows of `messages` do not decrypt with the given key"), "{:?}", repaired.unreadable);
    // The right key reads all of them.
    let (into, repaired) = subject.repaired().await;
    assert_eq!((repaired.missing, repaired.saved["message"]), (BTreeMap::new(), 3 * 2 * MESSAGES));
    assert_eq!(subject.sequences(into.path()).await, [all(), all(), all()]);
}

#[tokio::test]
async fn a_directory_without_a_store_is_refused() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let refused = repair(from.path(), into.path(), None, SystemClock.now(), |_| {});
    assert!(matches!(refused, Err(RepairError::Open(StoreOpenError::NotOurs(_)))));
    assert_eq!(fs::read_dir(into.path()).unwrap().count(), 0);
}
