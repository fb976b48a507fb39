use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use server::tools::backup::{self, BackupContents, Destination, RATE_MIB, RATE_MIB_MAX};

use super::{ToolArgs, bytes_bar};
use crate::admin::AdminArgs;

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The file to write, which must not exist yet; - is standard output.
    file: PathBuf,
    /// Asks the running service on one machine, which continues to serve. Uses the configured admin listener unless an
    /// address is given.
    #[arg(long, alias = "admin", value_name = "ADDR")]
    admin_listen: Option<Option<SocketAddr>>,
    /// Maximum read rate in MiB per second.
    #[arg(long, value_name = "MIB", default_value_t = RATE_MIB, value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MIB_MAX)))]
    rate: u32,
    #[command(flatten)]
    tool: ToolArgs,
}

pub(crate) async fn run(arguments: BackupArgs) -> anyhow::Result<ExitCode> {
    let BackupArgs { file, admin_listen, rate, tool } = arguments;
    let json = tool.json;
    let bar = bytes_bar();
    let progress = |bytes: u64, about: u64| {
        // The total length is only an estimate.
        bar.set_length(about.max(bytes));
        bar.set_position(bytes);
    };
    let mut destination = Destination::open(&file)?;
    match admin_listen {
        Some(address) => AdminArgs::of(tool, address).connect()?.backup(rate, &mut destination, progress).await?,
        None => backup::take(&tool.load()?, rate, &mut destination, progress).await?,
    }
    let written = destination.written();
    let contents = destination.finish()?;
    bar.finish_and_clear();
    match contents {
        Some(contents) if json => outln!("{}", serde_json::to_string_pretty(&answer(&contents))?),
        Some(contents) => {
            print(&contents);
            outln!("`{}` holds keys: keep it as you keep the data directory", file.display());
        }
        None => eprintln!("{written} bytes; check the result with `tidings store restore --check`"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The contents of a backup as JSON.
pub(super) fn answer(contents: &BackupContents) -> Value {
    json!({
        "taken_at": contents.header.taken_at,
        "version": contents.header.version,
        "store_format": contents.header.store_format,
        "log_end": contents.header.log_end,
        "key": contents.header.key.map(|key| key.to_string()),
        "bytes": contents.bytes,
        "rows": contents.rows(),
        "tables": contents.tables,
        "files": contents.files,
    })
}

/// Prints the contents of a backup.
pub(super) fn print(contents: &BackupContents) {
    let header = &contents.header;
    outln!("taken at {} by tidings {}, store format {}", header.taken_at, header.version, header.store_format);
    if let Some(key) = header.key {
        outln!("encrypted with key {key}");
    }
    outln!("{} rows in {} tables, {} bytes", contents.rows(), contents.tables.len(), contents.bytes);
    outln!("everything that was acknowledged before {} is in it", header.taken_at);
}
