//! The keys of the tables. Numbers are big-endian, so that their order is the order of the keys.
//!
//! A ulid begins with its time, and ids made at about the same time begin alike. Keys that begin with a chat or a user
//! turn its id around and begin with its random part: the engine compares keys by their first four bytes as long as those
//! differ, and only then follows a pointer to the rest. What is listed, the members of a chat and the chats and contacts
//! of a user, stays in the order of ids.

use domain::{ChatId, ClientMessageId, DeviceId, DirectPair, Sequence, SessionId, Timestamp, UserId};
use ports::{BoxError, DeadLetterId, PhoneKey, RequestKey, UserKey};
use uuid::Uuid;

use crate::records::Place;

/// Bytes of a ulid that are its time.
const TIME_BYTES: usize = 6;

pub(crate) fn chat(chat_id: ChatId) -> [u8; 16] {
    random_first(chat_id.to_bytes())
}

pub(crate) fn user(user_id: UserId) -> [u8; 16] {
    random_first(user_id.to_bytes())
}

/// Keeps the messages of a chat together, in the order of their sequences.
pub(crate) fn message(place: Place) -> [u8; 24] {
    join(chat(place.chat_id), place.sequence.0.to_be_bytes())
}

pub(crate) fn parse_message(key: &[u8]) -> Result<Place, BoxError> {
    let (chat_id, sequence) = split::<16, 8>(key)?;
    Ok(Place { chat_id: parse_chat(chat_id), sequence: Sequence(u64::from_be_bytes(sequence)) })
}

/// Begins with the part that differs most.
pub(crate) fn send(chat_id: ChatId, sender_id: UserId, client_message_id: ClientMessageId) -> [u8; 48] {
    let sender: [u8; 32] = member(chat_id, sender_id);
    join(client_message_id.to_bytes(), sender)
}

pub(crate) fn member(chat_id: ChatId, user_id: UserId) -> [u8; 32] {
    join(chat(chat_id), user_id.to_bytes())
}

pub(crate) fn membership(user_id: UserId, chat_id: ChatId) -> [u8; 32] {
    join(user(user_id), chat_id.to_bytes())
}

/// The chat of a [`membership`] key.
pub(crate) fn parse_membership(key: &[u8]) -> Result<ChatId, BoxError> {
    split::<16, 16>(key).map(|(_, chat_id)| ChatId::from_bytes(chat_id))
}

/// The chat and the user of a [`member`] key.
pub(crate) fn parse_member(key: &[u8]) -> Result<(ChatId, UserId), BoxError> {
    split::<16, 16>(key).map(|(chat, user_id)| (parse_chat(chat), UserId::from_bytes(user_id)))
}

/// The user and the chat of a [`membership`] key.
pub(crate) fn parse_listing(key: &[u8]) -> Result<(UserId, ChatId), BoxError> {
    split::<16, 16>(key).map(|(user, chat_id)| (parse_user(user), ChatId::from_bytes(chat_id)))
}

/// The two of a [`direct`] key, unless they are one.
pub(crate) fn parse_direct(key: &[u8]) -> Result<DirectPair, BoxError> {
    let (one, other) = split::<16, 16>(key)?;
    Ok(DirectPair::new(parse_user(one), parse_user(other)).ok_or("a pair of one")?)
}

/// What a [`send`] key is made of.
pub(crate) fn parse_send(key: &[u8]) -> Result<(ChatId, UserId, ClientMessageId), BoxError> {
    let (send, member) = split::<16, 32>(key)?;
    let (chat_id, sender_id) = parse_member(&member)?;
    Ok((chat_id, sender_id, ClientMessageId::from_bytes(send)))
}

pub(crate) fn contact(user_id: UserId, contact_id: UserId) -> [u8; 32] {
    join(user(user_id), contact_id.to_bytes())
}

/// The contact of a [`contact`] key.
pub(crate) fn parse_contact(key: &[u8]) -> Result<UserId, BoxError> {
    split::<16, 16>(key).map(|(_, contact_id)| UserId::from_bytes(contact_id))
}

pub(crate) fn direct(pair: DirectPair) -> [u8; 32] {
    let [first, second] = pair.users();
    join(user(first), user(second))
}

pub(crate) fn device(user_id: UserId, device_id: DeviceId) -> [u8; 32] {
    join(user(user_id), device_id.to_bytes())
}

/// What a notice is kept under: whom it is for, and about which chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoticeKey {
    pub(crate) user_id: UserId,
    pub(crate) chat_id: ChatId,
    pub(crate) device_id: DeviceId,
}

pub(crate) fn notice(key: NoticeKey) -> [u8; 48] {
    let membership: [u8; 32] = membership(key.user_id, key.chat_id);
    join(membership, key.device_id.to_bytes())
}

