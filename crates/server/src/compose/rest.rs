use std::sync::Arc;

use anyhow::Context;
use auth::{Auth, KeyRing};
use metrics::gauge;
use notify::VapidKeys;
use ports::{
    Clock, Delivery, EventLog, Ids, Ingest, MemberCache, Outbox, PresenceNotifier, PresenceTransitions, RateLimiter,
    Routes, SecurityEvents, Stores, TicketStore, WebhookPause,
};
use presence::{PendingRechecks, Presence};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::otp_sender;
use crate::admin::Records;
use crate::config::Config;
use crate::outward::{Outward, OutwardPorts, outward};

/// The keys of the installation, for authentication and Web Push.
pub(super) struct InstallationKeys {
    pub(super) config: auth::Config,
    pub(super) ring: Arc<KeyRing>,
    /// Absent if Web Push is off.
    pub(super) vapid: Option<Arc<VapidKeys>>,
}

/// The ports that the role `api` may use.
pub(super) struct RestPorts {
    pub(super) stores: Stores,
    pub(super) log: Arc<dyn EventLog>,
    /// Events that are not in the log yet; absent if the log is part of the commit.
    pub(super) outbox: Option<Arc<dyn Outbox>>,
    pub(super) ingest: Arc<dyn Ingest>,
    pub(super) tickets: Arc<dyn TicketStore>,
    pub(super) limiter: Arc<dyn RateLimiter>,
    pub(super) delivery: Arc<dyn Delivery>,
    pub(super) routes: Arc<dyn Routes>,
    pub(super) transitions: Arc<dyn PresenceTransitions>,
    pub(super) notifier: Arc<dyn PresenceNotifier>,
    pub(super) members: Arc<dyn MemberCache>,
    /// The other processes that deliver the webhook; `None` on one machine.
    pub(super) webhook_peers: Option<Arc<dyn WebhookPause>>,
    pub(super) security: Arc<dyn SecurityEvents>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
}

/// The running role `api`.
pub(super) struct RestApi {
    pub(super) api: chats::Api,
    pub(super) auth: Auth,
    pub(super) presence: Arc<Presence>,
    pub(super) outward: Outward,
    pub(super) records: Records,
}

