use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};

/// Begins to log to standard error, as configured. Directives that cannot be read are an error that names them.
pub fn init(log: &Log) -> anyhow::Result<()> {
    // The store's engine tells about every file it touches; whoever wants to hear it names it in the level.
    let filter = EnvFilter::try_new(format!("fjall=warn,lsm_tree=warn,{}", log.level))
        .map_err(|error| anyhow::anyhow!("`log.level` is not usable: `{}`: {error}", log.level))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => builder.json().finish().try_init()?,
    }
    Ok(())
}