/// Orders notices by when they are to be looked at.
pub(crate) fn notice_due(at: Timestamp, key: NoticeKey) -> [u8; 56] {
    let user: [u8; 24] = join(moment(at), key.user_id.to_bytes());
    let chat: [u8; 40] = join(user, key.chat_id.to_bytes());
    join(chat, key.device_id.to_bytes())
}

pub(crate) fn parse_notice_due(key: &[u8]) -> Result<(Timestamp, NoticeKey), BoxError> {
    let (at, key) = split::<8, 48>(key)?;
    let (user_id, key) = split::<16, 32>(&key)?;
    let (chat_id, device_id) = split::<16, 16>(&key)?;
    let key = NoticeKey {
        user_id: UserId::from_bytes(user_id),
        chat_id: ChatId::from_bytes(chat_id),
        device_id: DeviceId::from_bytes(device_id),
    };
    Ok((Timestamp::from_millis(u64::from_be_bytes(at)), key))
}

pub(crate) fn request(key: RequestKey) -> [u8; 32] {
    join(key.user_id.to_bytes(), key.key.into_bytes())
}

pub(crate) fn parse_request(key: &[u8]) -> Result<RequestKey, BoxError> {
    let (user_id, key) = split::<16, 16>(key)?;
    Ok(RequestKey { user_id: UserId::from_bytes(user_id), key: Uuid::from_bytes(key) })
}

/// A sign-in key. The length of the issuer goes before it, so that no two pairs of issuer and subject share a key.
pub(crate) fn sign_in(key: &UserKey) -> Vec<u8> {
    match key {
        UserKey::Phone(number) => [b"p", number.as_str().as_bytes()].concat(),
        UserKey::External { issuer, subject } => {
            let len = (issuer.len() as u64).to_be_bytes();
            [b"e", &len[..], issuer.as_bytes(), subject.as_bytes()].concat()
        }
    }
}

pub(crate) fn offset(offset: u64) -> [u8; 8] {
    offset.to_be_bytes()
}

pub(crate) fn parse_offset(key: &[u8]) -> Result<u64, BoxError> {
    Ok(u64::from_be_bytes(key.try_into()?))
}

/// A row that dies at a moment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiring {
    Message(Place),
    Session(SessionId),
    Code(PhoneKey),
    Request(RequestKey),
    DeadLetter(DeadLetterId),
}

/// Where the keys that begin with a moment begin.
pub(crate) fn moment(at: Timestamp) -> [u8; 8] {
    at.as_millis().to_be_bytes()
}

/// Above every key that begins with `at` or a moment before.
pub(crate) fn behind(at: Timestamp) -> [u8; 8] {
    (at.as_millis() + 1).to_be_bytes()
}

/// Orders what expires by when it does.
pub(crate) fn expiry(at: Timestamp, what: Expiring) -> Vec<u8> {
    let at = moment(at);
    match what {
        Expiring::Message(place) => [&at[..], b"m", &message(place)].concat(),
        Expiring::Session(session_id) => [&at[..], b"s", &session_id.to_bytes()].concat(),
        Expiring::Code(phone) => [&at[..], b"c", &phone].concat(),
        Expiring::Request(key) => [&at[..], b"r", &request(key)].concat(),
        Expiring::DeadLetter(id) => [&at[..], b"d", &id.to_bytes()].concat(),
    }
}

pub(crate) fn parse_expiry(key: &[u8]) -> Result<Expiring, BoxError> {
    let Some((tag, rest)) = key.get(8..).and_then(|rest| rest.split_first()) else {
        return Err(format!("an expiry has {} bytes", key.len()).into());
    };
    match tag {
        b'm' => parse_message(rest).map(Expiring::Message),
        b's' => Ok(Expiring::Session(SessionId::from_bytes(rest.try_into()?))),
        b'c' => Ok(Expiring::Code(rest.try_into()?)),
        b'r' => parse_request(rest).map(Expiring::Request),
        b'd' => Ok(Expiring::DeadLetter(DeadLetterId::from_bytes(rest.try_into()?))),
        _ => Err(format!("an expiry of unknown kind {tag}").into()),
    }
}

fn random_first(mut ulid: [u8; 16]) -> [u8; 16] {
    ulid.rotate_left(TIME_BYTES);
    ulid
}

pub(crate) fn parse_chat(mut key: [u8; 16]) -> ChatId {
    key.rotate_right(TIME_BYTES);
    ChatId::from_bytes(key)
}

pub(crate) fn parse_user(mut key: [u8; 16]) -> UserId {
    key.rotate_right(TIME_BYTES);
    UserId::from_bytes(key)
}

fn join<const A: usize, const B: usize, const N: usize>(a: [u8; A], b: [u8; B]) -> [u8; N] {
    const { assert!(A + B == N) };
    let mut key = [0; N];
    key[..A].copy_from_slice(&a);
    key[A..].copy_from_slice(&b);
    key
}

