use serde::{Deserialize, Serialize};

use crate::limits::{GROUP_MEMBERS_MAX, INVITATIONS_PER_CHAT_MAX};
use crate::{ChatId, ChatName, EventBody, Invitation, MembershipChange, Timestamp, Ttl, UserId};

/// A conversation. Its members have their own rows; its last message is in its head row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    pub chat_id: ChatId,
    pub chat_type: ChatType,
    /// Present on groups only.
    pub name: Option<ChatName>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Stored with the chat so that the limit on the group size is checked without counting member rows.
    pub member_count: u32,
    /// The lifetime of messages without a ttl of their own; unlimited if absent.
    pub message_ttl: Option<Ttl>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatType {
    /// Two users, fixed at creation. At most one direct chat exists per pair.
    Direct,
    Group,
}

/// The membership of one user in one chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub user_id: UserId,
    pub role: Role,
    pub joined_at: Timestamp,
    /// No notifications before this time; [`Timestamp::MAX`] mutes permanently.
    pub muted_until: Option<Timestamp>,
}

impl Member {
    pub fn new(user_id: UserId, role: Role, joined_at: Timestamp) -> Self {
        Self { user_id, role, joined_at, muted_until: None }
    }
}

/// Roles in a chat, in ascending order of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    #[default]
    Member,
    Admin,
    Owner,
}

impl Role {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

/// The two users of a direct chat. The value is the same in whichever order they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectPair(UserId, UserId);

impl DirectPair {
    /// The pair of two different users; `None` if they are the same.
    pub fn new(a: UserId, b: UserId) -> Option<Self> {
        match a.cmp(&b) {
            std::cmp::Ordering::Less => Some(Self(a, b)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Self(b, a)),
        }
    }

    pub fn users(self) -> [UserId; 2] {
        [self.0, self.1]
    }
}

/// A change that a member requests in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    Update(ChatUpdate),
    /// Adds a user who consents to it ([`GroupInvites`](crate::GroupInvites)), and invites any other user.
    AddMember {
        user_id: UserId,
        role: Role,
    },
    RemoveMember {
        user_id: UserId,
    },
    ChangeRole {
        user_id: UserId,
        role: Role,
    },
    /// Leaves a group. The owner leaves it only as its last member.
    Leave,
    /// Leaves a group because the account is deleted. If the owner leaves, the heir becomes the owner. If the owner is
    /// the last member, the group stays behind empty.
    Depart {
        heir: Option<UserId>,
    },
    /// Mutes the chat for the requesting member until then; `None` unmutes it.
    Mute {
        until: Option<Timestamp>,
    },
}

/// A change of the chat itself; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatUpdate {
    pub name: Option<ChatName>,
    /// `Some(None)` removes the limit on the lifetime of messages.
    pub message_ttl: Option<Option<Ttl>>,
}

impl ChatUpdate {
    pub fn name(name: ChatName) -> Self {
        Self { name: Some(name), ..Self::default() }
    }

    pub fn message_ttl(message_ttl: Option<Ttl>) -> Self {
        Self { message_ttl: Some(message_ttl), ..Self::default() }
    }
}

impl ChatCommand {
    /// The other member who is affected by the command. Their row is an input of [`decide`], next to the actor's row.
    pub fn target(&self) -> Option<UserId> {
        match self {
            Self::AddMember { user_id, .. } | Self::RemoveMember { user_id } | Self::ChangeRole { user_id, .. } => {
                Some(*user_id)
            }
            Self::Depart { heir } => *heir,
            Self::Update(_) | Self::Leave | Self::Mute { .. } => None,
        }
    }
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatRefusal {
    #[error("no such chat")]
    ChatNotFound,
    #[error("you are not a member of this chat")]
    NotAMember,
    #[error("your role in this chat does not allow this")]
    Forbidden,
    #[error("that user is a member already")]
    AlreadyAMember,
    #[error("that user is not a member of this chat")]
    TargetNotAMember,
    #[error("a group has at most {GROUP_MEMBERS_MAX} members")]
    ChatFull,
    #[error("a direct chat cannot be changed")]
    DirectIsImmutable,
    #[error("the owner hands the group over before leaving it or changing role")]
    OwnerMustHandOver,
    #[error("a member is added as member or admin; the owner hands over by changing a role")]
    OwnerIsNotAdded,
    // The error does not reveal a block by the other user, so it gives no reason.
    #[error("you cannot open a chat with that user")]
    Blocked,
    #[error("you have blocked that user; unblock them first")]
    Blocking,
    #[error("a group has at most {INVITATIONS_PER_CHAT_MAX} pending invitations")]
    TooManyInvitations,
    // The inviter may have lost the permission to add members, which does not concern the invited user.
    #[error("you have no invitation to this chat")]
    NotInvited,
}

impl ChatRefusal {
    /// The refusal of an acceptance, given the refusal of the addition by the inviter. It does not tell the invited user
    /// about the inviter's role.
    pub fn of_acceptance(self) -> Self {
        match self {
            Self::NotAMember | Self::Forbidden => Self::NotInvited,
            other => other,
        }
    }
}

/// The effects of a permitted command: the new rows and their events. A store writes them in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatChange {
    pub chat: Chat,
    pub members: Vec<MemberChange>,
    pub events: Vec<EventBody>,
    /// The users who are asked instead of added. A store drops some invitations silently: [`Invitation::is_kept`].
    pub invitations: Vec<Invitation>,
}

