//! A small run for the tests of this module: a push is lost with its gateway, and no resync repairs it.

use std::time::Duration;

use domain::{Invariant, Sequence};

use crate::trace::{RunTrace, TraceActor, TraceEntry, TraceEvent};

pub(super) mod ids {
    use domain::{ChatId, UserId};

    pub(crate) fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n + 1; 16])
    }

    pub(crate) fn user(n: u8) -> UserId {
        UserId::from_bytes([n + 101; 16])
    }
}

/// Ann writes to Bob from her phone. Her laptop and Bob get the first message; Bob never gets the second.
pub(super) fn sample() -> RunTrace {
    let (ann, bob) = (ids::user(0), ids::user(1));
    let (group, direct) = (ids::chat(0), ids::chat(1));
    let process = |name: &str| TraceActor::Process(name.to_owned());
    let client = |name: &str| TraceActor::Client(name.to_owned());
    let (gateway, fanout) = ("gateway 0", process("fanout 0"));
    let connected = || TraceEvent::Connected { gateway: gateway.to_owned() };
    let sending = |chat_id, send: &str| TraceEvent::Sending { chat_id, send: send.to_owned() };
    let acked = |send: &str, sequence, deduplicated| {
        let (send, sequence) = (send.to_owned(), Sequence(sequence));
        TraceEvent::Acked { chat_id: group, send, sequence, deduplicated }
    };
    let committed = |sequence| TraceEvent::Committed { chat_id: group, sequence: Sequence(sequence), sender_id: ann };
    let published = |sequence| TraceEvent::Published { chat_id: group, sequence: Sequence(sequence) };
    let pushed = |sequence| TraceEvent::Pushed {
        chat_id: group,
        sequence: Sequence(sequence),
        gateway: gateway.to_owned(),
        recipients: vec![ann, bob],
    };
    let rendered = |sequence| TraceEvent::Rendered { chat_id: group, sequence: Sequence(sequence), sender_id: ann };
    let lost = TraceEvent::Violated {
        invariant: Invariant::NoSilentLoss,
        detail: format!("`bob/0` never shows 2 of {group} <by {ann}>"),
    };
    let happened = vec![
        (0, process(gateway), TraceEvent::Started),
        (1, fanout.clone(), TraceEvent::Started),
        (10, TraceActor::Store, TraceEvent::Members { chat_id: group, user_id: ann, joined: true }),
        (10, TraceActor::Store, TraceEvent::Members { chat_id: group, user_id: bob, joined: true }),
        (200, client("ann/0"), connected()),
        (210, client("ann/1"), connected()),
        (220, client("bob/0"), connected()),
        (230, client("bob/0"), TraceEvent::Seen { user_id: ann, view: "Online".to_owned() }),
        (1000, client("ann/0"), sending(group, "#1")),
        (1002, TraceActor::Store, committed(1)),
        (1003, client("ann/0"), acked("#1", 1, false)),
        (1005, TraceActor::Log, published(1)),
        (1006, fanout.clone(), pushed(1)),
        (1008, client("ann/1"), rendered(1)),
        (1009, client("bob/0"), rendered(1)),
        (1500, client("bob/0"), TraceEvent::Marked { chat_id: group, read: true, sequence: Sequence(1) }),
        (1800, client("bob/0"), sending(direct, "#2")),
        (
            1801,
            client("bob/0"),
            TraceEvent::Failed { chat_id: direct, send: "#2".to_owned(), code: "NOT_A_MEMBER".to_owned() },
        ),
        (2000, client("ann/0"), sending(group, "#3")),
        (2002, TraceActor::Store, committed(2)),
        (2003, TraceActor::Nemesis, TraceEvent::Fault("Kill { process: 0, back_after: 3s }".to_owned())),
        (2003, process(gateway), TraceEvent::Killed),
        (2004, client("ann/0"), TraceEvent::Disconnected { how: "Lost".to_owned() }),
        (2004, client("ann/1"), TraceEvent::Disconnected { how: "Lost".to_owned() }),
        (2004, client("bob/0"), TraceEvent::Disconnected { how: "Lost".to_owned() }),
        (2010, TraceActor::Log, published(2)),
        (5003, process(gateway), TraceEvent::Started),
        (5200, client("ann/0"), connected()),
        (5201, client("ann/0"), sending(group, "#3")),
        (5203, client("ann/0"), acked("#3", 2, true)),
        (5300, client("ann/1"), connected()),
        (5310, client("ann/1"), rendered(2)),
        (5400, client("bob/0"), connected()),
        (6000, client("ann/0"), TraceEvent::Called { what: format!("GET /chats/{group}"), answer: "200".to_owned() }),
        (7000, client("ann/1"), TraceEvent::Expired { chat_id: group, sequences: vec![Sequence(1), Sequence(2)] }),
        (8000, fanout, TraceEvent::Drained),
        (9000, TraceActor::Store, TraceEvent::Members { chat_id: group, user_id: bob, joined: false }),
        (95_000, TraceActor::Checker, lost),
    ];
    let entry = |(millis, actor, what)| TraceEntry { at: Duration::from_millis(millis), actor, what };
    let mut trace = RunTrace { entries: happened.into_iter().map(entry).collect(), ..RunTrace::default() };
    for (user_id, name) in [(ann, "ann"), (bob, "bob")] {
        trace.names.name_user(user_id, name);
    }
    for (chat_id, name) in [(group, "group 0"), (direct, "direct 1")] {
        trace.names.name_chat(chat_id, name);
    }
    trace
}
