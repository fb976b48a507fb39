//! Outbound integrations: notifications to users who are not connected, and the application's webhook.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use domain::EventKind;
use notify::{
    DeadLetters, EventWebhook, EventWebhookConfig, EventWebhookPorts, NotificationPorts, Notifications,
    NotificationsConfig, Providers, VapidKeys, WebPushConfig, WebPushNotifier, WebhookNotifier,
};
use ports::{
    ChatReader, Clock, DeadLetterStore, EventLog, Ids, MemberCache, MessageReader, NoticeStore, PushDeviceStore,
    Routes, UserReader, WatermarkStore, WebhookPause,
};
use webhook::Webhook;

use crate::config::{Config, ConfigError};

/// Timeout of a call to an external server.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The running outbound integrations, as the admin API uses them.
#[derive(Clone)]
pub(crate) struct Outward {
    pub(crate) notifications: Arc<Notifications>,
    /// The application's webhook, if one is set.
    pub(crate) webhook: Option<Arc<EventWebhook>>,
    pub(crate) dead_letters: Arc<DeadLetters>,
}

pub(crate) struct OutwardPorts {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) chats: Arc<dyn ChatReader>,
    pub(crate) members: Arc<dyn MemberCache>,
    pub(crate) messages: Arc<dyn MessageReader>,
    pub(crate) watermarks: Arc<dyn WatermarkStore>,
    pub(crate) users: Arc<dyn UserReader>,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) devices: Arc<dyn PushDeviceStore>,
    pub(crate) notices: Arc<dyn NoticeStore>,
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    /// The other processes that deliver the webhook; `None` on one machine.
    pub(crate) webhook_peers: Option<Arc<dyn WebhookPause>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

pub(crate) fn outward(
    config: &Config,
    vapid: Option<Arc<VapidKeys>>,
    ports: OutwardPorts,
) -> anyhow::Result<(Arc<Providers>, Outward)> {
    let OutwardPorts { log, messages, dead_letters, webhook_peers, clock, .. } = &ports;
    let webhook = match &config.webhook {
        webhook if webhook.url.is_empty() => None,
        webhook => {
            let receiver = receiver("webhook", &webhook.url, &webhook.secret_file, clock.clone())?;
            let ports = EventWebhookPorts {
                log: log.clone(),
                messages: messages.clone(),
                dead_letters: dead_letters.clone(),
                peers: webhook_peers.clone(),
                clock: clock.clone(),
            };
            let kinds = event_kinds(&webhook.events)?;
            let config = EventWebhookConfig { kinds, ..EventWebhookConfig::default() };
            Some(Arc::new(EventWebhook::new(ports, receiver, config)))
        }
    };
    let providers = Arc::new(providers(config, vapid, clock.clone())?);
    let dead_letters = dead_letters.clone();
    let ports = NotificationPorts {
        chats: ports.chats,
        members: ports.members,
        messages: ports.messages,
        watermarks: ports.watermarks,
        users: ports.users,
        routes: ports.routes,
        devices: ports.devices,
        notices: ports.notices,
        dead_letters: ports.dead_letters,
        notifier: providers.clone(),
        clock: ports.clock,
        ids: ports.ids,
    };
    let notifications = Arc::new(Notifications::new(
        ports,
        NotificationsConfig {
            delay: Duration::from_millis(config.notify.delay_ms),
            silence: Duration::from_secs(config.notify.silence_seconds),
            previews: config.notify.previews,
            ..NotificationsConfig::default()
        },
    ));
    let dead_letters = Arc::new(DeadLetters {
        store: dead_letters,
        webhook: webhook.clone(),
        notifications: Some(notifications.clone()),
    });
    Ok((providers, Outward { notifications, webhook, dead_letters }))
}

fn providers(config: &Config, vapid: Option<Arc<VapidKeys>>, clock: Arc<dyn Clock>) -> anyhow::Result<Providers> {
    let webhook = match &config.notify.webhook {
        webhook if webhook.url.is_empty() => None,
        webhook => {
            let receiver = receiver("notify.webhook", &webhook.url, &webhook.secret_file, clock.clone())?;
            Some(WebhookNotifier(receiver))
        }
    };
    let webpush = vapid.map(|keys| {
        let config = WebPushConfig {
            contact: Some(config.notify.webpush.contact.clone()).filter(|contact| !contact.is_empty()),
            timeout: CALL_TIMEOUT,
            private_endpoints: config.notify.webpush.private_endpoints,
        };
        WebPushNotifier::new(keys, config, clock)
    });
    Ok(Providers { webhook, webpush: webpush.transpose().context("cannot build the HTTP client for Web Push")? })
}

/// A client for a webhook URL of the configuration, with the secret from its file.
pub(crate) fn receiver(key: &str, url: &str, secret_file: &str, clock: Arc<dyn Clock>) -> anyhow::Result<Webhook> {
    let secret = std::fs::read_to_string(secret_file)
        .with_context(|| format!("cannot read `{key}.secret_file`, `{secret_file}`"))?;
    anyhow::ensure!(!secret.trim().is_empty(), "`{key}.secret_file`, `{secret_file}`, is empty");
    let url = url.parse().with_context(|| format!("`{key}.url` is not a URL"))?;
    Webhook::new(url, secret.trim().as_bytes(), CALL_TIMEOUT, clock)
        .with_context(|| format!("cannot build the HTTP client for `{key}`"))
}

/// Parses a list of event kinds, separated by commas.
pub(crate) fn event_kinds(list: &str) -> Result<Vec<EventKind>, ConfigError> {
    let kind = |name: &str| match name {
        "message" => Ok(EventKind::Message),
        "member" => Ok(EventKind::Member),
        "chat" => Ok(EventKind::Chat),
        other => Err(ConfigError::Invalid {
            key: "webhook.events".into(),
            message: format!("`{other}` is none of message, member, chat"),
        }),
    };
    list.split(',').map(|name| kind(name.trim())).collect()
}