impl ChatChange {
    /// The invitation of a user instead of their addition. The chat and its members stay unchanged.
    pub fn invitation(chat: &Chat, invitation: Invitation) -> Self {
        Self { chat: chat.clone(), members: vec![], events: vec![], invitations: vec![invitation] }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new member; both watermarks start at the current head sequence.
    Added(Member),
    /// An existing member with new values.
    Updated(Member),
    Removed(UserId),
}

/// Decides a command on a chat from the chat row, the actor's membership and the target's membership.
///
/// Every store calls this inside the transaction that writes the change, so the rows cannot change in between.
pub fn decide(
    chat: &Chat,
    actor: Option<&Member>,
    target: Option<&Member>,
    command: &ChatCommand,
    now: Timestamp,
) -> Result<ChatChange, ChatRefusal> {
    let actor = actor.ok_or(ChatRefusal::NotAMember)?;
    if let ChatCommand::Mute { until } = command {
        let muted = Member { muted_until: *until, ..actor.clone() };
        let members = vec![MemberChange::Updated(muted)];
        return Ok(ChatChange { chat: chat.clone(), members, events: vec![], invitations: vec![] });
    }
    // Both users of a direct chat have the same permissions, and only the lifetime of messages can be changed.
    let lifetime_only = matches!(command, ChatCommand::Update(ChatUpdate { name: None, .. }));
    if chat.chat_type == ChatType::Direct && !lifetime_only {
        return Err(ChatRefusal::DirectIsImmutable);
    }

    let membership = |user_id, change, role| EventBody::MembershipChanged {
        chat_id: chat.chat_id,
        user_id,
        change,
        role,
        changed_by: actor.user_id,
    };
    let mut changed = Chat { updated_at: now, ..chat.clone() };
    let mut members = vec![];
    let mut events = vec![];
    match command {
        ChatCommand::Update(ChatUpdate { name, message_ttl }) => {
            require(actor.role >= Role::Admin || chat.chat_type == ChatType::Direct)?;
            let (chat_id, changed_by) = (chat.chat_id, actor.user_id);
            if let Some(name) = name {
                changed.name = Some(name.clone());
                events.push(EventBody::ChatRenamed { chat_id, name: name.clone(), changed_by });
            }
            if let Some(message_ttl) = *message_ttl {
                changed.message_ttl = message_ttl;
                events.push(EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by });
            }
        }
        ChatCommand::AddMember { user_id, role } => {
            require(actor.role >= Role::Admin)?;
            if *role == Role::Owner {
                return Err(ChatRefusal::OwnerIsNotAdded);
            }
            // Adding a member with a role counts as a role change, which only the owner may make.
            require(*role == Role::Member || actor.role == Role::Owner)?;
            if target.is_some() {
                return Err(ChatRefusal::AlreadyAMember);
            }
            if chat.member_count as usize >= GROUP_MEMBERS_MAX {
                return Err(ChatRefusal::ChatFull);
            }
            changed.member_count += 1;
            members.push(MemberChange::Added(Member::new(*user_id, *role, now)));
            events.push(membership(*user_id, MembershipChange::Added, *role));
        }
        ChatCommand::RemoveMember { user_id } if *user_id != actor.user_id => {
            require(actor.role >= Role::Admin)?;
            let target = target.ok_or(ChatRefusal::TargetNotAMember)?;
            require(actor.role > target.role)?;
            changed.member_count -= 1;
            members.push(MemberChange::Removed(*user_id));
            events.push(membership(*user_id, MembershipChange::Removed, target.role));
        }
        // A member who removes themselves leaves.
        ChatCommand::Leave | ChatCommand::RemoveMember { .. } => {
            // There is nobody to hand over to if the owner is alone: the group stays behind empty, out of everybody's reach.
            if actor.role == Role::Owner && chat.member_count > 1 {
                return Err(ChatRefusal::OwnerMustHandOver);
            }
            changed.member_count -= 1;
            members.push(MemberChange::Removed(actor.user_id));
            events.push(membership(actor.user_id, MembershipChange::Removed, actor.role));
        }
        ChatCommand::Depart { .. } => {
            if actor.role == Role::Owner && chat.member_count > 1 {
                let heir = target.filter(|heir| heir.user_id != actor.user_id);
                let heir = heir.ok_or(ChatRefusal::OwnerMustHandOver)?;
                members.push(MemberChange::Updated(Member { role: Role::Owner, ..heir.clone() }));
                events.push(membership(heir.user_id, MembershipChange::RoleChanged, Role::Owner));
            }
            changed.member_count -= 1;
            members.push(MemberChange::Removed(actor.user_id));
            events.push(membership(actor.user_id, MembershipChange::Removed, actor.role));
        }
        ChatCommand::ChangeRole { user_id, role } => {
            require(actor.role == Role::Owner)?;
            if *user_id == actor.user_id {
                return Err(ChatRefusal::OwnerMustHandOver);
            }
            let target = target.ok_or(ChatRefusal::TargetNotAMember)?;
            let mut give = |member: &Member, role| {
                members.push(MemberChange::Updated(Member { role, ..member.clone() }));
                events.push(membership(member.user_id, MembershipChange::RoleChanged, role));
            };
            give(target, *role);
            if *role == Role::Owner {
                give(actor, Role::Admin);
            }
        }
        ChatCommand::Mute { .. } => unreachable!("decided above, for direct chats and groups alike"),
    }
    Ok(ChatChange { chat: changed, members, events, invitations: vec![] })
}

