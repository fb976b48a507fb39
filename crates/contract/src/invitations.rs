//! The contract of [`InvitationStore`](ports::InvitationStore), and of the consent that
//! [`ChatWriter`](ports::ChatWriter) checks.

use std::time::Duration;

use domain::limits::{GROUP_MEMBERS_MAX, INVITATION_LIFETIME, INVITATIONS_PER_INVITER_MAX};
use domain::{
    ChatChange, ChatCommand, ChatId, ChatRefusal, EventBody, GroupInvites, Invitation, MemberChange, Role, Timestamp,
    UserId, Watermarks,
};
use ports::{NewUser, UserKey, UserUpdate};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};

/// Each setting admits the users that it names. All others invite, by an addition and by the creation of a group.
pub async fn an_addition_without_consent_is_an_invitation(stores: ContractStores) {
    let [owner, contact]: [UserId; 2] = [fresh(), fresh()];
    for (setting, admitted) in [
        (GroupInvites::Everyone, vec![owner, contact]),
        (GroupInvites::Contacts, vec![contact]),
        (GroupInvites::Nobody, vec![]),
    ] {
        let user = stores.user(setting).await;
        stores.contacts.add(user, contact).await.expect(WORKS);
        // The other direction is irrelevant.
        stores.contacts.add(owner, user).await.expect(WORKS);
        for actor in [owner, contact] {
            let (is_admitted, bystander) = (admitted.contains(&actor), fresh());
            let added = stores.group(actor, &[]).await;
            let change = stores.invite(added, actor, user).await.expect("owners add members");
            assert_eq!(change.invitations.is_empty(), is_admitted, "{setting:?}");
            assert_eq!(change.members.is_empty(), !is_admitted);
            assert_eq!(change.events.is_empty(), !is_admitted);

            let opened = stores.group(actor, &[user, bystander]).await;
            for (chat_id, others) in [(added, 1), (opened, 2)] {
                assert_eq!(stores.is_member(chat_id, user).await, is_admitted, "{setting:?}");
                let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("it was created");
                assert_eq!(chat.member_count, others + u32::from(is_admitted));
                assert_eq!(stores.chat_reader.members(chat_id).await.expect(WORKS).len(), chat.member_count as usize);
            }
            assert!(stores.is_member(opened, bystander).await);
            let mut invited: Vec<_> = stores.pending(user).await;
            invited.retain(|invitation| [added, opened].contains(&invitation.chat_id));
            assert_eq!(invited.len(), if is_admitted { 0 } else { 2 });
            for invitation in invited {
                assert_eq!((invitation.user_id, invitation.invited_by), (user, actor));
            }
        }
    }
}

/// A change of the setting or of the contact list holds for the next addition.
pub async fn consent_is_that_of_the_moment_of_the_addition(stores: ContractStores) {
    let (owner, user) = (fresh(), stores.user(GroupInvites::Everyone).await);
    let is_added = async || stores.is_member(stores.group(owner, &[user]).await, user).await;
    assert!(is_added().await);
    stores.set(user, GroupInvites::Contacts).await;
    assert!(!is_added().await);
    stores.contacts.add(user, owner).await.expect(WORKS);
    assert!(is_added().await);
    stores.contacts.remove(user, owner).await.expect(WORKS);
    assert!(!is_added().await);
    stores.set(user, GroupInvites::Everyone).await;
    assert!(is_added().await);
}

/// An addition is refused before consent matters, and then invites nobody.
pub async fn a_refused_addition_is_no_invitation(stores: ContractStores) {
    let (owner, member, user) = (fresh(), fresh(), stores.user(GroupInvites::Nobody).await);
    let chat_id = stores.group(owner, &[member]).await;
    for (actor, refusal) in [(member, ChatRefusal::Forbidden), (fresh(), ChatRefusal::NotAMember)] {
        assert_eq!(stores.invite(chat_id, actor, user).await, Err(refusal));
    }
    assert_eq!(stores.pending(user).await, []);
}

