//! Reloads settings on SIGHUP while the process runs.

use std::sync::Arc;

use anyhow::Context;
use ports::error_chain;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::config::{Config, ConfigError};
use crate::notify_socket::NotifySocket;

/// Reads the configuration again, from the same sources as at the start.
pub type ConfigLoader = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;

/// A named function that applies a new configuration. If it fails, the old settings stay in effect.
pub(crate) type ReloadHandler = (&'static str, Box<dyn Fn(&Config) -> anyhow::Result<()> + Send>);

/// Applies the configuration on each SIGHUP, until it is stopped. A configuration that cannot be read changes nothing,
/// and a part that fails does not affect the others. The service manager is notified.
pub(crate) fn on_hangup(
    load: ConfigLoader,
    parts: Vec<ReloadHandler>,
    manager: Arc<NotifySocket>,
) -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut hangups = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move {
        while hangups.recv().await.is_some() {
            manager.reloading();
            reload(&load, &parts);
            manager.reloaded();
        }
        std::future::pending().await
    })
}

fn reload(load: &ConfigLoader, parts: &[ReloadHandler]) {
    let config = match load() {
        Ok(config) => config,
        Err(failure) => {
            let error = error_chain(&failure);
            error!(%error, "cannot use the new configuration; keeping the current settings");
            return;
        }
    };
    for (name, take_over) in parts {
        match take_over(&config) {
            Ok(()) => info!(part = name, "setting reloaded from the configuration"),
            Err(failure) => {
                let error = error_chain(failure.as_ref());
                error!(part = name, %error, "could not apply the new setting; keeping the current one");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_failing_part_affects_no_other_and_a_bad_configuration_is_not_applied() {
        let seen = Arc::new(Mutex::new(vec![]));
        let note = |name: &'static str, refuses: bool| {
            let seen = seen.clone();
            let take_over = move |config: &Config| {
                seen.lock().unwrap().push((name, config.log.level.clone()));
                anyhow::ensure!(!refuses, "it cannot");
                Ok(())
            };
            (name, Box::new(take_over) as Box<dyn Fn(&Config) -> anyhow::Result<()> + Send>)
        };
        let parts = [note("first", true), note("second", false)];
        let load: ConfigLoader = Box::new(|| {
            let mut config = Config::default();
            config.log.level = "debug".to_owned();
            Ok(config)
        });
        reload(&load, &parts);
        assert_eq!(*seen.lock().unwrap(), [("first", "debug".to_owned()), ("second", "debug".to_owned())]);
        let broken: ConfigLoader = Box::new(|| Err(ConfigError::Invalid { key: "roles".into(), message: "no".into() }));
        reload(&broken, &parts);
        assert_eq!(seen.lock().unwrap().len(), 2);
    }
}
