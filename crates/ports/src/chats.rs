use async_trait::async_trait;
use domain::{
    Chat, ChatChange, ChatCommand, ChatId, ChatName, ChatRefusal, ChatType, DirectPair, EventBody, Member,
    MemberChange, Role, Timestamp, UserId,
};

use crate::StoreError;

/// A direct chat to be opened, unless the pair has one.
#[derive(Clone, Debug)]
pub struct NewDirectChat {
    /// The id it gets if it is new.
    pub chat_id: ChatId,
    /// The two users.
    pub pair: DirectPair,
    /// Which of them asks.
    pub created_by: UserId,
    /// The time it gets if it is new.
    pub created_at: Timestamp,
}

impl NewDirectChat {
    /// What opening the chat writes: both users are plain members.
    pub fn opening(&self) -> ChatChange {
        let member = |user_id| Member::new(user_id, Role::Member, self.created_at);
        let members = self.pair.users().map(member).to_vec();
        opening(self.chat_id, ChatType::Direct, None, self.created_by, self.created_at, members)
    }
}

/// A group to be opened.
#[derive(Clone, Debug)]
pub struct NewGroup {
    /// Its id.
    pub chat_id: ChatId,
    /// Its name.
    pub name: ChatName,
    /// Who asks, and becomes its owner.
    pub created_by: UserId,
    /// The other members, without repetition and without the owner; fewer than the bound on a group's size.
    pub members: Vec<UserId>,
    /// When.
    pub created_at: Timestamp,
}

impl NewGroup {
    /// What opening the group writes: whoever asks is its owner, the others are plain members.
    pub fn opening(&self) -> ChatChange {
        let owner = Member::new(self.created_by, Role::Owner, self.created_at);
        let others = self.members.iter().map(|user_id| Member::new(*user_id, Role::Member, self.created_at));
        let members = std::iter::once(owner).chain(others).collect();
        opening(self.chat_id, ChatType::Group, Some(self.name.clone()), self.created_by, self.created_at, members)
    }
}

fn opening(
    chat_id: ChatId,
    chat_type: ChatType,
    name: Option<ChatName>,
    created_by: UserId,
    created_at: Timestamp,
    members: Vec<Member>,
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
    }
}

/// What became of a request to open a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedChat {
    /// It was opened now.
    New(Chat),
    /// It was there: the pair's direct chat, or a group with this very id, opened by an earlier try of this request.
    Existing(Chat),
}

impl CreatedChat {
    /// The chat, new or not.
    pub fn chat(&self) -> &Chat {
        match self {
            Self::New(chat) | Self::Existing(chat) => chat,
        }
    }
}

/// Reads chats and members, strongly consistent.
#[async_trait]
pub trait ChatReader: Send + Sync {
    /// One chat.
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError>;

    /// Many chats, in their order, in one round.
    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError>;

    /// One user's place in a chat; `None` for outsiders and for chats that do not exist.
    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError>;

    /// All members of a chat, by user id.
    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError>;

    /// The first members of many chats by user id, up to `count` of each, in the order asked, in one round.
    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError>;

    /// All chats of a user, with the user's place in each.
    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError>;
}

/// Changes chats and members.
///
/// Each call is one transaction: chat, members, watermarks, head row (with its copy of the chat's message ttl) and the event of the log become durable together
/// before it returns `Ok`. Two calls never see each other half done. A chat is created with its head row at sequence 0,
/// and a new member's watermarks start at the head of that moment.
#[async_trait]
pub trait ChatWriter: Send + Sync {
    /// Opens the direct chat of a pair. However many ask at once, from either side, one chat comes of it. A pair that has none
    /// gets none while one has blocked the other ([`BlockStore`](crate::BlockStore)).
    async fn create_direct(&self, chat: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError>;

    /// Opens a group. The same id again, by the same owner, answers with the group that is there.
    async fn create_group(&self, group: NewGroup) -> Result<CreatedChat, StoreError>;

    /// Changes a chat as `domain::decide` allows, judged and written in one transaction.
    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError>;
}
