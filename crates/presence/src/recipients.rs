use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::limits::BLOCKS_MAX;
use domain::{ChatId, PresenceVisibility, Timestamp, UserId};
use ports::{GatewayId, PresenceLookup, StoreError};

use crate::Presence;

/// How long a chat counts as active after its last message.
const ACTIVE_FOR: Duration = Duration::from_secs(24 * 3600);
/// Most chats with members that receive a transition, the most active first.
const CHATS_MAX: usize = 50;
/// Most recipients of one transition. A client that needs every transition of a user must subscribe.
const RECIPIENTS_MAX: usize = 1000;
/// Chats with members that are read in one call.
const CHATS_AT_ONCE: usize = 10;

/// Users by the gateway that holds their connections.
pub(crate) type UsersByGateway = BTreeMap<GatewayId, Vec<UserId>>;

/// The users of all gateways, without duplicates.
pub(crate) fn all_users(by_gateway: &UsersByGateway) -> BTreeSet<UserId> {
    by_gateway.values().flatten().copied().collect()
}

impl Presence {
    /// The recipients of a user's transition without a subscription, under a visibility setting.
    ///
    /// The cost does not grow with the number of the user's chats. There is one call each for memberships, chat heads,
    /// blocks, routes and contacts, and at most five for members.
    pub(crate) async fn recipients(
        &self,
        user_id: UserId,
        visibility: PresenceVisibility,
    ) -> Result<UsersByGateway, StoreError> {
        if !visibility.shows_anybody() {
            return Ok(UsersByGateway::new());
        }
        // A user without contacts has no mutual contacts. Most users end here.
        if visibility.asks_contacts() && self.contacts.contacts(user_id, None, 1).await?.is_empty() {
            return Ok(UsersByGateway::new());
        }
        let mut partners = self.partners(user_id).await?;
        if partners.is_empty() {
            return Ok(UsersByGateway::new());
        }
        let blocked = BTreeSet::from_iter(self.blocks.blocks(user_id, None, BLOCKS_MAX).await?);
        partners.retain(|partner| !blocked.contains(partner));
        let mut online = self.routes.gateways(&partners).await?;
        if !visibility.asks_contacts() {
            return Ok(online);
        }
        let mutual = self
            .mutual_contacts(all_users(&online).into_iter().map(|viewer| PresenceLookup { viewer, user_id }).collect())
            .await?;
        for viewers in online.values_mut() {
            viewers.retain(|viewer| mutual.contains(&PresenceLookup { viewer: *viewer, user_id }));
        }
        online.retain(|_, viewers| !viewers.is_empty());
        Ok(online)
    }

    /// The other members of a user's active chats, the most active chats first, without duplicates.
    pub(crate) async fn partners(&self, user_id: UserId) -> Result<Vec<UserId>, StoreError> {
        let mut partners = vec![];
        let mut seen = BTreeSet::from([user_id]);
        for chat_ids in self.active_chats(user_id).await?.chunks(CHATS_AT_ONCE) {
            for members in self.chats.first_members(chat_ids, RECIPIENTS_MAX).await? {
                let new = members.into_iter().map(|member| member.user_id).filter(|member| seen.insert(*member));
                partners.extend(new);
            }
            if partners.len() >= RECIPIENTS_MAX {
                partners.truncate(RECIPIENTS_MAX);
                break;
            }
        }
        Ok(partners)
    }

    /// A user's chats with a recent message or that the user joined recently.
    async fn active_chats(&self, user_id: UserId) -> Result<Vec<ChatId>, StoreError> {
        let memberships = self.chats.memberships(user_id).await?;
        let chat_ids: Vec<ChatId> = memberships.iter().map(|(chat_id, _)| *chat_id).collect();
        let heads = self.messages.heads(&chat_ids).await?;
        let since = self.clock.now().minus(ACTIVE_FOR);
        let mut active: Vec<(Timestamp, ChatId)> = memberships
            .into_iter()
            .zip(heads)
            .map(|((chat_id, member), head)| {
                let last_message = head.and_then(|head| head.last_message);
                let written_at = last_message.map_or(member.joined_at, |message| message.created_at);
                (written_at.max(member.joined_at), chat_id)
            })
            .filter(|(active_at, _)| *active_at >= since)
            .collect();
        active.sort_unstable_by_key(|active| Reverse(*active));
        Ok(active.into_iter().take(CHATS_MAX).map(|(_, chat_id)| chat_id).collect())
    }
}
