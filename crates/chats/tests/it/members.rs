use domain::Sequence;
use ports::{Clock, MessageReader, PageBounds};
use serde_json::{Value, json};

use crate::world::{ApiTestUser, NOBODY, World};

struct GroupScene {
    world: World,
    chat: String,
    owner: ApiTestUser,
    admin: ApiTestUser,
    member: ApiTestUser,
    outsider: ApiTestUser,
}

async fn group() -> GroupScene {
    let world = World::new();
    let [owner, admin, member] = [world.person("Own").await, world.person("Adm").await, world.person("Mem").await];
    let outsider = world.person("Out").await;
    let chat = world.group(&owner, &[&admin, &member]).await;
    let path = format!("/chats/{chat}/members/{}", admin.user_id);
    assert_eq!(world.patch(&owner, &path, json!({ "role": "admin" })).await.status, 200);
    GroupScene { world, chat, owner, admin, member, outsider }
}

#[tokio::test]
async fn each_role_has_its_permissions() {
    let rename = json!({ "name": "new" });
    type PermissionCase = (&'static str, &'static str, &'static str, Value, u16, &'static str);
    let cases: Vec<PermissionCase> = vec![
        ("owner", "PATCH", "", rename.clone(), 200, ""),
        ("admin", "PATCH", "", rename.clone(), 200, ""),
        ("member", "PATCH", "", rename, 403, "FORBIDDEN"),
        ("owner", "POST", "/members", json!({ "user_id": "outsider" }), 201, ""),
        ("owner", "POST", "/members", json!({ "user_id": "outsider", "role": "admin" }), 201, ""),
        ("owner", "POST", "/members", json!({ "user_id": "outsider", "role": "owner" }), 400, "VALIDATION_ERROR"),
        ("owner", "POST", "/members", json!({ "user_id": "member" }), 409, "ALREADY_A_MEMBER"),
        ("owner", "POST", "/members", json!({ "user_id": NOBODY }), 400, "VALIDATION_ERROR"),
        ("owner", "POST", "/members", json!({ "user_id": "outsider", "role": "king" }), 400, "VALIDATION_ERROR"),
        ("admin", "POST", "/members", json!({ "user_id": "outsider" }), 201, ""),
        ("admin", "POST", "/members", json!({ "user_id": "outsider", "role": "admin" }), 403, "FORBIDDEN"),
        ("member", "POST", "/members", json!({ "user_id": "outsider" }), 403, "FORBIDDEN"),
        ("owner", "PATCH", "/members/member", json!({ "role": "admin" }), 200, ""),
        ("owner", "PATCH", "/members/member", json!({ "role": "owner" }), 200, ""),
        ("owner", "PATCH", "/members/owner", json!({ "role": "member" }), 400, "INVALID_OPERATION"),
        ("owner", "PATCH", "/members/outsider", json!({ "role": "admin" }), 404, "NOT_FOUND"),
        ("owner", "PATCH", "/members/somebody", json!({ "role": "admin" }), 404, "NOT_FOUND"),
        ("owner", "PATCH", "/members/member", json!({}), 400, "VALIDATION_ERROR"),
        ("admin", "PATCH", "/members/member", json!({ "role": "admin" }), 403, "FORBIDDEN"),
        ("member", "PATCH", "/members/admin", json!({ "role": "member" }), 403, "FORBIDDEN"),
        ("owner", "DELETE", "/members/admin", json!({}), 204, ""),
        ("owner", "DELETE", "/members/owner", json!({}), 400, "INVALID_OPERATION"),
        ("owner", "DELETE", "/members/outsider", json!({}), 404, "NOT_FOUND"),
        ("admin", "DELETE", "/members/member", json!({}), 204, ""),
        ("admin", "DELETE", "/members/owner", json!({}), 403, "FORBIDDEN"),
        ("member", "DELETE", "/members/admin", json!({}), 403, "FORBIDDEN"),
        ("member", "DELETE", "/members/member", json!({}), 204, ""),
        ("owner", "POST", "/leave", json!({}), 400, "INVALID_OPERATION"),
        ("admin", "POST", "/leave", json!({}), 204, ""),
        ("member", "POST", "/leave", json!({}), 204, ""),
    ];
    for (actor, method, path, body, status, code) in cases {
        let group = group().await;
        let people = [
            ("owner", &group.owner),
            ("admin", &group.admin),
            ("member", &group.member),
            ("outsider", &group.outsider),
        ];
        let person = |name: &str| people.iter().find(|(known, _)| *known == name).map(|(_, person)| *person);
        let path = match path.rsplit_once('/') {
            Some((parent, name)) if parent == "/members" => {
                format!("{parent}/{}", person(name).map_or(name, |person| &person.user_id))
            }
            _ => path.to_owned(),
        };
        let mut body = body;
        if let Some(person) = body["user_id"].as_str().and_then(person) {
            body["user_id"] = person.user_id.clone().into();
        }
        let path = format!("/chats/{}{path}", group.chat);
        let answer = group.world.call(method, &path, person(actor), Some(body)).await;
        assert_eq!(answer.status, status, "{actor} {method} {path}: {answer:?}");
        if !code.is_empty() {
            assert_eq!(answer.failure().1, code, "{actor} {method} {path}");
        }
    }
}

