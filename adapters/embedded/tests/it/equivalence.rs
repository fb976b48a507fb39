//! The embedded store and the memory store return the same results for random operations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Body, ChatCommand, ChatId, ChatUpdate, ClientMessageId, CodeDevice, ContentType, DeviceId, DirectPair, EventBody,
    MessageId, PendingCode, PushDevice, PushTarget, RefreshAttempt, Role, Sequence, Session, SessionId, Timestamp, Ttl,
    UpdateAction, UserId, WatermarkKind,
};
use memory::{ManualClock, MemoryStore, SequentialIds};
use ports::{
    BlockStore, ChatReader, ChatWriter, Clock, CodeStore, ContactStore, EventLog, MessageKey, MessageReader,
    MessageWriter, NewDirectChat, NewEntry, NewGroup, NewMessage, NewUpdate, Notice, NoticeStore, PageBounds, Position,
    PushDeviceStore, Record, RequestKey, RequestStore, SessionStore, Settled, StoredResponse, SystemClock, UnreadQuery,
    WatermarkStore,
};
use proptest::prelude::*;
use proptest::sample::select;
use ulid::Ulid;
use uuid::Uuid;

use crate::fixtures::open_at;

/// The chat with the last message to expire.
const LAST: u8 = 6;
/// Maximum wait for the store's own thread to purge. It runs every second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Random operations on few users and chats, so that they interact.
#[derive(Clone, Debug)]
enum StoreOperation {
    CreateGroup { chat: u8, owner: u8, member: u8 },
    CreateDirect { one: u8, other: u8 },
    Commit(Vec<(u8, u8, u8, EntryChoice)>),
    Apply { chat: u8, actor: u8, command: u8, target: u8 },
    Advance { user: u8, chat: u8, read: bool, to: u64 },
    SignIn { user: u8, device: u8 },
    Refresh { session: u8, device: u8, presented: u8, successor: u8 },
    Revoke { user: u8, sessions: Vec<u8> },
    IssueCode { phone: u8, digest: u8 },
    TryCode { phone: u8, digest: u8 },
    Begin { user: u8, key: u8, fingerprint: u8 },
    Finish { user: u8, key: u8 },
    Register { user: u8, device: u8 },
    Unregister { user: u8, device: u8 },
    List { user: u8, contact: u8 },
    Unlist { user: u8, contact: u8 },
    Block { user: u8, other: u8 },
    Unblock { user: u8, other: u8 },
    Owe { user: u8, device: u8, from: u64, due_in: u64 },
    TakeDue { count: usize },
    Settle { user: u8, device: u8, from: u64, how: u8 },
    Restart,
}

/// An entry of a batch. Updates are of a message at a sequence.
#[derive(Clone, Debug)]
enum EntryChoice {
    Message { other: bool },
    Edit { target: u64, other: bool },
    Delete { target: u64 },
    React { target: u64, heart: bool },
    Unreact { target: u64, heart: bool },
}

fn entry() -> impl Strategy<Value = EntryChoice> {
    use EntryChoice::*;
    let target = || 1u64..8;
    prop_oneof![
        5 => any::<bool>().prop_map(|other| Message { other }),
        2 => (target(), any::<bool>()).prop_map(|(target, other)| Edit { target, other }),
        1 => target().prop_map(|target| Delete { target }),
        4 => (target(), any::<bool>()).prop_map(|(target, heart)| React { target, heart }),
        2 => (target(), any::<bool>()).prop_map(|(target, heart)| Unreact { target, heart }),
    ]
}

/// One chat more often than the others, so that many updates find their message.
fn busy_chat() -> impl Strategy<Value = u8> {
    select(vec![0, 0, 0, 1, 2, 3, 4, 5])
}

