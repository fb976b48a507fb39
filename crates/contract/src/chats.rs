//! Tests of [`ChatReader`](ports::ChatReader) and [`ChatWriter`](ports::ChatWriter).

use std::time::Duration;

use domain::limits::GROUP_MEMBERS_MAX;
use domain::{
    Chat, ChatCommand, ChatId, ChatRefusal, ChatType, ChatUpdate, Member, Role, Sequence, Timestamp, Ttl, UserId,
    Watermarks,
};

use super::ContractStores;
use super::fixtures::{ExpectNew, WORKS, at_once, chat_name, direct_chat, fresh, new_group, new_message, now};
use ports::{CreatedChat, Head, InboxPosition, InboxSelection, InboxStart, NewMessage};

/// The direct chat of a pair is opened once, from either side; both users have the role `Member`.
pub async fn a_pair_has_one_direct_chat(stores: ContractStores) {
    let (one, other) = (fresh(), fresh());
    let asked = direct_chat(one, other);
    let created = stores.chat_writer.create_direct(asked.clone()).await.expect(WORKS);
    let expected = Chat {
        chat_id: asked.chat_id,
        chat_type: ChatType::Direct,
        name: None,
        created_by: one,
        created_at: asked.created_at,
        updated_at: asked.created_at,
        member_count: 2,
        message_ttl: None,
    };
    assert_eq!(created, Ok(CreatedChat::New(expected.clone())));

    let again = stores.chat_writer.create_direct(direct_chat(other, one)).await.expect(WORKS);
    assert_eq!(again, Ok(CreatedChat::Existing(expected.clone())));
    assert_eq!(stores.chat_reader.chat(asked.chat_id).await.expect(WORKS), Some(expected));
    let members = stores.chat_reader.members(asked.chat_id).await.expect(WORKS);
    let mut users = [one, other];
    users.sort();
    assert_eq!(members, users.map(|user_id| Member::new(user_id, Role::Member, asked.created_at)));
    assert_eq!(stores.head(asked.chat_id).await, Head { changes: 1, ..Head::default() });
}

/// Concurrent requests from both sides create one chat.
pub async fn concurrent_requests_of_a_pair_open_one_direct_chat(stores: ContractStores) {
    let (one, other) = (fresh(), fresh());
    let created = at_once((0..8).map(|n| {
        let stores = stores.clone();
        let asked = if n % 2 == 0 { direct_chat(one, other) } else { direct_chat(other, one) };
        async move { stores.chat_writer.create_direct(asked).await.expect(WORKS).expect("there is no block") }
    }))
    .await;

    assert_eq!(created.iter().filter(|created| matches!(created, CreatedChat::New(_))).count(), 1);
    let chat = created[0].chat();
    assert!(created.iter().all(|created| created.chat() == chat));
    for user_id in [one, other] {
        assert_eq!(chats_of(&stores, user_id).await, [chat.chat_id]);
    }
}

/// A new group has its name, its owner, its members and a head row at 0.
pub async fn a_new_group_is_complete(stores: ContractStores) {
    let (owner, member) = (fresh(), fresh());
    let asked = new_group(owner, &[member]);
    let created = stores.chat_writer.create_group(asked.clone()).await.expect(WORKS);
    let expected = Chat {
        chat_id: asked.chat_id,
        chat_type: ChatType::Group,
        name: Some(asked.name.clone()),
        created_by: owner,
        created_at: asked.created_at,
        updated_at: asked.created_at,
        member_count: 2,
        message_ttl: None,
    };
    assert_eq!(created, CreatedChat::New(expected.clone()));
    assert_eq!(stores.chat_reader.chat(asked.chat_id).await.expect(WORKS), Some(expected));
    for (user_id, role) in [(owner, Role::Owner), (member, Role::Member)] {
        let place = Member::new(user_id, role, asked.created_at);
        assert_eq!(stores.chat_reader.member(asked.chat_id, user_id).await.expect(WORKS), Some(place.clone()));
        assert_eq!(stores.chat_reader.memberships(user_id).await.expect(WORKS), [(asked.chat_id, place)]);
    }
    assert_eq!(stores.head(asked.chat_id).await, Head { changes: 1, ..Head::default() });
}

