use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Body, ChatCommand, ChatId, ConnectionId, ContentType, DirectPair, Sequence, Timestamp, UpdateAction, UserId,
};
use memory::{MemoryMemberCache, MemoryRecipients, MemoryRoutes, MemoryStore, SequentialIds};
use ports::{
    AppendOutcome, ChatWriter, Clock, Delivery, GatewayId, Ids, MemberCache, MessageWriter, NewDirectChat, NewGroup,
    NewMessage, NewUpdate, Push, RecipientLookup, Revocation, Route, RouteWriter, Routes, StoreError, SystemClock,
};
use protocol::frame::{Outbound, ServerFrame};
use tidings_fanout::{Fanout, Receipts};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// How long routes outlive the last heartbeat of their gateway.
pub(crate) const EXPIRY: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) deliveries: mpsc::Receiver<(GatewayId, Vec<Push>)>,
    route_writer: Arc<dyn RouteWriter>,
    ids: Arc<SequentialIds>,
}

/// Hands every delivery to the test.
pub(crate) struct DeliveryRecorder(mpsc::Sender<(GatewayId, Vec<Push>)>);

impl DeliveryRecorder {
    pub(crate) fn new() -> (Self, mpsc::Receiver<(GatewayId, Vec<Push>)>) {
        let (recorder, deliveries) = mpsc::channel(1000);
        (Self(recorder), deliveries)
    }
}

