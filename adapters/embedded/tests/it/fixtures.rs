use std::path::Path;
use std::sync::Arc;

use domain::{Body, ChatId, ClientMessageId, Content, ContentType, UserId};
use ports::{Clock, Ids, NewGroup, NewMessage, RandomIds, SystemClock};
use tidings_embedded::{Config, EmbeddedStore};
use uuid::Uuid;

pub(crate) fn open(path: &Path) -> EmbeddedStore {
    open_at(path, Arc::new(SystemClock))
}

pub(crate) fn open_at(path: &Path, clock: Arc<dyn Clock>) -> EmbeddedStore {
    EmbeddedStore::open(path, Config::default(), clock, Arc::new(RandomIds)).unwrap()
}

pub(crate) fn group(owner: UserId, members: &[UserId]) -> NewGroup {
    NewGroup {
        chat_id: RandomIds.ulid().into(),
        name: "group".to_owned().try_into().unwrap(),
        created_by: owner,
        members: members.to_vec(),
        created_at: SystemClock.now(),
    }
}

pub(crate) fn message(chat_id: ChatId, sender_id: UserId, text: &str) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: ClientMessageId::from(Uuid::new_v4()),
        message_id: RandomIds.ulid().into(),
        body: Body::new(Content::try_from(text.to_owned()).unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}
