//! Encodes domain values as rows and decodes them.
//!
//! Rows are encoded with postcard: fields in declaration order, variants by number, without names. A change to a struct
//! or enum here changes the format on disk and raises [`FORMAT_VERSION`](crate::directory::FORMAT_VERSION), unless old
//! rows still decode to the same values. A row may grow at its end if a missing part has a defined meaning. Decoding
//! validates rows, because a disk may return bytes that were never written.

mod block;
mod chat;
mod event;
#[cfg(test)]
mod fuzz;
mod invitation;
mod message;
mod notify;
mod passkey;
mod report;
mod restrictions;
mod update;
mod user;

use domain::{ChatId, SessionId, Ttl, UserId};
use ports::BoxError;
use serde::{Deserialize, Serialize};

pub(crate) use block::BlockedBy;
pub(crate) use event::{LogRecord, LoggedMessage, encode_event};
pub(crate) use message::{Fingerprint, Glance, HeadSummary, MessageLocation, SendKey, decode_message, encode_message};
pub(crate) use notify::StoredNotice;
pub(crate) use update::{decode_update, encode_update};
pub(crate) use user::IdempotentRequest;

type IdBytes = [u8; 16];
type Millis = u64;
type Seconds = u64;

/// A value that is stored as one row.
pub(crate) trait Stored: Sized {
    fn encode(&self) -> Vec<u8>;
    fn decode(bytes: &[u8]) -> Result<Self, BoxError>;
}

/// Initial capacity for most rows, so that encoding rarely reallocates.
const ROW_BYTES: usize = 256;

fn to_bytes(row: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(row, Vec::with_capacity(ROW_BYTES)).expect("rows are plain data, which always encodes")
}

/// Decodes a row and refuses trailing bytes.
fn from_bytes<'a, R: Deserialize<'a>>(bytes: &'a [u8]) -> Result<R, BoxError> {
    match postcard::take_from_bytes(bytes)? {
        (row, []) => Ok(row),
        (_, rest) => Err(format!("{} trailing bytes", rest.len()).into()),
    }
}

/// A number that a row has at its end since a later version; nothing if it has none.
fn number_at_end(number: Option<u64>) -> Vec<u8> {
    number.map(|number| to_bytes(&number)).unwrap_or_default()
}

/// Decodes what follows the parts of a row that every version writes. No version writes 0.
fn read_number_at_end(rest: &[u8]) -> Result<Option<u64>, BoxError> {
    match rest {
        [] => Ok(None),
        rest => match from_bytes(rest)? {
            0 => Err("the number at its end is 0".into()),
            number => Ok(Some(number)),
        },
    }
}

fn ttl_to_row(ttl: Option<Ttl>) -> Option<Seconds> {
    ttl.map(|ttl| ttl.as_duration().as_secs())
}

fn ttl_from_row(seconds: Option<Seconds>) -> Result<Option<Ttl>, BoxError> {
    let ttl = |seconds| Ttl::from_secs(seconds).ok_or_else(|| format!("a message cannot live for {seconds} seconds"));
    Ok(seconds.map(ttl).transpose()?)
}

/// Assigns a domain enum its numbers on disk. New variants are added at the end.
macro_rules! row_enum {
    ($row:ident for $domain:ident { $($variant:ident),+ }) => {
        #[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
        pub(super) enum $row { $($variant),+ }

        impl From<$domain> for $row {
            fn from(value: $domain) -> Self {
                match value { $($domain::$variant => Self::$variant),+ }
            }
        }

        impl From<$row> for $domain {
            fn from(row: $row) -> Self {
                match row { $($row::$variant => Self::$variant),+ }
            }
        }
    };
}
use row_enum;

/// Stores an id as a row, as the indexes do.
macro_rules! stored_id {
    ($($id:ident),+) => {$(
        impl Stored for $id {
            fn encode(&self) -> Vec<u8> {
                to_bytes(&self.to_bytes())
            }

            fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
                from_bytes(bytes).map(Self::from_bytes)
            }
        }
    )+};
}
stored_id!(ChatId, SessionId, UserId);