/// Creating a group with an existing id, later or concurrently, returns the existing group.
pub async fn a_group_is_opened_once_for_its_id(stores: ContractStores) {
    let owner = fresh();
    let asked = new_group(owner, &[fresh()]);
    let created = at_once((0..4).map(|_| {
        let (stores, asked) = (stores.clone(), asked.clone());
        async move { stores.chat_writer.create_group(asked).await.expect(WORKS) }
    }))
    .await;
    assert_eq!(created.iter().filter(|created| matches!(created, CreatedChat::New(_))).count(), 1);

    let renamed = stores.apply(asked.chat_id, owner, ChatCommand::Update(ChatUpdate::name(chat_name("renamed")))).await;
    let renamed = renamed.expect("an owner renames").chat;
    let again = stores.chat_writer.create_group(asked).await.expect(WORKS);
    assert_eq!(again, CreatedChat::Existing(renamed));
}

/// Chats are in the order of the arguments; an unknown chat is `None`.
pub async fn chats_are_in_the_order_asked(stores: ContractStores) {
    let (one, _) = stores.chat_of_one().await;
    let (other, _) = stores.chat_of_one().await;
    let chats = stores.chat_reader.chats(&[other, fresh(), one, other]).await.expect(WORKS);
    let chat_ids: Vec<_> = chats.into_iter().map(|chat| chat.map(|chat| chat.chat_id)).collect();
    assert_eq!(chat_ids, [Some(other), None, Some(one), Some(other)]);
}

/// Members are listed by user id, and a user's chats with the membership in each.
pub async fn memberships_are_found_by_chat_and_by_user(stores: ContractStores) {
    let user_id = fresh();
    let others: Vec<UserId> = (0..5).map(|_| fresh()).collect();
    let owned = stores.group(user_id, &others).await;
    let joined = stores.group(others[0], &[user_id]).await;
    stores.group(others[0], &[others[1]]).await;

    let members = stores.chat_reader.members(owned).await.expect(WORKS);
    let mut expected = others.clone();
    expected.push(user_id);
    expected.sort();
    assert_eq!(members.iter().map(|member| member.user_id).collect::<Vec<_>>(), expected);

    let mut memberships = stores.chat_reader.memberships(user_id).await.expect(WORKS);
    memberships.sort_by_key(|(chat_id, _)| *chat_id != owned);
    let found: Vec<_> = memberships.iter().map(|(chat_id, member)| (*chat_id, member.user_id, member.role)).collect();
    assert_eq!(found, [(owned, user_id, Role::Owner), (joined, user_id, Role::Member)]);
}

/// The first members are those with the lowest ids, at most `count` per chat, in the order of the arguments.
pub async fn first_members_are_in_the_order_asked(stores: ContractStores) {
    let mut users: Vec<UserId> = (0..5).map(|_| fresh()).collect();
    let group = stores.group(users[4], &users[..4]).await;
    let (alone, owner) = stores.chat_of_one().await;
    users.sort();

    let asked = [alone, group, fresh(), group];
    for count in [0, 1, 3, 5, 9] {
        let first = stores.chat_reader.first_members(&asked, count).await.expect(WORKS);
        let user_ids: Vec<Vec<_>> =
            first.iter().map(|members| members.iter().map(|member| member.user_id).collect()).collect();
        let of_group = users[..count.min(5)].to_vec();
        let of_alone = if count == 0 { vec![] } else { vec![owner] };
        assert_eq!(user_ids, [of_alone, of_group.clone(), vec![], of_group]);
    }
    let members = stores.chat_reader.members(group).await.expect(WORKS);
    assert_eq!(stores.chat_reader.first_members(&[group], 9).await.expect(WORKS), [members]);
}

/// The chat with the newest message comes first; an empty chat counts from its creation. A page after another one leaves
/// out the chats with newer activity, and names them.
pub async fn an_inbox_is_in_the_order_of_last_activity(stores: ContractStores) {
    let (user_id, other) = (fresh(), fresh());
    let chats =
        [stores.group(user_id, &[]).await, stores.group(other, &[user_id]).await, stores.group(user_id, &[]).await];
    stores.group(other, &[]).await;
    let start = now() + Duration::from_secs(3600);
    let after = |seconds: u64| start + Duration::from_secs(seconds);
    for (chat, seconds) in [(2, 1), (1, 2), (2, 3)] {
        let message = NewMessage { created_at: after(seconds), ..new_message(chats[chat], user_id, "hello") };
        stores.send(message).await.expect_new();
    }
    let page = async |start, count| stores.chat_reader.inbox(user_id, start, count).await.expect(WORKS);
    let first = page(InboxStart::First, 2).await;
    assert_eq!(first.positions, [InboxPosition::new(after(3), chats[2]), InboxPosition::new(after(2), chats[1])]);
    let rest = page(InboxStart::After { newest: after(2), last: first.positions[1] }, 5).await;
    let rest_ids: Vec<_> = rest.positions.iter().map(|position| position.chat_id).collect();
    assert_eq!((rest_ids, rest.newer), (vec![chats[0]], vec![chats[2]]));
    assert_eq!(stores.chat_reader.inbox(fresh(), InboxStart::First, 5).await.expect(WORKS), InboxSelection::default());
}

