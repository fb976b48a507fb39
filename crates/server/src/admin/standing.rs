use std::collections::BTreeMap;

use domain::{ChatId, Member, Timestamp, UserId, Watermarks};
use futures_util::future::try_join_all;
use ports::{GatewayId, Route, StoreError};
use serde_json::{Value, json};

use super::AdminState;
use super::records::Records;

/// Most members of a chat whose connections are looked up one by one, to report since when they are connected. For the
/// others only the gateways are known.
const LOOKED_UP_MAX: usize = 50;

/// A member of a chat with their watermarks and connections.
#[derive(Clone, Debug)]
pub(super) struct MemberStatus {
    pub(super) member: Member,
    pub(super) name: String,
    pub(super) watermarks: Watermarks,
    pub(super) link: Connectivity,
    /// The number of their devices that receive notifications while they are not connected.
    pub(super) push_devices: usize,
}

/// Whether a user has a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connectivity {
    Connected {
        gateways: Vec<GatewayId>,
        /// When the oldest of the connections was opened.
        since: Option<Timestamp>,
    },
    Away {
        /// Absent if the user has never been connected.
        since: Option<Timestamp>,
    },
}

impl MemberStatus {
    pub(super) fn is_muted(&self, now: Timestamp) -> bool {
        self.member.muted_until.is_some_and(|until| until > now)
    }

    pub(super) fn body(&self) -> Value {
        let (gateways, connected_since, away_since) = match &self.link {
            Connectivity::Connected { gateways, since } => (gateways.iter().map(|id| &*id.0).collect(), *since, None),
            Connectivity::Away { since } => (vec![], None, *since),
        };
        json!({
            "user_id": self.member.user_id,
            "display_name": self.name,
            "role": self.member.role,
            "joined_at": self.member.joined_at,
            "muted_until": self.member.muted_until,
            "delivered_sequence": self.watermarks.delivered,
            "read_sequence": self.watermarks.read,
            "connected": matches!(self.link, Connectivity::Connected { .. }),
            "gateways": gateways,
            "connected_since": connected_since,
            "away_since": away_since,
            "push_devices": self.push_devices,
        })
    }
}

/// The members of a chat with their watermarks and connections, by user id.
pub(super) async fn standings(
    admin: &AdminState,
    records: &Records,
    chat_id: ChatId,
) -> Result<Vec<MemberStatus>, StoreError> {
    let members = records.chats.members(chat_id).await?;
    let user_ids: Vec<UserId> = members.iter().map(|member| member.user_id).collect();
    let users = records.users.users(&user_ids).await?;
    let of: Vec<_> = user_ids.iter().map(|user_id| (*user_id, chat_id)).collect();
    let watermarks = records.watermarks.watermarks(&of).await?;
    let offline_since = records.transitions.offline_since(&user_ids).await?;
    let mut connected = connected(admin, &user_ids).await?;
    let mut devices: BTreeMap<UserId, usize> = BTreeMap::new();
    for device in records.push_devices.devices(&user_ids).await? {
        *devices.entry(device.user_id).or_default() += 1;
    }
    let mut standings = Vec::with_capacity(members.len());
    for (((member, user), watermarks), offline_since) in
        members.into_iter().zip(users).zip(watermarks).zip(offline_since)
    {
        let last_seen = user.as_ref().and_then(|user| user.last_seen_at);
        let link =
            connected.remove(&member.user_id).unwrap_or(Connectivity::Away { since: offline_since.or(last_seen) });
        let name = user.map_or_else(|| member.user_id.to_string(), |user| user.display_name.as_str().to_owned());
        let push_devices = devices.get(&member.user_id).copied().unwrap_or(0);
        standings.push(MemberStatus { member, name, watermarks, link, push_devices });
    }
    Ok(standings)
}

/// The users with a connection, out of `user_ids`.
async fn connected(admin: &AdminState, user_ids: &[UserId]) -> Result<BTreeMap<UserId, Connectivity>, StoreError> {
    let mut gateways: BTreeMap<UserId, Vec<GatewayId>> = BTreeMap::new();
    for (gateway, there) in admin.routes.gateways(user_ids).await? {
        for user_id in there {
            gateways.entry(user_id).or_default().push(gateway.clone());
        }
    }
    let looked_up = gateways.keys().take(LOOKED_UP_MAX).map(|user_id| admin.routes.routes(*user_id));
    let routes: Vec<Route> = try_join_all(looked_up).await?.into_iter().flatten().collect();
    let since = |user_id| routes.iter().filter(|route| route.user_id == user_id).map(|route| route.connected_at).min();
    let link = |(user_id, gateways)| (user_id, Connectivity::Connected { gateways, since: since(user_id) });
    Ok(gateways.into_iter().map(link).collect())
}
