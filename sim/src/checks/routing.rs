use std::collections::{BTreeMap, BTreeSet};

use domain::{ConnectionId, Invariant, UserId};
use memory::MemoryRoutes;
use ports::{GatewayId, Recipients, Route, Routes};
use tokio::time::Instant;

use super::store::now;
use crate::world::World;

/// Observed connections and routes.
#[derive(Default)]
pub(crate) struct Routed {
    heartbeats: BTreeMap<GatewayId, Instant>,
    connections: BTreeMap<ConnectionId, Route>,
    unregistered: BTreeSet<ConnectionId>,
}

/// How long routes outlive the last heartbeat of their gateway.
pub(crate) const EXPIRY: std::time::Duration = std::time::Duration::from_secs(15);

impl World {
    /// Records a heartbeat.
    pub(crate) fn beaten(&self, gateway: &GatewayId) {
        self.checks.routed().heartbeats.insert(gateway.clone(), Instant::now());
    }

    /// Checks routes that are written.
    pub(crate) fn registered(&self, routes: &[Route]) {
        for route in routes {
            let mut routed = self.checks.routed();
            routed.unregistered.remove(&route.connection_id);
            let known = routed.connections.entry(route.connection_id).or_insert_with(|| route.clone()).clone();
            drop(routed);
            self.checks.came(route.user_id);
            let is_same =
                (known.user_id, known.device_id, &known.gateway) == (route.user_id, route.device_id, &route.gateway);
            self.check(Invariant::ConnIdUniqueness, is_same, || {
                format!("{} is a connection of {} and of {}", route.connection_id, known.user_id, route.user_id)
            });
        }
    }

    /// Records routes that are removed.
    pub(crate) fn unregistered(&self, routes: &[Route]) {
        self.checks.routed().unregistered.extend(routes.iter().map(|route| route.connection_id));
    }

    /// Checks the routes in an answer.
    pub(crate) fn answered_routes(&self, routes: &[Route]) {
        for route in routes {
            self.answered_connection(route.connection_id);
        }
        self.answered_gateways(routes.iter().map(|route| &route.gateway));
    }

    /// Checks the routes of recipients in an answer.
    pub(crate) fn answered_recipients(&self, recipients: &Recipients) {
        let connections = || recipients.connections.values().flatten();
        for connection_id in connections().filter_map(|connection| connection.connection_id) {
            self.answered_connection(connection_id);
        }
        self.answered_gateways(recipients.gateways.keys().chain(connections().map(|connection| &connection.gateway)));
    }

    fn answered_connection(&self, connection_id: ConnectionId) {
        let is_gone = self.checks.routed().unregistered.contains(&connection_id);
        self.check(Invariant::ZombiePrevention, !is_gone, || {
            format!("{connection_id} has ended and was taken back, and is in an answer")
        });
    }

    /// Checks the gateways in an answer.
    pub(crate) fn answered_gateways<'a>(&self, gateways: impl Iterator<Item = &'a GatewayId>) {
        for gateway in gateways {
            let beaten = self.checks.routed().heartbeats.get(gateway).copied();
            let silence = beaten.map(|at| at.elapsed());
            self.check(Invariant::RoutingTtlBounded, silence.is_some_and(|silence| silence <= EXPIRY), || {
                format!("{} is in an answer, {silence:?} after its last beat", gateway.0)
            });
        }
    }

    /// Checks that the routes of users and of gateways agree.
    pub(crate) fn look_at_routes(&self, routes: &MemoryRoutes, user_ids: &[UserId]) {
        let live = now(routes.live_gateways()).unwrap_or_default();
        let of_users: Vec<Route> =
            user_ids.iter().flat_map(|user_id| now(routes.routes(*user_id)).unwrap_or_default()).collect();
        let of_gateways: Vec<Route> =
            live.iter().flat_map(|gateway| now(routes.on_gateway(gateway, usize::MAX)).unwrap_or_default()).collect();
        let ids = |routes: &[Route]| routes.iter().map(|route| route.connection_id).collect::<BTreeSet<_>>();
        let (of_users, of_gateways) = (ids(&of_users), ids(&of_gateways));
        self.check(Invariant::RoutingDenormalizationConsistent, of_users == of_gateways, || {
            format!("users have the routes {of_users:?}, their gateways {of_gateways:?}")
        });
    }
}
