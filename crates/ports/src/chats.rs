use async_trait::async_trait;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatName, ChatRefusal, ChatType, DirectPair, EventBody, Invitation, Member,
    MemberChange, Role, Timestamp, UserId,
};

use crate::{InboxSelection, InboxStart, StoreError};

/// A request to open the direct chat of a pair, unless it exists.
#[derive(Clone, Debug)]
pub struct NewDirectChat {
    /// The id of the chat if it is created now.
    pub chat_id: ChatId,
    /// The pair of users.
    pub pair: DirectPair,
    /// The user of the pair who sent the request.
    pub created_by: UserId,
    /// The creation time of the chat if it is created now.
    pub created_at: Timestamp,
}

impl NewDirectChat {
    /// The rows and the event that opening the chat writes. Both users have the role `Member`.
    pub fn opening(&self) -> ChatChange {
        let member = |user_id| Member::new(user_id, Role::Member, self.created_at);
        let members = self.pair.users().map(member).to_vec();
        opening(self.chat_id, ChatType::Direct, None, self.created_by, self.created_at, members, vec![])
    }
}

/// A request to create a group.
#[derive(Clone, Debug)]
pub struct NewGroup {
    /// The id of the group.
    pub chat_id: ChatId,
    /// The name of the group.
    pub name: ChatName,
    /// The user who sent the request and becomes the owner.
    pub created_by: UserId,
    /// The other members, without duplicates and without the owner; fewer than `GROUP_MEMBERS_MAX`.
    pub members: Vec<UserId>,
    /// The creation time.
    pub created_at: Timestamp,
}

impl NewGroup {
    /// The rows and the event that creating the group writes. The creator has the role `Owner`, the others `Member`.
    /// Those without `consent` are invited and not members.
    pub fn opening(&self, consent: impl Fn(UserId) -> bool) -> ChatChange {
        let (consenting, asked): (Vec<_>, Vec<_>) = self.members.iter().copied().partition(|user_id| consent(*user_id));
        let owner = Member::new(self.created_by, Role::Owner, self.created_at);
        let others = consenting.into_iter().map(|user_id| Member::new(user_id, Role::Member, self.created_at));
        let members = std::iter::once(owner).chain(others).collect();
        let invitation = |user_id| Invitation::new(self.chat_id, user_id, self.created_by, self.created_at);
        let invitations = asked.into_iter().map(invitation).collect();
        let name = Some(self.name.clone());
        opening(self.chat_id, ChatType::Group, name, self.created_by, self.created_at, members, invitations)
    }
}

fn opening(
    chat_id: ChatId,
    chat_type: ChatType,
    name: Option<ChatName>,
    created_by: UserId,
    created_at: Timestamp,
    members: Vec<Member>,
    invitations: Vec<Invitation>,
) -> ChatChange {
    let created = EventBody::ChatCreated {
        chat_id,
        chat_type,
        name: name.clone(),
        created_by,
        initial_members: members.iter().map(|member| member.user_id).collect(),
    };
    let member_count = members.len() as u32;
    ChatChange {
        chat: Chat {
            chat_id,
            chat_type,
            name,
            created_by,
            created_at,
            updated_at: created_at,
            member_count,
            message_ttl: None,
        },
        members: members.into_iter().map(MemberChange::Added).collect(),
        events: vec![created],
        invitations,
    }
}

/// The outcome of a request to open a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedChat {
    /// The chat was created now.
    New(Chat),
    /// The chat already existed: the direct chat of the pair, or a group with this id from an earlier attempt of the
    /// request.
    Existing(Chat),
}

impl CreatedChat {
    /// The chat, whether new or existing.
    pub fn chat(&self) -> &Chat {
        match self {
            Self::New(chat) | Self::Existing(chat) => chat,
        }
    }
}

/// Reads chats and members with strong consistency.
#[async_trait]
pub trait ChatReader: Send + Sync {
    /// One chat.
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError>;

    /// Many chats, in the order of the arguments, in one round trip.
    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError>;

    /// The membership of one user in a chat; `None` if the user is not a member or the chat does not exist.
    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError>;

    /// All members of a chat, by user id.
    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError>;

    /// The first members of many chats by user id, up to `count` per chat, in the order of the arguments, in one round
    /// trip.
    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError>;

    /// All chats of a user, with the user's membership in each.
    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError>;

    /// The memberships of a user in many chats, in the order of the arguments, in one round trip; `None` where the user
    /// is not a member.
    async fn memberships_in(&self, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<Option<Member>>, StoreError>;

    /// The number of chats of a user, counted up to `max`.
    async fn chat_count(&self, user_id: UserId, max: usize) -> Result<usize, StoreError>;

    /// The direct chat of a pair, if it exists.
    async fn direct_chat(&self, pair: DirectPair) -> Result<Option<ChatId>, StoreError>;

    /// The rows that `inbox` reads for a user besides those of the page: 0 if the store indexes inboxes, otherwise
    /// about one for each chat of the user.
    async fn inbox_rows(&self, user_id: UserId) -> Result<usize, StoreError>;

    /// Up to `count` positions of a user's inbox after `start`, in order. Every message that was committed before the
    /// call counts as activity. A chat that the user joins or leaves meanwhile may be missing or present.
    async fn inbox(&self, user_id: UserId, start: InboxStart, count: usize) -> Result<InboxSelection, StoreError>;

    /// Whether each chat is a direct chat in which either user has blocked the other
    /// ([`BlockStore`](crate::BlockStore)), in the order of the arguments, in one round trip. Each chat is named with
    /// one of its members; for another user the answer is `false` or that of the chat.
    async fn blocked_chats(&self, chats: &[(ChatId, UserId)]) -> Result<Vec<bool>, StoreError>;
}

/// Changes chats and members.
///
/// Each call is one transaction. Chat, members, watermarks, head row (with its copy of the chat's message ttl) and the
/// event for the log become durable together, before the call returns `Ok`. Calls are isolated: none sees a partial
/// write of another. A new chat has a head row at sequence 0. The watermarks of a new member start at the current head
/// sequence.
///
/// The two calls that add members check the consent of each added user (`domain::GroupInvites`), against the user's
/// setting and contact list, in the transaction that writes the membership. A user without a row consents. A user who
/// does not consent gets an invitation instead ([`InvitationStore`](crate::InvitationStore)).
#[async_trait]
pub trait ChatWriter: Send + Sync {
    /// Opens the direct chat of a pair. Any number of concurrent requests, from either user, create one chat. A pair
    /// without a chat cannot open one while either user has blocked the other ([`BlockStore`](crate::BlockStore)).
    async fn create_direct(&self, chat: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError>;

    /// Creates a group, with the consenting ones of `members`. A repeated call with the same id and owner returns the
    /// existing group.
    async fn create_group(&self, group: NewGroup) -> Result<CreatedChat, StoreError>;

    /// Applies `domain::decide` to the stored rows and writes the resulting change, in one transaction. While either
    /// user of a direct chat has blocked the other, neither of them changes its settings.
    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError>;
}