/// Accepting has the effects of an addition by the inviter, and ends the invitation.
pub async fn an_accepted_invitation_makes_a_member_at_the_head(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let (chat_id, owner) = stores.chat_with_head(3).await;
    stores.invite(chat_id, owner, user).await.expect("owners add members");
    assert!(!stores.is_member(chat_id, user).await);

    let change = stores.accept(chat_id, user).await.expect("it is pending");
    assert!(matches!(&change.members[..], [MemberChange::Added(member)] if member.role == Role::Member));
    let events = [EventBody::MembershipChanged {
        chat_id,
        user_id: user,
        change: domain::MembershipChange::Added,
        role: Role::Member,
        changed_by: owner,
    }];
    assert_eq!(change.events, events);
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("it exists");
    assert_eq!((chat.member_count, chat), (2, change.chat));
    assert!(stores.is_member(chat_id, user).await);
    let watermarks = stores.watermarks.watermarks(&[(user, chat_id)]).await.expect(WORKS);
    assert_eq!(watermarks, [Watermarks::at(domain::Sequence(3))]);
    assert_eq!(stores.pending(user).await, []);
    assert_eq!(stores.accept(chat_id, user).await, Err(ChatRefusal::NotInvited));
}

/// Without a head row, a new member starts at the last message, like an added member.
pub async fn an_acceptance_without_a_head_row_makes_a_member(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let (chat_id, owner) = stores.chat_with_head(2).await;
    stores.invite(chat_id, owner, user).await.expect("owners add members");
    stores.sabotage.drop_head(chat_id).await;
    stores.accept(chat_id, user).await.expect("it is pending");
    assert!(stores.is_member(chat_id, user).await);
}

/// An acceptance is worth what the inviter may do at that moment.
pub async fn an_acceptance_is_checked_like_an_addition(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let [owner, admin]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(owner, &[admin]).await;
    let role = |role| ChatCommand::ChangeRole { user_id: admin, role };
    stores.apply(chat_id, owner, role(Role::Admin)).await.expect("the owner changes roles");
    stores.invite(chat_id, admin, user).await.expect("admins add members");
    let refused = async |refusal| {
        assert_eq!(stores.accept(chat_id, user).await, Err(refusal));
        assert!(!stores.is_member(chat_id, user).await);
    };

    assert!(stores.blocks.block(user, admin).await.expect(WORKS));
    refused(ChatRefusal::Blocking).await;
    stores.blocks.unblock(user, admin).await.expect(WORKS);
    stores.apply(chat_id, owner, role(Role::Member)).await.expect("the owner changes roles");
    refused(ChatRefusal::NotInvited).await;
    let remove = ChatCommand::RemoveMember { user_id: admin };
    stores.apply(chat_id, owner, remove).await.expect("the owner removes members");
    refused(ChatRefusal::NotInvited).await;
    assert_eq!(stores.accept(fresh(), user).await, Err(ChatRefusal::NotInvited));

    stores.invite(chat_id, owner, user).await.expect("owners add members");
    stores.accept(chat_id, user).await.expect("the owner may add members");
}

/// A group that became full after the invitation has no room for its acceptance.
pub async fn an_invitation_to_a_full_group_cannot_be_accepted(stores: ContractStores) {
    let (owner, user) = (fresh(), stores.user(GroupInvites::Nobody).await);
    let others: Vec<UserId> = (2..GROUP_MEMBERS_MAX).map(|_| fresh()).chain([user]).collect();
    let chat_id = stores.group(owner, &others).await;
    stores.invite(chat_id, owner, fresh()).await.expect("there is room for one");
    assert_eq!(stores.accept(chat_id, user).await, Err(ChatRefusal::ChatFull));
    stores.apply(chat_id, others[0], ChatCommand::Leave).await.expect("members leave");
    stores.accept(chat_id, user).await.expect("there is room again");
}

