//! The plan says how consistent each read is, and the adapter requests it. Here the requests of the real adapter are
//! compared with the plan.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use domain::{Body, ChatId, ContentType, Sequence, UpdateAction, UserId};
use dynamodb::DynamoStore;
use engines::{Dynamo, FaultyDynamo, ObservedRead};
use ports::{
    AppendOutcome, ChatReader, ChatWriter, Clock, Ids, InboxStart, MessageExpirer, MessageKey, MessageReader,
    MessageWriter, NewEntry, NewGroup, NewMessage, NewUpdate, NoticeStore, Outbox, PageBounds, PushDeviceStore,
    RandomIds, RestrictionStore, SessionStore, StoreError, SystemClock, UnreadQuery, UserReader, WatermarkStore,
};
use uuid::Uuid;

use super::*;
use crate::capacity::machine::tests::machine;
use crate::capacity::plan::plan;
use crate::capacity::prices::tests::prices;
use crate::capacity::usage::tests::usage;

const BOUNDS: PageBounds = PageBounds { count: 10, bytes: 1 << 20 };

/// A store behind a proxy that observes its requests, and the rows of the plan that were compared.
struct ReadProbe {
    store: DynamoStore,
    proxy: FaultyDynamo,
    /// The prefix of all tables.
    prefix: String,
    plan: Vec<ReadPlan>,
    compared: BTreeSet<(&'static str, &'static str)>,
    _dynamo: Dynamo,
}

impl ReadProbe {
    async fn start() -> Self {
        let dynamo = Dynamo::start().await;
        let proxy = FaultyDynamo::start(SocketAddr::from((Ipv4Addr::LOCALHOST, dynamo.port()))).await;
        let credentials = Credentials::new("test", "test", None, None, "test");
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .endpoint_url(proxy.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let config = dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() };
        let client = Client::new(&sdk);
        dynamodb::schema::apply(&client, &config).await.unwrap();
        let store = DynamoStore::new(client, &config, Arc::new(SystemClock), Arc::new(RandomIds));
        // A usage with every kind of read.
        let plan = plan(&usage(&["--expiring", "1"]), &machine(), &prices()).reads;
        Self { store, proxy, prefix: config.table_prefix, plan, compared: BTreeSet::new(), _dynamo: dynamo }
    }

    /// Makes a call of the store, and compares its reads with these rows of the plan: `(table, name)`.
    async fn compare<T>(
        &mut self,
        rows: &[(&'static str, &'static str)],
        call: impl AsyncFnOnce(&DynamoStore) -> Result<T, StoreError>,
    ) -> T {
        self.proxy.observed_reads();
        let answer = call(&self.store).await.unwrap();
        let reads = self.proxy.observed_reads();
        for &(table, name) in rows {
            self.compare_row(table, name, &reads);
        }
        answer
    }

    fn compare_row(&mut self, table: &'static str, name: &'static str, reads: &[ObservedRead]) {
        let planned = self.plan.iter().find(|read| (read.table, read.name) == (table, name));
        let planned = planned.unwrap_or_else(|| panic!("the plan has no read `{name}` of {table}"));
        let of_table: Vec<_> = reads.iter().filter(|read| read.table == format!("{}{table}", self.prefix)).collect();
        assert!(!of_table.is_empty(), "`{name}` of {table} is no read of it: {reads:?}");
        for read in of_table {
            let requested = if read.is_strong { Consistency::Strong } else { Consistency::Eventual };
            assert_eq!(requested, planned.consistency, "`{name}` of {table} is requested as {read:?}");
            let index = read.index.as_ref().map(|index| format!("in `{index}`"));
            assert!(index.is_none_or(|index| name.contains(&index)), "`{name}` of {table} does not name {read:?}");
        }
        self.compared.insert((table, name));
    }
}

fn message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}

fn reaction(chat_id: ChatId, user_id: UserId) -> NewEntry {
    let update = NewUpdate {
        chat_id,
        user_id,
        client_message_id: Uuid::new_v4().into(),
        update_id: RandomIds.ulid().into(),
        target: Sequence(1),
        action: UpdateAction::React("party".parse().unwrap()),
        window: None,
        ttl_max: None,
        created_at: SystemClock.now(),
    };
    update.into()
}

