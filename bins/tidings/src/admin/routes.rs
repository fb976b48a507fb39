use std::process::ExitCode;

use clap::Subcommand;
use domain::UserId;
use reqwest::Method;
use serde_json::Value;

use super::AdminArgs;

#[derive(Subcommand)]
pub(crate) enum RoutesCommand {
    /// Lists the connections that a user has now.
    ///
    /// Pushes go to all of them. A user who has none is away: their devices are notified instead, and sync when they
    /// come back.
    User {
        user_id: UserId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Lists the gateways that beat, and how many connections each has.
    ///
    /// A gateway is gone from here some seconds after its last beat (`gateway.expiry_ms`), and so are its connections.
    Gateways(AdminArgs),
    /// Lists connections of one gateway.
    ///
    /// Those of a gateway that beats no more are listed until they are swept away: nothing is pushed to them.
    Gateway {
        /// Its name, as `tidings routes gateways` lists it.
        id: String,
        /// How many are listed at the most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

pub(crate) async fn run(command: RoutesCommand) -> anyhow::Result<ExitCode> {
    match command {
        RoutesCommand::User { user_id, admin } => {
            let admin = admin.connect()?;
            let answer = admin.call(Method::GET, &format!("/users/{user_id}/connections"), None).await?;
            admin.print(&answer, || {
                for connection in elements(&answer["connections"]) {
                    let [id, device, gateway, since] =
                        texts(connection, ["connection_id", "device_id", "gateway", "connected_at"]);
                    println!("{id}  device {device}  on {gateway}  since {since}");
                }
                if elements(&answer["connections"]).is_empty() {
                    println!("`{user_id}` has no connection");
                }
            })
        }
        RoutesCommand::Gateways(arguments) => {
            let admin = arguments.connect()?;
            let answer = admin.call(Method::GET, "/gateways", None).await?;
            admin.print(&answer, || {
                for gateway in elements(&answer["gateways"]) {
                    let [name] = texts(gateway, ["gateway"]);
                    let more = if gateway["has_more"] == true { "more than " } else { "" };
                    println!("{name}  {more}{} connections", gateway["connections"]);
                }
                if elements(&answer["gateways"]).is_empty() {
                    println!("no gateway beats");
                }
            })
        }
        RoutesCommand::Gateway { id, limit, admin } => {
            let admin = admin.connect()?;
            let path = format!("/gateways/{id}/connections?limit={limit}");
            let answer = admin.call(Method::GET, &path, None).await?;
            admin.print(&answer, || {
                for connection in elements(&answer["connections"]) {
                    let [id, user, device, since] =
                        texts(connection, ["connection_id", "user_id", "device_id", "connected_at"]);
                    println!("{id}  {user}  device {device}  since {since}");
                }
                if elements(&answer["connections"]).is_empty() {
                    println!("`{id}` has no connection");
                }
                if answer["has_more"] == true {
                    println!("there are more; name a higher --limit to see some of them");
                }
                if answer["is_live"] == false {
                    println!("`{id}` beats no more; nothing is pushed to these");
                }
            })
        }
    }
}

pub(super) fn elements(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn texts<'a, const N: usize>(body: &'a Value, names: [&str; N]) -> [&'a str; N] {
    names.map(|name| body[name].as_str().unwrap_or("-"))
}
