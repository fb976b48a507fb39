use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use server::config::Config;
use server::tools::schema::{self, Applied, Policies};

use super::{ToolArgs, exit};

#[derive(Subcommand)]
pub(crate) enum SchemaCommand {
    /// Prints the definition of tables and topics, the source of every other format.
    Show(ShowArgs),
    /// Creates missing tables and topics. It drops nothing and changes no item.
    ///
    /// It also sets time to live and backups of tables. It prints the differences that it cannot change, and then exits
    /// 1. Without `kafka.brokers` it skips topics.
    Apply(ToolArgs),
    /// Compares tables and topics with their definition, and exits 1 on a difference.
    Diff(ToolArgs),
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t = SchemaFormat::Table)]
    format: SchemaFormat,
    /// The policy of one role, with --format iam: gateway, ingest, fanout or api [default: all of them]; or `auditor`,
    /// the policy for running `tidings store verify`
    #[arg(long)]
    role: Option<String>,
    /// The AWS account of the policies, twelve digits [default: the account that uses them]
    #[arg(long, value_name = "DIGITS", default_value = "*", hide_default_value = true)]
    account_id: String,
    /// The MSK cluster with IAM authentication, as the end of its ARN; without it the policies do not cover the log.
    #[arg(long, value_name = "NAME/UUID")]
    msk_cluster: Option<String>,
    #[command(flatten)]
    tool: ToolArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaFormat {
    /// A readable table.
    Table,
    /// An AWS CloudFormation template: tables, and the policies of roles.
    Cloudformation,
    /// An AWS CloudFormation template: the alarms of tables and their indexes.
    Alarms,
    /// An AWS CloudFormation template: scheduled backups of the tables.
    Backups,
    /// IAM policies of the roles.
    Iam,
    /// Commands that create the topics.
    Kafka,
}

pub(crate) async fn run(command: SchemaCommand) -> anyhow::Result<ExitCode> {
    match command {
        SchemaCommand::Show(arguments) => show(arguments),
        SchemaCommand::Apply(tool) => apply(tool).await,
        SchemaCommand::Diff(tool) => diff(tool).await,
    }
}

fn show(arguments: ShowArgs) -> anyhow::Result<ExitCode> {
    let ShowArgs { format, role, account_id, msk_cluster, tool } = arguments;
    let format = match format {
        SchemaFormat::Iam => schema::Format::Iam(Policies { role, account_id, msk_cluster }),
        _ if role.is_some() => bail!("only policies are of a role; --role goes with --format iam"),
        SchemaFormat::Table => schema::Format::Table,
        SchemaFormat::Cloudformation => schema::Format::Cloudformation,
        SchemaFormat::Alarms => schema::Format::Alarms,
        SchemaFormat::Backups => schema::Format::Backups,
        SchemaFormat::Kafka => schema::Format::Kafka,
    };
    let json = tool.json;
    let config = tool.load()?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&schema::show_json(&config, &format)?)?);
    } else {
        out!("{}", schema::show(&config, &format)?);
    }
    Ok(ExitCode::SUCCESS)
}

async fn apply(tool: ToolArgs) -> anyhow::Result<ExitCode> {
    let json = tool.json;
    let config = tool.load()?;
    let Applied { changed, left } = schema::apply(&config, |step| eprintln!("{step}")).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "changed": changed, "left": left }))?);
        return Ok(exit(!left.is_empty()));
    }
    for drift in &changed {
        outln!("no longer: {drift}");
    }
    for drift in &left {
        outln!("left: {drift}");
    }
    if !left.is_empty() {
        outln!("the remaining differences need a new table or topic, or a manual change");
    }
    if changed.is_empty() && left.is_empty() {
        outln!("everything was as defined; nothing was changed");
    }
    note_log(&config);
    Ok(exit(!left.is_empty()))
}

async fn diff(tool: ToolArgs) -> anyhow::Result<ExitCode> {
    let json = tool.json;
    let config = tool.load()?;
    let drifts = schema::diff(&config).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "drift": drifts }))?);
        return Ok(exit(!drifts.is_empty()));
    }
    for drift in &drifts {
        outln!("{drift}");
    }
    match drifts.len() {
        0 => outln!("everything is as defined"),
        _ => outln!("run `tidings store schema apply` to create the missing ones"),
    }
    note_log(&config);
    Ok(exit(!drifts.is_empty()))
}

fn note_log(config: &Config) {
    if !schema::has_log(config) {
        outln!("topics were left alone: `kafka.brokers` is not set");
    }
}