/// Memberships of a user in chats are in the order of the arguments.
pub async fn memberships_in_chats_are_in_the_order_asked(stores: ContractStores) {
    let (user_id, other) = (fresh(), fresh());
    let (owned, joined) = (stores.group(user_id, &[]).await, stores.group(other, &[user_id]).await);
    let foreign = stores.group(other, &[]).await;
    let asked = [joined, foreign, fresh(), owned, joined];
    let members = stores.chat_reader.memberships_in(user_id, &asked).await.expect(WORKS);
    let roles: Vec<_> = members.into_iter().map(|member| member.map(|member| member.role)).collect();
    assert_eq!(roles, [Some(Role::Member), None, None, Some(Role::Owner), Some(Role::Member)]);
}

/// The chats of a user are counted up to a maximum, and a pair finds its direct chat.
pub async fn chats_are_counted_and_a_direct_chat_is_found_by_its_pair(stores: ContractStores) {
    let (user_id, other) = (fresh(), fresh());
    stores.group(user_id, &[]).await;
    stores.group(other, &[user_id]).await;
    let chat = direct_chat(user_id, other);
    let found = async || stores.chat_reader.direct_chat(chat.pair).await.expect(WORKS);
    assert_eq!(found().await, None);
    stores.chat_writer.create_direct(chat.clone()).await.expect(WORKS).expect("nobody is blocked");
    assert_eq!(found().await, Some(chat.chat_id));
    for (max, counted) in [(0, 0), (2, 2), (3, 3), (9, 3)] {
        assert_eq!(stores.chat_reader.chat_count(user_id, max).await.expect(WORKS), counted);
    }
    assert_eq!(stores.chat_reader.chat_count(fresh(), 9).await.expect(WORKS), 0);
    // A store with an index reads none.
    let rows = async |user_id| stores.chat_reader.inbox_rows(user_id).await.expect(WORKS);
    assert!([0, 3].contains(&rows(user_id).await), "{}", rows(user_id).await);
    assert_eq!(rows(fresh()).await, 0);
}

/// Only members have a membership, and an unknown chat has no members.
pub async fn non_members_and_unknown_chats_have_no_membership(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_of_one().await;
    assert_eq!(stores.chat_reader.member(chat_id, fresh()).await.expect(WORKS), None);
    assert_eq!(stores.chat_reader.member(fresh(), owner).await.expect(WORKS), None);
    assert_eq!(stores.chat_reader.members(fresh()).await.expect(WORKS), []);
    assert_eq!(stores.chat_reader.memberships(fresh()).await.expect(WORKS), []);
    assert_eq!(stores.chat_reader.chat(fresh()).await.expect(WORKS), None);
}

/// A rename is visible to every reader, with its time.
pub async fn a_rename_is_written(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_of_one().await;
    let later = now() + Duration::from_secs(60);
    let rename = ChatCommand::Update(ChatUpdate::name(chat_name("better")));
    let change = stores.chat_writer.apply(chat_id, owner, rename, later).await.expect(WORKS).expect("owners rename");
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the chat is there");
    assert_eq!(chat, change.chat);
    assert_eq!((chat.name, chat.updated_at), (Some(chat_name("better")), later));
}

/// A message ttl is written to the chat and to its head row, and changes nothing else of both.
pub async fn a_message_ttl_is_written_with_its_copy(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_with_head(2).await;
    let head = stores.head(chat_id).await;
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the chat is there");
    let later = now() + Duration::from_secs(60);
    for (message_ttl, changes) in [(Ttl::from_secs(600), head.changes + 1), (None, head.changes + 2)] {
        let update = ChatCommand::Update(ChatUpdate::message_ttl(message_ttl));
        let change = stores.chat_writer.apply(chat_id, owner, update, later).await.expect(WORKS).expect("owners may");
        let expected = Chat { message_ttl, updated_at: later, ..chat.clone() };
        assert_eq!(change.chat, expected);
        assert_eq!(stores.chat_reader.chat(chat_id).await.expect(WORKS), Some(expected));
        assert_eq!(stores.head(chat_id).await, Head { message_ttl, changes, ..head.clone() });
    }
}

