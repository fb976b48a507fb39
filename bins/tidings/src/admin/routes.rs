use std::process::ExitCode;

use clap::Subcommand;
use domain::UserId;
use reqwest::Method;
use serde_json::Value;

use super::AdminArgs;

#[derive(Subcommand)]
pub(crate) enum RoutesCommand {
    /// Lists the current connections of a user.
    ///
    /// Pushes go to all of them. A user without a connection is offline: their devices are notified instead, and sync
    /// when they reconnect.
    User {
        user_id: UserId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Lists the live gateways and their number of connections.
    ///
    /// A gateway and its connections disappear from this list some seconds after its last heartbeat
    /// (`gateway.expiry_ms`).
    Gateways(AdminArgs),
    /// Lists connections of one gateway.
    ///
    /// Connections of a gateway without a heartbeat are listed until they are purged, but nothing is pushed to them.
    Gateway {
        /// Its name, as listed by `tidings admin routes gateways`.
        id: String,
        /// Maximum number of connections to list.
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
                    outln!("{id}  device {device}  on {gateway}  since {since}");
                }
                if elements(&answer["connections"]).is_empty() {
                    outln!("`{user_id}` has no connection");
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
                    outln!("{name}  {more}{} connections", gateway["connections"]);
                }
                if elements(&answer["gateways"]).is_empty() {
                    outln!("no gateway is live");
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
                    outln!("{id}  {user}  device {device}  since {since}");
                }
                if elements(&answer["connections"]).is_empty() {
                    outln!("`{id}` has no connection");
                }
                if answer["has_more"] == true {
                    outln!("there are more; raise --limit to see more of them");
                }
                if answer["is_live"] == false {
                    outln!("`{id}` sends no heartbeat; nothing is pushed to these connections");
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
