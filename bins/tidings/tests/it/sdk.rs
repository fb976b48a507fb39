use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::{
    ApiError, Client, ClientEvent, ClientHandle, Events, HistoryRange, SendError, StopReason, newer, with_queued,
    with_updated,
};
use domain::{
    Body, ChatId, ChatType, ClientMessageId, ContentType, GroupInvites, PresenceVisibility, Role, Sequence, Timestamp,
    UpdateAction, UserId,
};
use protocol::ErrorCode;
use protocol::frame::{MessageBody, Presence, PresenceStatus, SendMessage, UpdateMessage};
use protocol::rest::{AddMember, CreateChat, DeleteMe, EditMessage, UpdateMe};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{PATIENCE, TestServer};

rules!(
    every_device_of_every_member_has_each_message_once_and_in_order,
    a_returning_device_gets_messages_that_the_other_device_received_meanwhile,
    a_session_that_is_revoked_stops_for_good,
    mutual_contacts_see_each_other_online,
    an_account_is_exported_and_then_deleted,
    metadata_is_on_the_message_of_sender_and_receiver,
    a_user_who_requires_consent_accepts_and_declines_invitations,
    updates_reach_connected_devices_and_a_returning_one_with_the_last_state,
    a_refused_update_is_a_typed_outcome_and_changes_nothing,
    updates_over_rest_are_made_once_and_reactions_are_paged,
    a_client_that_has_processed_an_update_has_received_the_chat_up_to_it,
);

/// A device of the user with that phone number, signed in through the SDK.
async fn sign_in(server: &TestServer, phone_number: &str) -> (Client, UserId) {
    let client = Client::builder(server.base_url()).reconnect_pause(Duration::from_millis(20)).build().unwrap();
    client.api().request_otp(phone_number).await.unwrap();
    let signed_in = client.api().verify_otp(phone_number, "000000", Some("Somebody")).await.unwrap();
    (client, signed_in.user.user.user_id)
}

async fn direct_chat(client: &Client, other: UserId) -> ChatId {
    let chat = CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![other] };
    client.api().create_chat(&chat).await.unwrap().summary.chat_id
}

async fn next(events: &mut Events) -> ClientEvent {
    tokio::time::timeout(PATIENCE, events.next()).await.expect("something happens").expect("the session goes on")
}

async fn connected(client: &Client) -> (ClientHandle, Events) {
    let (handle, mut events) = client.connect().unwrap();
    while !matches!(next(&mut events).await, ClientEvent::Connected { .. }) {}
    (handle, events)
}

/// The contents of the next messages; asserts consecutive sequences from `first`.
async fn messages(events: &mut Events, first: u64, count: u64) -> Vec<String> {
    let mut contents = Vec::new();
    while (contents.len() as u64) < count {
        if let ClientEvent::Message(MessageBody { sequence, content, .. }) = next(events).await {
            assert_eq!(sequence.0, first + contents.len() as u64, "in order, each once: {content}");
            contents.push(content.into_owned());
        }
    }
    contents
}

fn message(chat_id: ChatId, content: &str) -> SendMessage {
    SendMessage {
        client_message_id: Uuid::new_v4().into(),
        chat_id,
        body: Body::new(content.to_owned().try_into().unwrap(), ContentType::Text),
        ttl: None,
    }
}

fn update(chat_id: ChatId, target: u64, action: UpdateAction) -> UpdateMessage {
    UpdateMessage { client_message_id: Uuid::new_v4().into(), chat_id, target: Sequence(target), action }
}