/// Of concurrent answers to an invitation, one takes effect.
pub async fn concurrent_answers_are_decided_one_by_one(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let (chat_id, owner) = stores.chat_of_one().await;
    stores.invite(chat_id, owner, user).await.expect("owners add members");
    let accept = (0..6).map(|n| {
        let stores = stores.clone();
        async move {
            if n == 3 {
                stores.invitations.decline(chat_id, user, now()).await.expect(WORKS);
                return false;
            }
            stores.accept(chat_id, user).await.is_ok()
        }
    });
    let accepted = at_once(accept).await.into_iter().filter(|is_accepted| *is_accepted).count();
    assert!(accepted <= 1, "{accepted} acceptances");
    assert_eq!(stores.is_member(chat_id, user).await, accepted == 1);
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("it exists");
    assert_eq!(chat.member_count, 1 + accepted as u32);
    assert_eq!(stores.pending(user).await, []);
}

/// After a decline no member invites the user to the group for a while, and none of them learns why.
pub async fn a_declined_invitation_is_not_repeated(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let [owner, admin]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(owner, &[admin]).await;
    let promote = ChatCommand::ChangeRole { user_id: admin, role: Role::Admin };
    stores.apply(chat_id, owner, promote).await.expect("the owner changes roles");
    let first = stores.invite(chat_id, owner, user).await.expect("owners add members");
    // Not of this user, and not to this group.
    stores.invitations.decline(chat_id, fresh(), now()).await.expect(WORKS);
    stores.invitations.decline(fresh(), user, now()).await.expect(WORKS);
    assert_eq!(stores.pending(user).await.len(), 1);

    stores.invitations.decline(chat_id, user, now()).await.expect(WORKS);
    assert_eq!(stores.pending(user).await, []);
    assert_eq!(stores.accept(chat_id, user).await, Err(ChatRefusal::NotInvited));
    for actor in [owner, admin] {
        let again = stores.invite(chat_id, actor, user).await.expect("admins add members");
        assert_eq!(again.invitations.len(), first.invitations.len(), "the answer is the same");
        assert_eq!(stores.pending(user).await, []);
    }
    // It ends after a while.
    let much_later = now() + INVITATION_LIFETIME + Duration::from_secs(60);
    stores.invite_at(chat_id, owner, user, much_later).await.expect("owners add members");
    assert_eq!(stores.invitations.invitations(user, much_later).await.expect(WORKS).len(), 1);
}

/// A user who becomes a member otherwise has no invitation left.
pub async fn an_addition_with_consent_ends_a_pending_invitation(stores: ContractStores) {
    let (owner, user) = (fresh(), stores.user(GroupInvites::Nobody).await);
    let chat_id = stores.group(owner, &[user]).await;
    assert_eq!(stores.pending(user).await.len(), 1);
    stores.set(user, GroupInvites::Contacts).await;
    stores.contacts.add(user, owner).await.expect(WORKS);
    stores.invite(chat_id, owner, user).await.expect("owners add members");
    assert!(stores.is_member(chat_id, user).await);
    assert_eq!(stores.pending(user).await, []);
}

/// While an invitation is pending, a later one takes its place.
pub async fn a_later_invitation_replaces_a_pending_one(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let [owner, admin]: [UserId; 2] = [fresh(), fresh()];
    let chat_id = stores.group(owner, &[admin, user]).await;
    let promote = ChatCommand::ChangeRole { user_id: admin, role: Role::Admin };
    stores.apply(chat_id, owner, promote).await.expect("the owner changes roles");
    let later = now() + Duration::from_secs(1);
    stores.invite_at(chat_id, admin, user, later).await.expect("admins add members");
    assert_eq!(stores.pending(user).await, [Invitation::new(chat_id, user, admin, later)]);
}

/// An invitation is pending for its lifetime, and can be repeated afterwards.
pub async fn an_invitation_expires(stores: ContractStores) {
    let user = stores.user(GroupInvites::Nobody).await;
    let (chat_id, owner) = stores.chat_of_one().await;
    let long_ago = now().minus(INVITATION_LIFETIME);
    stores.invite_at(chat_id, owner, user, long_ago).await.expect("owners add members");
    assert_eq!(stores.pending(user).await, []);
    assert_eq!(stores.accept(chat_id, user).await, Err(ChatRefusal::NotInvited));
    stores.invite(chat_id, owner, user).await.expect("owners add members");
    assert_eq!(stores.pending(user).await.len(), 1);
}

