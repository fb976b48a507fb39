use domain::limits::GROUP_MEMBERS_MAX;
use domain::{Chat, ChatId, ChatType, Invariant, Message, Role, Sequence, Timestamp};
use ports::{AuditedChatRows, AuditedChatState, Head, IndexedLocation, ListingState, MemberRows, MessageRows};

use super::RowChecks;

/// Checks a chat, its members and its head.
pub(crate) fn chat(rows: &AuditedChatRows, bytes_max: usize, overdue_before: Timestamp) -> RowChecks {
    let mut look = RowChecks::default();
    let chat_id = &rows.chat.key;
    let chat = look.sound(&rows.chat, bytes_max);
    look.check(Invariant::CounterMustExist, rows.head.is_some(), || {
        (chat_id.clone(), "it has no head row: its sends are refused until `tidings store recover-counter`".to_owned())
    });
    let head = rows.head.as_ref().and_then(|head| look.sound(head, bytes_max));
    for member in &rows.members {
        one_member(&mut look, chat_id, member, head, bytes_max);
    }
    if let Some(chat) = chat {
        membership(&mut look, chat, rows);
    }
    let is_late = rows.waiting_since.is_some_and(|since| since < overdue_before);
    look.check(Invariant::PublishedEventually, !is_late, || {
        let since = rows.waiting_since.map_or_else(String::new, |since| since.to_string());
        (chat_id.clone(), format!("something of it has waited for the log since {since}"))
    });
    look
}

fn membership(look: &mut RowChecks, chat: &Chat, rows: &AuditedChatRows) {
    let Chat { chat_id, member_count, .. } = chat;
    let members = rows.members.len();
    match chat.chat_type {
        ChatType::Group => {
            look.check(Invariant::GroupSizeBounded, members <= GROUP_MEMBERS_MAX, || {
                (chat_id.to_string(), format!("it has {members} members, and {GROUP_MEMBERS_MAX} is the most"))
            });
            if members > 0 {
                let is_owner = |rows: &MemberRows| rows.member.row.as_ref().is_ok_and(|it| it.role == Role::Owner);
                look.check(Invariant::OwnerAlwaysExists, rows.members.iter().any(is_owner), || {
                    (chat_id.to_string(), format!("none of its {members} members is its owner"))
                });
            }
        }
        ChatType::Direct => {
            look.check(Invariant::DirectChatUniqueness, rows.pair_leads_to == Some(*chat_id), || {
                let wrong = match rows.pair_leads_to {
                    Some(other) => format!("its two members have another direct chat, `{other}`"),
                    None => "no row of a pair leads to it: the two can open another".to_owned(),
                };
                (chat_id.to_string(), wrong)
            });
        }
    }
    look.check(Invariant::GroupSizeBounded, *member_count as usize == members, || {
        (format!("the count of {chat_id}"), format!("it says {member_count} members, and there are {members} rows"))
    });
}

fn one_member(look: &mut RowChecks, chat_id: &str, rows: &MemberRows, head: Option<&Head>, bytes_max: usize) {
    let user_id = rows.user_id;
    let subject = || format!("{user_id} in {chat_id}");
    look.sound(&rows.member, bytes_max);
    look.check(Invariant::NoSilentLoss, rows.listing != ListingState::Missing, || {
        (subject(), "the chat is not among the chats of this member: no device of theirs syncs it".to_owned())
    });
    look.check(Invariant::StoreIsAuthoritative, rows.listing != ListingState::Different, || {
        (subject(), "the row of the chat and the row of the user say different things".to_owned())
    });
    look.check(Invariant::DeliveryWatermarkMonotonic, rows.watermarks.is_some(), || {
        (subject(), "the watermarks are lost, and count as 0".to_owned())
    });
    let Some(marks) = rows.watermarks.as_ref().and_then(|audited| look.sound(audited, bytes_max)) else { return };
    look.check(Invariant::ReadImpliesDelivered, marks.read <= marks.delivered, || {
        (subject(), format!("read up to {} and delivered up to {}", marks.read, marks.delivered))
    });
    if let Some(head) = head {
        let highest = marks.read.max(marks.delivered);
        look.check(Invariant::WatermarkBoundedByHead, highest <= head.sequence, || {
            (subject(), format!("a watermark is at {highest}, and the head of the chat at {}", head.sequence))
        });
    }
}

/// Context of the rules for messages.
pub(crate) struct Context {
    pub(crate) chat_id: ChatId,
    pub(crate) bytes_max: usize,
    /// State of the chat, read after the rows.
    pub(crate) standing: AuditedChatState,
    /// Messages created since then must have a send key.
    pub(crate) keys_since: Timestamp,
}

/// Checks messages of a chat, ascending from `from` on.
pub(crate) fn messages(rows: &[MessageRows], from: Sequence, context: &Context) -> RowChecks {
    let mut look = RowChecks::default();
    let mut before: Option<Sequence> = None;
    for rows in rows {
        let MessageRows { sequence, .. } = *rows;
        let subject = || format!("{} sequence {sequence}", context.chat_id);
        look.check(Invariant::NoZeroSequence, sequence > Sequence::ZERO, || {
            (subject(), "the first message of a chat is 1".to_owned())
        });
        let ascends = before.map_or(sequence >= from, |before| sequence > before);
        look.check(Invariant::SequenceUniqueness, ascends, || {
            (subject(), "it is stored after the same or a higher one".to_owned())
        });
        before = Some(sequence);
        if let Some(head) = context.standing.head {
            look.check(Invariant::SequenceMonotonicity, sequence <= head, || {
                (subject(), format!("the head of the chat is at {head}"))
            });
        }
        if let Some(message) = look.sound(&rows.message, context.bytes_max) {
            what_leads_to(&mut look, message, rows, context);
        }
    }
    look
}

fn what_leads_to(look: &mut RowChecks, message: &Message, rows: &MessageRows, context: &Context) {
    let Message { message_id, .. } = message;
    let location = (context.chat_id, rows.sequence);
    let subject = || format!("{message_id} at {} sequence {}", location.0, location.1);
    let found = match rows.id_leads_to {
        IndexedLocation::Indexed => true,
        IndexedLocation::Nowhere => false,
        IndexedLocation::To(chat_id, sequence) => (chat_id, sequence) == location,
    };
    look.check(Invariant::StoreIsAuthoritative, found, || {
        let wrong = match rows.id_leads_to {
            IndexedLocation::To(chat_id, sequence) => format!("its id leads to {chat_id} sequence {sequence}"),
            IndexedLocation::Indexed | IndexedLocation::Nowhere => "its id leads nowhere".to_owned(),
        };
        (subject(), wrong)
    });
    if message.created_at >= context.keys_since {
        let key = rows.send_key.map(|receipt| (receipt.message_id, receipt.sequence));
        look.check(Invariant::IdempotencySequenceConsistency, key == Some((*message_id, rows.sequence)), || {
            let wrong = match key {
                Some((id, sequence)) => format!("its send key names {id} at sequence {sequence}"),
                None => "it has no send key: a retry of its send would be a second message".to_owned(),
            };
            (subject(), wrong)
        });
    }
}