/// An application's copies of the messages of a chat.
#[derive(Default)]
struct HeldCopies(BTreeMap<Sequence, MessageBody<'static>>);

impl HeldCopies {
    /// Applies the events of a user up to the entry with a sequence.
    async fn take(&mut self, me: UserId, events: &mut Events, up_to: u64) {
        loop {
            let sequence = match next(events).await {
                ClientEvent::Message(message) => {
                    let sequence = message.sequence;
                    let copy = newer(self.0.get(&sequence), message);
                    self.0.insert(sequence, copy);
                    sequence
                }
                ClientEvent::Updated(updated) => {
                    let target = updated.update.target_sequence;
                    match with_updated(self.0.get(&target), &updated, me) {
                        Some(copy) => self.0.insert(target, copy),
                        None => self.0.remove(&target),
                    };
                    updated.update.sequence
                }
                _ => continue,
            };
            if sequence.0 == up_to {
                return;
            }
        }
    }

    /// Each message with its reactions, in which `*` marks those of the user.
    fn shown(&self) -> Vec<String> {
        self.0.values().map(shown).collect()
    }
}

fn shown(message: &MessageBody<'_>) -> String {
    let reactions = message.state.iter().flat_map(|state| &state.reactions);
    let mark = |mine| if mine == Some(true) { "*" } else { "" };
    let reactions: String = reactions.map(|one| format!(" {}{}{}", one.reaction, one.count, mark(one.mine))).collect();
    format!("{}{reactions}", message.content)
}

fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn every_device_of_every_member_has_each_message_once_and_in_order(server: &TestServer) {
    let anns_number = server.unused_number();
    let (phone, _) = sign_in(server, &anns_number).await;
    let (laptop, _) = sign_in(server, &anns_number).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&phone, bob_id).await;
    let (anns, mut phone_events) = connected(&phone).await;
    let (anns_other, mut laptop_events) = connected(&laptop).await;
    let (bobs, mut bob_events) = connected(&bob).await;
    let senders = [&anns, &bobs, &anns_other];
    for (n, sender) in (1..=30).zip(senders.into_iter().cycle()) {
        assert_eq!(sender.send(chat_id, n.to_string()).await.unwrap().sequence.0, n);
    }
    for events in [&mut phone_events, &mut laptop_events, &mut bob_events] {
        assert_eq!(messages(events, 1, 30).await, numbers(1..=30));
    }
}

async fn a_returning_device_gets_messages_that_the_other_device_received_meanwhile(server: &TestServer) {
    let anns_number = server.unused_number();
    let (phone, _) = sign_in(server, &anns_number).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&phone, bob_id).await;
    let (anns, mut phone_events) = connected(&phone).await;
    let (bobs, _bob_events) = connected(&bob).await;
    for n in 1..=20 {
        bobs.send(chat_id, n.to_string()).await.unwrap();
    }
    assert_eq!(messages(&mut phone_events, 1, 20).await, numbers(1..=20));
    anns.close().await.unwrap();
    let delivered = phone.api().chat(chat_id).await.unwrap().summary.my_delivered_sequence;
    assert_eq!(delivered.0, 19, "the last one counts as stored when the application asks for the next");

    let laptop = Client::builder(server.base_url()).positions([(chat_id, Sequence(5))]).build().unwrap();
    laptop.api().request_otp(&anns_number).await.unwrap();
    laptop.api().verify_otp(&anns_number, "000000", None).await.unwrap();
    let (_laptops, mut laptop_events) = connected(&laptop).await;
    assert_eq!(messages(&mut laptop_events, 6, 15).await, numbers(6..=20));
}

