//! `tidings capacity`: resources for N users on one machine or in a fleet, and the first bottleneck.
//!
//! [`usage`] turns users into a demand, [`plan`] turns a demand into tables, log, Redis, processes and money, and
//! [`limits`] finds the first bottleneck. All factors come from [`costs`], where each figure names its source.

mod costs;
mod curve;
mod founding;
mod html;
mod limits;
mod machine;
mod number;
mod plan;
mod prices;
mod reads;
mod text;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use costs::Cost;
use machine::MachineSpec;
use plan::CapacityPlan;
use prices::{PriceList, Prices};
use usage::Usage;

#[derive(Args)]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    usage: Usage,
    #[command(flatten)]
    machine: MachineSpec,
    #[command(flatten)]
    prices: Prices,
    /// Also prints every input figure with its source.
    #[arg(long)]
    costs: bool,
    /// Prints the plan as JSON, with the figures and the prices.
    #[arg(long)]
    json: bool,
    /// Writes the plan as a page with a plot.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The result with all of its inputs.
#[derive(Serialize)]
struct CapacityEstimate<'a> {
    plan: &'a CapacityPlan,
    machine: &'a MachineSpec,
    prices: &'a Prices,
    /// The defaults of the prices, with their date and sources.
    price_list: &'static PriceList,
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
        let (machine, prices) = (&machine, &prices);
        let answer = CapacityEstimate { plan: &plan, machine, prices, price_list: &prices::LIST, costs: costs::ALL };
        outln!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", text::report(&plan));
    out!("{}", text::plot(&curve));
    if costs {
        out!("{}", text::costs());
    }
    Ok(ExitCode::SUCCESS)
}
