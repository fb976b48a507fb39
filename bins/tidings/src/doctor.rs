use std::process::ExitCode;

use clap::Args;
use server::doctor::{CheckResult, examine};

use crate::serve::ConfigArgs;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Exits 0 if the service can run, 1 if it cannot.
pub(crate) async fn run(arguments: DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = examine(&arguments.config.load()?).await;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let mark = match finding.verdict {
                CheckResult::Good => "ok  ",
                CheckResult::Warning => "warn",
                CheckResult::Bad => "BAD ",
            };
            println!("{mark}  {:<14} {}", finding.check, finding.message);
        }
    }
    let bad = findings.iter().any(|finding| finding.verdict == CheckResult::Bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