async fn metadata_is_on_the_message_of_sender_and_receiver(server: &TestServer) {
    let (ann, _) = sign_in(server, "+14155550131").await;
    let (bob, bob_id) = sign_in(server, "+14155550132").await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (handle, mut anns) = connected(&ann).await;
    let (_bobs_handle, mut bobs) = connected(&bob).await;
    let mut sent = message(chat_id, "1");
    sent.body.metadata = Some(r#"{"order":{"id":7}}"#.to_owned().try_into().unwrap());
    handle.submit(sent.clone()).await.unwrap().await.unwrap();
    for events in [&mut anns, &mut bobs] {
        let received = loop {
            if let ClientEvent::Message(received) = next(events).await {
                break received;
            }
        };
        assert_eq!(received.metadata.as_deref(), sent.body.metadata.as_ref());
    }
}

async fn updates_reach_connected_devices_and_a_returning_one_with_the_last_state(server: &TestServer) {
    let anns_number = server.unused_number();
    let (phone, ann_id) = sign_in(server, &anns_number).await;
    let (laptop, _) = sign_in(server, &anns_number).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&phone, bob_id).await;
    let (anns, mut phone_events) = connected(&phone).await;
    let (bobs, mut bob_events) = connected(&bob).await;
    anns.send(chat_id, "frist").await.unwrap();
    anns.send(chat_id, "a secret").await.unwrap();
    let (mut of_phone, mut of_bob, mut of_laptop) =
        (HeldCopies::default(), HeldCopies::default(), HeldCopies::default());
    of_bob.take(bob_id, &mut bob_events, 2).await;

    assert_eq!(anns.edit(chat_id, Sequence(1), "first").await.unwrap().sequence, Sequence(3));
    assert_eq!(anns.react(chat_id, Sequence(1), "👍").await.unwrap().sequence, Sequence(4));
    assert_eq!(bobs.react(chat_id, Sequence(1), "👍").await.unwrap().sequence, Sequence(5));
    assert_eq!(bobs.react(chat_id, Sequence(1), "☕\u{fe0f}").await.unwrap().sequence, Sequence(6));
    assert_eq!(anns.unreact(chat_id, Sequence(1), "👍").await.unwrap().sequence, Sequence(7));
    assert_eq!(anns.delete(chat_id, Sequence(2)).await.unwrap().sequence, Sequence(8));
    of_phone.take(ann_id, &mut phone_events, 8).await;
    of_bob.take(bob_id, &mut bob_events, 8).await;
    assert_eq!((of_phone.shown(), of_bob.shown()), (vec!["first 👍1 ☕1".into()], vec!["first 👍1* ☕1*".into()]));

    let (_laptops, mut laptop_events) = connected(&laptop).await;
    of_laptop.take(ann_id, &mut laptop_events, 8).await;
    assert_eq!(of_laptop.shown(), ["first 👍1 ☕1"], "after an absence");
    let history = bob.api().history(chat_id, HistoryRange::default()).await.unwrap();
    assert_eq!(history.messages.iter().map(|one| shown(&one.message)).collect::<Vec<_>>(), of_bob.shown());
}

async fn a_refused_update_is_a_typed_outcome_and_changes_nothing(server: &TestServer) {
    let (ann, _) = sign_in(server, &server.unused_number()).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (anns, _ann_events) = connected(&ann).await;
    let (bobs, mut bob_events) = connected(&bob).await;
    anns.send(chat_id, "stays").await.unwrap();
    let mut held = HeldCopies::default();
    held.take(bob_id, &mut bob_events, 1).await;

    let body = Body::new("changed".to_owned().try_into().unwrap(), ContentType::Text);
    let mut queue = vec![update(chat_id, 1, UpdateAction::Edit(body))];
    let optimistic = with_queued(&held.0[&Sequence(1)], &queue, Timestamp::default());
    assert_eq!(optimistic.unwrap().content, "changed");
    let Err(SendError::Refused(error)) = bobs.submit_update(queue.remove(0)).await.unwrap().await else {
        panic!("Bob is not the author")
    };
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert_eq!(error.details.unwrap()["reason"], "not_the_author");
    let rolled_back = with_queued(&held.0[&Sequence(1)], &queue, Timestamp::default());
    assert_eq!(rolled_back.as_ref(), held.0.get(&Sequence(1)));
    let later = bobs.react(chat_id, Sequence(1), "ok").await.unwrap();
    assert_eq!(later.sequence, Sequence(2), "the refused update has used no sequence");
    held.take(bob_id, &mut bob_events, 2).await;
    assert_eq!(held.shown(), ["stays ok1*"]);
}

