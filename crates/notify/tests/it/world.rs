use std::sync::Arc;
use std::time::Duration;

use domain::{
    Body, ChatCommand, ChatId, ContentType, DeviceId, DirectPair, GroupInvites, PushDevice, PushTarget, Sequence,
    Timestamp, Ttl, UpdateAction, UserId, WatermarkKind,
};
use memory::{MemoryMemberCache, MemoryRoutes, MemoryStore, SequentialIds};
use ports::{
    AppendOutcome, ChatWriter, Clock, GatewayId, Ids, MessageWriter, NewDirectChat, NewGroup, NewMessage, NewUpdate,
    NewUser, PushDeviceStore, Receipt, Route, RouteWriter, UserKey, UserWriter, WatermarkStore,
};
use tokio::time::Instant;
use uuid::Uuid;

/// Users, chats and devices over the memory store. Clones share the same world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) routes: Arc<MemoryRoutes>,
    pub(crate) members: Arc<MemoryMemberCache>,
    pub(crate) clock: Arc<NotifyTestClock>,
    pub(crate) ids: Arc<SequentialIds>,
}

/// A clock that follows the runtime's time, so tests can pause and advance it.
pub(crate) struct NotifyTestClock(Instant);

impl Clock for NotifyTestClock {
    fn now(&self) -> Timestamp {
        start() + self.0.elapsed()
    }
}

/// 2026-01-30T14:30:00Z.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_millis(1_769_783_400_000)
}

impl World {
    pub(crate) fn new() -> Self {
        let ids = Arc::new(SequentialIds::default());
        let clock = Arc::new(NotifyTestClock(Instant::now()));
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let (routes, members) = (MemoryRoutes::new(clock.clone(), seconds(15)), MemoryMemberCache::new(clock.clone()));
        Self { store, routes: Arc::new(routes), members: Arc::new(members), clock, ids }
    }

    pub(crate) async fn user(&self, name: &str) -> UserId {
        let key = UserKey::External { issuer: "test".to_owned(), subject: name.parse().unwrap() };
        let display_name = name.to_owned().try_into().unwrap();
        let new = NewUser {
            user_id: self.ids.ulid().into(),
            display_name,
            group_invites: GroupInvites::default(),
            created_at: self.clock.now(),
            proven_at: self.clock.now(),
        };
        self.store.find_or_create(key, new).await.unwrap().0.user_id
    }

    /// Registers a device with a token of the operator's service.
    pub(crate) async fn device(&self, user_id: UserId, token: &str) -> PushDevice {
        let target = PushTarget::Webhook(token.to_owned().try_into().unwrap());
        let device_id = DeviceId::from(Uuid::new_v4());
        let device = PushDevice { user_id, device_id, target, registered_at: self.clock.now() };
        assert!(self.store.put(device.clone()).await.unwrap());
        device
    }

    pub(crate) async fn group(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = NewGroup {
            chat_id: self.ids.ulid().into(),
            name: "team".to_owned().try_into().unwrap(),
            created_by: owner,
            members: members.to_vec(),
            created_at: self.clock.now(),
        };
        self.store.create_group(group).await.unwrap().chat().chat_id
    }

    pub(crate) async fn direct(&self, one: UserId, other: UserId) -> ChatId {
        let chat = NewDirectChat {
            chat_id: self.ids.ulid().into(),
            pair: DirectPair::new(one, other).unwrap(),
            created_by: one,
            created_at: self.clock.now(),
        };
        self.store.create_direct(chat).await.unwrap().unwrap().chat().chat_id
    }

    pub(crate) async fn apply(&self, chat_id: ChatId, actor: UserId, command: ChatCommand) {
        self.store.apply(chat_id, actor, command, self.clock.now()).await.unwrap().unwrap();
    }

    pub(crate) async fn send(&self, chat_id: ChatId, sender_id: UserId, text: &str) -> Receipt {
        self.append(self.message(chat_id, sender_id, text)).await
    }

    pub(crate) async fn send_for(&self, chat_id: ChatId, sender_id: UserId, text: &str, ttl: Ttl) -> Receipt {
        self.append(NewMessage { ttl: Some(ttl), ..self.message(chat_id, sender_id, text) }).await
    }

    pub(crate) async fn append(&self, message: NewMessage) -> Receipt {
        match self.store.append(vec![message]).await.unwrap()[..] {
            [AppendOutcome::New(receipt)] => receipt,
            ref other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn update(&self, chat_id: ChatId, user_id: UserId, target: Sequence, action: UpdateAction) {
        let update = NewUpdate {
            chat_id,
            user_id,
            client_message_id: Uuid::new_v4().into(),
            update_id: self.ids.ulid().into(),
            target,
            action,
            window: None,
            ttl_max: None,
            created_at: self.clock.now(),
        };
        let outcomes = self.store.commit(vec![update.into()]).await.unwrap();
        assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");
    }

    pub(crate) fn message(&self, chat_id: ChatId, sender_id: UserId, text: &str) -> NewMessage {
        NewMessage {
            chat_id,
            sender_id,
            client_message_id: Uuid::new_v4().into(),
            message_id: self.ids.ulid().into(),
            body: Body::new(text.to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: self.clock.now(),
            origin_connection_id: None,
        }
    }

    /// Connects a user, until the gateway's lease expires.
    pub(crate) async fn connect(&self, user_id: UserId) -> Route {
        let route = Route {
            connection_id: self.ids.ulid().into(),
            user_id,
            device_id: Uuid::new_v4().into(),
            gateway: GatewayId("gateway".into()),
            connected_at: self.clock.now(),
        };
        self.routes.heartbeat(&route.gateway).await.unwrap();
        self.routes.register(&route).await.unwrap();
        route
    }

    pub(crate) async fn acknowledge(&self, user_id: UserId, chat_id: ChatId, kind: WatermarkKind, to: u64) {
        self.store.advance(user_id, chat_id, kind, Sequence(to), self.clock.now()).await.unwrap();
    }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