fn operation() -> impl Strategy<Value = StoreOperation> {
    use StoreOperation::*;
    let few = || 0u8..3;
    prop_oneof![
        2 => (few(), few(), few()).prop_map(|(chat, owner, member)| CreateGroup { chat, owner, member }),
        1 => (few(), few()).prop_map(|(one, other)| CreateDirect { one, other }),
        20 => proptest::collection::vec((busy_chat(), few(), 0u8..40, entry()), 1..12).prop_map(Commit),
        5 => (0u8..6, few(), 0u8..8, few())
            .prop_map(|(chat, actor, command, target)| Apply { chat, actor, command, target }),
        3 => (few(), 0u8..6, any::<bool>(), 0u64..10)
            .prop_map(|(user, chat, read, to)| Advance { user, chat, read, to }),
        2 => (few(), few()).prop_map(|(user, device)| SignIn { user, device }),
        2 => (0u8..20, few(), few(), few())
            .prop_map(|(session, device, presented, successor)| Refresh { session, device, presented, successor }),
        1 => (few(), proptest::collection::vec(0u8..20, 0..3)).prop_map(|(user, sessions)| Revoke { user, sessions }),
        1 => (few(), few()).prop_map(|(phone, digest)| IssueCode { phone, digest }),
        3 => (few(), few()).prop_map(|(phone, digest)| TryCode { phone, digest }),
        2 => (few(), few(), few()).prop_map(|(user, key, fingerprint)| Begin { user, key, fingerprint }),
        1 => (few(), few()).prop_map(|(user, key)| Finish { user, key }),
        1 => (few(), few()).prop_map(|(user, device)| Register { user, device }),
        1 => (few(), few()).prop_map(|(user, device)| Unregister { user, device }),
        2 => (few(), few()).prop_map(|(user, contact)| List { user, contact }),
        1 => (few(), few()).prop_map(|(user, contact)| Unlist { user, contact }),
        1 => (few(), few()).prop_map(|(user, other)| Block { user, other }),
        1 => (few(), few()).prop_map(|(user, other)| Unblock { user, other }),
        2 => (few(), few(), 0u64..3, 0u64..4)
            .prop_map(|(user, device, from, due_in)| Owe { user, device, from, due_in }),
        2 => (0usize..3).prop_map(|count| TakeDue { count }),
        2 => (few(), few(), 0u64..3, 0u8..3)
            .prop_map(|(user, device, from, how)| Settle { user, device, from, how }),
        1 => Just(Restart),
    ]
}

fn user(n: u8) -> UserId {
    UserId::from_bytes([n; 16])
}

fn chat(n: u8) -> ChatId {
    ChatId::from_bytes([n; 16])
}

fn session_id(n: u8) -> SessionId {
    SessionId::from_bytes([n; 16])
}

fn device(n: u8) -> DeviceId {
    DeviceId::from_bytes([n; 16])
}

fn request(user_: u8, key: u8) -> RequestKey {
    RequestKey { user_id: user(user_), key: Uuid::from_bytes([key; 16]) }
}

fn notice(user_: u8, device_: u8, from: u64, due_at: Timestamp) -> Notice {
    Notice {
        user_id: user(user_),
        chat_id: chat(0),
        device_id: device(device_),
        from: Sequence(from),
        due_at,
        attempts: 0,
    }
}

/// An entry of a batch. A fifth of the messages have a ttl, and a few updates have one of the service.
fn new_entry(chat_: u8, author: u8, id: u8, entry_id: MessageId, choice: EntryChoice, now: Timestamp) -> NewEntry {
    let (chat_id, user_id) = (chat(chat_), user(author));
    let client_message_id = ClientMessageId::from_bytes([id; 16]);
    let body = |other| {
        let content = if other { "other" } else { "content" }.to_owned().try_into().unwrap();
        Body::new(content, if id.is_multiple_of(2) { ContentType::Text } else { ContentType::Encrypted })
    };
    let reaction = |heart| if heart { "❤️" } else { "👍" }.parse().unwrap();
    let (target, action) = match choice {
        EntryChoice::Message { other } => {
            let message = NewMessage {
                chat_id,
                sender_id: user_id,
                client_message_id,
                message_id: entry_id,
                body: body(other),
                ttl: id.is_multiple_of(5).then(|| Ttl::from_secs(60).unwrap()),
                ttl_max: None,
                created_at: now,
                origin_connection_id: None,
            };
            return message.into();
        }
        EntryChoice::Edit { target, other } => (target, UpdateAction::Edit(body(other))),
        EntryChoice::Delete { target } => (target, UpdateAction::Delete),
        EntryChoice::React { target, heart } => (target, UpdateAction::React(reaction(heart))),
        EntryChoice::Unreact { target, heart } => (target, UpdateAction::Unreact(reaction(heart))),
    };
    let update = NewUpdate {
        chat_id,
        user_id,
        client_message_id,
        update_id: entry_id,
        target: Sequence(target),
        action,
        window: id.is_multiple_of(3).then_some(Duration::from_secs(5)),
        ttl_max: id.is_multiple_of(7).then(|| Ttl::from_secs(70).unwrap()),
        created_at: now,
    };
    update.into()
}