async fn updates_over_rest_are_made_once_and_reactions_are_paged(server: &TestServer) {
    let (ann, ann_id) = sign_in(server, &server.unused_number()).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (anns, _events) = connected(&ann).await;
    for content in ["frist", "a secret"] {
        anns.send(chat_id, content).await.unwrap();
    }
    let id = |n: u8| ClientMessageId::from_bytes([n; 16]);
    let edit = EditMessage {
        client_message_id: id(1),
        content: "first".into(),
        content_type: Some("text/markdown".to_owned()),
        metadata: None,
    };
    let thumb = "👍".parse().unwrap();
    // Characters that have a meaning in a URL.
    let odd = "a/b?c#d%20".parse().unwrap();
    for is_retry in [false, true] {
        let api = ann.api();
        let acks = [
            api.edit_message(chat_id, Sequence(1), &edit).await.unwrap(),
            api.add_reaction(chat_id, Sequence(1), &thumb, id(2)).await.unwrap(),
            api.add_reaction(chat_id, Sequence(1), &odd, id(3)).await.unwrap(),
            api.remove_reaction(chat_id, Sequence(1), &thumb, id(4)).await.unwrap(),
            api.delete_message(chat_id, Sequence(2), id(5)).await.unwrap(),
        ];
        let found = acks.map(|ack| (ack.sequence.0, ack.deduplicated));
        assert_eq!(found, [3, 4, 5, 6, 7].map(|sequence| (sequence, is_retry)));
    }
    bob.api().add_reaction(chat_id, Sequence(1), &thumb, id(6)).await.unwrap();
    let page = bob.api().reactions(chat_id, Sequence(1), None).await.unwrap();
    let members: BTreeMap<UserId, _> =
        page.data.members.into_iter().map(|member| (member.user_id, member.reactions)).collect();
    assert_eq!(members, BTreeMap::from([(ann_id, vec![odd]), (bob_id, vec![thumb])]));
    assert_eq!(page.pagination.next_cursor, None);
    let history = bob.api().history(chat_id, HistoryRange::default()).await.unwrap();
    let found: Vec<_> = history.messages.iter().map(|one| (shown(&one.message), one.message.content_type)).collect();
    assert_eq!(found, [("first a/b?c#d%201 👍1*".to_owned(), ContentType::Markdown)]);
}

async fn a_client_that_has_processed_an_update_has_received_the_chat_up_to_it(server: &TestServer) {
    let (ann, _) = sign_in(server, &server.unused_number()).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (anns, _ann_events) = connected(&ann).await;
    let (bobs, mut bob_events) = connected(&bob).await;
    anns.send(chat_id, "one").await.unwrap();
    anns.edit(chat_id, Sequence(1), "two").await.unwrap();
    anns.edit(chat_id, Sequence(1), "three").await.unwrap();
    HeldCopies::default().take(bob_id, &mut bob_events, 3).await;
    bobs.close().await.unwrap();
    let delivered = bob.api().chat(chat_id).await.unwrap().summary.my_delivered_sequence;
    assert_eq!(delivered, Sequence(2), "the last one counts as stored when the application asks for the next");
}

#[tokio::test]
async fn updates_queued_while_the_server_is_unavailable_are_made_once_afterwards() {
    let mut server = TestServer::start().await;
    let (ann, _) = sign_in(&server, "+14155550101").await;
    let (bob, bob_id) = sign_in(&server, "+14155550102").await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (handle, mut anns) = connected(&ann).await;
    let (_bobs_handle, mut bobs) = connected(&bob).await;
    handle.send(chat_id, "1").await.unwrap();

    server.kill().await;
    while !matches!(next(&mut anns).await, ClientEvent::Disconnected { .. }) {}
    let react = update(chat_id, 1, UpdateAction::React("👍".parse().unwrap()));
    let mut acks = vec![handle.submit_update(react.clone()).await.unwrap()];
    acks.push(handle.submit(message(chat_id, "2")).await.unwrap());
    let body = Body::new("one".to_owned().try_into().unwrap(), ContentType::Text);
    acks.push(handle.submit_update(update(chat_id, 1, UpdateAction::Edit(body))).await.unwrap());
    server.restart().await;
    for (n, ack) in (2..).zip(acks) {
        let ack = tokio::time::timeout(PATIENCE, ack).await.expect("it is answered").unwrap();
        assert_eq!(ack.sequence.0, n);
    }
    let again = handle.submit_update(react).await.unwrap().await.unwrap();
    assert_eq!((again.sequence, again.deduplicated), (Sequence(2), true));
    let mut copies = HeldCopies::default();
    copies.take(bob_id, &mut bobs, 4).await;
    assert_eq!(copies.shown(), ["one 👍1", "2"]);
}