#[tokio::test]
async fn a_new_member_is_the_answer() {
    let GroupScene { world, chat, owner, outsider, .. } = group().await;
    let answer = world.post(&owner, &format!("/chats/{chat}/members"), json!({ "user_id": outsider.user_id })).await;
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.data(),
        &json!({
            "user_id": outsider.user_id, "display_name": "Out", "role": "member", "joined_at": "2026-01-30T14:30:00.000Z",
        })
    );
    assert_eq!(world.get(&outsider, &format!("/chats/{chat}")).await.data()["member_count"], 4);
}

#[tokio::test]
async fn handing_over_makes_the_old_owner_an_admin_who_may_leave() {
    let GroupScene { world, chat, owner, member, .. } = group().await;
    let path = format!("/chats/{chat}/members/{}", member.user_id);
    let answer = world.patch(&owner, &path, json!({ "role": "owner" })).await;
    assert_eq!((answer.status, &answer.data()["role"]), (200, &"owner".into()));
    let seen = world.get(&owner, &format!("/chats/{chat}")).await;
    assert_eq!(seen.data()["my_membership"]["role"], "admin");
    assert_eq!(world.call("POST", &format!("/chats/{chat}/leave"), Some(&owner), None).await.status, 204);
}

#[tokio::test]
async fn the_last_member_leaves_and_takes_the_messages_along() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat = world.group(&ann, &[&bob]).await;
    world.say(&bob, &chat, "of a former member").await;
    world.say(&ann, &chat, "mine").await;
    let leave = async |by: &ApiTestUser| world.call("POST", &format!("/chats/{chat}/leave"), Some(by), None).await;
    assert_eq!(leave(&ann).await.failure(), (400, "INVALID_OPERATION"), "the owner hands the group over first");
    assert_eq!(leave(&bob).await.status, 204);
    assert_eq!(leave(&ann).await.status, 204);

    assert_eq!(world.get(&ann, "/chats").await.data()["chats"], json!([]));
    assert_eq!(world.get(&ann, &format!("/chats/{chat}/messages")).await.failure(), (403, "NOT_A_MEMBER"));
    let everything = PageBounds { count: 10, bytes: usize::MAX };
    let page = world.store.after(chat.parse().unwrap(), Sequence::ZERO, everything, world.clock.now()).await.unwrap();
    assert_eq!(page.messages, [], "nobody reads them any more, so they are erased");
}