/// Changing the ttl does not recreate a lost head row: a new one would start at 0, and sequences would repeat.
pub async fn a_message_ttl_does_not_recreate_a_lost_head(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_with_head(2).await;
    stores.sabotage.drop_head(chat_id).await;
    let message_ttl = Ttl::from_secs(600);
    let update = ChatCommand::Update(ChatUpdate::message_ttl(message_ttl));
    stores.apply(chat_id, owner, update).await.expect("owners decide how long messages live");
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the chat is there");
    assert_eq!(chat.message_ttl, message_ttl);
    assert_eq!(stores.message_reader.head(chat_id).await.expect(WORKS), None);
}

/// Both watermarks of a new member start at the current head, also after an earlier membership.
pub async fn a_new_member_starts_at_the_head(stores: ContractStores) {
    let (chat_id, owner) = stores.chat_with_head(3).await;
    let user_id = fresh();
    for head in [3, 5] {
        let add = ChatCommand::AddMember { user_id, role: Role::Admin };
        let change = stores.apply(chat_id, owner, add).await.expect("an owner adds members");
        assert_eq!(change.chat.member_count, 2);
        let member = stores.chat_reader.member(chat_id, user_id).await.expect(WORKS).expect("the member is there");
        assert_eq!(member, Member::new(user_id, Role::Admin, member.joined_at));
        assert_eq!(chats_of(&stores, user_id).await, [chat_id]);
        let watermarks = stores.watermarks.watermarks(&[(user_id, chat_id)]).await.expect(WORKS);
        assert_eq!(watermarks, [Watermarks::at(Sequence(head))]);

        stores.apply(chat_id, user_id, ChatCommand::Leave).await.expect("an admin leaves");
        stores.fill(chat_id, owner, 2).await;
    }
}

/// A member who is removed or leaves has no membership, read from chat or user, and is no longer counted.
pub async fn a_removed_member_is_found_neither_by_chat_nor_by_user(stores: ContractStores) {
    let (owner, removed, leaving) = (fresh(), fresh(), fresh());
    let chat_id = stores.group(owner, &[removed, leaving]).await;
    stores.apply(chat_id, owner, ChatCommand::RemoveMember { user_id: removed }).await.expect("an owner removes");
    stores.apply(chat_id, leaving, ChatCommand::Leave).await.expect("a member leaves");

    let members = stores.chat_reader.members(chat_id).await.expect(WORKS);
    assert_eq!(members.iter().map(|member| member.user_id).collect::<Vec<_>>(), [owner]);
    for user_id in [removed, leaving] {
        assert_eq!(stores.chat_reader.member(chat_id, user_id).await.expect(WORKS), None);
        assert_eq!(chats_of(&stores, user_id).await, []);
    }
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the chat is there");
    assert_eq!(chat.member_count, 1);
}

/// The owner leaves a group as its last member. Nobody is a member then, and nobody becomes one.
pub async fn the_last_member_leaves_a_group_empty(stores: ContractStores) {
    let (owner, member) = (fresh(), fresh());
    let chat_id = stores.group(owner, &[member]).await;
    assert_eq!(stores.apply(chat_id, owner, ChatCommand::Leave).await, Err(ChatRefusal::OwnerMustHandOver));
    stores.apply(chat_id, member, ChatCommand::Leave).await.expect("a member leaves");
    let change = stores.apply(chat_id, owner, ChatCommand::Leave).await.expect("the last member leaves");
    assert_eq!(change.chat.member_count, 0);

    assert_eq!(stores.chat_reader.members(chat_id).await.expect(WORKS), []);
    assert_eq!(chats_of(&stores, owner).await, []);
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS).expect("the row stays");
    assert_eq!(chat.member_count, 0);
    let add = ChatCommand::AddMember { user_id: member, role: Role::Member };
    assert_eq!(stores.apply(chat_id, owner, add).await, Err(ChatRefusal::NotAMember));
    assert_eq!(stores.apply(chat_id, owner, ChatCommand::Leave).await, Err(ChatRefusal::NotAMember));
}