#[tokio::test]
async fn sends_queued_while_the_server_is_unavailable_are_sent_in_order_afterwards() {
    let mut server = TestServer::start().await;
    let (ann, _) = sign_in(&server, "+14155550101").await;
    let (bob, bob_id) = sign_in(&server, "+14155550102").await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (handle, mut anns) = connected(&ann).await;
    let (_bobs_handle, mut bobs) = connected(&bob).await;
    handle.send(chat_id, "1").await.unwrap();

    server.kill().await;
    while !matches!(next(&mut anns).await, ClientEvent::Disconnected { .. }) {}
    let mut acks = Vec::new();
    for n in 2..=20 {
        acks.push(handle.submit(message(chat_id, &n.to_string())).await.unwrap());
    }
    server.restart().await;
    for (n, ack) in (2..=20).zip(acks) {
        let ack = tokio::time::timeout(PATIENCE, ack).await.expect("it is answered").unwrap();
        assert_eq!(ack.sequence.0, n);
    }
    assert_eq!(messages(&mut bobs, 1, 20).await, numbers(1..=20));
}

#[tokio::test]
async fn a_session_outlives_its_access_tokens() {
    let server = TestServer::start_with(&[("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "3")]).await;
    let (ann, ann_id) = sign_in(&server, "+14155550101").await;
    let (bob, _) = sign_in(&server, "+14155550102").await;
    let chat_id = direct_chat(&bob, ann_id).await;
    let (handle, mut events) = connected(&bob).await;
    let (_anns_handle, mut anns) = connected(&ann).await;
    // Two token lifetimes, each of which ends a connection.
    let mut pace = tokio::time::interval(Duration::from_millis(350));
    for n in 1..=20_u64 {
        pace.tick().await;
        assert_eq!(handle.send(chat_id, n.to_string()).await.unwrap().sequence.0, n);
    }
    assert_eq!(messages(&mut events, 1, 20).await, numbers(1..=20));
    assert_eq!(messages(&mut anns, 1, 20).await, numbers(1..=20));
}

async fn a_session_that_is_revoked_stops_for_good(server: &TestServer) {
    let anns_number = server.unused_number();
    let (phone, _) = sign_in(server, &anns_number).await;
    let (lost, _) = sign_in(server, &anns_number).await;
    let (_handle, mut events) = connected(&lost).await;
    assert_eq!(phone.api().revoke_other_sessions().await.unwrap().revoked_count, 1);
    loop {
        if let ClientEvent::Stopped(reason) = next(&mut events).await {
            assert_eq!(reason, StopReason::SignedOut);
            break;
        }
    }
    assert_eq!(events.next().await, None);
}

async fn an_account_is_exported_and_then_deleted(server: &TestServer) {
    let (ann, ann_id) = sign_in(server, &server.unused_number()).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let chat_id = direct_chat(&ann, bob_id).await;
    let (handle, events) = connected(&ann).await;
    handle.send(chat_id, "mine").await.unwrap();
    let export = ann.api().export_me().await.unwrap();
    let contents: Vec<_> =
        export.chats.iter().flat_map(|chat| &chat.messages).map(|message| &*message.content).collect();
    assert_eq!((export.user.user.user_id, contents, export.is_complete), (ann_id, vec!["mine"], true));

    let wrong = ann.api().delete_me(&DeleteMe { confirm: bob_id, erase_messages: true }).await;
    assert!(matches!(wrong, Err(ApiError::Refused { status: 400, .. })), "{wrong:?}");
    assert_eq!(ann.api().me().await.unwrap().user.user_id, ann_id);
    let deletion = ann.api().delete_me(&DeleteMe { confirm: ann_id, erase_messages: true }).await.unwrap();
    assert_eq!((deletion.user_id, deletion.erase_messages), (ann_id, true));
    assert!(matches!(ann.api().me().await, Err(ApiError::NotSignedIn)), "the device has no tokens any more");
    assert_eq!(bob.api().user(ann_id).await.unwrap().display_name, "Deleted account");
    drop((handle, events));
}

async fn mutual_contacts_see_each_other_online(server: &TestServer) {
    let (ann, ann_id) = sign_in(server, &server.unused_number()).await;
    let (bob, bob_id) = sign_in(server, &server.unused_number()).await;
    let (_handle, _events) = connected(&bob).await;
    let of_bob = |status| Presence { user_id: bob_id, status, last_seen: None };
    for (by, contact) in [(&bob, ann_id), (&ann, bob_id)] {
        assert_eq!(ann.api().presence(bob_id).await.unwrap(), of_bob(PresenceStatus::Unknown));
        assert_eq!(by.api().add_contact(contact).await.unwrap().user_id, contact);
    }
    let page = ann.api().contacts(None).await.unwrap();
    let listed: Vec<_> = page.data.contacts.iter().map(|contact| contact.user_id).collect();
    assert_eq!((listed, page.pagination.next_cursor), (vec![bob_id], None));
    assert_eq!(ann.api().presence(bob_id).await.unwrap(), of_bob(PresenceStatus::Online));
    let seen = ann.api().query_presence(vec![bob_id, bob_id]).await.unwrap().presences;
    assert_eq!(seen, [of_bob(PresenceStatus::Online), of_bob(PresenceStatus::Online)]);

    ann.api().remove_contact(bob_id).await.unwrap();
    assert_eq!(ann.api().contacts(None).await.unwrap().data.contacts, []);
    assert_eq!(ann.api().presence(bob_id).await.unwrap(), of_bob(PresenceStatus::Unknown));
}

/// The next presence status of a user.
async fn status_of(events: &mut Events, user_id: UserId) -> PresenceStatus {
    loop {
        if let ClientEvent::Presence(presences) = next(events).await
            && let Some(presence) = presences.iter().find(|presence| presence.user_id == user_id)
        {
            return presence.status;
        }
    }
}

async fn a_user_who_requires_consent_accepts_and_declines_invitations(server: &TestServer) {
    let (ann, ann_id) = sign_in(server, "+14155550141").await;
    let (bob, bob_id) = sign_in(server, "+14155550142").await;
    let asked = UpdateMe { group_invites: Some(GroupInvites::Nobody), ..UpdateMe::default() };
    assert_eq!(ann.api().update_me(&asked).await.unwrap().group_invites, GroupInvites::Nobody);
    let group = async |name: &str| {
        let chat = CreateChat { chat_type: ChatType::Group, name: Some(name.to_owned()), member_ids: vec![ann_id] };
        let created = bob.api().create_chat(&chat).await.unwrap();
        assert_eq!(created.invited_user_ids, [ann_id]);
        created.summary.chat_id
    };
    let (accepted, declined) = (group("accepted").await, group("declined").await);
    let pending = ann.api().invitations().await.unwrap();
    let pending: BTreeSet<_> = pending.iter().map(|it| (it.chat_id, it.invited_by.user_id)).collect();
    assert_eq!(pending, BTreeSet::from([(declined, bob_id), (accepted, bob_id)]));
    assert_eq!(ann.api().accept_invitation(accepted).await.unwrap().members.len(), 2);
    ann.api().decline_invitation(declined).await.unwrap();
    assert_eq!(ann.api().invitations().await.unwrap(), []);
    let again = bob.api().add_member(declined, &AddMember { user_id: ann_id, role: Role::Member }).await.unwrap();
    assert!(again.invited);
}

#[tokio::test]
async fn presence_subscriptions_survive_a_restart_of_the_server() {
    let mut server = TestServer::start().await;
    let (ann, _) = sign_in(&server, "+14155550101").await;
    let (bob, bob_id) = sign_in(&server, "+14155550102").await;
    let shown = UpdateMe { presence_visibility: Some(PresenceVisibility::Everyone), ..UpdateMe::default() };
    bob.api().update_me(&shown).await.unwrap();
    let (handle, mut events) = connected(&ann).await;
    handle.watch(vec![bob_id]).await.unwrap();
    assert_eq!(status_of(&mut events, bob_id).await, PresenceStatus::Offline);
    let (bobs, _bobs_events) = connected(&bob).await;
    assert_eq!(status_of(&mut events, bob_id).await, PresenceStatus::Online);
    bobs.close().await.unwrap();
    assert_eq!(status_of(&mut events, bob_id).await, PresenceStatus::Offline);

    server.kill().await;
    server.restart().await;
    assert_eq!(status_of(&mut events, bob_id).await, PresenceStatus::Offline, "it is asked for again");
    let (_bobs, _bobs_events) = connected(&bob).await;
    assert_eq!(status_of(&mut events, bob_id).await, PresenceStatus::Online);
}