#[tokio::test]
async fn a_new_member_has_nothing_unread_and_reads_all_history() {
    let GroupScene { world, chat, owner, outsider, .. } = group().await;
    world.say(&owner, &chat, "before").await;
    world.post(&owner, &format!("/chats/{chat}/members"), json!({ "user_id": outsider.user_id })).await;
    let seen = world.get(&outsider, &format!("/chats/{chat}")).await;
    assert_eq!((&seen.data()["unread_count"], &seen.data()["my_read_sequence"]), (&0.into(), &1.into()));
    let history = world.get(&outsider, &format!("/chats/{chat}/messages")).await;
    assert_eq!(history.each("messages", "content"), ["before"]);
}

#[tokio::test]
async fn a_direct_chat_cannot_be_changed_but_muted() {
    let world = World::new();
    let [ann, bob, cid] = [world.person("Ann").await, world.person("Bob").await, world.person("Cid").await];
    let chat = world.direct(&ann, &bob).await;
    let member = format!("/chats/{chat}/members/{}", bob.user_id);
    for (method, path, body) in [
        ("PATCH", format!("/chats/{chat}"), json!({ "name": "us" })),
        ("POST", format!("/chats/{chat}/members"), json!({ "user_id": cid.user_id })),
        ("PATCH", member.clone(), json!({ "role": "admin" })),
        ("DELETE", member, json!({})),
        ("POST", format!("/chats/{chat}/leave"), json!({})),
    ] {
        let answer = world.call(method, &path, Some(&ann), Some(body)).await;
        assert_eq!(answer.failure(), (400, "INVALID_OPERATION"), "{method} {path}");
    }
    assert_eq!(world.call("POST", &format!("/chats/{chat}/mute"), Some(&ann), None).await.status, 200);
}

#[tokio::test]
async fn muting_is_for_a_while_or_for_ever_and_for_oneself() {
    let GroupScene { world, chat, owner, member, .. } = group().await;
    let muted_until =
        async |by| world.get(by, &format!("/chats/{chat}")).await.data()["my_membership"]["muted_until"].clone();
    let answer = world.post(&member, &format!("/chats/{chat}/mute"), json!({ "duration_seconds": 60 })).await;
    let until = "2026-01-30T14:31:00.000Z";
    assert_eq!(answer.data(), &json!({ "chat_id": chat, "muted": true, "muted_until": until }));
    assert_eq!(muted_until(&member).await, until);
    assert_eq!(muted_until(&owner).await, Value::Null);
    world.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(muted_until(&member).await, Value::Null, "it is over");

    let answer = world.call("POST", &format!("/chats/{chat}/mute"), Some(&member), None).await;
    assert_eq!(answer.data(), &json!({ "chat_id": chat, "muted": true }));
    assert_eq!(muted_until(&member).await, "9999-12-31T23:59:59.999Z");
    let answer = world.call("POST", &format!("/chats/{chat}/unmute"), Some(&member), None).await;
    assert_eq!(answer.data(), &json!({ "chat_id": chat, "muted": false }));
    assert_eq!(muted_until(&member).await, Value::Null);

    for seconds in [json!(0), json!(-1), json!("long")] {
        let answer = world.post(&member, &format!("/chats/{chat}/mute"), json!({ "duration_seconds": seconds })).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "duration_seconds"), "{seconds}");
    }
}

#[tokio::test]
async fn a_full_group_refuses_additions() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let created_by = ann.user_id.parse().unwrap();
    let members =
        (0..999u32).map(|n| domain::UserId::from_bytes([&[9; 12][..], &n.to_be_bytes()].concat().try_into().unwrap()));
    let group = ports::NewGroup {
        chat_id: domain::ChatId::from_bytes([1; 16]),
        name: "crowd".to_owned().try_into().unwrap(),
        created_by,
        members: members.collect(),
        created_at: ports::Clock::now(&*world.clock),
    };
    let created = ports::ChatWriter::create_group(&*world.store, group).await.unwrap();
    let path = format!("/chats/{}/members", created.chat().chat_id);
    assert_eq!(world.post(&ann, &path, json!({ "user_id": bob.user_id })).await.failure(), (400, "CHAT_FULL"));
}