/// Handing over a group writes both member rows. Of two concurrent hand-overs, one succeeds.
pub async fn a_group_always_has_one_owner(stores: ContractStores) {
    let (owner, heirs) = (fresh(), [fresh(), fresh()]);
    let chat_id = stores.group(owner, &heirs).await;
    let outcomes = at_once(heirs.map(|user_id| {
        let stores = stores.clone();
        async move { stores.apply(chat_id, owner, ChatCommand::ChangeRole { user_id, role: Role::Owner }).await }
    }))
    .await;

    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.contains(&Err(ChatRefusal::Forbidden)));
    let members = stores.chat_reader.members(chat_id).await.expect(WORKS);
    let owners: Vec<_> = members.iter().filter(|member| member.role == Role::Owner).collect();
    assert_eq!(owners.len(), 1);
    assert!(heirs.contains(&owners[0].user_id));
    let former = members.iter().find(|member| member.user_id == owner).expect("the former owner stays");
    assert_eq!(former.role, Role::Admin);
}

/// A mute changes the member's own row only, and can be undone.
pub async fn a_mute_is_the_members_own(stores: ContractStores) {
    let (owner, member) = (fresh(), fresh());
    let chat_id = stores.group(owner, &[member]).await;
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS);
    for until in [Some(Timestamp::MAX), None] {
        stores.apply(chat_id, member, ChatCommand::Mute { until }).await.expect("members mute");
        let muted_until = |member: Option<Member>| member.expect("the member is there").muted_until;
        assert_eq!(muted_until(stores.chat_reader.member(chat_id, member).await.expect(WORKS)), until);
        assert_eq!(muted_until(stores.chat_reader.member(chat_id, owner).await.expect(WORKS)), None);
    }
    assert_eq!(stores.chat_reader.chat(chat_id).await.expect(WORKS), chat);
}

/// A refused command changes nothing; every command on an unknown chat is refused.
pub async fn a_refused_command_changes_nothing(stores: ContractStores) {
    let (owner, member) = (fresh(), fresh());
    let chat_id = stores.group(owner, &[member]).await;
    let chat = stores.chat_reader.chat(chat_id).await.expect(WORKS);
    let members = stores.chat_reader.members(chat_id).await.expect(WORKS);
    let cases = [
        (fresh(), member, ChatCommand::Leave, ChatRefusal::ChatNotFound),
        (chat_id, fresh(), ChatCommand::Update(ChatUpdate::name(chat_name("taken over"))), ChatRefusal::NotAMember),
        (chat_id, member, ChatCommand::Update(ChatUpdate::name(chat_name("taken over"))), ChatRefusal::Forbidden),
        (chat_id, owner, ChatCommand::AddMember { user_id: member, role: Role::Member }, ChatRefusal::AlreadyAMember),
        (chat_id, owner, ChatCommand::RemoveMember { user_id: fresh() }, ChatRefusal::TargetNotAMember),
        (chat_id, owner, ChatCommand::Leave, ChatRefusal::OwnerMustHandOver),
    ];
    for (chat_id, actor, command, refusal) in cases {
        assert_eq!(stores.apply(chat_id, actor, command).await, Err(refusal));
    }
    assert_eq!(stores.chat_reader.chat(chat_id).await.expect(WORKS), chat);
    assert_eq!(stores.chat_reader.members(chat_id).await.expect(WORKS), members);
}

/// If several users are added concurrently to a group with one free seat, one is added.
pub async fn a_group_never_grows_beyond_its_bound(stores: ContractStores) {
    let owner = fresh();
    let members: Vec<UserId> = (0..GROUP_MEMBERS_MAX - 2).map(|_| fresh()).collect();
    let chat_id = stores.group(owner, &members).await;
    let outcomes = at_once((0..4).map(|_| {
        let (stores, add) = (stores.clone(), ChatCommand::AddMember { user_id: fresh(), role: Role::Member });
        async move { stores.apply(chat_id, owner, add).await.map(|change| change.chat.member_count as usize) }
    }))
    .await;

    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Ok(GROUP_MEMBERS_MAX)).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Err(ChatRefusal::ChatFull)).count(), 3);
    assert_eq!(stores.chat_reader.members(chat_id).await.expect(WORKS).len(), GROUP_MEMBERS_MAX);
}

async fn chats_of(stores: &ContractStores, user_id: UserId) -> Vec<ChatId> {
    let memberships = stores.chat_reader.memberships(user_id).await.expect(WORKS);
    memberships.into_iter().map(|(chat_id, _)| chat_id).collect()
}
