use std::sync::Arc;

use anyhow::{Context, bail};
use domain::Timestamp;
use notify::EventWebhook;
use ports::{AuditLog, AuditSource, Engine, ExportSource, ImportTarget, ProcessRole};

use super::{Left, ensure_finished};
use crate::config::Config;
use crate::tools::engine::{self, with_remedy};

/// A stopped service, as the source or target of a move.
pub(super) struct StoppedService {
    pub(super) engine: Box<dyn Engine>,
    pub(super) source: Arc<dyn ExportSource>,
    pub(super) target: Arc<dyn ImportTarget>,
    pub(super) audit: Arc<dyn AuditSource>,
    pub(super) log: Arc<dyn AuditLog>,
}

impl StoppedService {
    pub(super) async fn to_export(config: &Config) -> anyhow::Result<Self> {
        let service = Self::on(engine::open_existing(config).await)?;
        let checked = async {
            service.ensure_stopped().await?;
            ensure_finished(service.target.is_unfinished().await?)
        }
        .await;
        service.if_ok(checked).await
    }

    pub(super) async fn to_import(config: &Config) -> anyhow::Result<Self> {
        let service = Self::on(engine::open(config).await)?;
        let checked = async {
            service.ensure_stopped().await?;
            service.ensure_log_is_empty().await
        }
        .await;
        service.if_ok(checked).await
    }

    fn on(opened: anyhow::Result<Box<dyn Engine>>) -> anyhow::Result<Self> {
        let remedy = "one process holds a data directory at a time; stop the service";
        let engine = opened.map_err(|error| with_remedy(error, remedy))?;
        let ((source, target), (audit, log)) = (engine.transfer(), engine.audit());
        Ok(Self { engine, source, target, audit, log })
    }

    /// This service, if a check of it has succeeded; otherwise its engine is closed.
    async fn if_ok(self, checked: anyhow::Result<()>) -> anyhow::Result<Self> {
        match checked {
            Ok(()) => Ok(self),
            Err(failure) => {
                self.close().await;
                Err(failure)
            }
        }
    }

    /// Refuses a running service, because a move needs a store that does not change. An exclusive engine has refused to
    /// open already.
    async fn ensure_stopped(&self) -> anyhow::Result<()> {
        let Some(peers) = self.engine.peers().map_err(anyhow::Error::from_boxed)? else { return Ok(()) };
        for role in ProcessRole::ALL {
            let found = peers.peers(role).await.context(
                "cannot read from Redis whether the fleet is stopped; an empty Redis will do, once all processes are \
                 stopped",
            )?;
            if let Some(peer) = found.first() {
                let address = &peer.address;
                bail!(
                    "a process of the fleet is running, {role} at {address}; stop all of them, and wait 15 s if one was \
                     killed"
                );
            }
        }
        Ok(())
    }

    /// Refuses a separate log with records, which would be about chats of another store. A log that is part of the store
    /// is empty if the store is.
    async fn ensure_log_is_empty(&self) -> anyhow::Result<()> {
        if self.engine.outbox().is_none() {
            return Ok(());
        }
        let mut after = None;
        loop {
            let page = self.log.records(after.as_ref(), 1).await.context("the log cannot be read")?;
            if let Some(record) = page.rows.first() {
                bail!(
                    "the log has records of another store, the first at {} of `{}`; set `kafka.topic_prefix` to a name \
                     of its own, and create the topics with `tidings store schema apply`",
                    record.key,
                    record.table
                );
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Undelivered events, which do not move.
    pub(super) async fn left(&self) -> anyhow::Result<Left> {
        let offsets = self.log.consumers().await.context("cannot read the positions of the consumer groups")?;
        let of_webhook = offsets.iter().filter(|offset| offset.group == EventWebhook::GROUP);
        let webhook_events = of_webhook.map(|offset| offset.end.saturating_sub(offset.next)).sum();
        let unpublished_chats = match self.engine.outbox() {
            Some(outbox) => outbox.overdue(Timestamp::MAX).await.context("the store cannot be read")?.len() as u64,
            None => 0,
        };
        Ok(Left { webhook_events, unpublished_chats })
    }

    pub(super) async fn close(self) {
        let Self { engine, source, target, audit, log } = self;
        drop((source, target, audit, log));
        engine.close().await;
    }
}
