//! Revocations reach every gateway, also one that did not acknowledge them at first.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{SessionId, UserId};
use ports::{Delivery, GatewayId, ProcessRole, Push, Revocation, StoreError};
use tidings_rpc::{RemoteDelivery, RpcServices};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{CallingProcess, FleetProcess, World, secret, soon};

/// A gateway that refuses the first revocations.
struct RefusingGateway {
    refused_max: usize,
    asked: watch::Sender<Vec<Revocation>>,
}

impl RefusingGateway {
    /// A listed process with such a gateway.
    fn start(world: &World, id: &str, refused_max: usize) -> (FleetProcess, Arc<Self>) {
        let gateway = Arc::new(Self { refused_max, asked: watch::Sender::default() });
        let delivery: Arc<dyn Delivery> = gateway.clone();
        let services = RpcServices { delivery: Some((GatewayId(id.into()), delivery)), ..RpcServices::default() };
        let process = FleetProcess::start(id, secret(), || services);
        world.list.add(ProcessRole::Gateway, &process.peer);
        (process, gateway)
    }

    async fn asked(&self, count: usize) -> Vec<Revocation> {
        let mut asked = self.asked.subscribe();
        soon(asked.wait_for(|asked| asked.len() >= count)).await.unwrap().clone()
    }
}

#[async_trait]
impl Delivery for RefusingGateway {
    async fn deliver(&self, _: &GatewayId, _: &[Push]) -> Result<(), StoreError> {
        unreachable!("nothing is pushed")
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.asked.send_modify(|asked| asked.push(revocation));
        let is_refused = self.asked.borrow().len() <= self.refused_max;
        if is_refused { Err(StoreError::unavailable("not now")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_revocation_is_repeated_at_a_gateway_until_it_is_acknowledged() {
    let world = World::new();
    let (_a, refusing) = RefusingGateway::start(&world, "a", 2);
    let (_b, accepting) = RefusingGateway::start(&world, "b", 0);
    let caller = CallingProcess::start(&world).await;
    let delivery = Arc::new(RemoteDelivery::new(caller.directory.clone()));
    let first = Revocation::Session(SessionId::from_bytes([1; 16]));
    let refusal = soon(delivery.revoke(first)).await.unwrap_err();
    let StoreError::Unavailable(refusal) = refusal else { panic!("{refusal}") };
    assert_eq!(refusal.to_string(), "gateway `a` has not acknowledged a revocation (repeated: true)");
    let (repeating, mut tasks) = (delivery.clone(), JoinSet::new());
    tasks.spawn(async move { match repeating.run().await {} });
    assert_eq!(refusing.asked(3).await, [first; 3]);
    let second = Revocation::User(UserId::from_bytes([2; 16]));
    soon(delivery.revoke(second)).await.unwrap();
    // A repetition may coincide with the call.
    let [mut refused, mut accepted] = [refusing.asked(4).await, accepting.asked(2).await];
    refused.dedup();
    accepted.dedup();
    assert_eq!((refused, accepted), (vec![first, second], vec![first, second]));
}

#[tokio::test]
async fn a_revocation_of_a_request_that_was_cancelled_reaches_the_gateway() {
    let world = World::new();
    let (process, gateway) = RefusingGateway::start(&world, "a", 0);
    let caller = CallingProcess::start(&world).await;
    let delivery = Arc::new(RemoteDelivery::new(caller.directory.clone()));
    let held = process.hang();
    let revocation = Revocation::Session(SessionId::from_bytes([1; 16]));
    assert!(futures_util::FutureExt::now_or_never(delivery.revoke(revocation)).is_none());
    drop(held);
    let (repeating, mut tasks) = (delivery.clone(), JoinSet::new());
    tasks.spawn(async move { match repeating.run().await {} });
    assert_eq!(gateway.asked(1).await, [revocation]);
}
