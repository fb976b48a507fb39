//! The keys of the tables. Numbers are big-endian, so that keys sort in numeric order.
//!
//! A ulid begins with its time, so ids created at about the same time share a prefix. Keys that begin with a chat or a
//! user rotate its id so that the random part comes first. The engine compares keys by their first four bytes and
//! follows a pointer to the rest only if those are equal. Listed rows (the members of a chat, the chats and contacts of
//! a user) stay in id order.

use std::ops::Range;

use domain::{
    ChatId, ClientMessageId, DeviceId, DirectPair, PasskeyId, ReportId, Sequence, SessionId, Timestamp, UserId,
};
use ports::{BoxError, DeadLetterId, PhoneKey, RequestKey, UserKey};
use uuid::Uuid;

use crate::records::MessageLocation;
use crate::tables::Table;

/// Length of the time prefix of a ulid.
const TIME_BYTES: usize = 6;

pub(crate) fn chat(chat_id: ChatId) -> [u8; 16] {
    random_first(chat_id.to_bytes())
}

pub(crate) fn user(user_id: UserId) -> [u8; 16] {
    random_first(user_id.to_bytes())
}

/// Keeps the messages of a chat adjacent and in sequence order.
pub(crate) fn message(location: MessageLocation) -> [u8; 24] {
    join(chat(location.chat_id), location.sequence.0.to_be_bytes())
}

pub(crate) fn parse_message(key: &[u8]) -> Result<MessageLocation, BoxError> {
    let (chat_id, sequence) = split::<16, 8>(key)?;
    Ok(MessageLocation { chat_id: parse_chat(chat_id), sequence: Sequence(u64::from_be_bytes(sequence)) })
}

/// Keeps the reactions to a message adjacent, in the order of the users.
pub(crate) fn reactions(location: MessageLocation, user_id: UserId) -> [u8; 40] {
    join(message(location), user_id.to_bytes())
}

/// The message and the user of a [`reactions`] key.
pub(crate) fn parse_reactions(key: &[u8]) -> Result<(MessageLocation, UserId), BoxError> {
    let (location, user_id) = split::<24, 16>(key)?;
    Ok((parse_message(&location)?, UserId::from_bytes(user_id)))
}

/// Begins with the most selective part.
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

/// The two users of a [`direct`] key; an error if they are the same.
pub(crate) fn parse_direct(key: &[u8]) -> Result<DirectPair, BoxError> {
    let (one, other) = split::<16, 16>(key)?;
    Ok(DirectPair::new(parse_user(one), parse_user(other)).ok_or("a pair of one")?)
}

/// The parts of a [`send`] key.
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

/// The user and the contact of a [`contact`] key.
pub(crate) fn parse_contact_pair(key: &[u8]) -> Result<(UserId, UserId), BoxError> {
    split::<16, 16>(key).map(|(user, contact_id)| (parse_user(user), UserId::from_bytes(contact_id)))
}

pub(crate) fn block(user_id: UserId, blocked_id: UserId) -> [u8; 32] {
    contact(user_id, blocked_id)
}

/// Index key of an open report.
pub(crate) fn report_open(report_id: ReportId) -> [u8; 17] {
    join(*b"o", report_id.to_bytes())
}

/// Index key of a report by its reporter.
pub(crate) fn report_of(user_id: UserId, report_id: ReportId) -> [u8; 33] {
    let of_user: [u8; 17] = join(*b"u", user_id.to_bytes());
    join(of_user, report_id.to_bytes())
}

/// Prefix of all reports that a user filed.
pub(crate) fn reports_of(user_id: UserId) -> [u8; 17] {
    join(*b"u", user_id.to_bytes())
}

/// Index key of a resolved report by its expiry time.
pub(crate) fn report_end(at: Timestamp, report_id: ReportId) -> [u8; 25] {
    let ends: [u8; 9] = join(*b"e", moment(at));
    join(ends, report_id.to_bytes())
}

/// Key range of all resolved reports that have expired at `now`.
pub(crate) fn reports_over(now: Timestamp) -> Range<[u8; 9]> {
    join(*b"e", [0; 8])..join(*b"e", just_after(now))
}

