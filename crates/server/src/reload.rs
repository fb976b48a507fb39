//! What a process takes over from its configuration while it runs, on SIGHUP.

use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::config::{Config, ConfigError};
use crate::notify_socket::NotifySocket;

/// Reads the configuration anew, as it was read for the start.
pub type Load = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;

/// Something that can take over a new configuration, by its name. What it refuses stays as it is.
pub(crate) type Part = (&'static str, Box<dyn Fn(&Config) -> anyhow::Result<()> + Send>);

/// Has every part take over the configuration whenever the process is told to, for ever. A configuration that cannot be
/// read changes nothing, and one part that refuses holds up no other. Whoever manages the process is told of it.
pub(crate) fn on_hangup(
    load: Load,
    parts: Vec<Part>,
    manager: Arc<NotifySocket>,
) -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut hangups = signal(SignalKind::hangup()).context("SIGHUP cannot be listened to")?;
    Ok(async move {
        while hangups.recv().await.is_some() {
            manager.reloading();
            reload(&load, &parts);
            manager.reloaded();
        }
        std::future::pending().await
    })
}

fn reload(load: &Load, parts: &[Part]) {
    let config = match load() {
        Ok(config) => config,
        Err(failure) => {
            let error = &failure as &dyn std::error::Error;
            error!(error, "the configuration cannot be used; everything stays as it is");
            return;
        }
    };
    for (name, take_over) in parts {
        match take_over(&config) {
            Ok(()) => info!(part = name, "taken over from the configuration"),
            Err(failure) => {
                let error: &dyn std::error::Error = failure.as_ref();
                error!(part = name, error, "not taken over from the configuration; it stays as it is");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn one_part_that_refuses_holds_up_no_other_and_a_bad_configuration_reaches_none() {
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
        let load: Load = Box::new(|| {
            let mut config = Config::default();
            config.log.level = "debug".to_owned();
            Ok(config)
        });
        reload(&load, &parts);
        assert_eq!(*seen.lock().unwrap(), [("first", "debug".to_owned()), ("second", "debug".to_owned())]);
        let broken: Load = Box::new(|| Err(ConfigError::Invalid { key: "roles".into(), message: "no".into() }));
        reload(&broken, &parts);
        assert_eq!(seen.lock().unwrap().len(), 2);
    }
}