pub(super) fn rest(
    config: &Config,
    keys: InstallationKeys,
    ports: RestPorts,
    background: &mut JoinSet<()>,
) -> anyhow::Result<RestApi> {
    let RestPorts {
        stores,
        log,
        outbox,
        ingest,
        tickets,
        limiter,
        delivery,
        routes,
        transitions,
        notifier,
        members,
        webhook_peers,
        security,
        clock,
        ids,
    } = ports;
    let InstallationKeys { config: auth_config, ring, vapid } = keys;
    let auth = Auth::new(
        auth::Ports {
            users: stores.user_writer.clone(),
            user_reader: stores.user_reader.clone(),
            sessions: stores.sessions.clone(),
            restrictions: stores.restrictions.clone(),
            passkeys: stores.passkeys.clone(),
            codes: stores.codes.clone(),
            tickets,
            limits: limiter.clone(),
            otp: otp_sender(config, clock.clone())?,
            delivery,
            security: security.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        },
        ring,
        auth_config,
    )
    .context("cannot build the HTTP client for the keys of [auth.external]")?;

    // Zero until the first pass has ended.
    gauge!("tidings_retention_pass_time_seconds").set(0.0);
    if let Some(lifetime) = config.message_ttl_max() {
        let (expirer, messages) = (stores.expirer.clone(), stores.message_reader.clone());
        let retention = chats::Retention { lifetime, expirer, messages, clock: clock.clone() };
        background.spawn(async move { retention.run().await });
    }

    let accounts = Arc::new(chats::Accounts {
        auth: auth.clone(),
        store: stores.accounts,
        expirer: stores.expirer,
        users: stores.user_reader.clone(),
        chats: stores.chat_reader.clone(),
        chat_writer: stores.chat_writer.clone(),
        members: members.clone(),
        messages: stores.message_reader.clone(),
        watermarks: stores.watermarks.clone(),
        contacts: stores.contacts.clone(),
        blocks: stores.blocks.clone(),
        invitations: stores.invitations.clone(),
        reports: stores.reports.clone(),
        passkeys: stores.passkeys,
        push_devices: stores.push_devices.clone(),
        security: security.clone(),
        clock: clock.clone(),
        begun: Notify::new(),
    });
    let deleting = accounts.clone();
    background.spawn(async move { deleting.run().await });

    let records = Records {
        restrictions: stores.restrictions.clone(),
        auth: auth.clone(),
        accounts: accounts.clone(),
        user_writer: stores.user_writer.clone(),
        users: stores.user_reader.clone(),
        sessions: stores.sessions,
        chats: stores.chat_reader.clone(),
        messages: stores.message_reader.clone(),
        watermarks: stores.watermarks.clone(),
        push_devices: stores.push_devices.clone(),
        reports: stores.reports.clone(),
        transitions: transitions.clone(),
        outbox,
        clock: clock.clone(),
    };

    let web_push_public_key = vapid.as_ref().map(|keys| keys.public_key().to_owned());
    let (providers, outward) = outward(
        config,
        vapid,
        OutwardPorts {
            log: log.clone(),
            chats: stores.chat_reader.clone(),
            members: members.clone(),
            messages: stores.message_reader.clone(),
            watermarks: stores.watermarks.clone(),
            users: stores.user_reader.clone(),
            routes: routes.clone(),
            devices: stores.push_devices.clone(),
            notices: stores.notices,
            dead_letters: stores.dead_letters,
            webhook_peers,
            clock: clock.clone(),
            ids: ids.clone(),
        },
    )?;
    let notifications = outward.notifications.clone();
    background.spawn(async move { notifications.run(log).await });
    if let Some(webhook) = outward.webhook.clone() {
        background.spawn(async move { webhook.run().await });
    }

    let presence = Arc::new(Presence {
        routes,
        transitions,
        notifier,
        users: stores.user_reader.clone(),
        last_seen: stores.last_seen,
        contacts: stores.contacts.clone(),
        blocks: stores.blocks.clone(),
        chats: stores.chat_reader.clone(),
        messages: stores.message_reader.clone(),
        clock: clock.clone(),
        rechecks: PendingRechecks::default(),
    });
    let announcing = presence.clone();
    background.spawn(async move { announcing.run().await });

    let api = chats::Api {
        auth: auth.clone(),
        ingest,
        messages: stores.message_reader,
        chats: stores.chat_reader,
        chat_writer: stores.chat_writer,
        members,
        users: stores.user_reader,
        user_writer: stores.user_writer,
        watermarks: stores.watermarks,
        contacts: stores.contacts,
        blocks: stores.blocks,
        invitations: stores.invitations,
        reports: stores.reports,
        accounts,
        presence: presence.clone(),
        push_devices: stores.push_devices,
        notifier: providers,
        web_push_public_key,
        update_window: config.update_window(),
        requests: stores.requests,
        limiter,
        security,
        clock,
        ids,
        limits: chats::Limits {
            rest_read: config.limits.rest_read(),
            rest_write: config.limits.rest_write(),
            lookup_numbers: config.limits.lookup_numbers(),
            send_per_chat: config.limits.send_per_chat(),
            send_per_user: config.limits.send_per_user(),
            exports: config.limits.exports(),
            groups_created: config.limits.groups_created(),
            members_added: config.limits.members_added(),
            message_kib: config.limits.message_kib(),
            message_kib_total: config.limits.message_kib_total(),
            chats_per_user: (config.limits.chats_per_user > 0).then_some(config.limits.chats_per_user as usize),
        },
    };
    Ok(RestApi { api, auth, presence, outward, records })
}
