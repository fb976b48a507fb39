//! `tidings chat`: a terminal client on the public SDK.
//!
//! [`app`] decides, [`view`] draws, and `run` connects both to a terminal and a server. `plain` is for pipes. A profile
//! holds the state that survives between runs.

mod app;
#[cfg(test)]
mod desk;
mod errands;
mod input;
mod plain;
mod profile;
mod run;
mod terminal;
mod text;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use clap::Args;
use client::Client;

use profile::Profile;

/// Chats in the terminal.
#[derive(Args)]
pub(crate) struct ChatArgs {
    /// The server [default: the server of the profile, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The profile to use; each profile is a separate device.
    #[arg(long, value_name = "NAME", default_value = "default")]
    profile: String,
    /// The recipient of --send.
    #[arg(long, value_name = "PHONE", requires = "send")]
    to: Option<String>,
    /// Sends this text, or standard input for `-`, and exits 0 once it is durable.
    #[arg(long, value_name = "TEXT", requires = "to", conflicts_with = "tail")]
    send: Option<String>,
    /// Prints each message, edit, deletion and reaction on a line, as it arrives.
    #[arg(long)]
    tail: bool,
}

pub(crate) async fn run(arguments: ChatArgs) -> anyhow::Result<ExitCode> {
    let profile = Profile::open(&arguments.profile, arguments.server.as_deref())?;
    let client = client(&profile)?;
    let is_plain = arguments.tail || arguments.send.is_some();
    if is_plain && profile.tokens().is_none() {
        let name = &arguments.profile;
        bail!("nobody is signed in with profile `{name}`; run `tidings chat --profile {name}` in a terminal first");
    }
    match (arguments.to, arguments.send) {
        (Some(phone_number), Some(words)) => plain::send(&client, phone_number, words).await,
        _ if arguments.tail => plain::tail(&client).await,
        _ => {
            ensure!(std::io::stdout().is_terminal(), "standard output is no terminal; --tail and --send need none");
            Box::pin(run::run(profile, client)).await
        }
    }
}

/// The SDK client of a profile. It stores new tokens in the profile.
fn client(profile: &Profile) -> anyhow::Result<Client> {
    let keeper = profile.clone();
    let mut builder = Client::builder(profile.server()).device_id(profile.device_id()).keep_tokens(move |tokens| {
        if let Err(error) = keeper.keep_tokens(tokens) {
            // This run continues with the new tokens; the next run may have to sign in again.
            tracing::warn!("the tokens were not kept: {error:#}");
        }
    });
    if let Some(tokens) = profile.tokens() {
        builder = builder.tokens(tokens);
    }
    Ok(builder.build()?)
}
