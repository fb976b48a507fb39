use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Body, ChatId, ContentType, ExternalId, GroupInvites, PhoneNumber, PresenceView, PresenceVisibility, Timestamp,
    User, UserId,
};
use memory::{MemoryRoutes, MemoryStore, SequentialIds};
use ports::{
    ChatWriter, Clock, ContactStore, GatewayId, Ids, MessageWriter, NewGroup, NewMessage, NewUser, PresenceLookup,
    PresenceNotifier, PresenceReader, PresenceUpdate, Route, RouteWriter, Routes, StoreError, UserKey, UserReader,
    UserUpdate, UserWriter,
};
use tidings_presence::{PendingRechecks, Presence};
use tokio::task::AbortHandle;
use tokio::time::{self, Instant};

/// How long a gateway's lease lasts after its last heartbeat.
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);
/// Grace period before an offline transition is announced.
pub(crate) const BACK_WITHIN: Duration = Duration::from_millis(250);
/// Longest delay of an announcement to active chats (tier 1, ADR-010 §2.4).
pub(crate) const TIER_1: Duration = Duration::from_secs(1);

/// Follows tokio's clock, which a test can pause and advance.
pub(crate) struct PresenceTestClock(Instant);

impl Clock for PresenceTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000) + self.0.elapsed()
    }
}

/// A service without gateways; the tests play their part.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) routes: Arc<MemoryRoutes>,
    pub(crate) told: Arc<ChangeRecorder>,
    pub(crate) clock: Arc<PresenceTestClock>,
    ids: Arc<SequentialIds>,
}

/// One presence push to one recipient.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PresencePush {
    pub(crate) gateway: String,
    pub(crate) to: UserId,
    pub(crate) of: UserId,
    pub(crate) status: &'static str,
}

/// Records the presence changes sent to gateways.
#[derive(Default)]
pub(crate) struct ChangeRecorder(Mutex<Vec<(Instant, GatewayId, PresenceUpdate)>>);

/// Hides a user while their transition is sent to gateways, like a concurrent change of the setting.
pub(crate) struct HidingDuringPush {
    pub(crate) user_id: UserId,
    pub(crate) world: World,
}

#[async_trait]
impl PresenceNotifier for HidingDuringPush {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        if updates.iter().any(|updates| updates.user_id == self.user_id) {
            self.world.set_visibility(self.user_id, PresenceVisibility::Nobody).await;
        }
        self.world.told.notify(gateway, updates).await
    }
}

/// A routing table that is unavailable.
pub(crate) struct UnavailableRoutes;

#[async_trait]
impl Routes for UnavailableRoutes {
    async fn routes(&self, _: UserId) -> Result<Vec<Route>, StoreError> {
        Err(StoreError::unavailable("away"))
    }

    async fn gateways(&self, _: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        Err(StoreError::unavailable("away"))
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        Err(StoreError::unavailable("away"))
    }

    async fn on_gateway(&self, _: &GatewayId, _: usize) -> Result<Vec<Route>, StoreError> {
        Err(StoreError::unavailable("away"))
    }
}

/// A user store with one corrupt row.
pub(crate) struct CorruptUserStore {
    pub(crate) user_id: UserId,
    pub(crate) store: Arc<MemoryStore>,
}

#[async_trait]
impl UserReader for CorruptUserStore {
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        if user_ids.contains(&self.user_id) {
            return Err(StoreError::Corrupt { table: "users", source: "it is damaged".into() });
        }
        self.store.users(user_ids).await
    }

    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        self.store.by_phone(phone_numbers).await
    }

    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError> {
        self.store.by_external_id(issuer, external_id).await
    }
}

#[async_trait]
impl PresenceNotifier for ChangeRecorder {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        let now = Instant::now();
        self.0.lock().unwrap().extend(updates.into_iter().map(|updates| (now, gateway.clone(), updates)));
        Ok(())
    }
}

impl ChangeRecorder {
    /// All changes since the last call, with their times and gateways.
    pub(crate) fn take(&self) -> Vec<(Instant, GatewayId, PresenceUpdate)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The pushes since the last call, sorted.
    pub(crate) fn pushes(&self) -> Vec<PresencePush> {
        let mut pushes = vec![];
        for (_, gateway, PresenceUpdate { user_id, view, recipients }) in self.take() {
            pushes.extend(recipients.into_iter().map(|to| PresencePush {
                gateway: gateway.0.to_string(),
                to,
                of: user_id,
                status: status(view),
            }));
        }
        pushes.sort();
        pushes
    }
}

pub(crate) fn status(view: PresenceView) -> &'static str {
    match view {
        PresenceView::Online => "online",
        PresenceView::Offline { .. } => "offline",
        PresenceView::Unknown => "unknown",
    }
}

