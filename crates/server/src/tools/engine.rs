//! Opens the engine of a configuration for a tool.

#[cfg(feature = "fleet")]
mod fleet;

use std::sync::Arc;

use anyhow::ensure;
use embedded::{EmbeddedStore, StoreOpenError};
use ports::{Engine, RandomIds, SystemClock};

#[cfg(feature = "fleet")]
pub(crate) use self::fleet::{FleetEngine, dynamo_store};
use crate::config::Config;
use crate::embedded_config::store_key;

/// Opens the engine of a configuration. The embedded engine creates its data directory if there is none.
pub(super) async fn open(config: &Config) -> anyhow::Result<Box<dyn Engine>> {
    config.store.engine.descriptor().open(config).await
}

/// Opens the engine of a configuration, for a tool that must not create a data directory.
pub(super) async fn open_existing(config: &Config) -> anyhow::Result<Box<dyn Engine>> {
    config.store.engine.descriptor().ensure_exists(config)?;
    open(config).await
}

/// Opens the store of a data directory. It purges no expired rows: a tool decides for each row, at one point in time,
/// whether the row has expired.
pub(crate) fn embedded_store(config: &Config) -> anyhow::Result<EmbeddedStore> {
    let settings = embedded::Config { forgets: false, key: store_key(config)?, ..embedded::Config::default() };
    Ok(EmbeddedStore::open(&config.data_dir, settings, Arc::new(SystemClock), Arc::new(RandomIds))?)
}

/// Refuses a data directory that does not exist.
pub(crate) fn ensure_exists(config: &Config) -> anyhow::Result<()> {
    let directory = &config.data_dir;
    ensure!(directory.exists(), "there is no data directory `{}`; name it with --data-dir", directory.display());
    Ok(())
}

/// Adds the remedy to the error of a data directory that another process holds.
pub(super) fn with_remedy(error: impl Into<anyhow::Error>, remedy: &'static str) -> anyhow::Error {
    let error = error.into();
    match error.downcast_ref() {
        Some(StoreOpenError::InUse(_)) => error.context(remedy),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(data_dir: std::path::PathBuf) -> Config {
        Config { data_dir, ..Config::default() }
    }

    #[tokio::test]
    async fn a_tool_for_existing_data_creates_no_directory() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path().join("absent"));
        let refusal = open_existing(&config).await.err().unwrap();
        assert!(refusal.to_string().starts_with("there is no data directory `"), "{refusal}");
        assert!(!config.data_dir.exists());
    }

    #[tokio::test]
    async fn only_the_error_of_a_directory_in_use_has_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path().join("data"));
        let holder = open(&config).await.unwrap();
        let refusal = with_remedy(open(&config).await.err().unwrap(), "stop it");
        assert_eq!(refusal.to_string(), "stop it");
        assert_eq!(holder.location(), format!("embedded {}", config.data_dir.display()));
        holder.close().await;
        open(&config).await.unwrap().close().await;
        assert_eq!(with_remedy(anyhow::anyhow!("damaged"), "stop it").to_string(), "damaged");
    }
}
