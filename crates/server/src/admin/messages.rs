use axum::Json;
use axum::extract::{Path, State};
use domain::{Message, MessageId, Sequence, Timestamp};
use protocol::ErrorCode;
use serde_json::{Value, json};
use ulid::Ulid;

use super::chats::{known, without_content};
use super::error::AdminError;
use super::standing::{Connectivity, MemberStatus, standings};
use super::{AdminState, parse};

/// Most members named in the summary. The list in the response has all of them.
const NAMED_MAX: usize = 5;

/// The delivery state of a message for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberDelivery {
    Sender,
    Read,
    Delivered,
    /// The member joined later and finds the message in the history.
    JoinedLater,
    PendingChange,
}

impl MemberDelivery {
    fn of(standing: &MemberStatus, message: &Message) -> Self {
        if standing.member.user_id == message.sender_id {
            Self::Sender
        } else if standing.member.joined_at > message.created_at {
            Self::JoinedLater
        } else if standing.watermarks.read >= message.sequence {
            Self::Read
        } else if standing.watermarks.delivered >= message.sequence {
            Self::Delivered
        } else {
            Self::PendingChange
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Read => "read",
            Self::Delivered => "delivered",
            Self::JoinedLater => "joined_later",
            Self::PendingChange => "waiting",
        }
    }
}

/// Explains where a message is: a summary in plain words, and the facts that support it.
pub(super) async fn message(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, AdminError> {
    let (records, message_id) = (admin.records()?, parse(&id)?);
    let now = records.now();
    let message = records.messages.by_id(message_id, now).await?.ok_or_else(|| not_found(message_id))?;
    let (chat, head) = known(records, message.chat_id).await?;
    let published = records.published(message.chat_id, head.sequence).await?;
    let members = standings(&admin, records, message.chat_id).await?;
    let sender_name = records.names(&[message.sender_id]).await?.pop().unwrap_or_default();

    let reaches: Vec<(&MemberStatus, MemberDelivery)> =
        members.iter().map(|standing| (standing, MemberDelivery::of(standing, &message))).collect();
    let count = |wanted: &[MemberDelivery]| reaches.iter().filter(|(_, reach)| wanted.contains(reach)).count();
    let member = |(standing, reach): &(&MemberStatus, MemberDelivery)| {
        let mut body = standing.body();
        body["reach"] = reach.as_str().into();
        body["reason"] =
            (*reach == MemberDelivery::PendingChange).then(|| why(standing, &message, published, now)).into();
        body
    };
    Ok(Json(json!({
        "message": without_content(&message, &sender_name),
        "chat": { "type": chat.chat_type, "name": chat.name.as_ref().map(|name| name.as_str()) },
        "head_sequence": head.sequence,
        "published_sequence": published,
        "in_log": message.sequence <= published,
        "others_count": count(&[MemberDelivery::Read, MemberDelivery::Delivered, MemberDelivery::PendingChange]),
        "delivered_count": count(&[MemberDelivery::Read, MemberDelivery::Delivered]),
        "read_count": count(&[MemberDelivery::Read]),
        "answer": answer(&message, published, &reaches, now),
        "members": reaches.iter().map(member).collect::<Vec<_>>(),
    })))
}

fn not_found(message_id: MessageId) -> AdminError {
    let made_at = Timestamp::from_millis(Ulid::from_bytes(message_id.to_bytes()).timestamp_ms());
    let message = format!(
        "no message `{message_id}` can be read: it has expired, or none was ever committed. Its id was made at {made_at}"
    );
    AdminError::new(ErrorCode::NotFound, message)
}

/// The summary in plain words.
fn answer(
    message: &Message,
    published: Sequence,
    reaches: &[(&MemberStatus, MemberDelivery)],
    now: Timestamp,
) -> String {
    let count = |wanted: &[MemberDelivery]| reaches.iter().filter(|(_, reach)| wanted.contains(reach)).count();
    let others = count(&[MemberDelivery::Read, MemberDelivery::Delivered, MemberDelivery::PendingChange]);
    let (delivered, read) = (count(&[MemberDelivery::Read, MemberDelivery::Delivered]), count(&[MemberDelivery::Read]));
    let mut words = format!("It was committed at {} as message {} of its chat", message.created_at, message.sequence);
    words += if message.sequence <= published { ", and is in the log. " } else { ", and is not in the log yet. " };
    if others == 0 {
        words += "No other member from that time is still in the chat.";
        return words;
    }
    words += &match (delivered, read) {
        (0, _) => format!("It has reached none of {others} other {}.", members(others)),
        _ if read == others => format!("All {others} other {} have read it.", members(others)),
        _ if delivered == others => {
            format!("It has reached all {others} other {}, of whom {read} have read it.", members(others))
        }
        _ => format!("It has reached {delivered} of {others} other members, of whom {read} have read it."),
    };
    let waiting: Vec<&MemberStatus> = reaches
        .iter()
        .filter(|(_, reach)| *reach == MemberDelivery::PendingChange)
        .map(|(standing, _)| *standing)
        .collect();
    for standing in waiting.iter().take(NAMED_MAX) {
        words += &format!(" {}: {}.", standing.name, why(standing, message, published, now));
    }
    if waiting.len() > NAMED_MAX {
        words += &format!(" And {} more.", waiting.len() - NAMED_MAX);
    }
    words
}

fn members(count: usize) -> &'static str {
    if count == 1 { "member" } else { "members" }
}