/// The report id of an index key, which is always its suffix.
pub(crate) fn parse_report(key: &[u8]) -> Result<ReportId, BoxError> {
    let report_id = key.last_chunk().ok_or_else(|| format!("a key of a report has {} bytes", key.len()))?;
    Ok(ReportId::from_bytes(*report_id))
}

/// Index key of a pending invitation by its chat.
pub(crate) fn invitation_to(chat_id: ChatId, user_id: UserId) -> [u8; 33] {
    join(*b"c", member(chat_id, user_id))
}

/// Prefix of all pending invitations to a chat.
pub(crate) fn invitations_to(chat_id: ChatId) -> [u8; 17] {
    join(*b"c", chat(chat_id))
}

/// Index key of an invitation by the time at which it ends.
pub(crate) fn invitation_end(at: Timestamp, user_id: UserId, chat_id: ChatId) -> [u8; 41] {
    let ends: [u8; 9] = join(*b"e", moment(at));
    join(ends, membership(user_id, chat_id))
}

/// Key range of all invitations that have ended at `now`.
pub(crate) fn invitations_over(now: Timestamp) -> Range<[u8; 9]> {
    join(*b"e", [0; 8])..join(*b"e", just_after(now))
}

/// The invited user and the chat of an index key.
pub(crate) fn parse_invitation(key: &[u8]) -> Result<(UserId, ChatId), BoxError> {
    match key.split_first() {
        Some((b'c', key)) => parse_member(key).map(|(chat_id, user_id)| (user_id, chat_id)),
        Some((b'e', key)) => split::<8, 32>(key).and_then(|(_, key)| parse_listing(&key)),
        _ => Err("an index key of an invitation of unknown kind".into()),
    }
}

/// Keeps the passkeys of a user adjacent and in order of creation.
pub(crate) fn passkey(user_id: UserId, passkey_id: PasskeyId) -> [u8; 32] {
    join(user(user_id), passkey_id.to_bytes())
}

/// The user and the passkey of a [`passkey`] key.
pub(crate) fn parse_passkey(key: &[u8]) -> Result<(UserId, PasskeyId), BoxError> {
    split::<16, 16>(key).map(|(user, passkey_id)| (parse_user(user), PasskeyId::from_bytes(passkey_id)))
}

pub(crate) fn direct(pair: DirectPair) -> [u8; 32] {
    let [first, second] = pair.users();
    join(user(first), user(second))
}

pub(crate) fn device(user_id: UserId, device_id: DeviceId) -> [u8; 32] {
    join(user(user_id), device_id.to_bytes())
}

/// Key of a notice: its recipient and its chat.
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

/// Orders notices by due time.
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

/// A sign-in key. The issuer is length-prefixed, so that no two pairs of issuer and subject share a key.
pub(crate) fn sign_in(key: &UserKey) -> Vec<u8> {
    match key {
        UserKey::Phone(number) => [b"p", number.as_str().as_bytes()].concat(),
        UserKey::External { issuer, subject } => {
            let len = (issuer.len() as u64).to_be_bytes();
            [b"e", &len[..], issuer.as_bytes(), subject.as_str().as_bytes()].concat()
        }
    }
}

/// The user key that a [`sign_in`] key encodes.
pub(crate) fn parse_sign_in(key: &[u8]) -> Result<UserKey, BoxError> {
    let text = |bytes: &[u8]| Ok::<_, BoxError>(std::str::from_utf8(bytes)?.to_owned());
    match key.split_first() {
        Some((b'p', number)) => Ok(UserKey::Phone(text(number)?.parse()?)),
        Some((b'e', rest)) => {
            let (len, rest) = rest.split_first_chunk().ok_or("a sign-in key without its length")?;
            let len = usize::try_from(u64::from_be_bytes(*len))?;
            let (issuer, subject) = rest.split_at_checked(len).ok_or("a sign-in key that ends in its issuer")?;
            Ok(UserKey::External { issuer: text(issuer)?, subject: text(subject)?.try_into()? })
        }
        _ => Err("a sign-in key of unknown kind".into()),
    }
}

pub(crate) fn offset(offset: u64) -> [u8; 8] {
    offset.to_be_bytes()
}