/// Runs one operation and returns its outcome as text.
async fn perform<S>(store: &S, operation: &StoreOperation, step: u8, now: Timestamp) -> String
where
    S: ChatWriter
        + MessageWriter
        + WatermarkStore
        + SessionStore
        + CodeStore
        + RequestStore
        + PushDeviceStore
        + NoticeStore
        + ContactStore
        + BlockStore,
{
    match operation.clone() {
        StoreOperation::CreateGroup { chat: chat_id, owner, member } => {
            let members = if member == owner { vec![] } else { vec![user(member)] };
            let name = "group".to_owned().try_into().unwrap();
            let group = NewGroup { chat_id: chat(chat_id), name, created_by: user(owner), members, created_at: now };
            format!("{:?}", store.create_group(group).await.unwrap())
        }
        StoreOperation::CreateDirect { one, other } => match DirectPair::new(user(one), user(other)) {
            Some(pair) => {
                // Each of the three pairs has its own id, after those of the groups.
                let chat_id = chat(2 + one + other);
                let direct = NewDirectChat { chat_id, pair, created_by: user(one), created_at: now };
                format!("{:?}", store.create_direct(direct).await.unwrap())
            }
            None => String::new(),
        },
        StoreOperation::Commit(entries) => {
            let entry = |(index, (chat_id, author, id, choice)): (usize, (u8, u8, u8, EntryChoice))| {
                let entry_id = MessageId::from_bytes([[step; 8], [index as u8; 8]].concat().try_into().unwrap());
                new_entry(chat_id, author, id, entry_id, choice, now)
            };
            format!("{:?}", store.commit(entries.into_iter().enumerate().map(entry).collect()).await.unwrap())
        }
        StoreOperation::Apply { chat: chat_id, actor, command, target } => {
            let user_id = user(target);
            let command = match command {
                0 => ChatCommand::AddMember { user_id, role: Role::Member },
                1 => ChatCommand::RemoveMember { user_id },
                2 => ChatCommand::ChangeRole { user_id, role: Role::Owner },
                3 => ChatCommand::Leave,
                4 => ChatCommand::Mute { until: Some(now) },
                5 => ChatCommand::Update(ChatUpdate::name("renamed".to_owned().try_into().unwrap())),
                // Longer than a run, so that nothing expires before its end.
                6 => ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(90 + u64::from(target)))),
                _ => ChatCommand::Update(ChatUpdate::message_ttl(None)),
            };
            format!("{:?}", store.apply(chat(chat_id), user(actor), command, now).await.unwrap())
        }
        StoreOperation::Advance { user: user_id, chat: chat_id, read, to } => {
            let kind = if read { WatermarkKind::Read } else { WatermarkKind::Delivered };
            format!("{:?}", store.advance(user(user_id), chat(chat_id), kind, Sequence(to), now).await.unwrap())
        }
        StoreOperation::SignIn { user: user_id, device: device_id } => {
            let session = Session {
                session_id: session_id(step),
                user_id: user(user_id),
                device_id: device(device_id),
                created_at: now,
                last_active_at: now,
                expires_at: now + Duration::from_secs(3600),
                current: [0; 32],
                spent: None,
                overtaken: vec![],
            };
            format!("{:?}", store.create(session).await.unwrap())
        }
        StoreOperation::Refresh { session, device: device_id, presented, successor } => {
            let attempt = RefreshAttempt {
                presented: [presented; 32],
                is_authentic: true,
                device_id: device(device_id),
                successor: [successor; 32],
                now,
                expires_at: now + Duration::from_secs(7200),
            };
            format!("{:?}", store.refresh(session_id(session), attempt).await.unwrap())
        }
        StoreOperation::Revoke { user: user_id, sessions } => {
            let sessions: Vec<_> = sessions.into_iter().map(session_id).collect();
            format!("{:?}", store.revoke(user(user_id), &sessions).await.unwrap())
        }
        StoreOperation::IssueCode { phone, digest } => {
            let expires_at = now + Duration::from_secs(60);
            let code = PendingCode { digest: [digest; 32], expires_at, tries_left: 5 };
            format!("{:?}", store.issue([phone; 32], code).await.unwrap())
        }
        StoreOperation::TryCode { phone, digest } => {
            format!("{:?}", store.attempt([phone; 32], [digest; 32], CodeDevice::Unknown, now).await.unwrap())
        }
        StoreOperation::Begin { user: user_id, key, fingerprint } => {
            let reserve = Ulid::from_parts(0, u128::from(step));
            format!("{:?}", store.begin(request(user_id, key), [fingerprint; 32], reserve, now).await.unwrap())
        }
        StoreOperation::Finish { user: user_id, key } => {
            let response = StoredResponse { status: 201, body: vec![step] };
            format!("{:?}", store.finish(request(user_id, key), response).await.unwrap())
        }
        StoreOperation::Register { user: user_id, device: device_id } => {
            let target = PushTarget::Webhook("token".to_owned().try_into().unwrap());
            let (user_id, device_id) = (user(user_id), device(device_id));
            let device = PushDevice { user_id, device_id, target, registered_at: now };
            format!("{:?}", store.put(device).await.unwrap())
        }
        StoreOperation::Unregister { user: user_id, device: device_id } => {
            format!("{:?}", PushDeviceStore::remove(store, user(user_id), device(device_id)).await.unwrap())
        }
        StoreOperation::List { user: user_id, contact } => {
            format!("{:?}", store.add(user(user_id), user(contact)).await.unwrap())
        }
        StoreOperation::Unlist { user: user_id, contact } => {
            format!("{:?}", ContactStore::remove(store, user(user_id), user(contact)).await.unwrap())
        }
        StoreOperation::Block { user: user_id, other } => {
            format!("{:?}", store.block(user(user_id), user(other)).await.unwrap())
        }
        StoreOperation::Unblock { user: user_id, other } => {
            format!("{:?}", store.unblock(user(user_id), user(other)).await.unwrap())
        }
        StoreOperation::Owe { user, device, from, due_in } => {
            let notice = notice(user, device, from, now + Duration::from_secs(due_in));
            format!("{:?}", store.add_notices(vec![notice]).await.unwrap())
        }
        StoreOperation::TakeDue { count } => {
            format!("{:?}", store.take_due(now, now + Duration::from_secs(5), count).await.unwrap())
        }
        StoreOperation::Settle { user, device, from, how } => {
            let later = now + Duration::from_secs(3);
            let settled = match how {
                0 => Settled::Notified { silent_until: later },
                1 => Settled::Again { at: later },
                _ => Settled::Dropped,
            };
            format!("{:?}", store.settle(&notice(user, device, from, now), settled).await.unwrap())
        }
        StoreOperation::Restart => String::new(),
    }
}

