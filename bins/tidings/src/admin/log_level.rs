use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde_json::json;

use super::AdminArgs;

#[derive(Args)]
pub(crate) struct LogLevelArgs {
    /// A level (off, error, warn, info, debug, trace), or directives such as `info,gateway=debug`; without it, the
    /// current level is shown.
    level: Option<String>,
    /// How long the level applies, such as 10m or 2h; then the configured level returns. Without it, until the next
    /// change or restart.
    #[arg(long = "for", value_name = "DURATION", requires = "level", value_parser = humantime::parse_duration)]
    lasts: Option<Duration>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) async fn run(arguments: LogLevelArgs) -> anyhow::Result<ExitCode> {
    let LogLevelArgs { level, lasts, admin } = arguments;
    let admin = admin.connect()?;
    let answer = match level {
        Some(level) => {
            let change = json!({ "level": level, "for_seconds": lasts.map(|lasts| lasts.as_secs()) });
            admin.call(Method::PUT, "/log-level", Some(&change)).await?
        }
        None => admin.call(Method::GET, "/log-level", None).await?,
    };
    admin.print(&answer, || {
        let text = |name: &str| answer[name].as_str().unwrap_or("-").to_owned();
        let (level, configured) = (text("level"), text("configured"));
        match answer["for_seconds"].as_u64() {
            Some(seconds) => outln!("{level}, for {seconds} s; then {configured}"),
            None if level == configured => outln!("{level}"),
            None => outln!("{level}, until the next change or restart; configured is {configured}"),
        }
    })
}
