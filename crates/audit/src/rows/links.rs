use domain::{ChatType, Invariant, Sequence};
use ports::{ListingRows, PairRows, SendKeyRows};

use super::RowChecks;

/// Checks a row that lists a chat for a user.
pub(crate) fn listing(look: &mut RowChecks, rows: &ListingRows) {
    let ListingRows { user_id, chat_id, is_member } = rows;
    look.check(Invariant::OnlyMembersReceive, *is_member, || {
        (format!("{user_id} in {chat_id}"), "the chat is listed for a user who is not a member".to_owned())
    });
}

/// Checks the row of a direct chat's pair of users.
pub(crate) fn pair(look: &mut RowChecks, rows: &PairRows) {
    let PairRows { pair, chat_id, chat_type, members } = rows;
    let [one, other] = pair.users();
    let leads_to_theirs = *chat_type == Some(ChatType::Direct) && members[..] == [one, other];
    look.check(Invariant::DirectChatUniqueness, leads_to_theirs, || {
        let wrong = match chat_type {
            None => format!("their chat `{chat_id}` is not there"),
            Some(ChatType::Group) => format!("their chat `{chat_id}` is a group"),
            Some(ChatType::Direct) => format!("their chat `{chat_id}` is that of others"),
        };
        (format!("the pair of {one} and {other}"), wrong)
    });
}

/// Checks a send key. If its entry is missing, the check of the log decides whether that is a violation.
pub(crate) fn send_key(look: &mut RowChecks, rows: &SendKeyRows) {
    let SendKeyRows { chat_id, sender_id, client_message_id, receipt, entry, head } = rows;
    let (message_id, sequence) = (receipt.message_id, receipt.sequence);
    let subject = || format!("the send {client_message_id} of {sender_id} in {chat_id}");
    look.check(Invariant::NoZeroSequence, sequence > Sequence::ZERO, || {
        (subject(), "its key names sequence 0".to_owned())
    });
    if let Some(head) = head {
        look.check(Invariant::CounterLowerBound, sequence <= *head, || {
            (subject(), format!("its sender was told sequence {sequence}, and the head of the chat is at {head}"))
        });
    }
    let Some(entry) = entry else { return };
    look.check(Invariant::SequenceUniqueness, entry.message_id == message_id, || {
        let other = entry.message_id;
        (format!("{chat_id} sequence {sequence}"), format!("it was given to {message_id}, and {other} is stored there"))
    });
    let is_the_send = (entry.sender_id, entry.client_message_id) == (*sender_id, *client_message_id);
    let names_it = entry.message_id == message_id && is_the_send;
    look.check(Invariant::IdempotencySequenceConsistency, names_it, || {
        (subject(), format!("its key names sequence {sequence}, where the entry of another send is stored"))
    });
}
