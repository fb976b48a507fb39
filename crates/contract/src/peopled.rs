use std::time::Duration;

use domain::{
    Body, ChatId, ContentType, DeviceId, DirectPair, Sequence, Session, SessionId, Timestamp, Ttl, UpdateAction,
    UserId, WatermarkKind,
};
use uuid::Uuid;

use super::fixtures::{WORKS, fresh};
use ports::{
    AppendOutcome, ChatWriter, MessageWriter, NewDirectChat, NewGroup, NewMessage, NewUpdate, Receipt, SessionStore,
    WatermarkStore,
};

/// A store with a few rows of every kind, for tests of audits and exports.
pub struct SampleData {
    /// A group of three with five messages.
    pub group: ChatId,
    /// The owner of the group, and the sender of its first three messages.
    pub owner: UserId,
    /// A member: sent the other two messages, received three and read two.
    pub member: UserId,
    /// The direct chat of these two. It has two messages; the second one expires in an hour.
    pub direct: ChatId,
    /// The sends to the group.
    pub sends: Vec<NewMessage>,
    /// The receipts of these sends.
    pub receipts: Vec<Receipt>,
    /// The owner's login session.
    pub session_id: SessionId,
}

impl SampleData {
    /// Fills the store, with `now` as the current time.
    pub async fn make<S>(store: &S, now: Timestamp) -> Self
    where
        S: ChatWriter + MessageWriter + WatermarkStore + SessionStore,
    {
        let [owner, member, other]: [UserId; 3] = std::array::from_fn(|_| fresh());
        let (group, direct) = (fresh(), fresh());
        let name = "group".to_owned().try_into().expect("the name is valid");
        let opened =
            NewGroup { chat_id: group, name, created_by: owner, members: vec![member, other], created_at: now };
        store.create_group(opened).await.expect(WORKS);
        let pair = DirectPair::new(owner, member).expect("they are two");
        let opened = NewDirectChat { chat_id: direct, pair, created_by: owner, created_at: now };
        store.create_direct(opened).await.expect(WORKS).expect("there is no block");

        let senders = [owner, owner, owner, member, member];
        let sends: Vec<_> = senders.into_iter().map(|sender| send(group, sender, now)).collect();
        let expiring = NewMessage { ttl: Ttl::from_secs(3600), ..send(direct, owner, now) };
        store.append(vec![send(direct, member, now), expiring]).await.expect(WORKS);
        let receipts = first_receipts(store.append(sends.clone()).await.expect(WORKS));
        for (kind, to) in [(WatermarkKind::Delivered, 3), (WatermarkKind::Read, 2)] {
            store.advance(member, group, kind, Sequence(to), now).await.expect(WORKS);
        }
        let session_id = fresh();
        let session = Session {
            session_id,
            user_id: owner,
            device_id: DeviceId::from_bytes([1; 16]),
            created_at: now,
            last_active_at: now,
            expires_at: now + Duration::from_secs(3600),
            current: [2; 32],
            spent: None,
            overtaken: vec![],
        };
        store.create(session).await.expect(WORKS);
        Self { group, owner, member, direct, sends, receipts, session_id }
    }
}

impl SampleData {
    /// Updates messages of the group, with `now` as the current time: two reactions to the second message by the owner
    /// and the member (6, 7), an edit of the first (8), the deletion of the third in an hour, which no purge precedes
    /// (9), and another edit of the first (10).
    pub async fn update(&self, store: &impl MessageWriter, now: Timestamp) -> Vec<NewUpdate> {
        let edit = |text: &str| {
            let content = text.to_owned().try_into().expect("the content is valid");
            UpdateAction::Edit(Body::new(content, ContentType::Text))
        };
        let react = || UpdateAction::React("+1".parse().expect("the reaction is valid"));
        let update = |user_id, target, action| NewUpdate {
            chat_id: self.group,
            user_id,
            client_message_id: Uuid::new_v4().into(),
            update_id: fresh(),
            target: Sequence(target),
            action,
            window: None,
            ttl_max: None,
            created_at: now,
        };
        let in_an_hour = now + Duration::from_secs(3600);
        let updates = vec![
            update(self.owner, 2, react()),
            update(self.member, 2, react()),
            update(self.owner, 1, edit("edited")),
            NewUpdate { created_at: in_an_hour, ..update(self.owner, 3, UpdateAction::Delete) },
            update(self.owner, 1, edit("edited again")),
        ];
        first_receipts(store.commit(updates.iter().cloned().map(Into::into).collect()).await.expect(WORKS));
        updates
    }
}

/// The receipts of entries that must be new.
fn first_receipts(outcomes: Vec<AppendOutcome>) -> Vec<Receipt> {
    let receipt = |outcome| match outcome {
        AppendOutcome::New(receipt) => receipt,
        other => panic!("a first send is new, and this is {other:?}"),
    };
    outcomes.into_iter().map(receipt).collect()
}

fn send(chat_id: ChatId, sender_id: UserId, created_at: Timestamp) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: fresh(),
        body: Body::new("hello".to_owned().try_into().expect("the content is valid"), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at,
        origin_connection_id: None,
    }
}
