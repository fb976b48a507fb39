//! An audit of routes finds no violation in intact routes, and identifies each kind of damage.

use std::slice;
use std::time::Duration;

use audit::{AtOnce, Findings, ROUTES_CHECKED, audit_routes};
use domain::Invariant::{self, *};
use ports::{GatewayId, Route, RouteWriter};

use crate::engine::command;
use crate::fixtures::{EXPIRY, World, on_one_and_on_a_cluster, register, route, user};

on_one_and_on_a_cluster!(
    whole_routes_have_nothing_wrong_with_them_and_every_rule_is_used,
    every_damage_is_found_by_name,
    routes_of_a_gateway_without_heartbeat_are_ignored,
);

async fn audited(world: &World) -> Findings {
    audit_routes(&world.routes(), &AtOnce).await.unwrap()
}

fn violated(findings: &Findings) -> Vec<Invariant> {
    findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
}

async fn whole_routes_have_nothing_wrong_with_them_and_every_rule_is_used(world: World) {
    let routes = world.routes();
    let user_id = user();
    let mut registered: Vec<_> = (0..500).map(|n| route(user(), ["a", "b"][n % 2])).collect();
    registered.extend([route(user_id, "a"), route(user_id, "a"), route(user_id, "b")]);
    register(&routes, &registered).await;
    routes.refresh(&registered[..50]).await.unwrap();
    routes.unregister(&registered[..3], Duration::ZERO).await.unwrap();
    let findings = audited(&world).await;
    assert_eq!(findings.violations().collect::<Vec<_>>(), [] as [&audit::Violation; 0]);
    for invariant in ROUTES_CHECKED {
        assert_eq!(findings.tally(*invariant).checked, 500, "{invariant}");
    }
}

async fn every_damage_is_found_by_name(world: World) {
    type RouteDamage = fn(&World, &Route);
    let cases: [(&str, RouteDamage, &[Invariant]); 6] = [
        ("a key that stays for ever", |world, _| on(world, "user_servers:*", "PERSIST"), &[RoutingTtlBounded]),
        ("a record that is lost", |world, _| on(world, "connection:*", "DEL"), &[RoutingDenormalizationConsistent]),
        (
            "a connection that its user does not have",
            |world, _| on(world, "user_connections:*", "DEL"),
            &[RoutingDenormalizationConsistent],
        ),
        (
            "a gateway that its user does not have",
            |world, _| on(world, "user_servers:*", "DEL"),
            &[RoutingDenormalizationConsistent],
        ),
        (
            "a record that cannot be read",
            |world, _| with(world, "connection:*", "HSET", "device_id nonsense"),
            &[RoutingDenormalizationConsistent],
        ),
        (
            "a connection on two gateways",
            |world, _| with(world, "connection:*", "HSET", "server_id elsewhere"),
            &[ConnIdUniqueness],
        ),
    ];
    for (name, damage, expected) in cases {
        world.flush();
        let routes = world.routes();
        let registered = route(user(), "a");
        register(&routes, slice::from_ref(&registered)).await;
        assert_eq!(violated(&audited(&world).await), [], "before {name}");
        damage(&world, &registered);
        let findings = audited(&world).await;
        assert_eq!(violated(&findings), expected, "{name}: {:?}", findings.violations().collect::<Vec<_>>());
    }
}

async fn routes_of_a_gateway_without_heartbeat_are_ignored(world: World) {
    let routes = world.routes();
    register(&routes, &[route(user(), "dead"), route(user(), "b")]).await;
    world.clock.advance(EXPIRY);
    routes.heartbeat(&GatewayId("b".into())).await.unwrap();
    assert_eq!(audited(&world).await.tally(ConnIdUniqueness).checked, 1);
}

/// Runs a command on every key that matches.
fn on(world: &World, pattern: &str, what: &str) {
    with(world, pattern, what, "");
}

fn with(world: &World, pattern: &str, what: &str, arguments: &str) {
    for (engine, key) in world.keys(pattern) {
        command::<()>(engine, format!("{what} {key} {arguments}").trim());
    }
}
