use std::fs;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use domain::Quota;
use engines::TestAuthority;
use ports::{
    Clock, Delivery, Ids, LimitKey, MemberCache, PeerRegistry, PresenceTransitions, ProcessRole, RandomIds,
    RateLimiter, Revocation, RouteWriter, Routes, SpentChallenge, SystemClock, TicketStore,
};
use tidings_redis::{
    Config, EngineHealth, Nodes, Redis, RedisDelivery, RedisLimits, RedisMemberCache, RedisOpenError, RedisPeers,
    RedisTickets, Url,
};

use crate::engine::{command, start_cluster};
use crate::fixtures::{Delivered, EXPIRY, InboxListener, World, chat, gateway, peer, push, register, route, user};

/// The ACL that the crate documentation requires.
const ACL: &str = "tidings on >open ~connection:* ~user_connections:* ~user_servers:* ~user_presence:* ~servers \
                   ~server_connections:* ~presence_due:* ~presence_claims:* ~peers:* ~chat_members:* ~ws_ticket:* \
                   ~spent_challenge:* ~ratelimit:* &server:* -@all +@read +@write +@scripting +@pubsub +@connection +info";

#[tokio::test]
async fn a_password_opens_and_a_wrong_one_is_named_as_such() {
    let engine = engines::Redis::start_with(&["--requirepass", "open"]).await;
    for (password, expected) in [(Some("open"), None), (Some("closed"), Some("WRONGPASS")), (None, Some("NOAUTH"))] {
        let password = password.map(|password| password.to_owned().into());
        let config = Config { password, ..Config::new(Nodes::Single(engine.url().parse().unwrap())) };
        let redis = Redis::open(config, Arc::new(SystemClock)).unwrap();
        assert_eq!(redis.ping().await.is_ok(), expected.is_none());
        match (redis.health(), expected) {
            (EngineHealth::Ok, None) => {}
            (EngineHealth::Failing { reason, .. }, Some(word)) => {
                assert!(reason.contains(word), "{reason}");
                assert!(!reason.contains("closed"), "{reason}");
            }
            (health, _) => panic!("{health:?}"),
        }
    }
}

#[tokio::test]
async fn an_acl_user_needs_no_more_than_the_documentation_says() {
    let engine = engines::Redis::start_with(&acl_settings(ACL)).await;
    let nodes = Nodes::Single(engine.url().parse().unwrap());
    everything_works(World::new(vec![engine], as_acl_user(nodes))).await;
}

#[tokio::test]
async fn an_acl_user_of_a_cluster_needs_no_more_than_the_documentation_says() {
    let acl = format!("{ACL} +cluster|slots");
    let engines = start_cluster(&acl_settings(&acl)).await;
    let nodes = Nodes::Cluster(engines.iter().map(|engine| engine.url().parse().unwrap()).collect());
    everything_works(World::new(engines, as_acl_user(nodes))).await;
}

fn acl_settings(acl: &str) -> Vec<&str> {
    ["--user"].into_iter().chain(acl.split(' ')).collect()
}

fn as_acl_user(nodes: Nodes) -> Config {
    let (username, password) = (Some("tidings".to_owned()), Some("open".to_owned().into()));
    Config { username, password, ..Config::new(nodes) }
}