/// All readable data of chats, as text.
async fn read_chats<S>(store: &S, now: Timestamp) -> Vec<String>
where
    S: ChatReader + MessageReader + WatermarkStore,
{
    let chats: Vec<_> = (0..=LAST).map(chat).collect();
    let locations: Vec<_> = (0..3).flat_map(|n| chats.iter().map(move |chat_id| (user(n), *chat_id))).collect();
    let unread = |read| -> Vec<_> {
        let query = |(reader, chat_id): &(UserId, ChatId)| UnreadQuery { chat_id: *chat_id, reader: *reader, read };
        locations.iter().map(query).collect()
    };
    let mut read = vec![
        format!("{:?}", store.chats(&chats).await.unwrap()),
        format!("{:?}", store.first_members(&chats, 2).await.unwrap()),
        format!("{:?}", store.heads(&chats).await.unwrap()),
        format!("{:?}", store.delivery_states(&locations).await.unwrap()),
        format!("{:?}", store.unread(&unread(Sequence::ZERO), now).await.unwrap()),
        format!("{:?}", store.unread(&unread(Sequence(2)), now).await.unwrap()),
    ];
    for chat_id in chats {
        read.push(format!("{:?}", store.members(chat_id).await.unwrap()));
        for (after, count, bytes) in [(0, 1000, usize::MAX), (1, 7, 40), (3, 7, usize::MAX), (4, 1000, 1500)] {
            let page = store.after(chat_id, Sequence(after), PageBounds { count, bytes }, now).await;
            read.push(format!("{:?}", page.unwrap()));
        }
        read.push(format!("{:?}", store.before(chat_id, Sequence(5), 3, now).await.unwrap()));
        let messages = store.before(chat_id, Sequence(u64::MAX), 1000, now).await.unwrap();
        let messages: Vec<_> = messages.iter().map(MessageKey::from).collect();
        for n in 0..3 {
            read.push(format!("{:?}", store.own_reactions(&messages, user(n)).await.unwrap()));
        }
        for message in messages {
            read.push(format!("{:?}", store.reactions(message, Some(user(0)), 1).await.unwrap()));
        }
    }
    for n in 0..3 {
        read.push(format!("{:?}", store.memberships(user(n)).await.unwrap()));
    }
    read
}

/// All readable data of users, as text.
async fn read_users<S>(store: &S, now: Timestamp) -> Vec<String>
where
    S: SessionStore + PushDeviceStore + ContactStore + BlockStore,
{
    let mut read = vec![format!("{:?}", store.devices(&[user(2), user(0), user(1)]).await.unwrap())];
    for n in 0..3 {
        read.push(format!("{:?}", store.sessions(user(n), now).await.unwrap()));
        read.push(format!("{:?}", store.contacts(user(n), None, 2).await.unwrap()));
        read.push(format!("{:?}", store.contacts(user(n), Some(user(0)), 2).await.unwrap()));
        let pairs: Vec<_> = (0..3).map(|contact| (user(n), user(contact))).collect();
        read.push(format!("{:?}", store.listed(&pairs).await.unwrap()));
        read.push(format!("{:?}", store.blocks(user(n), Some(user(0)), 2).await.unwrap()));
        read.push(format!("{:?}", store.blocked(&pairs).await.unwrap()));
    }
    read
}

