//! The fleet: the real binary as eight processes, two of each role, on real engines, behind one address.
//!
//! The contract with clients is that of a single process, so the same tests verify it. `left_out` names those that are
//! left out.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod balancer;
mod credentials;
mod engine;
mod fleet;
mod health_checks;
mod network;
#[path = "../it/server.rs"]
mod process;
mod rules;
mod server;
mod thief;

mod conformance;
mod crossing;
mod described;
mod drills;
mod encrypted;
mod fighting;
mod gateways;
mod histories;
mod impersonation;
mod left_out;
mod lost_revocations;
mod operators;
mod partitions;
mod passkeys;
mod published;
mod readiness;
mod restore;
mod roles;
mod takeover;
mod traces;
mod upgrade;
mod verify;
mod webhooks;

#[path = "../conformance/device.rs"]
mod device;
#[path = "../conformance/proxy.rs"]
mod proxy;
#[path = "../conformance/runner.rs"]
mod runner;
#[path = "../conformance/scenario.rs"]
mod scenario;

#[path = "../crash/audit.rs"]
mod audit;
#[path = "../history/mod.rs"]
mod history;
#[path = "../crash/ledger.rs"]
mod ledger;
#[path = "../crash/load.rs"]
mod load;
#[path = "../crash/sender.rs"]
mod sender;
#[path = "../crash/world.rs"]
mod world;

#[path = "../it/collector.rs"]
mod collector;
#[path = "../it/issuer.rs"]
mod issuer;
#[path = "../it/receiver.rs"]
mod receiver;
#[path = "../it/runbook.rs"]
mod runbook;
#[path = "../it/traced.rs"]
mod traced;

#[path = "../it/account.rs"]
mod account;
#[path = "../it/administration.rs"]
mod administration;
#[path = "../it/authorization/mod.rs"]
mod authorization;
#[path = "../it/blocks.rs"]
mod blocks;
#[path = "../it/codes.rs"]
mod codes;
#[path = "../it/consent.rs"]
mod consent;
#[path = "../it/delivery.rs"]
mod delivery;
#[path = "../it/expiry.rs"]
mod expiry;
#[path = "../it/frame_floods.rs"]
mod frame_floods;
#[path = "../it/frames.rs"]
mod frames;
#[path = "../it/handshake.rs"]
mod handshake;
#[path = "../it/identity.rs"]
mod identity;
#[path = "../it/limits.rs"]
mod limits;
#[path = "../it/metadata.rs"]
mod metadata;
#[path = "../it/names.rs"]
mod names;
#[path = "../it/openapi.rs"]
mod openapi;
#[path = "../it/presence.rs"]
mod presence;
#[path = "../it/reports.rs"]
mod reports;
#[path = "../it/rest.rs"]
mod rest;
#[path = "../it/restart.rs"]
mod restart;
#[path = "../it/retention.rs"]
mod retention;
#[path = "../it/revocation.rs"]
mod revocation;
#[path = "../it/routes.rs"]
mod routes;
#[path = "../it/sdk.rs"]
mod sdk;
#[path = "../it/secrecy.rs"]
mod secrecy;
#[path = "../it/sends.rs"]
mod sends;
#[path = "../it/suspension.rs"]
mod suspension;
#[path = "../it/syncs.rs"]
mod syncs;
#[path = "../it/updates.rs"]
mod updates;
#[path = "../it/use_cases.rs"]
mod use_cases;
#[path = "../it/web_push.rs"]
mod web_push;
#[path = "../it/webhook.rs"]
mod webhook;
