use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::{AdminArgs, AdminConnection};

/// Interval at which the remaining work is polled.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// Seconds to wait until the process is safe to remove; 0 only starts the drain.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400))]
    timeout: u64,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Starts a drain, then waits and prints a line for each change.
pub(crate) async fn drain(arguments: DrainArgs) -> anyhow::Result<ExitCode> {
    let admin = arguments.admin.connect()?;
    let until = Instant::now() + Duration::from_secs(arguments.timeout);
    let mut standing = admin.call(Method::POST, "/drain", None).await?;
    let mut said = String::new();
    while standing["safe_to_remove"] != true && Instant::now() < until {
        let left = left(&standing);
        if left != said {
            eprintln!("draining: {left} left");
            said = left;
        }
        tokio::time::sleep(LOOK).await;
        standing = admin.call(Method::GET, "/drain", None).await?;
    }
    let is_safe = standing["safe_to_remove"] == true;
    print(&admin, &standing)?;
    Ok(if is_safe || arguments.timeout == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) async fn resume(arguments: AdminArgs) -> anyhow::Result<ExitCode> {
    let admin = arguments.connect()?;
    let standing = admin.call(Method::POST, "/resume", None).await?;
    print(&admin, &standing)
}

fn print(admin: &AdminConnection, standing: &Value) -> anyhow::Result<ExitCode> {
    admin.print(standing, || match (&standing["draining"], &standing["safe_to_remove"]) {
        (Value::Bool(true), Value::Bool(true)) => outln!("nothing is left; the process is safe to remove"),
        (Value::Bool(true), _) => outln!("drain in progress: {} left", left(standing)),
        _ => outln!("not draining; the process accepts work"),
    })
}

/// Each kind of remaining work, with its count.
fn left(standing: &Value) -> String {
    let counts = standing.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_u64()?)));
    let left: Vec<String> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    if left.is_empty() { "nothing".to_owned() } else { left.join(", ") }
}
