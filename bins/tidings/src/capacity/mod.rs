//! `tidings capacity`: what so many people take, on one machine or in a fleet, and what ends first.
//!
//! [`usage`] turns people into a demand, [`plan`] a demand into tables, log, Redis, processes and money, [`limits`] says
//! what ends first. Whatever is multiplied with comes from [`costs`], where each figure names its source.

mod costs;
mod curve;
mod founding;
mod html;
mod limits;
mod machine;
mod number;
mod plan;
mod prices;
mod text;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use costs::Cost;
use machine::Machine;
use plan::Plan;
use prices::Prices;
use usage::Usage;

#[derive(Args)]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    usage: Usage,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    prices: Prices,
    /// Also prints every figure that was reckoned with, and where it comes from.
    #[arg(long)]
    costs: bool,
    /// Prints the plan as JSON, with the figures and the prices.
    #[arg(long)]
    json: bool,
    /// Writes the plan as a page with a plot.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Everything that was reckoned, and what with.
#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    prices: &'a Prices,
    costs: &'static [Cost],
}

pub(crate) fn run(arguments: CapacityArgs) -> anyhow::Result<ExitCode> {
    let CapacityArgs { usage, machine, prices, costs, json, html } = arguments;
    let plan = plan::plan(&usage, &machine, &prices);
    let curve = curve::over_users(&usage, &machine, &prices);
    if let Some(path) = &html {
        std::fs::write(path, html::page(&plan, &curve))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    if json {
        let answer = Answer { plan: &plan, machine: &machine, prices: &prices, costs: costs::ALL };
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", text::report(&plan));
    print!("{}", text::plot(&curve));
    if costs {
        print!("{}", text::costs());
    }
    Ok(ExitCode::SUCCESS)
}