/// All events of the log with their positions. Two parts are left out:
///
/// - the time of a change, which is that of the store's own clock
/// - the message of an event. A log may return a later state than that of the commit, which readers return anyway.
async fn read_log(store: &impl EventLog) -> Vec<(Position, Option<Timestamp>, String)> {
    let mut read = vec![];
    let mut consumer = store.consumer("reader").await.unwrap();
    while store.lag("reader").await.unwrap() > 0 {
        for Record { position, event } in consumer.next().await.unwrap() {
            let time = (!event.body.is_change()).then_some(event.event_time);
            let body = match &event.body {
                EventBody::MessagePersisted { message, .. } => format!("{:?}", MessageKey::from(message)),
                EventBody::MessageUpdated { update, message } => {
                    format!("{update:?} of {:?}", message.as_ref().map(MessageKey::from))
                }
                body => format!("{body:?}"),
            };
            read.push((position, time, body));
        }
        consumer.commit().await.unwrap();
    }
    read
}

/// Waits until the log says that messages of a chat were purged.
async fn purged(store: &impl EventLog, chat_id: ChatId) {
    let mut consumer = store.consumer("waiter").await.unwrap();
    let is_purge = |record: &Record| {
        matches!(&record.event.body, EventBody::MessagesExpired { .. }) && record.event.body.chat_id() == chat_id
    };
    loop {
        let records = tokio::time::timeout(PATIENCE, consumer.next()).await.expect("the purge is told").unwrap();
        if records.iter().any(is_purge) {
            return;
        }
    }
}

/// Creates a chat with a message that expires after all others.
async fn send_last(store: &(impl ChatWriter + MessageWriter), now: Timestamp) {
    let name = "last".to_owned().try_into().unwrap();
    let created_by = user(0);
    let group = NewGroup { chat_id: chat(LAST), name, created_by, members: vec![], created_at: now };
    store.create_group(group).await.unwrap();
    let entry_id = MessageId::from_bytes([0xff; 16]);
    let NewEntry::Message(message) = new_entry(LAST, 0, 0, entry_id, EntryChoice::Message { other: false }, now) else {
        unreachable!("it is a message");
    };
    store.append(vec![NewMessage { ttl: Ttl::from_secs(1000), ..message }]).await.unwrap();
}

async fn compare(path: &Path, operations: &[StoreOperation]) -> Result<(), TestCaseError> {
    let memory = MemoryStore::new(Arc::new(SequentialIds::default()));
    let start = SystemClock.now();
    let mut now = start;
    // The clock of the store stands still, so that its thread purges nothing between the operations.
    let clock = Arc::new(ManualClock::at(start));
    let mut embedded = open_at(path, clock.clone());
    // A group for most of the batches.
    let group = StoreOperation::CreateGroup { chat: 0, owner: 0, member: 1 };
    for (step, operation) in std::iter::once(&group).chain(operations).enumerate() {
        now = now + Duration::from_secs(1);
        if let StoreOperation::Restart = operation {
            embedded.close().await;
            embedded = open_at(path, clock.clone());
        }
        let expected = perform(&memory, operation, step as u8, now).await;
        let answered = perform(&embedded, operation, step as u8, now).await;
        prop_assert_eq!(answered, expected, "step {} of {:?}", step, operation);
    }
    send_last(&memory, now).await;
    send_last(&embedded, now).await;
    let later = now + Duration::from_secs(1800);
    for at in [start, now, later] {
        prop_assert_eq!(read_chats(&embedded, at).await, read_chats(&memory, at).await);
        prop_assert_eq!(read_users(&embedded, at).await, read_users(&memory, at).await);
    }

    // The embedded store purges on its own thread when its clock advances, in the order of expiry.
    clock.set(later);
    memory.purge_expired(later);
    purged(&embedded, chat(LAST)).await;
    prop_assert_eq!(read_log(&embedded).await, read_log(&memory).await);
    for at in [start, later] {
        prop_assert_eq!(read_chats(&embedded, at).await, read_chats(&memory, at).await);
    }
    embedded.close().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_embedded_store_answers_like_the_memory_store(operations in proptest::collection::vec(operation(), 1..50)) {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(directory.path(), &operations))?;
    }
}