fn require(allowed: bool) -> Result<(), ChatRefusal> {
    if allowed { Ok(()) } else { Err(ChatRefusal::Forbidden) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: u8) -> UserId {
        UserId::from_bytes([n; 16])
    }

    fn member(n: u8, role: Role) -> Member {
        Member::new(user(n), role, Timestamp::default())
    }

    fn group(member_count: u32) -> Chat {
        Chat {
            chat_id: ChatId::from_bytes([9; 16]),
            chat_type: ChatType::Group,
            name: Some("team".to_owned().try_into().unwrap()),
            created_by: user(1),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            member_count,
            message_ttl: None,
        }
    }

    fn try_it(actor: Role, target: Option<Role>, command: ChatCommand) -> Result<ChatChange, ChatRefusal> {
        let target = target.map(|role| member(2, role));
        decide(&group(3), Some(&member(1, actor)), target.as_ref(), &command, Timestamp::from_millis(7))
    }

    #[test]
    fn each_role_has_its_permissions() {
        use ChatRefusal::*;
        use Role::*;
        let rename = || ChatCommand::Update(ChatUpdate::name("new".to_owned().try_into().unwrap()));
        let shorten = || ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(60)));
        let add = |role| ChatCommand::AddMember { user_id: user(2), role };
        let remove = || ChatCommand::RemoveMember { user_id: user(2) };
        let promote = |role| ChatCommand::ChangeRole { user_id: user(2), role };
        let cases = [
            (Owner, None, rename(), None),
            (Admin, None, rename(), None),
            (Member, None, rename(), Some(Forbidden)),
            (Admin, None, shorten(), None),
            (Member, None, shorten(), Some(Forbidden)),
            (Owner, None, add(Admin), None),
            (Admin, None, add(Member), None),
            (Admin, None, add(Admin), Some(Forbidden)),
            (Member, None, add(Member), Some(Forbidden)),
            (Owner, None, add(Owner), Some(OwnerIsNotAdded)),
            (Owner, Some(Member), add(Member), Some(AlreadyAMember)),
            (Owner, Some(Admin), remove(), None),
            (Admin, Some(Member), remove(), None),
            (Admin, Some(Admin), remove(), Some(Forbidden)),
            (Admin, Some(Owner), remove(), Some(Forbidden)),
            (Member, Some(Member), remove(), Some(Forbidden)),
            (Owner, None, remove(), Some(TargetNotAMember)),
            (Owner, Some(Member), promote(Admin), None),
            (Admin, Some(Member), promote(Admin), Some(Forbidden)),
            (Owner, None, promote(Admin), Some(TargetNotAMember)),
            (Member, None, ChatCommand::Leave, None),
            (Admin, None, ChatCommand::Leave, None),
            (Owner, None, ChatCommand::Leave, Some(OwnerMustHandOver)),
            (Owner, None, ChatCommand::RemoveMember { user_id: user(1) }, Some(OwnerMustHandOver)),
            (Owner, None, ChatCommand::ChangeRole { user_id: user(1), role: Member }, Some(OwnerMustHandOver)),
        ];
        for (actor, target, command, refusal) in cases {
            let outcome = try_it(actor, target, command.clone());
            assert_eq!(outcome.err(), refusal, "{actor:?} on {target:?}: {command:?}");
        }
    }

    #[test]
    fn handing_over_leaves_exactly_one_owner() {
        let change =
            try_it(Role::Owner, Some(Role::Member), ChatCommand::ChangeRole { user_id: user(2), role: Role::Owner })
                .unwrap();
        assert_eq!(
            change.members,
            [MemberChange::Updated(member(2, Role::Owner)), MemberChange::Updated(member(1, Role::Admin))]
        );
        assert_eq!(change.events.len(), 2);
    }

    #[test]
    fn a_departure_leaves_a_group_with_an_owner_or_empty() {
        let depart = |heir: Option<u8>| ChatCommand::Depart { heir: heir.map(user) };
        let gone = MemberChange::Removed(user(1));
        for role in [Role::Member, Role::Admin] {
            let change = try_it(role, None, depart(None)).unwrap();
            assert_eq!((change.members, change.events.len()), (vec![gone.clone()], 1));
        }
        let change = try_it(Role::Owner, Some(Role::Admin), depart(Some(2))).unwrap();
        assert_eq!(change.members, [MemberChange::Updated(member(2, Role::Owner)), gone.clone()]);
        assert_eq!((change.chat.member_count, change.events.len()), (2, 2));

        for heir in [None, Some(2)] {
            assert_eq!(try_it(Role::Owner, None, depart(heir)), Err(ChatRefusal::OwnerMustHandOver));
        }
        let owner = member(1, Role::Owner);
        let last = decide(&group(1), Some(&owner), None, &depart(None), Timestamp::default()).unwrap();
        assert_eq!((last.members, last.chat.member_count), (vec![gone], 0));
    }

    #[test]
    fn an_owner_leaves_a_group_only_as_its_last_member() {
        let owner = member(1, Role::Owner);
        for command in [ChatCommand::Leave, ChatCommand::RemoveMember { user_id: user(1) }] {
            let leave = |members| decide(&group(members), Some(&owner), None, &command, Timestamp::default());
            assert_eq!(leave(2), Err(ChatRefusal::OwnerMustHandOver));
            let change = leave(1).unwrap();
            assert_eq!((change.members, change.chat.member_count), (vec![MemberChange::Removed(user(1))], 0));
            assert_eq!(change.events.len(), 1);
        }
    }

    #[test]
    fn a_full_group_accepts_no_member() {
        let command = ChatCommand::AddMember { user_id: user(2), role: Role::Member };
        let outcome = decide(&group(1000), Some(&member(1, Role::Owner)), None, &command, Timestamp::default());
        assert_eq!(outcome, Err(ChatRefusal::ChatFull));
    }

    #[test]
    fn outsiders_change_nothing_and_direct_chats_only_how_long_they_last_and_sound() {
        assert_eq!(
            decide(&group(2), None, None, &ChatCommand::Leave, Timestamp::default()),
            Err(ChatRefusal::NotAMember)
        );
        let direct = Chat { chat_type: ChatType::Direct, name: None, ..group(2) };
        let me = member(1, Role::Member);
        assert_eq!(
            decide(&direct, Some(&me), None, &ChatCommand::Leave, Timestamp::default()),
            Err(ChatRefusal::DirectIsImmutable)
        );
        let mute = ChatCommand::Mute { until: Some(Timestamp::MAX) };
        assert!(decide(&direct, Some(&me), None, &mute, Timestamp::default()).is_ok());
        let ttl = Ttl::from_secs(60);
        let mut update = ChatUpdate::message_ttl(ttl);
        let change = decide(&direct, Some(&me), None, &ChatCommand::Update(update.clone()), Timestamp::default());
        assert_eq!(change.unwrap().chat.message_ttl, ttl);
        update.name = Some("named".to_owned().try_into().unwrap());
        assert_eq!(
            decide(&direct, Some(&me), None, &ChatCommand::Update(update), Timestamp::default()),
            Err(ChatRefusal::DirectIsImmutable)
        );
    }

    #[test]
    fn a_pair_is_the_same_from_both_sides_and_never_of_one() {
        assert_eq!(DirectPair::new(user(1), user(2)), DirectPair::new(user(2), user(1)));
        assert_eq!(DirectPair::new(user(1), user(1)), None);
    }
}
