//! Histories of one chat as scripts, one entry per line.
//!
//! | line | entry |
//! |---|---|
//! | `ann1 sends a [ttl 5] [unordered]` | the content and the client message id are `a` |
//! | `ann1 updates a` | as `sends`, an update of a message |
//! | `ann1 editing a b` | the message `a` may have the content `b` |
//! | `ann1 deleting 1` | |
//! | `ann1 acked a 1 [as x]` | as message `a`, or as another one |
//! | `ann1 refused a NOT_A_MEMBER` | |
//! | `bob1 shows a 1 [as x] [saying y] [by eve]` | by its sender, or by another user |
//! | `bob1 starts [0]`, `stops`, `connects k`, `drops` | |
//! | `ann1 joining bob`, `joined`, `leaving`, `left` | |
//! | `bob1 syncs 0`, `bob1 synced 0 2 [last] a=1 b=2` | from above 0, through 2 |
//! | `bob1 asks`, `bob1 shown 2 1 1 1` | head, delivered, read, unread |
//! | `bob1 marks 2 1` | delivered, read |
//! | `reader stored 0 2 [last] a=1 b=2` | |
//! | `reader settled` | |
//! | `wait 1000` | advances the time |

use std::collections::BTreeMap;

use domain::{ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, Sequence, UserId};

use super::super::{Checker, Client, Entry, HistoryOp, Page, Seen, fingerprint};
use crate::Findings;

pub(super) fn chat() -> ChatId {
    ChatId::from_bytes([7; 16])
}

/// The 16 bytes of an id, derived from a name.
pub(super) fn bytes(name: &str) -> [u8; 16] {
    u128::from(fingerprint(name)).to_be_bytes()
}

/// The user is the name without its digit.
pub(super) fn client(name: &str) -> Client {
    let user = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Client { user_id: UserId::from_bytes(bytes(user)), device_id: DeviceId::from_bytes(bytes(name)) }
}

/// The findings of a script.
pub(super) fn check(script: &str) -> Findings {
    let mut checker = Checker::new();
    for entry in entries(script) {
        checker.observe(&entry);
    }
    checker.finish()
}

pub(super) fn entries(script: &str) -> Vec<Entry> {
    let mut senders = BTreeMap::new();
    let mut at = 0;
    let mut entries = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["wait", millis] = *words {
            at += millis.parse::<u64>().unwrap();
            continue;
        }
        let client = client(words[0]);
        if let ["sends" | "updates", name, ..] = words[1..] {
            senders.entry(name.to_owned()).or_insert(client.user_id);
        }
        let op = op(client, &words[1..], at, &senders).unwrap_or_else(|| panic!("`{line}` is no entry"));
        entries.push(Entry { at, client, op });
    }
    entries
}

fn op(client: Client, words: &[&str], at: u64, senders: &BTreeMap<String, UserId>) -> Option<HistoryOp> {
    let chat_id = chat();
    let user = |name: &str| UserId::from_bytes(bytes(name));
    Some(match *words {
        ["sends", name, ref rest @ ..] => HistoryOp::SendBegan {
            chat_id,
            client_message_id: send_id(name),
            content: fingerprint(option(rest, "saying").unwrap_or(name)),
            ttl_seconds: option(rest, "ttl").map(|ttl| ttl.parse().unwrap()),
            ordered: !rest.contains(&"unordered"),
        },
        ["updates", name, ref rest @ ..] => HistoryOp::UpdateBegan {
            chat_id,
            client_message_id: send_id(name),
            content: fingerprint(name),
            ttl_seconds: option(rest, "ttl").map(|ttl| ttl.parse().unwrap()),
            ordered: !rest.contains(&"unordered"),
        },
        ["editing", name, content] => {
            HistoryOp::Editing { chat_id, client_message_id: send_id(name), content: fingerprint(content) }
        }
        ["deleting", at] => HistoryOp::Deleting { chat_id, sequence: sequence(at) },
        ["acked", name, at, ref rest @ ..] => HistoryOp::SendAcked {
            chat_id,
            client_message_id: send_id(name),
            message_id: message_id(option(rest, "as").unwrap_or(name)),
            sequence: sequence(at),
        },
        ["refused", name, code] => {
            HistoryOp::SendFailed { chat_id, client_message_id: send_id(name), code: code.to_owned() }
        }
        ["shows", name, at, ref rest @ ..] => {
            HistoryOp::Rendered { chat_id, message: seen(client, name, sequence(at), rest, senders) }
        }
        ["starts"] => HistoryOp::Restarted { positions: vec![] },
        ["starts", at] => HistoryOp::Restarted { positions: vec![(chat_id, sequence(at))] },
        ["stops"] => HistoryOp::Stopped,
        ["connects", name] => HistoryOp::Connected { connection: ConnectionId::from_bytes(bytes(name)) },
        ["drops"] => HistoryOp::Disconnected,
        ["joining", name] => HistoryOp::Joining { chat_id, user_id: user(name) },
        ["joined", name] => HistoryOp::Joined { chat_id, user_id: user(name) },
        ["leaving", name] => HistoryOp::Leaving { chat_id, user_id: user(name) },
        ["left", name] => HistoryOp::Left { chat_id, user_id: user(name) },
        ["erases"] => HistoryOp::Erasing { user_id: client.user_id },
        ["syncs", after] => HistoryOp::SyncBegan { chat_id, after: sequence(after) },
        ["synced", ref rest @ ..] => HistoryOp::SyncDone { chat_id, page: page(client, rest, senders) },
        ["asks"] => HistoryOp::Asked { chat_id },
        ["shown", head, delivered, read, unread] => HistoryOp::Shown {
            chat_id,
            head: sequence(head),
            delivered: sequence(delivered),
            read: sequence(read),
            unread: unread.parse().unwrap(),
        },
        ["marks", delivered, read] => {
            HistoryOp::Marked { chat_id, delivered: sequence(delivered), read: sequence(read) }
        }
        ["stored", ref rest @ ..] => HistoryOp::Stored { chat_id, began_at: at, page: page(client, rest, senders) },
        ["settled"] => HistoryOp::Settled,
        _ => return None,
    })
}

fn page(client: Client, words: &[&str], senders: &BTreeMap<String, UserId>) -> Page {
    let messages = words[2..].iter().filter_map(|word| word.split_once('='));
    Page {
        after: sequence(words[0]),
        through: sequence(words[1]),
        is_last: words.contains(&"last"),
        messages: messages.map(|(name, at)| seen(client, name, sequence(at), &[], senders)).collect(),
    }
}

fn seen(client: Client, name: &str, at: Sequence, rest: &[&str], senders: &BTreeMap<String, UserId>) -> Seen {
    let by = option(rest, "by").map(|name| UserId::from_bytes(bytes(name)));
    let sender_id = by.or_else(|| senders.get(name).copied()).unwrap_or_else(|| UserId::from_bytes(bytes("nobody")));
    Seen {
        sequence: at,
        message_id: message_id(option(rest, "as").unwrap_or(name)),
        sender_id,
        client_message_id: (sender_id == client.user_id).then(|| send_id(name)),
        content: fingerprint(option(rest, "saying").unwrap_or(name)),
    }
}

/// The word after another.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == name).map(|location| words[location + 1])
}

pub(super) fn send_id(name: &str) -> ClientMessageId {
    ClientMessageId::from_bytes(bytes(name))
}

pub(super) fn message_id(name: &str) -> MessageId {
    MessageId::from_bytes(bytes(name))
}

fn sequence(text: &str) -> Sequence {
    Sequence(text.parse().unwrap())
}