/// Why a message has not reached a member.
fn why(standing: &MemberStatus, message: &Message, published: Sequence, now: Timestamp) -> String {
    match &standing.link {
        Connectivity::Connected { .. } if message.sequence > published => {
            "connected, but nothing is pushed before it is in the log".to_owned()
        }
        Connectivity::Connected { since: Some(since), .. } if *since > message.created_at => {
            format!("connected since {since}, after it was sent, and has not synced this chat yet")
        }
        Connectivity::Connected { since: Some(since), .. } => {
            format!("connected since {since}, but the client has not confirmed that it has it")
        }
        Connectivity::Connected { since: None, .. } => {
            "connected, but the client has not confirmed that it has it".to_owned()
        }
        Connectivity::Away { since } => {
            let away = match since {
                Some(since) => format!("not connected since {since}"),
                None => "has never been connected".to_owned(),
            };
            match standing.push_devices {
                0 => format!("{away}, and no device is registered for notifications"),
                _ if standing.is_muted(now) => format!("{away}, and has muted the chat, so no device is notified"),
                1 => format!("{away}; 1 device is notified"),
                devices => format!("{away}; {devices} devices are notified"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ChatId, ClientMessageId, Content, ContentType, Member, Role, UserId, Watermarks};
    use expect_test::{Expect, expect};
    use ports::GatewayId;

    use super::*;

    fn message() -> Message {
        Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(7),
            sender_id: UserId::from_bytes([0; 16]),
            client_message_id: ClientMessageId::from_bytes([3; 16]),
            body: Body::new(Content::try_from("hush".to_owned()).unwrap(), ContentType::Text),
            created_at: Timestamp::from_millis(60_000),
            expires_at: None,
            state: domain::MessageState::default(),
        }
    }

    fn member(n: u8, delivered: u64, read: u64, link: Connectivity) -> MemberStatus {
        MemberStatus {
            member: Member::new(UserId::from_bytes([n; 16]), Role::Member, Timestamp::from_millis(1)),
            name: format!("Member {n}"),
            watermarks: Watermarks { delivered: Sequence(delivered), read: Sequence(read) },
            link,
            push_devices: 0,
        }
    }

    fn away(since: Option<u64>) -> Connectivity {
        Connectivity::Away { since: since.map(Timestamp::from_millis) }
    }

    fn there(since: u64) -> Connectivity {
        Connectivity::Connected {
            gateways: vec![GatewayId("local".into())],
            since: Some(Timestamp::from_millis(since)),
        }
    }

    fn check(published: u64, members: &[MemberStatus], expected: Expect) {
        let message = message();
        let reaches: Vec<_> =
            members.iter().map(|standing| (standing, MemberDelivery::of(standing, &message))).collect();
        expected.assert_eq(&answer(&message, Sequence(published), &reaches, Timestamp::from_millis(90_000)));
    }

    #[test]
    fn the_summary_lists_reached_and_unreached_members_with_reasons() {
        let sender = || member(0, 7, 7, there(1));
        check(
            7,
            &[sender(), member(1, 7, 7, there(1)), member(2, 9, 2, away(Some(80_000)))],
            expect![
                "It was committed at 1970-01-01T00:01:00.000Z as message 7 of its chat, and is in the log. It has reached all 2 other members, of whom 1 have read it."
            ],
        );
        check(
            9,
            &[sender(), member(1, 6, 6, away(Some(5_000))), member(2, 7, 7, there(1))],
            expect![
                "It was committed at 1970-01-01T00:01:00.000Z as message 7 of its chat, and is in the log. It has reached 1 of 2 other members, of whom 1 have read it. Member 1: not connected since 1970-01-01T00:00:05.000Z, and no device is registered for notifications."
            ],
        );
        check(
            6,
            &[sender(), member(1, 6, 6, there(1))],
            expect![
                "It was committed at 1970-01-01T00:01:00.000Z as message 7 of its chat, and is not in the log yet. It has reached none of 1 other member. Member 1: connected, but nothing is pushed before it is in the log."
            ],
        );
        check(
            7,
            &[sender()],
            expect![
                "It was committed at 1970-01-01T00:01:00.000Z as message 7 of its chat, and is in the log. No other member from that time is still in the chat."
            ],
        );
    }

    #[test]
    fn a_member_who_joined_later_does_not_count_as_unreached() {
        let mut later = member(1, 9, 9, there(70_000));
        later.member.joined_at = Timestamp::from_millis(70_000);
        assert_eq!(MemberDelivery::of(&later, &message()), MemberDelivery::JoinedLater);
    }

    #[test]
    fn each_reason_has_its_words() {
        let why = |standing: &MemberStatus| why(standing, &message(), Sequence(7), Timestamp::from_millis(90_000));
        let mut muted = member(1, 0, 0, away(None));
        muted.push_devices = 2;
        assert_eq!(why(&muted), "has never been connected; 2 devices are notified");
        muted.member.muted_until = Some(Timestamp::MAX);
        assert_eq!(why(&muted), "has never been connected, and has muted the chat, so no device is notified");
        assert_eq!(
            why(&member(1, 0, 0, there(70_000))),
            "connected since 1970-01-01T00:01:10.000Z, after it was sent, and has not synced this chat yet"
        );
        assert_eq!(
            why(&member(1, 0, 0, there(50_000))),
            "connected since 1970-01-01T00:00:50.000Z, but the client has not confirmed that it has it"
        );
    }
}