pub(crate) fn parse_offset(key: &[u8]) -> Result<u64, BoxError> {
    Ok(u64::from_be_bytes(key.try_into()?))
}

/// A row with an expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiring {
    Message(MessageLocation),
    /// Of the table of updates.
    Update(MessageLocation),
    Session(SessionId),
    Code(PhoneKey),
    Request(RequestKey),
    DeadLetter(DeadLetterId),
    /// A key of [`send`] that was imported without a log record. Other send keys are purged with their log record.
    SendKey([u8; 48]),
}

impl Expiring {
    /// The table and the key of the row.
    pub(crate) fn row(self) -> (Table, Vec<u8>) {
        match self {
            Self::Message(location) => (Table::Messages, message(location).to_vec()),
            Self::Update(location) => (Table::Updates, message(location).to_vec()),
            Self::Session(session_id) => (Table::Sessions, session_id.to_bytes().to_vec()),
            Self::Code(phone) => (Table::Codes, phone.to_vec()),
            Self::Request(key) => (Table::Requests, request(key).to_vec()),
            Self::DeadLetter(id) => (Table::DeadLetters, id.to_bytes().to_vec()),
            Self::SendKey(key) => (Table::SendKeys, key.to_vec()),
        }
    }
}

/// The first key prefix of a moment.
pub(crate) fn moment(at: Timestamp) -> [u8; 8] {
    at.as_millis().to_be_bytes()
}

/// Above every key with a moment at or before `at`.
pub(crate) fn just_after(at: Timestamp) -> [u8; 8] {
    (at.as_millis() + 1).to_be_bytes()
}

/// Orders rows by expiry time.
pub(crate) fn expiry(at: Timestamp, what: Expiring) -> Vec<u8> {
    let at = moment(at);
    match what {
        Expiring::Message(location) => [&at[..], b"m", &message(location)].concat(),
        Expiring::Update(location) => [&at[..], b"u", &message(location)].concat(),
        Expiring::Session(session_id) => [&at[..], b"s", &session_id.to_bytes()].concat(),
        Expiring::Code(phone) => [&at[..], b"c", &phone].concat(),
        Expiring::Request(key) => [&at[..], b"r", &request(key)].concat(),
        Expiring::DeadLetter(id) => [&at[..], b"d", &id.to_bytes()].concat(),
        Expiring::SendKey(key) => [&at[..], b"k", &key].concat(),
    }
}