async fn everything_works(world: World) {
    let redis = &world.redis;
    let mut listener = InboxListener::start(redis, "a").await;
    let routes = world.routes();
    let [route, swept] = [route(user(), "a"), route(user(), "b")];
    register(&routes, &[route.clone(), swept]).await;
    assert_eq!(routes.routes(route.user_id).await.unwrap(), slice::from_ref(&route));
    assert!(routes.refresh(slice::from_ref(&route)).await.unwrap()[0].was_known);
    routes.unregister(slice::from_ref(&route), Duration::ZERO).await.unwrap();
    world.clock.advance(EXPIRY);
    assert_eq!(routes.sweep(10).await.unwrap().deleted, 1);
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(gone.len(), 2);
    routes.settle(&gone).await.unwrap();
    let (peers, peer) = (RedisPeers::new(redis.clone()), peer("a"));
    peers.announce(&peer, &ProcessRole::ALL).await.unwrap();
    assert_eq!(peers.peers(ProcessRole::Gateway).await.unwrap(), slice::from_ref(&peer));
    peers.leave(&peer, &ProcessRole::ALL).await.unwrap();
    let (cache, chat_id) = (RedisMemberCache::new(redis.clone()), chat());
    cache.fill(chat_id, [route.user_id].into()).await.unwrap();
    assert_eq!(cache.members(chat_id).await.unwrap(), Some([route.user_id].into()));
    cache.invalidate(chat_id).await.unwrap();
    assert_eq!(RedisTickets::new(redis.clone()).take([1; 32], world.clock.now()).await.unwrap(), None);
    let challenge =
        SpentChallenge { digest: [1; 32], issued_at: world.clock.now(), expires_at: world.clock.now() + EXPIRY };
    assert!(RedisTickets::new(redis.clone()).spend(challenge).await.unwrap());
    let quota = Quota::per(1, Duration::from_secs(60)).unwrap();
    assert!(RedisLimits::new(redis.clone()).take(LimitKey::Sync(route.user_id), quota).await.unwrap().allowed);
    let pushes = vec![push(vec![route.user_id], "hello")];
    let delivery = RedisDelivery::new(redis.clone());
    delivery.deliver(&gateway("a"), &pushes).await.unwrap();
    assert_eq!(listener.next().await, Delivered::Pushes(gateway("a"), pushes));
    let revocation = Revocation::Session(RandomIds.ulid().into());
    delivery.revoke(revocation).await.unwrap();
    assert_eq!(listener.next().await, Delivered::Revoked(revocation));
    redis.ping().await.unwrap();
}

#[tokio::test]
async fn an_acl_user_is_served_over_tls_alone_and_trusts_the_given_authority_alone() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let authority = TestAuthority::new();
    let server = authority.issue();
    fs::write(path("server.crt"), server.certificate_pem).unwrap();
    fs::write(path("server.key"), server.key_pem).unwrap();
    fs::write(path("ca.crt"), authority.ca_pem()).unwrap();
    let (certificate, key, authorities) = (path("server.crt"), path("server.key"), path("ca.crt"));
    let tls = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authorities];
    let settings = [&tls[..], &["--tls-auth-clients", "no"], &acl_settings(ACL)].concat();
    let engine = engines::Redis::start_with(&settings).await;
    command::<()>(&engine, &format!("CONFIG SET tls-port {}", engine.port() + 10_000));
    command::<()>(&engine, "CONFIG SET port 0");
    let url: Url = format!("rediss://localhost:{}", engine.port() + 10_000).parse().unwrap();
    let as_user =
        |ca_pem: String| Config { ca_pem: Some(ca_pem.into_bytes()), ..as_acl_user(Nodes::Single(url.clone())) };

    let stranger = as_user(TestAuthority::new().ca_pem());
    let wrong_password = Config { password: Some("closed".to_owned().into()), ..as_user(authority.ca_pem()) };
    for (config, word) in [(stranger, "certificate"), (wrong_password, "WRONGPASS")] {
        let redis = Redis::open(config, Arc::new(SystemClock)).unwrap();
        assert!(redis.ping().await.is_err());
        let EngineHealth::Failing { reason, .. } = redis.health() else { panic!("the ping has failed") };
        assert!(reason.contains(word) && !reason.contains("closed"), "{reason}");
    }
    everything_works(World::new(vec![engine], as_user(authority.ca_pem()))).await;
}

#[tokio::test]
async fn an_authority_for_a_url_without_tls_is_refused() {
    let url = "redis://localhost:6379".parse().unwrap();
    let config = Config { ca_pem: Some(vec![]), ..Config::new(Nodes::Single(url)) };
    let Err(error) = Redis::open(config, Arc::new(SystemClock)) else { panic!("the settings contradict each other") };
    assert!(matches!(error, RedisOpenError::PlainUrl(_)));
}

#[tokio::test]
async fn a_cluster_without_an_address_is_refused() {
    let opened = Redis::open(Config::new(Nodes::Cluster(vec![])), Arc::new(SystemClock));
    assert!(matches!(opened, Err(RedisOpenError::NoUrl)));
}
