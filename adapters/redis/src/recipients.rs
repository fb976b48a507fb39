use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, Timestamp, UserId};
use ports::{RecipientConnection, RecipientLookup, Recipients, StoreError};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use redis::{FromRedisValue, Value};
use tokio::try_join;

use crate::call::SlotCommand;
use crate::leases::HeartbeatExpiries;
use crate::routes::{RedisRoutes, by_gateway, counted, parse, server_calls};
use crate::{keys, member_cache};

/// Maximum number of expected members over all chats: 16 MB of ids. Beyond that, rarely used chats are evicted.
const MEMBERS_MAX: u64 = 1_000_000;
/// Estimated number of chats with expected members.
const CHATS_ESTIMATED: usize = 50_000;

/// The recipients of a fleet.
///
/// The routes of members have keys in other slots than the member list, so no script can read both. Instead, this
/// process remembers the list that it last read for each chat, and expects the same list again: it reads the list and
/// the routes of the expected members in one round trip. Only the list in Redis counts. If it differs from the expected
/// one, a second round trip reads the routes of its members. A wrong expectation thus costs time, and never sends a
/// push to a removed member.
pub struct RedisRecipients {
    routes: Arc<RedisRoutes>,
    expected: Cache<ChatId, Arc<[UserId]>, ExpectedMemberCount>,
}

#[derive(Clone)]
struct ExpectedMemberCount;

impl Weighter<ChatId, Arc<[UserId]>> for ExpectedMemberCount {
    fn weight(&self, _: &ChatId, members: &Arc<[UserId]>) -> u64 {
        // An entry has a weight of its own.
        members.len() as u64 + 4
    }
}

/// The routes of users as read: the gateways of each member, and the connections of each named user.
struct UserAnswers {
    servers: Vec<Value>,
    connections: Vec<Value>,
    held: Arc<HeartbeatExpiries>,
}

impl RedisRecipients {
    /// Recipients by these routes, and by the member cache in the same Redis.
    pub fn new(routes: Arc<RedisRoutes>) -> Self {
        Self { routes, expected: Cache::with_weighter(CHATS_ESTIMATED, MEMBERS_MAX, ExpectedMemberCount) }
    }

    async fn look_up_cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        let now = self.routes.redis.now();
        let expected = self.expected.get(&chat_id).unwrap_or_default();
        let list = SlotCommand::new("GET", &keys::chat_members(chat_id));
        let (list, mut users) = self.read(Some(list), &expected, named, now).await?;
        let list: Option<Vec<u8>> = parsed(list.unwrap_or(Value::Nil))?;
        let Some(members) = list.and_then(|list| member_cache::live_members(&list, now)) else {
            self.expected.remove(&chat_id);
            return Ok(None);
        };
        if members != expected {
            self.expected.insert(chat_id, members.clone());
            let calls: Vec<_> = server_calls(&members, now).collect();
            users.servers = self.routes.redis.run(&calls).await?;
        }
        self.recipients(members, named, users, now).await.map(Some)
    }

    async fn look_up(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        let now = self.routes.redis.now();
        let (_, users) = self.read(None, &members, named, now).await?;
        self.recipients(members, named, users, now).await
    }

    /// Reads the routes of users, together with an extra command.
    async fn read(
        &self,
        extra: Option<SlotCommand>,
        members: &[UserId],
        named: &[UserId],
        now: Timestamp,
    ) -> Result<(Option<Value>, UserAnswers), StoreError> {
        let extra_len = usize::from(extra.is_some());
        let connections = named.iter().map(|user_id| SlotCommand::live(&keys::user_connections(*user_id), now));
        let calls: Vec<_> = extra.into_iter().chain(server_calls(members, now)).chain(connections).collect();
        let (held, answers) = try_join!(self.routes.leases.recent(), self.routes.redis.run(&calls))?;
        let mut answers: Vec<Value> = answers;
        let connections = answers.split_off(extra_len + members.len());
        let servers = answers.split_off(extra_len);
        Ok((answers.pop(), UserAnswers { servers, connections, held }))
    }

    async fn recipients(
        &self,
        members: Arc<[UserId]>,
        named: &[UserId],
        users: UserAnswers,
        now: Timestamp,
    ) -> Result<Recipients, StoreError> {
        let UserAnswers { servers, connections, mut held } = users;
        let servers = servers.into_iter().map(parsed).collect::<Result<_, _>>()?;
        let mut gateways = by_gateway(&members, servers);
        let mut of_named: BTreeMap<UserId, Vec<RecipientConnection>> = BTreeMap::new();
        for (user_id, connections) in named.iter().zip(connections) {
            let connections: Vec<String> = parsed(connections)?;
            for member in connections {
                let (connection_id, gateway) =
                    parse(&member).map_err(|source| StoreError::Corrupt { table: "user_connections", source })?;
                let connection = RecipientConnection { gateway, connection_id: Some(connection_id) };
                of_named.entry(*user_id).or_default().push(connection);
            }
        }
        let used = gateways.keys().chain(of_named.values().flatten().map(|connection| &connection.gateway));
        if !used.into_iter().all(|gateway| held.is_live(gateway, now)) {
            held = self.routes.leases.look_again().await?;
        }
        gateways.retain(|gateway, _| held.is_live(gateway, now));
        of_named.retain(|_, connections| {
            connections.retain(|connection| held.is_live(&connection.gateway, now));
            !connections.is_empty()
        });
        Ok(Recipients { members, gateways, connections: of_named })
    }
}

#[async_trait]
impl RecipientLookup for RedisRecipients {
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        counted(self.look_up_cached(chat_id, named).await)
    }

    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        counted(self.look_up(members, named).await)
    }
}

fn parsed<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(StoreError::unavailable)
}