/// The expiry time and the row of an [`expiry`] key.
pub(crate) fn parse_expiry(key: &[u8]) -> Result<(Timestamp, Expiring), BoxError> {
    let Some((at, [tag, rest @ ..])) = key.split_first_chunk() else {
        return Err(format!("an expiry has {} bytes", key.len()).into());
    };
    let what = match tag {
        b'm' => Expiring::Message(parse_message(rest)?),
        b'u' => Expiring::Update(parse_message(rest)?),
        b's' => Expiring::Session(SessionId::from_bytes(rest.try_into()?)),
        b'c' => Expiring::Code(rest.try_into()?),
        b'r' => Expiring::Request(parse_request(rest)?),
        b'd' => Expiring::DeadLetter(DeadLetterId::from_bytes(rest.try_into()?)),
        b'k' => Expiring::SendKey(rest.try_into()?),
        _ => return Err(format!("an expiry of unknown kind {tag}").into()),
    };
    Ok((Timestamp::from_millis(u64::from_be_bytes(*at)), what))
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

    fn location(chat: u8, sequence: u64) -> MessageLocation {
        MessageLocation { chat_id: ChatId::from_bytes([chat; 16]), sequence: Sequence(sequence) }
    }

    #[test]
    fn messages_of_a_chat_are_neighbours_in_the_order_of_their_sequences() {
        let keys = [location(1, 1), location(1, 255), location(1, 256), location(2, 1)].map(message);
        assert!(keys.is_sorted());
        assert_eq!(parse_message(&keys[2]).unwrap(), location(1, 256));
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
    fn parsing_a_key_returns_its_parts() {
        let bytes: [u8; 16] = std::array::from_fn(|n| n as u8);
        let (chat_id, user_id, send) =
            (ChatId::from_bytes(bytes), UserId::from_bytes(bytes), ClientMessageId::from_bytes([9; 16]));
        assert_eq!(parse_member(&member(chat_id, user_id)).unwrap(), (chat_id, user_id));
        assert_eq!(parse_listing(&membership(user_id, chat_id)).unwrap(), (user_id, chat_id));
        assert_eq!(parse_send(&self::send(chat_id, user_id, send)).unwrap(), (chat_id, user_id, send));
        let pair = DirectPair::new(user_id, UserId::from_bytes([7; 16])).unwrap();
        assert_eq!(parse_direct(&direct(pair)).unwrap(), pair);
        assert!(parse_direct(&[7; 32]).is_err());
        assert_eq!(parse_contact_pair(&contact(user_id, UserId::from_bytes([7; 16]))).unwrap().0, user_id);
        let external = UserKey::External { issuer: "https://id.example".to_owned(), subject: "42".parse().unwrap() };
        for key in [UserKey::Phone("+15551234567".parse().unwrap()), external] {
            assert_eq!(parse_sign_in(&sign_in(&key)).unwrap(), key);
        }
        assert_eq!(parse_invitation(&invitation_to(chat_id, user_id)).unwrap(), (user_id, chat_id));
        let end = invitation_end(Timestamp::from_millis(9), user_id, chat_id);
        assert_eq!(parse_invitation(&end).unwrap(), (user_id, chat_id));
        assert!(parse_invitation(&end[..40]).is_err() && parse_invitation(b"").is_err());
        let passkey_id = PasskeyId::from_bytes([7; 16]);
        assert_eq!(parse_passkey(&passkey(user_id, passkey_id)).unwrap(), (user_id, passkey_id));
        assert!(parse_sign_in(&[b"e", &u64::MAX.to_be_bytes()[..], b"issuer"].concat()).is_err());
    }

    #[test]
    fn expiries_are_in_the_order_of_time_and_parse_back() {
        let request = RequestKey { user_id: UserId::from_bytes([7; 16]), key: Uuid::from_bytes([8; 16]) };
        let kinds = [
            Expiring::Message(location(1, 2)),
            Expiring::Session(SessionId::from_bytes([3; 16])),
            Expiring::Code([4; 32]),
            Expiring::Request(request),
            Expiring::DeadLetter(DeadLetterId::from_bytes([5; 16])),
            Expiring::SendKey([6; 48]),
        ];
        for what in kinds {
            let at = Timestamp::from_millis(9);
            assert_eq!(parse_expiry(&expiry(at, what)).unwrap(), (at, what));
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
        assert!(notice_due(at, key(2))[..] < just_after(at)[..] && just_after(at)[..] <= notice_due(later, key(1))[..]);
    }

    #[test]
    fn reports_are_found_open_by_their_user_and_in_the_order_of_their_ends() {
        let report = |n: u8| ReportId::from_bytes([n; 16]);
        let user_id = UserId::from_bytes([7; 16]);
        let (at, later) = (Timestamp::from_millis(255), Timestamp::from_millis(256));
        for key in [&report_open(report(1))[..], &report_of(user_id, report(1)), &report_end(at, report(1))] {
            assert_eq!(parse_report(key).unwrap(), report(1));
        }
        assert!(report_of(user_id, report(1)).starts_with(&reports_of(user_id)));
        let over = reports_over(at);
        let is_over = |key: [u8; 25]| over.start[..] <= key[..] && key[..] < over.end[..];
        assert!(is_over(report_end(Timestamp::default(), report(0))) && is_over(report_end(at, report(0xff))));
        assert!(!is_over(report_end(later, report(0))));
    }

    #[test]
    fn no_two_external_users_share_a_key() {
        let key = |issuer: &str, subject: &str| {
            sign_in(&UserKey::External { issuer: issuer.to_owned(), subject: subject.parse().unwrap() })
        };
        assert_ne!(key("ab", "c"), key("a", "bc"));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            drop((parse_message(&bytes), parse_membership(&bytes), parse_offset(&bytes), parse_expiry(&bytes)));
            drop((parse_notice_due(&bytes), parse_contact(&bytes), parse_member(&bytes), parse_listing(&bytes)));
            drop((parse_direct(&bytes), parse_send(&bytes), parse_report(&bytes)));
        }
    }
}
