use domain::PresenceView;
use serde_json::{Value, json};

use crate::world::{ApiAnswer, ApiTestUser, NOBODY, World};

fn path(person: &ApiTestUser) -> String {
    format!("/contacts/{}", person.user_id)
}

async fn contacts(world: &World, person: &ApiTestUser) -> Vec<Value> {
    world.get(person, "/contacts").await.each("contacts", "user_id").into_iter().cloned().collect()
}

fn ids(answer: &ApiAnswer) -> Vec<&str> {
    answer.each("contacts", "user_id").into_iter().map(|id| id.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_contact_is_listed_until_it_is_deleted() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let user = json!({ "user_id": bob.user_id, "display_name": "Bob", "created_at": "2026-01-30T14:30:00.000Z" });
    for _ in 0..2 {
        let answer = world.put(&ann, &path(&bob), Value::Null).await;
        assert_eq!((answer.status, answer.data()), (200, &user));
    }
    let listed = world.get(&ann, "/contacts").await;
    let page = json!({ "data": { "contacts": [user] }, "pagination": { "next_cursor": null, "has_more": false } });
    assert_eq!((listed.status, listed.body), (200, page));
    assert_eq!(contacts(&world, &bob).await, Vec::<Value>::new(), "one side has listed the other");
    for _ in 0..2 {
        let answer = world.delete(&ann, &path(&bob)).await;
        assert_eq!((answer.status, answer.body), (204, Value::Null));
    }
    assert_eq!(contacts(&world, &ann).await, Vec::<Value>::new());
}

#[tokio::test]
async fn listing_oneself_or_an_unknown_user_is_refused() {
    let world = World::new();
    let ann = world.person("Ann").await;
    for (contact, failure) in
        [(ann.user_id.as_str(), (400, "INVALID_OPERATION")), (NOBODY, (404, "NOT_FOUND")), ("bob", (404, "NOT_FOUND"))]
    {
        let answer = world.put(&ann, &format!("/contacts/{contact}"), Value::Null).await;
        assert_eq!(answer.failure(), failure, "{contact}");
    }
    for contact in [ann.user_id.as_str(), NOBODY] {
        assert_eq!(world.delete(&ann, &format!("/contacts/{contact}")).await.status, 204, "{contact}");
    }
    assert_eq!(contacts(&world, &ann).await, Vec::<Value>::new());
}

#[tokio::test]
async fn contacts_are_by_id_page_by_page() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let mut expected = vec![];
    for n in 0..101 {
        let contact = world.person(&format!("Contact {n}")).await;
        assert_eq!(world.put(&ann, &path(&contact), Value::Null).await.status, 200);
        expected.push(contact.user_id);
    }
    expected.sort();
    for asked in ["/contacts", "/contacts?limit=1000"] {
        assert_eq!(ids(&world.get(&ann, asked).await), expected[..100], "{asked}");
    }
    let mut found = vec![];
    let mut next = "/contacts?limit=40".to_owned();
    loop {
        let page = world.get(&ann, &next).await;
        found.push(ids(&page).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        let Some(cursor) = page.body["pagination"]["next_cursor"].as_str() else { break };
        next = format!("/contacts?limit=40&cursor={cursor}");
    }
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [40, 40, 21]);
    assert_eq!(found.concat(), expected);
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused_by_its_parameter() {
    let world = World::new();
    let (ann, bob, eve) = (world.person("Ann").await, world.person("Bob").await, world.person("Eve").await);
    for person in [&ann, &eve] {
        world.group(&bob, &[person]).await;
        world.put(&bob, &path(person), Value::Null).await;
    }
    let cursor = async |path: &str| {
        let page = world.get(&bob, &format!("{path}?limit=1")).await;
        page.body["pagination"]["next_cursor"].as_str().unwrap().to_owned()
    };
    let (of_contacts, of_inbox) = (cursor("/contacts").await, cursor("/chats").await);
    for (person, path, field) in [
        (&bob, "/contacts?limit=0".to_owned(), "limit"),
        (&bob, "/contacts?cursor=x".to_owned(), "cursor"),
        (&bob, format!("/contacts?cursor={of_inbox}"), "cursor"),
        (&bob, format!("/chats?cursor={of_contacts}"), "cursor"),
        (&ann, format!("/contacts?cursor={of_contacts}"), "cursor"),
    ] {
        let answer = world.get(person, &path).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{path}");
    }
}

#[tokio::test]
async fn new_and_former_mutual_contacts_are_notified() {
    const HIDDEN: PresenceView = PresenceView::Offline { last_seen: None };
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    for person in [&ann, &bob] {
        world.connect(person).await;
    }
    let of_both = |view| vec![(ann.user_id.clone(), view), (bob.user_id.clone(), view)];
    for (method, by, other, told) in [
        ("PUT", &ann, &bob, vec![]),
        ("DELETE", &bob, &ann, vec![]),
        ("PUT", &bob, &ann, of_both(PresenceView::Online)),
        ("PUT", &bob, &ann, vec![]),
        ("DELETE", &bob, &ann, of_both(HIDDEN)),
        ("DELETE", &bob, &ann, vec![]),
        ("DELETE", &ann, &bob, vec![]),
    ] {
        let answer = world.call(method, &path(other), Some(by), None).await;
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        let mut heard = world.told.take();
        heard.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert_eq!(heard, told, "{method} by {}", by.user_id);
    }
}