#[tokio::test]
async fn every_read_of_the_plan_is_requested_as_consistent_as_planned() {
    let mut probe = ReadProbe::start().await;
    let now = SystemClock.now();
    let (chat_id, user_id): (ChatId, UserId) = (RandomIds.ulid().into(), RandomIds.ulid().into());
    let name = "group".to_owned().try_into().unwrap();
    let group = NewGroup { chat_id, name, created_by: user_id, members: vec![], created_at: now };
    probe.store.create_group(group).await.unwrap();
    let sent = message(chat_id, user_id);
    let message_id = sent.message_id;
    probe.store.append(vec![sent, message(chat_id, user_id)]).await.unwrap();

    // Updates.
    let outcomes = probe
        .compare(
            &[
                ("messages", "the message of an update"),
                ("chat_counters", "the head that an update moves"),
                ("chat_memberships", "the role of a member who updates a message"),
                ("reactions", "the reactions of a member who reacts"),
            ],
            async |store| store.commit(vec![reaction(chat_id, user_id)]).await,
        )
        .await;
    assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");

    // Syncs. The second one begins behind the messages, so that it reads the message of the update alone.
    probe
        .compare(
            &[
                ("messages", "messages that a device has missed"),
                ("updates", "updates that a device has missed"),
                ("messages", "the oldest message of each chat, for retention"),
                ("chat_counters", "the oldest message of each chat, for retention"),
            ],
            async |store| store.after(chat_id, Sequence::ZERO, BOUNDS, now).await,
        )
        .await;
    let page = probe
        .compare(&[("messages", "messages of these updates")], async |store| {
            store.after(chat_id, Sequence(2), BOUNDS, now).await
        })
        .await;
    assert_eq!((page.updates.len(), page.updated.len()), (1, 1));

    // History.
    probe
        .compare(&[("messages", "pages of history")], async |store| store.before(chat_id, Sequence(10), 10, now).await)
        .await;
    let key = MessageKey { chat_id, sequence: Sequence(1), message_id };
    probe
        .compare(&[("reactions", "the caller's reactions on a page of history")], async |store| {
            store.own_reactions(&[key], user_id).await
        })
        .await;
    probe.compare(&[("chat_counters", "the head of a page of history")], async |store| store.head(chat_id).await).await;
    let by_id =
        [("message_locations", "the location of a message, by its id"), ("messages", "a message at its location")];
    probe.compare(&by_id, async |store| store.by_id(message_id, now).await).await;
    let who_reads = "who reads history, or a message by its id";
    probe.compare(&[("chat_memberships", who_reads)], async |store| store.member(chat_id, user_id).await).await;

    // An inbox.
    probe
        .compare(&[("chat_counters", "heads of an inbox"), ("delivery_state", "the chats of a user")], async |store| {
            store.inbox(user_id, InboxStart::First, 20).await
        })
        .await;
    let unread = UnreadQuery { chat_id, reader: RandomIds.ulid().into(), read: Sequence::ZERO };
    probe
        .compare(
            &[
                ("messages", "unread messages of an inbox, which are counted"),
                ("chat_counters", "heads of a page of an inbox, and of its counts"),
                ("messages", "messages of a notice: its text and its count"),
                ("chat_counters", "heads for the text and the count of a notice"),
            ],
            async |store| store.unread(&[unread], now).await,
        )
        .await;
    probe
        .compare(
            &[
                ("delivery_state", "watermarks of a page of an inbox, or of history"),
                ("delivery_state", "watermarks for a notice"),
            ],
            async |store| store.watermarks(&[(user_id, chat_id)]).await,
        )
        .await;
    probe
        .compare(&[("chats", "chats of a page of an inbox")], async |store| ChatReader::chats(store, &[chat_id]).await)
        .await;
    let memberships = [("chat_memberships", "memberships of a page of an inbox")];
    probe.compare(&memberships, async |store| store.memberships_in(user_id, &[chat_id]).await).await;
    probe.compare(&memberships, async |store| store.blocked_chats(&[(chat_id, user_id)]).await).await;
    probe
        .compare(
            &[
                ("users", "people of a page of an inbox"),
                ("users", "presence: the user, and who may see it"),
                ("users", "the sender that a notice names"),
            ],
            async |store| store.users(&[user_id]).await,
        )
        .await;

    // Watermarks.
    probe
        .compare(
            &[
                ("delivery_state", "the watermark before it moves"),
                ("chat_counters", "the head above which no watermark moves"),
            ],
            async |store| store.advance(user_id, chat_id, domain::WatermarkKind::Read, Sequence(1), now).await,
        )
        .await;

    // Pushes and notices.
    probe
        .compare(
            &[("chat_memberships", "members that get a push, after a cache miss"), ("chat_memberships", who_reads)],
            async |store| store.members(chat_id).await,
        )
        .await;
    probe
        .compare(&[("chat_memberships", "members of a chat with a new notice")], async |store| {
            store.first_members(&[chat_id], 10).await
        })
        .await;
    probe
        .compare(&[("push_devices", "devices of offline members, and of a notice")], async |store| {
            store.devices(&[user_id]).await
        })
        .await;
    probe
        .compare(&[("notices", "notices that are due, in `due-index`")], async |store| {
            store.take_due(now, now, 10).await
        })
        .await;
    probe.compare(&[("chats", "the chat of a notice")], async |store| store.chat(chat_id).await).await;
    probe
        .compare(&[("chat_memberships", "the membership for a notice")], async |store| {
            store.member(chat_id, user_id).await
        })
        .await;

    // Connections.
    probe
        .compare(&[("sessions", "the session of a connection")], async |store| {
            store.session(RandomIds.ulid().into(), now).await
        })
        .await;
    // The feed is read once a second.
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_query = |read: &ObservedRead| read.table.ends_with("restrictions");
    let feed = loop {
        probe.proxy.observed_reads();
        probe.store.restrictions(user_id).await.unwrap();
        let reads = probe.proxy.observed_reads();
        if reads.iter().any(is_query) {
            break reads;
        }
        assert!(Instant::now() < deadline, "the feed is not read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    probe.compare_row("restrictions", "changed restrictions of users", &feed);

    // Background work.
    probe
        .compare(
            &[
                ("chat_counters", "unpublished chats, in `dirty-index`"),
                ("outbox", "unpublished events, in `age-index`"),
            ],
            async |store| store.overdue(now).await,
        )
        .await;
    probe.compare(&[("expirations", "messages that have expired")], async |store| store.purge_expired(now).await).await;
    probe.compare(&[("chats", "all chats, for the retention")], async |store| store.chat_ids(None, 10).await).await;

    let planned: BTreeSet<_> = probe.plan.iter().map(|read| (read.table, read.name)).collect();
    let missing: Vec<_> = planned.difference(&probe.compared).collect();
    assert!(missing.is_empty(), "planned, and compared with no request: {missing:?}");
}