#[async_trait]
impl Delivery for DeliveryRecorder {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        self.0.send((gateway.clone(), pushes.to_vec())).await.map_err(StoreError::unavailable)
    }

    async fn revoke(&self, _: Revocation) -> Result<(), StoreError> {
        Ok(())
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SystemClock);
        let (recorder, deliveries) = DeliveryRecorder::new();
        let cache = Arc::new(MemoryMemberCache::new(clock.clone()));
        let routes = Arc::new(MemoryRoutes::new(clock, EXPIRY));
        Self::over_memory(routes.clone(), routes, cache, Arc::new(recorder), deliveries)
    }

    /// A world with the given routes, cache and delivery.
    pub(crate) fn over_memory(
        routes: Arc<dyn Routes>,
        route_writer: Arc<dyn RouteWriter>,
        cache: Arc<dyn MemberCache>,
        delivery: Arc<dyn Delivery>,
        deliveries: mpsc::Receiver<(GatewayId, Vec<Push>)>,
    ) -> Self {
        let recipients = Arc::new(MemoryRecipients::new(routes.clone(), cache.clone()));
        Self::over(recipients, routes, route_writer, cache, delivery, deliveries)
    }

    /// A world with the given lookups and delivery.
    pub(crate) fn over(
        recipients: Arc<dyn RecipientLookup>,
        routes: Arc<dyn Routes>,
        route_writer: Arc<dyn RouteWriter>,
        cache: Arc<dyn MemberCache>,
        delivery: Arc<dyn Delivery>,
        deliveries: mpsc::Receiver<(GatewayId, Vec<Push>)>,
    ) -> Self {
        let ids = Arc::new(SequentialIds::default());
        let store = Arc::new(MemoryStore::new(ids.clone()));
        let (clock, receipts) = (Arc::new(SystemClock), Receipts::default());
        let small_members_max = Fanout::SMALL_MEMBERS_MAX;
        let chats = store.clone();
        let fanout =
            Arc::new(Fanout { chats, cache, recipients, routes, delivery, clock, small_members_max, receipts });
        Self { store, fanout, deliveries, route_writer, ids }
    }

    /// Starts consuming the log; the pushes go to `deliveries`.
    pub(crate) fn start(&self) -> AbortHandle {
        let (fanout, store) = (self.fanout.clone(), self.store.clone());
        tokio::spawn(async move { fanout.run(store).await }).abort_handle()
    }

    pub(crate) fn user(&self) -> UserId {
        self.ids.ulid().into()
    }

    /// A new connection of a user on a gateway.
    pub(crate) async fn connect(&self, user_id: UserId, gateway: &str) -> ConnectionId {
        let route = Route {
            connection_id: self.ids.ulid().into(),
            user_id,
            device_id: uuid::Uuid::new_v4().into(),
            gateway: GatewayId(gateway.into()),
            connected_at: SystemClock.now(),
        };
        self.route_writer.heartbeat(&route.gateway).await.unwrap();
        self.route_writer.register(&route).await.unwrap();
        route.connection_id
    }

    pub(crate) async fn group(&self, owner: UserId, members: &[UserId]) -> ChatId {
        let group = NewGroup {
            chat_id: self.ids.ulid().into(),
            name: "group".to_owned().try_into().unwrap(),
            created_by: owner,
            members: members.to_vec(),
            created_at: SystemClock.now(),
        };
        self.store.create_group(group).await.unwrap().chat().chat_id
    }

    pub(crate) async fn direct(&self, created_by: UserId, other: UserId) -> ChatId {
        let pair = DirectPair::new(created_by, other).unwrap();
        let chat_id = self.ids.ulid().into();
        let direct = NewDirectChat { chat_id, pair, created_by, created_at: SystemClock.now() };
        self.store.create_direct(direct).await.unwrap().unwrap().chat().chat_id
    }

    pub(crate) async fn apply(&self, chat_id: ChatId, actor: UserId, command: ChatCommand) {
        self.store.apply(chat_id, actor, command, SystemClock.now()).await.unwrap().unwrap();
    }

    pub(crate) async fn send(&self, chat_id: ChatId, sender_id: UserId, origin: Option<ConnectionId>) {
        self.append(NewMessage { origin_connection_id: origin, ..self.message(chat_id, sender_id) }).await;
    }

    pub(crate) async fn append(&self, message: NewMessage) {
        self.store.append(vec![message]).await.unwrap();
    }

    /// Commits an update of a message, now.
    pub(crate) async fn update(&self, chat_id: ChatId, user_id: UserId, target: u64, action: UpdateAction) {
        self.update_at(chat_id, user_id, target, action, SystemClock.now()).await;
    }

    pub(crate) async fn update_at(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        target: u64,
        action: UpdateAction,
        created_at: Timestamp,
    ) {
        let update = NewUpdate {
            chat_id,
            user_id,
            client_message_id: uuid::Uuid::new_v4().into(),
            update_id: self.ids.ulid().into(),
            target: Sequence(target),
            action,
            window: None,
            ttl_max: None,
            created_at,
        };
        let outcomes = self.store.commit(vec![update.into()]).await.unwrap();
        assert!(matches!(outcomes[..], [AppendOutcome::New(_)]), "{outcomes:?}");
    }

    /// A message to send.
    pub(crate) fn message(&self, chat_id: ChatId, sender_id: UserId) -> NewMessage {
        NewMessage {
            chat_id,
            sender_id,
            client_message_id: uuid::Uuid::new_v4().into(),
            message_id: self.ids.ulid().into(),
            body: Body::new("hi".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: SystemClock.now(),
            origin_connection_id: None,
        }
    }

    /// The next `count` pushes of any gateway, with the frames they carry.
    pub(crate) async fn pushes(&mut self, count: usize) -> Vec<(String, Push, ServerFrame)> {
        let mut pushes = Vec::new();
        while pushes.len() < count {
            pushes.extend(self.delivery().await);
        }
        assert_eq!(pushes.len(), count, "{pushes:?}");
        pushes
    }

    /// The pushes of the next delivery.
    pub(crate) async fn delivery(&mut self) -> Vec<(String, Push, ServerFrame)> {
        let (gateway, delivered) = self.deliveries.recv().await.unwrap();
        delivered
            .into_iter()
            .map(|push| {
                let frame = Outbound::parse(std::str::from_utf8(&push.frame).unwrap()).unwrap().frame;
                (gateway.0.to_string(), push, frame)
            })
            .collect()
    }
}