fn split<const A: usize, const B: usize>(key: &[u8]) -> Result<([u8; A], [u8; B]), BoxError> {
    match key.split_first_chunk() {
        Some((a, b)) => Ok((*a, b.try_into()?)),
        None => Err(format!("a key has {} bytes instead of {}", key.len(), A + B).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(chat: u8, sequence: u64) -> Place {
        Place { chat_id: ChatId::from_bytes([chat; 16]), sequence: Sequence(sequence) }
    }

    #[test]
    fn messages_of_a_chat_are_neighbours_in_the_order_of_their_sequences() {
        let keys = [place(1, 1), place(1, 255), place(1, 256), place(2, 1)].map(message);
        assert!(keys.is_sorted());
        assert_eq!(parse_message(&keys[2]).unwrap(), place(1, 256));
    }

    #[test]
    fn members_of_a_chat_and_chats_and_contacts_of_a_user_are_in_the_order_of_ids() {
        let ids = [[0, 9], [1, 5], [2, 1]].map(|[first, last]| {
            let mut id = [0; 16];
            (id[0], id[15]) = (first, last);
            id
        });
        let (chat_id, user_id) = (ChatId::from_bytes([7; 16]), UserId::from_bytes([8; 16]));
        assert!(ids.map(|id| member(chat_id, UserId::from_bytes(id))).is_sorted());
        let memberships = ids.map(|id| membership(user_id, ChatId::from_bytes(id)));
        assert!(memberships.is_sorted());
        assert_eq!(parse_membership(&memberships[1]).unwrap(), ChatId::from_bytes(ids[1]));
        let contacts = ids.map(|id| contact(user_id, UserId::from_bytes(id)));
        assert!(contacts.is_sorted());
        assert_eq!(parse_contact(&contacts[1]).unwrap(), UserId::from_bytes(ids[1]));
    }

    #[test]
    fn what_a_key_was_made_of_is_found_in_it() {
        let bytes: [u8; 16] = std::array::from_fn(|n| n as u8);
        let (chat_id, user_id, send) =
            (ChatId::from_bytes(bytes), UserId::from_bytes(bytes), ClientMessageId::from_bytes([9; 16]));
        assert_eq!(parse_member(&member(chat_id, user_id)).unwrap(), (chat_id, user_id));
        assert_eq!(parse_listing(&membership(user_id, chat_id)).unwrap(), (user_id, chat_id));
        assert_eq!(parse_send(&self::send(chat_id, user_id, send)).unwrap(), (chat_id, user_id, send));
        let pair = DirectPair::new(user_id, UserId::from_bytes([7; 16])).unwrap();
        assert_eq!(parse_direct(&direct(pair)).unwrap(), pair);
        assert!(parse_direct(&[7; 32]).is_err());
    }

    #[test]
    fn expiries_are_in_the_order_of_time_and_parse_back() {
        let request = RequestKey { user_id: UserId::from_bytes([7; 16]), key: Uuid::from_bytes([8; 16]) };
        let kinds = [
            Expiring::Message(place(1, 2)),
            Expiring::Session(SessionId::from_bytes([3; 16])),
            Expiring::Code([4; 32]),
            Expiring::Request(request),
            Expiring::DeadLetter(DeadLetterId::from_bytes([5; 16])),
        ];
        for what in kinds {
            assert_eq!(parse_expiry(&expiry(Timestamp::from_millis(9), what)).unwrap(), what);
            assert!(expiry(Timestamp::from_millis(255), what) < expiry(Timestamp::from_millis(256), kinds[0]));
        }
    }

    #[test]
    fn notices_are_in_the_order_of_their_moments_and_parse_back() {
        let key = |n| NoticeKey {
            user_id: UserId::from_bytes([n; 16]),
            chat_id: ChatId::from_bytes([7; 16]),
            device_id: DeviceId::from_bytes([8; 16]),
        };
        let (at, later) = (Timestamp::from_millis(255), Timestamp::from_millis(256));
        assert_eq!(parse_notice_due(&notice_due(at, key(2))).unwrap(), (at, key(2)));
        assert!(notice_due(at, key(2)) < notice_due(later, key(1)));
        assert!(notice_due(at, key(2))[..] < behind(at)[..] && behind(at)[..] <= notice_due(later, key(1))[..]);
    }

    #[test]
    fn no_two_external_users_share_a_key() {
        let key = |issuer: &str, subject: &str| {
            sign_in(&UserKey::External { issuer: issuer.to_owned(), subject: subject.to_owned() })
        };
        assert_ne!(key("ab", "c"), key("a", "bc"));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            drop((parse_message(&bytes), parse_membership(&bytes), parse_offset(&bytes), parse_expiry(&bytes)));
            drop((parse_notice_due(&bytes), parse_contact(&bytes), parse_member(&bytes), parse_listing(&bytes)));
            drop((parse_direct(&bytes), parse_send(&bytes)));
        }
    }
}