pub(crate) fn run(presence: Arc<Presence>) -> AbortHandle {
    tokio::spawn(async move { presence.run().await }).abort_handle()
}

pub(crate) fn gateway(name: &str) -> GatewayId {
    GatewayId(name.into())
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(PresenceTestClock(Instant::now()));
        let ids = Arc::new(SequentialIds::default());
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), EXPIRY));
        Self { store, routes, told: Arc::default(), clock, ids }
    }

    /// Presence of one process; there may be several.
    pub(crate) fn presence(&self) -> Arc<Presence> {
        self.presence_with(self.told.clone(), self.store.clone())
    }

    pub(crate) fn presence_with(
        &self,
        notifier: Arc<dyn PresenceNotifier>,
        users: Arc<dyn UserReader>,
    ) -> Arc<Presence> {
        Arc::new(Presence {
            routes: self.routes.clone(),
            transitions: self.routes.clone(),
            notifier,
            users,
            last_seen: self.store.clone(),
            contacts: self.store.clone(),
            blocks: self.store.clone(),
            chats: self.store.clone(),
            messages: self.store.clone(),
            clock: self.clock.clone(),
            rechecks: PendingRechecks::default(),
        })
    }

    pub(crate) fn start(&self) -> AbortHandle {
        run(self.presence())
    }

    pub(crate) async fn user(&self, visibility: PresenceVisibility) -> UserId {
        let user_id: UserId = self.ids.ulid().into();
        let new = NewUser {
            user_id,
            display_name: "A".to_owned().try_into().unwrap(),
            group_invites: GroupInvites::default(),
            created_at: self.clock.now(),
            proven_at: self.clock.now(),
        };
        let key = UserKey::External { issuer: "test".to_owned(), subject: user_id.to_string().try_into().unwrap() };
        self.store.find_or_create(key, new).await.unwrap();
        self.set_visibility(user_id, visibility).await;
        user_id
    }

    pub(crate) async fn set_visibility(&self, user_id: UserId, visibility: PresenceVisibility) {
        let update = UserUpdate { presence_visibility: Some(visibility), ..UserUpdate::default() };
        self.store.update(user_id, update, self.clock.now()).await.unwrap();
    }

    pub(crate) async fn befriend(&self, one: UserId, other: UserId) {
        self.store.add(one, other).await.unwrap();
        self.store.add(other, one).await.unwrap();
    }

    /// Sends heartbeats for a gateway from now on.
    pub(crate) async fn keep_heartbeat(&self, name: &str) -> AbortHandle {
        let (routes, gateway) = (self.routes.clone(), gateway(name));
        routes.heartbeat(&gateway).await.unwrap();
        let beats = async move {
            let mut ticks = time::interval(EXPIRY / 3);
            loop {
                ticks.tick().await;
                routes.heartbeat(&gateway).await.unwrap();
            }
        };
        tokio::spawn(beats).abort_handle()
    }

    /// A new connection of a user.
    pub(crate) async fn connect(&self, user_id: UserId, name: &str) -> Route {
        let route = Route {
            connection_id: self.ids.ulid().into(),
            user_id,
            device_id: uuid::Uuid::new_v4().into(),
            gateway: gateway(name),
            connected_at: self.clock.now(),
        };
        self.routes.register(&route).await.unwrap();
        route
    }

    pub(crate) async fn disconnect(&self, route: Route) {
        self.routes.unregister(&[route], BACK_WITHIN).await.unwrap();
    }

    /// A group with a recent message.
    pub(crate) async fn chat(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let chat_id = self.quiet_chat(owner, members).await;
        self.send(chat_id, owner).await;
        chat_id
    }

    /// A group without messages.
    pub(crate) async fn quiet_chat(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = NewGroup {
            chat_id: self.ids.ulid().into(),
            name: "group".to_owned().try_into().unwrap(),
            created_by: owner,
            members: members.to_vec(),
            created_at: self.clock.now(),
        };
        self.store.create_group(group).await.unwrap().chat().chat_id
    }

    pub(crate) async fn send(&self, chat_id: ChatId, sender_id: UserId) {
        let message = NewMessage {
            chat_id,
            sender_id,
            client_message_id: uuid::Uuid::new_v4().into(),
            message_id: self.ids.ulid().into(),
            body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: self.clock.now(),
            origin_connection_id: None,
        };
        self.store.append(vec![message]).await.unwrap();
    }

    pub(crate) async fn lookup(&self, viewer: UserId, user_id: UserId) -> PresenceView {
        self.presence().lookup(&[PresenceLookup { viewer, user_id }]).await.unwrap().remove(0)
    }

    pub(crate) async fn last_seen(&self, user_id: UserId) -> Option<Timestamp> {
        self.store.users(&[user_id]).await.unwrap().remove(0).unwrap().last_seen_at
    }
}