/// A user has a bounded number of pending invitations by the same inviter; more are dropped. The newest is first.
pub async fn invitations_of_one_inviter_are_bounded(stores: ContractStores) {
    let (owner, user) = (fresh(), stores.user(GroupInvites::Nobody).await);
    let (mut expected, start) = (vec![], now());
    for n in 0..=INVITATIONS_PER_INVITER_MAX {
        let chat_id = stores.group(owner, &[]).await;
        let at = start + Duration::from_millis(n as u64);
        stores.invite_at(chat_id, owner, user, at).await.expect("the inviter does not learn of the bound");
        expected.insert(0, Invitation::new(chat_id, user, owner, at));
    }
    let dropped = expected.remove(0);
    assert_eq!(stores.pending(user).await, expected);
    stores.invitations.decline(expected[0].chat_id, user, now()).await.expect(WORKS);
    stores.invite_at(dropped.chat_id, owner, user, dropped.created_at).await.expect("owners add members");
    assert_eq!(stores.pending(user).await[0], dropped);
}

/// The deletion of an account removes its invitations, the declined ones too.
pub async fn deleting_an_account_deletes_its_invitations(stores: ContractStores) {
    let [user, other] = [stores.user(GroupInvites::Nobody).await, stores.user(GroupInvites::Nobody).await];
    let owner = fresh();
    let [declined, pending] = [stores.group(owner, &[user]).await, stores.group(owner, &[user, other]).await];
    stores.invitations.decline(declined, user, now()).await.expect(WORKS);
    for _ in 0..2 {
        stores.invitations.erase_user(user).await.expect(WORKS);
    }
    assert_eq!(stores.pending(user).await, []);
    assert_eq!(stores.pending(other).await.len(), 1);
    for chat_id in [declined, pending] {
        stores.invite(chat_id, owner, user).await.expect("owners add members");
    }
    assert_eq!(stores.pending(user).await.len(), 2);
}

impl ContractStores {
    /// Creates a user with this setting.
    async fn user(&self, group_invites: GroupInvites) -> UserId {
        let user_id: UserId = fresh();
        let key = UserKey::External {
            issuer: "https://id.example".to_owned(),
            subject: user_id.to_string().try_into().expect("it is short"),
        };
        let display_name = "Asked".to_owned().try_into().expect("the name is valid");
        let new = NewUser { user_id, display_name, group_invites, created_at: now(), proven_at: now() };
        self.user_writer.find_or_create(key, new).await.expect(WORKS).0.user_id
    }

    async fn set(&self, user_id: UserId, group_invites: GroupInvites) {
        let update = UserUpdate { group_invites: Some(group_invites), ..UserUpdate::default() };
        let updated = self.user_writer.update(user_id, update, now()).await.expect(WORKS);
        assert_eq!(updated.expect("the user exists").group_invites, group_invites);
    }

    async fn invite(&self, chat_id: ChatId, actor: UserId, user_id: UserId) -> Result<ChatChange, ChatRefusal> {
        self.invite_at(chat_id, actor, user_id, now()).await
    }

    async fn invite_at(
        &self,
        chat_id: ChatId,
        actor: UserId,
        user_id: UserId,
        at: Timestamp,
    ) -> Result<ChatChange, ChatRefusal> {
        let command = ChatCommand::AddMember { user_id, role: Role::Member };
        self.chat_writer.apply(chat_id, actor, command, at).await.expect(WORKS)
    }

    async fn accept(&self, chat_id: ChatId, user_id: UserId) -> Result<ChatChange, ChatRefusal> {
        self.invitations.accept(chat_id, user_id, now()).await.expect(WORKS)
    }

    async fn pending(&self, user_id: UserId) -> Vec<Invitation> {
        self.invitations.invitations(user_id, now()).await.expect(WORKS)
    }

    async fn is_member(&self, chat_id: ChatId, user_id: UserId) -> bool {
        self.chat_reader.member(chat_id, user_id).await.expect(WORKS).is_some()
    }
}