/// Stores a plain value as a row: a number, or nothing if the key contains everything.
macro_rules! stored_plain {
    ($($plain:ty),+) => {$(
        impl Stored for $plain {
            fn encode(&self) -> Vec<u8> {
                to_bytes(self)
            }

            fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
                from_bytes(bytes)
            }
        }
    )+};
}
stored_plain!(u64, ());

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use domain::{
        Body, Chat, ChatType, ClientMessageId, ConnectionId, ContentType, CredentialId, DeliveryState, DeviceId,
        Edited, Event, EventBody, EventId, EventNumber, GroupInvites, Invitation, Member, MembershipChange, Message,
        MessageId, MessageState, MessageUpdate, Metadata, OneTimeCode, Passkey, PasskeyId, PendingCode,
        PresenceVisibility, PushDevice, PushTarget, Reaction, ReactionCount, Report, ReportId, ReportReason,
        Resolution, Role, Sequence, Session, SpentToken, Timestamp, TokenChain, UpdateKind, User, Watermarks,
        WebPushSubscription,
    };
    use ports::{
        DeadLetter, DeadLetterId, Head, MessageDisposition, PendingDeletion, Position, Receipt, StoredResponse,
        UndeliveredItem,
    };
    use ulid::Ulid;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn message() -> Message {
        Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(300),
            sender_id: UserId::from_bytes([3; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            body: Body::new("Grüße".to_owned().try_into().unwrap(), ContentType::Json),
            created_at: at(1_000_000),
            expires_at: Some(at(2_000_000)),
            state: MessageState::default(),
        }
    }

    fn user() -> User {
        User {
            user_id: UserId::from_bytes([3; 16]),
            phone_number: Some("+15551234567".parse().unwrap()),
            external_id: None,
            display_name: "Ada".to_owned().try_into().unwrap(),
            presence_visibility: PresenceVisibility::Nobody,
            group_invites: GroupInvites::Everyone,
            created_at: at(1),
            updated_at: at(2),
            last_seen_at: None,
            deleted_at: None,
        }
    }

    fn location() -> MessageLocation {
        MessageLocation { chat_id: ChatId::from_bytes([2; 16]), sequence: Sequence(300) }
    }

    #[track_caller]
    fn check<V: Stored + PartialEq + Debug>(value: V) {
        let row = value.encode();
        assert_eq!(V::decode(&row).unwrap(), value);
        assert!(V::decode(&[&row[..], &[0]].concat()).is_err(), "trailing bytes are refused");
        assert!(V::decode(&row[..row.len() - 1]).is_err(), "a row that is cut short is refused");
    }

    #[test]
    fn watermarks_of_an_earlier_version_have_no_times() {
        let state = DeliveryState::from(Watermarks { delivered: Sequence(500), read: Sequence(2) });
        assert_eq!(state.encode(), to_bytes(&(500u64, 2u64)));
        assert_eq!(DeliveryState::decode(&to_bytes(&(500u64, 2u64))).unwrap(), state);
    }

    #[test]
    fn every_row_round_trips() {
        let (user_id, name) = (UserId::from_bytes([3; 16]), || "team".to_owned().try_into().unwrap());
        check(user_id);
        check(u64::MAX);
        check(location());
        check(Head::default());
        check(Head::at(&message(), Ttl::from_secs(60), 1_000_000));
        let watermarks = Watermarks { delivered: Sequence(500), read: Sequence(2) };
        check(DeliveryState::from(watermarks));
        check(DeliveryState { watermarks, delivered_at: Some(at(8)), read_at: None });
        check(DeliveryState { watermarks, delivered_at: Some(at(8)), read_at: Some(at(9)) });
        check(Member { muted_until: Some(Timestamp::MAX), ..Member::new(user_id, Role::Admin, at(5)) });
        let receipt = Receipt { message_id: MessageId::from_bytes([1; 16]), sequence: Sequence(9), created_at: at(7) };
        check(SendKey { receipt, fingerprint: [5; 16] });
        check(Chat {
            chat_id: ChatId::from_bytes([2; 16]),
            chat_type: ChatType::Group,
            name: Some(name()),
            created_by: user_id,
            created_at: at(1),
            updated_at: at(2),
            member_count: 1000,
            message_ttl: Ttl::from_secs(31_536_000),
        });
        check(User { last_seen_at: Some(at(1_000_000)), ..user() });
        check(user().tombstone(at(1_000_000)));
        check(User { last_seen_at: Some(at(2_000_000)), ..user().tombstone(at(1_000_000)) });
        for group_invites in [GroupInvites::Contacts, GroupInvites::Nobody] {
            check(User { group_invites, ..user() });
            check(User { group_invites, last_seen_at: Some(at(1_000_000)), ..user() });
        }
        let external = User { phone_number: None, external_id: Some("ada@shop.example".parse().unwrap()), ..user() };
        check(external.clone());
        check(User { last_seen_at: Some(at(1_000_000)), group_invites: GroupInvites::Nobody, ..external });
        check(PendingDeletion { user_id, messages: MessageDisposition::Erase, begun_at: at(9) });
        let session = Session {
            session_id: SessionId::from_bytes([6; 16]),
            user_id,
            device_id: DeviceId::from_bytes([7; 16]),
            created_at: at(1),
            last_active_at: at(2),
            expires_at: at(3),
            current: [8; 32],
            spent: Some(SpentToken { digest: [9; 32], spent_at: at(4), forgiven: true }),
            overtaken: vec![
                TokenChain {
                    current: [10; 32],
                    spent: Some(SpentToken { digest: [9; 32], spent_at: at(4), forgiven: true }),
                },
                TokenChain { current: [11; 32], spent: None },
            ],
        };
        check(Session { spent: None, ..session.clone() });
        check(Session { overtaken: vec![], ..session.clone() });
        check(session);
        check(OneTimeCode {
            pending: Some(PendingCode { digest: [1; 32], expires_at: at(9), tries_left: 4 }),
            locked_until: Some(at(10)),
        });
        check(IdempotentRequest {
            fingerprint: [1; 32],
            reserved: Ulid::from_parts(1, 2),
            begun_at: at(3),
            response: Some(StoredResponse { status: 201, body: vec![1, 2, 3] }),
        });
    }

    #[test]
    fn a_session_from_before_overtaken_tokens_were_kept_is_read() {
        let row = [&[6; 16][..], &[3; 16], &[7; 16], &[1, 2, 3], &[8; 32], &[0]].concat();
        let session = Session::decode(&row).unwrap();
        assert_eq!((session.overtaken.len(), session.encode()), (0, row.clone()));
        assert!(Session::decode(&[&row[..], &[0]].concat()).is_err(), "an empty list is not stored");
    }

    #[test]
    fn a_user_from_before_last_seen_was_kept_is_read() {
        let row = [&[3; 16][..], &[1, 12], b"+15551234567", &[3], b"Ada", &[2, 1, 2]].concat();
        assert_eq!(User::decode(&row).unwrap(), user());
        assert_eq!(user().encode(), row);
        let seen = User { last_seen_at: Some(at(1_000_000)), ..user() };
        assert_eq!(seen.encode(), [&row[..], &[0xc0, 0x84, 0x3d]].concat(), "nothing but its end has changed");
    }

    #[test]
    fn every_row_of_a_notification_round_trips() {
        let (user_id, chat_id) = (UserId::from_bytes([3; 16]), ChatId::from_bytes([2; 16]));
        let device_id = DeviceId::from_bytes([7; 16]);
        let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[5; 16]);
        for target in
            [PushTarget::Webhook("token".to_owned().try_into().unwrap()), PushTarget::WebPush(subscription.unwrap())]
        {
            check(PushDevice { user_id, device_id, target, registered_at: at(300) });
        }
        check(StoredNotice::Pending { from: Sequence(300), due_at: at(1_000_000), attempts: 9 });
        check(StoredNotice::Told { silent_until: at(1_000_000) });
        let event = UndeliveredItem::Event { position: Position(300), event_id: EventId::from_bytes([6; 16]), chat_id };
        let unreadable = UndeliveredItem::Unreadable { position: Position(300) };
        let notification = UndeliveredItem::Notification { user_id, device_id, chat_id, from: Sequence(300) };
        for what in [event, unreadable, notification] {
            let id = DeadLetterId::from_parts(1, 2);
            check(DeadLetter { id, what, attempts: 9, reason: "answered 500".to_owned(), dead_at: at(8) });
        }
    }

    #[test]
    fn every_row_of_blocks_invitations_and_reports_round_trips() {
        let (one, other) = (UserId::from_bytes([3; 16]), UserId::from_bytes([4; 16]));
        let invitation = Invitation::new(ChatId::from_bytes([2; 16]), one, other, at(1_000_000));
        check(invitation);
        check(Invitation { declined_at: Some(at(2_000_000)), ..invitation });
        check(BlockedBy(vec![one]));
        check(BlockedBy(vec![one, other]));
        for nobody in [vec![], vec![one; 3]] {
            let said = format!("{} of two have blocked the other", nobody.len());
            assert_eq!(BlockedBy::decode(&BlockedBy(nobody).encode()).unwrap_err().to_string(), said);
        }
        let text = |text: &str| text.to_owned().try_into().unwrap();
        let bare = Report {
            report_id: ReportId::from_bytes([1; 16]),
            reporter_id: one,
            created_at: at(1),
            reason: ReportReason::Other,
            comment: None,
            user_id: None,
            chat_id: None,
            message_id: None,
            evidence: None,
            resolution: None,
        };
        check(bare.clone());
        check(Report {
            reason: ReportReason::Spam,
            comment: Some(text("Grüße")),
            user_id: Some(other),
            chat_id: Some(ChatId::from_bytes([2; 16])),
            message_id: Some(MessageId::from_bytes([1; 16])),
            evidence: Some(message().into()),
            resolution: Some(Resolution { resolved_at: at(9), note: text("warned") }),
            ..bare
        });
    }

    #[test]
    fn a_row_of_a_passkey_round_trips_and_is_bounded() {
        let bare = Passkey {
            passkey_id: PasskeyId::from_bytes([1; 16]),
            user_id: UserId::from_bytes([3; 16]),
            credential_id: vec![7; 32].try_into().unwrap(),
            public_key: vec![8; 77],
            sign_count: 0,
            is_backup_eligible: false,
            is_backed_up: false,
            name: "Phone".to_owned().try_into().unwrap(),
            created_at: at(1),
            last_used_at: None,
        };
        check(bare.clone());
        let used = Passkey { sign_count: u32::MAX, is_backup_eligible: true, last_used_at: Some(at(300)), ..bare };
        check(used.clone());
        let long = Passkey { public_key: vec![8; 1025], ..used };
        assert_eq!(Passkey::decode(&long.encode()).unwrap_err().to_string(), "a public key of 1025 bytes");
        assert!(CredentialId::decode(&[]).is_err() && CredentialId::decode(&[7; 1024]).is_err());
        assert_eq!(CredentialId::decode(&[7; 32]).unwrap(), long.credential_id);
    }

    #[test]
    fn a_life_that_no_message_may_have_is_refused() {
        for seconds in [0, 31_536_001] {
            assert_eq!(
                ttl_from_row(Some(seconds)).unwrap_err().to_string(),
                format!("a message cannot live for {seconds} seconds")
            );
        }
    }

    #[test]
    fn a_head_that_no_message_could_follow_is_refused() {
        let row = Head { sequence: Sequence(u64::MAX), ..Head::default() }.encode();
        let said = "a chat cannot hold 18446744073709551615 messages";
        assert_eq!(Head::decode(&row).unwrap_err().to_string(), said);
        assert_eq!(HeadSummary::decode(&row).unwrap_err().to_string(), said);
    }

    #[test]
    fn a_message_round_trips_without_its_place() {
        let row = encode_message(&message());
        assert_eq!(decode_message(location(), &row).unwrap(), message());

        let metadata: Metadata = r#"{"a":"é"}"#.to_owned().try_into().unwrap();
        let rich = Message { body: message().body.with_metadata(Some(metadata.clone())), ..message() };
        let longer = encode_message(&rich);
        assert_eq!(longer, [&row, metadata.as_str().as_bytes()].concat(), "metadata is the end of a row");
        assert_eq!(decode_message(location(), &longer).unwrap(), rich);
        assert_eq!(Glance::decode(&longer).unwrap(), Glance::decode(&row).unwrap());
        assert!(decode_message(location(), &longer[..longer.len() - 1]).is_err(), "a part of it is no object");
    }

    #[test]
    fn a_row_keeps_the_spelling_of_the_senders_id() {
        let id = message().client_message_id;
        let spelled: ClientMessageId = id.to_string().to_uppercase().parse().unwrap();
        for state in [MessageState::default(), MessageState { revision: Sequence(301), ..MessageState::default() }] {
            let spelled = Message { client_message_id: spelled, state, ..message() };
            let row = encode_message(&spelled);
            let read = decode_message(location(), &row).unwrap();
            assert_eq!((read.client_message_id.to_string(), &read), (spelled.client_message_id.to_string(), &spelled));
            assert_eq!(Glance::decode(&row).unwrap(), Glance::decode(&encode_message(&message())).unwrap());
        }
        let braced: ClientMessageId = format!("{{{id}}}").parse().unwrap();
        let update = MessageUpdate { client_message_id: braced, ..update(UpdateKind::Edited) };
        let row = encode_update(&update);
        assert_eq!(decode_update(location(), &row).unwrap().client_message_id.to_string(), braced.to_string());
        let usual = encode_update(&MessageUpdate { client_message_id: id, ..update });
        let no_spelling = [&usual[..], &to_bytes(&(4u64 << 32))].concat();
        assert!(decode_update(location(), &no_spelling).is_err());
    }

    const THUMB: [u8; 5] = [4, 0xf0, 0x9f, 0x91, 0x8d];

    fn thumb() -> Reaction {
        "👍".parse().unwrap()
    }

    fn update(kind: UpdateKind) -> MessageUpdate {
        MessageUpdate {
            update_id: MessageId::from_bytes([1; 16]),
            chat_id: location().chat_id,
            sequence: location().sequence,
            user_id: UserId::from_bytes([3; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            target: Sequence(299),
            kind,
            created_at: at(1_000_000),
            expires_at: Some(at(2_000_000)),
        }
    }

    #[test]
    fn an_update_has_its_fields_in_order() {
        for (kind, bytes) in [
            (UpdateKind::Edited, vec![0]),
            (UpdateKind::Deleted, vec![1]),
            (UpdateKind::Reacted(thumb()), [&[2][..], &THUMB].concat()),
            (UpdateKind::Unreacted(thumb()), [&[3][..], &THUMB].concat()),
        ] {
            let start = [&[1; 16][..], &[3; 16], &[4; 16], &[0xab, 2], &bytes, &[0xc0, 0x84, 0x3d]].concat();
            let expiring = update(kind);
            let lasting = MessageUpdate { expires_at: None, ..expiring.clone() };
            for (update, end) in [(expiring, &[1, 0x80, 0x89, 0x7a][..]), (lasting, &[0])] {
                let row = [&start, end].concat();
                assert_eq!(encode_update(&update), row);
                assert_eq!(decode_update(location(), &row).unwrap(), update);
                assert!(decode_update(location(), &[&row[..], &[0]].concat()).is_err(), "trailing bytes are refused");
                assert!(decode_update(location(), &row[..row.len() - 1]).is_err());
            }
        }
    }

    #[test]
    fn the_reactions_of_a_member_are_their_texts() {
        let reactions = vec![thumb(), "+1".parse().unwrap()];
        assert_eq!(reactions.encode(), [&[2][..], &THUMB, &[2], b"+1"].concat());
        check(reactions);
    }

    /// A message that was never updated has the bytes of an earlier version.
    #[test]
    fn the_state_of_a_message_is_before_its_metadata() {
        let state = MessageState {
            revision: Sequence(301),
            edited: Some(Edited { at: at(300), count: 2 }),
            reactions: vec![ReactionCount { reaction: thumb(), count: 300 }],
        };
        let reacted = MessageState { edited: None, ..state.clone() };
        let edited = MessageState { reactions: vec![], ..state.clone() };
        let counts = [&[1][..], &THUMB, &[0xac, 2]].concat();
        for (state, bytes) in [
            (state, [&[0xad, 2, 1, 0xac, 2, 2][..], &counts].concat()),
            (reacted, [&[0xad, 2, 0][..], &counts].concat()),
            (edited, vec![0xad, 2, 1, 0xac, 2, 2, 0]),
        ] {
            let row = encode_message(&message());
            let updated = Message { state, ..message() };
            let longer = encode_message(&updated);
            assert_eq!(longer, [&row[..], &[1], &bytes].concat());
            assert_eq!(decode_message(location(), &longer).unwrap(), updated);
            assert_eq!(Glance::decode(&longer).unwrap(), Glance::decode(&row).unwrap());
            assert!(decode_message(location(), &longer[..longer.len() - 1]).is_err());

            let metadata: Metadata = r#"{"a":"é"}"#.to_owned().try_into().unwrap();
            let rich = Message { body: updated.body.clone().with_metadata(Some(metadata.clone())), ..updated };
            let longest = encode_message(&rich);
            assert_eq!(longest, [&longer, metadata.as_str().as_bytes()].concat());
            assert_eq!(decode_message(location(), &longest).unwrap(), rich);
        }
    }

    #[test]
    fn a_head_above_its_last_message_has_the_sequence_of_the_message_at_its_end() {
        for (changes, bytes) in [(0, &[0][..]), (300, &[0xac, 2])] {
            let at_message = Head::at(&message(), Ttl::from_secs(60), 0);
            let head = Head { sequence: Sequence(301), changes, ..at_message.clone() };
            let row = [&[0xad, 2][..], &at_message.encode()[2..], bytes, &[0xac, 2]].concat();
            assert_eq!(head.encode(), row);
            check(head);
            for last in [0, 301] {
                let row = [&row[..row.len() - 2], &to_bytes(&Sequence(last))].concat();
                assert!(Head::decode(&row).is_err() && HeadSummary::decode(&row).is_err(), "{last} is not below 301");
            }
            let counter = HeadSummary { sequence: Sequence(301), message_ttl: Ttl::from_secs(60), changes };
            assert_eq!(HeadSummary::decode(&row).unwrap(), counter);
        }
    }

    #[test]
    fn an_event_of_an_update_is_its_place_and_its_end() {
        let start = [&[2][..], &[2; 16], &[0xac, 2], &[3; 16], &[4; 16], &[0xc0, 0x84, 0x3d]].concat();
        let expiring = update(UpdateKind::Reacted(thumb()));
        let lasting = MessageUpdate { expires_at: None, ..expiring.clone() };
        for (update, end) in [(expiring, &[1, 0x80, 0x89, 0x7a][..]), (lasting, &[0])] {
            let logged = LoggedMessage {
                location: location(),
                sender_id: update.user_id,
                client_message_id: update.client_message_id,
                created_at: update.created_at,
                origin_connection_id: None,
                expires_at: update.expires_at,
                event_number: Some(EventNumber(300)),
            };
            for message in [None, Some(message())] {
                let event = Event::message_updated(update.clone(), message).numbered(Some(EventNumber(300)));
                let row = [&start, end, &[0xac, 2]].concat();
                assert_eq!(encode_event(&event), row);
                assert_eq!(LogRecord::decode(&row).unwrap(), LogRecord::Update(logged.clone()));
            }
        }
    }

    #[test]
    fn an_event_of_a_message_is_its_place_and_any_other_is_whole() {
        let origin_connection_id = Some(ConnectionId::from_bytes([5; 16]));
        let event = Event::message_persisted(message(), origin_connection_id).numbered(Some(EventNumber(300)));
        let logged = LoggedMessage {
            location: location(),
            sender_id: message().sender_id,
            client_message_id: message().client_message_id,
            created_at: message().created_at,
            origin_connection_id,
            expires_at: None,
            event_number: Some(EventNumber(300)),
        };
        assert_eq!(LogRecord::decode(&encode_event(&event)).unwrap(), LogRecord::Message(logged));

        let (chat_id, changed_by) = (ChatId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let bodies = [
            EventBody::MembershipChanged {
                chat_id,
                user_id: changed_by,
                change: MembershipChange::RoleChanged,
                role: Role::Owner,
                changed_by,
            },
            EventBody::ChatCreated {
                chat_id,
                chat_type: ChatType::Direct,
                name: None,
                created_by: changed_by,
                initial_members: vec![changed_by; 2],
            },
            EventBody::ChatRenamed { chat_id, name: "new".to_owned().try_into().unwrap(), changed_by },
            EventBody::MessageTtlChanged { chat_id, message_ttl: Ttl::from_secs(60), changed_by },
            EventBody::MessageTtlChanged { chat_id, message_ttl: None, changed_by },
            EventBody::MessagesExpired { chat_id, sequences: vec![Sequence(1), Sequence(300)] },
        ];
        for body in bodies {
            let event_id = EventId::from_bytes([6; 16]);
            let event = Event { event_id, event_time: at(8), event_number: Some(EventNumber(300)), body };
            assert_eq!(LogRecord::decode(&encode_event(&event)).unwrap(), LogRecord::Event(event.into()));
        }
    }

    /// The log of a store of version 0.2 has these bytes.
    #[test]
    fn an_event_has_the_bytes_of_version_0_2() {
        let (chat_id, user_id, changed_by) =
            (ChatId::from_bytes([2; 16]), UserId::from_bytes([3; 16]), UserId::from_bytes([4; 16]));
        let check = |body, expected: &[&[u8]]| {
            let event = Event { event_id: EventId::from_bytes([6; 16]), event_time: at(300), event_number: None, body };
            let row = [&[&[1][..], &[6; 16], &[0xac, 2]], expected].concat().concat();
            assert_eq!(encode_event(&event), row);
            assert_eq!(LogRecord::decode(&row).unwrap(), LogRecord::Event(event.into()));
        };
        let changes = [MembershipChange::Added, MembershipChange::Removed, MembershipChange::RoleChanged];
        let roles = [Role::Member, Role::Admin, Role::Owner];
        for (n, (change, role)) in (0..).zip(changes.into_iter().zip(roles)) {
            check(
                EventBody::MembershipChanged { chat_id, user_id, change, role, changed_by },
                &[&[0], &[2; 16], &[3; 16], &[n, n], &[4; 16]],
            );
        }
        let created = |chat_type, name| EventBody::ChatCreated {
            chat_id,
            chat_type,
            name,
            created_by: user_id,
            initial_members: vec![user_id, changed_by],
        };
        let name = || "new".to_owned().try_into().unwrap();
        check(created(ChatType::Direct, None), &[&[1], &[2; 16], &[0, 0], &[3; 16], &[2], &[3; 16], &[4; 16]]);
        check(
            created(ChatType::Group, Some(name())),
            &[&[1], &[2; 16], &[1, 1, 3], b"new", &[3; 16], &[2], &[3; 16], &[4; 16]],
        );
        check(EventBody::ChatRenamed { chat_id, name: name(), changed_by }, &[&[2], &[2; 16], &[3], b"new", &[4; 16]]);
        let ttl = |message_ttl| EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by };
        check(ttl(None), &[&[3], &[2; 16], &[0], &[4; 16]]);
        check(ttl(Ttl::from_secs(60)), &[&[3], &[2; 16], &[1, 60], &[4; 16]]);
        let sequences = vec![Sequence(1), Sequence(300)];
        check(EventBody::MessagesExpired { chat_id, sequences }, &[&[4], &[2; 16], &[2, 1, 0xac, 2]]);

        let origin_connection_id = Some(ConnectionId::from_bytes([5; 16]));
        let sent = encode_event(&Event::message_persisted(message(), origin_connection_id));
        let created_at = &[0xc0, 0x84, 0x3d];
        let row: &[&[u8]] = &[&[0], &[2; 16], &[0xac, 2], &[3; 16], &[4; 16], created_at, &[1], &[5; 16]];
        assert_eq!(sent, row.concat());
    }

    /// A store of version 0.2 has heads and events without a number.
    #[test]
    fn a_number_is_nothing_but_the_end_of_a_row() {
        let head = Head::at(&message(), Ttl::from_secs(60), 0);
        let counted = Head { changes: 300, ..head.clone() };
        assert_eq!(counted.encode(), [&head.encode()[..], &[0xac, 2]].concat());
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
        let renamed = EventBody::ChatRenamed {
            chat_id: ChatId::from_bytes([2; 16]),
            name: "new".to_owned().try_into().unwrap(),
            changed_by: UserId::from_bytes([4; 16]),
        };
        let event_id = EventId::from_bytes([6; 16]);
        let renamed = Event { event_id, event_time: at(300), event_number: None, body: renamed };
        for event in [renamed, Event::message_persisted(message(), None)] {
            let row = encode_event(&event);
            let numbered = encode_event(&event.clone().numbered(Some(EventNumber(300))));
            assert_eq!(numbered, [&row[..], &[0xac, 2]].concat());
            let number = |row: &[u8]| match LogRecord::decode(row).unwrap() {
                LogRecord::Message(logged) | LogRecord::Update(logged) => logged.event_number,
                LogRecord::Event(event) => event.event_number,
            };
            assert_eq!((number(&row), number(&numbered)), (None, Some(EventNumber(300))));
            assert!(LogRecord::decode(&numbered[..numbered.len() - 1]).is_err(), "a part of a number is none");
        }
    }

    #[test]
    fn a_head_gives_its_counter_without_the_rest() {
        for message_ttl in [None, Ttl::from_secs(60)] {
            let counter = HeadSummary { sequence: Sequence(300), message_ttl, changes: 4 };
            assert_eq!(HeadSummary::decode(&Head::at(&message(), message_ttl, 4).encode()).unwrap(), counter);
        }
    }

    #[test]
    fn a_message_gives_its_sender_and_its_end_without_the_rest() {
        for expires_at in [None, Some(at(2_000_000))] {
            let message = Message { expires_at, ..message() };
            let glance = Glance { sender_id: message.sender_id, expires_at };
            assert_eq!(Glance::decode(&encode_message(&message)).unwrap(), glance);
        }
    }
}
