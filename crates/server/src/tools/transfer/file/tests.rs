use std::time::Duration;

use domain::{
    Body, Chat, ChatId, ChatType, ClientMessageId, ContentType, DeliveryState, DeniedToken, DeviceId, DirectPair,
    Edited, GroupInvites, Invitation, Member, Message, MessageId, MessageState, MessageUpdate, Passkey, PasskeyId,
    PresenceVisibility, PushDevice, PushTarget, Reaction, ReactionCount, Restrictions, Role, Sequence, Session,
    SessionId, SpentToken, Suspension, TokenChain, Ttl, UpdateKind, User, UserId, Watermarks, WebPushSubscription,
};
use expect_test::{Expect, expect, expect_file};
use ports::{ExportedSend, Head, LastMessage, MemberReactions, MessageKey, Receipt, UserKey};
use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(seconds)
}

fn text<T: TryFrom<String, Error: std::fmt::Debug>>(text: &str) -> T {
    text.to_owned().try_into().unwrap()
}

/// One row of each kind with all optional fields, and one with none.
fn rows() -> Vec<Moved> {
    let [ann, bob] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
    let (chat_id, message_id) = (ChatId::from_bytes([3; 16]), MessageId::from_bytes([4; 16]));
    let device_id = DeviceId::from_bytes([5; 16]);
    let user = User {
        user_id: ann,
        phone_number: Some("+14155550101".parse().unwrap()),
        external_id: None,
        display_name: text("Ann \"the\" \u{1f600}"),
        presence_visibility: PresenceVisibility::Nobody,
        group_invites: GroupInvites::Everyone,
        created_at: at(0),
        updated_at: at(1),
        last_seen_at: Some(at(2)),
        deleted_at: Some(at(3)),
    };
    let bare = User { user_id: bob, phone_number: None, last_seen_at: None, deleted_at: None, ..user.clone() };
    let external_id = Some("bob".parse().unwrap());
    let linked = User { external_id, ..bare.clone() };
    let asked = User { group_invites: GroupInvites::Contacts, ..bare.clone() };
    let invitation = Invitation::new(chat_id, ann, bob, at(2));
    let external = UserKey::External { issuer: "https://id.example".to_owned(), subject: "bob".parse().unwrap() };
    let session = Session {
        session_id: SessionId::from_bytes([6; 16]),
        user_id: ann,
        device_id,
        created_at: at(0),
        last_active_at: at(1),
        expires_at: at(9),
        current: [7; 32],
        spent: Some(SpentToken { digest: [8; 32], spent_at: at(1), forgiven: true }),
        overtaken: vec![
            TokenChain {
                current: [9; 32],
                spent: Some(SpentToken { digest: [8; 32], spent_at: at(1), forgiven: true }),
            },
            TokenChain { current: [10; 32], spent: None },
        ],
    };
    let passkey = Passkey {
        passkey_id: PasskeyId::from_bytes([13; 16]),
        user_id: ann,
        credential_id: vec![14; 5].try_into().unwrap(),
        public_key: vec![15; 6],
        sign_count: 0,
        is_backup_eligible: true,
        is_backed_up: false,
        name: text("Phone"),
        created_at: at(2),
        last_used_at: None,
    };
    let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[9; 16]).unwrap();
    let device = |target| Moved::PushDevice(PushDevice { user_id: ann, device_id, target, registered_at: at(3) });
    let message = Message {
        message_id,
        chat_id,
        sequence: Sequence(7),
        sender_id: ann,
        client_message_id: ClientMessageId::from_bytes([10; 16]),
        body: Body::new(text("a line\nand another \u{1}"), ContentType::Markdown),
        created_at: at(4),
        expires_at: Some(at(8)),
        state: MessageState::default(),
    };
    let [thumb, heart]: [Reaction; 2] = ["\u{1f44d}", "heart"].map(|text| text.parse().unwrap());
    let state = MessageState {
        revision: Sequence(9),
        edited: Some(Edited { at: at(5), count: 2 }),
        reactions: vec![ReactionCount { reaction: thumb.clone(), count: 3 }],
    };
    let reacted = MessageState { revision: Sequence(8), edited: None, ..state.clone() };
    let update = MessageUpdate {
        update_id: MessageId::from_bytes([16; 16]),
        chat_id,
        sequence: Sequence(8),
        user_id: ann,
        client_message_id: ClientMessageId::from_bytes([17; 16]),
        target: Sequence(7),
        kind: UpdateKind::Reacted(thumb.clone()),
        created_at: at(5),
        expires_at: Some(at(8)),
    };
    let deleted = MessageUpdate { kind: UpdateKind::Deleted, expires_at: None, ..update.clone() };
    let member_reactions = MemberReactions { user_id: bob, reactions: vec![thumb, heart] };
    let message_ttl = Ttl::from_secs(60);
    let group = Chat {
        chat_id,
        chat_type: ChatType::Group,
        name: Some(text("group")),
        created_by: ann,
        created_at: at(0),
        updated_at: at(1),
        member_count: 2,
        message_ttl,
    };
    let direct = Chat { chat_type: ChatType::Direct, name: None, message_ttl: None, ..group.clone() };
    let last = LastMessage { preview: None, expires_at: None, ..Head::at(&message, None, 0).last_message.unwrap() };
    let receipt = Receipt { message_id, sequence: Sequence(7), created_at: at(4) };
    let muted = Member { muted_until: Some(Timestamp::MAX), ..Member::new(ann, Role::Owner, at(0)) };
    let watermarks = Watermarks { delivered: Sequence(7), read: Sequence(6) };
    let delivery_state = DeliveryState { watermarks, delivered_at: Some(at(5)), read_at: Some(at(6)) };
    let new = Member::new(bob, Role::Member, at(0));
    let metadata = Some(r#"{"a":1}"#.to_owned().try_into().unwrap());
    let encrypted = Body { content_type: ContentType::Encrypted, metadata, ..message.body.clone() };
    vec![
        Moved::User(user),
        Moved::User(bare),
        Moved::User(asked),
        Moved::User(linked),
        Moved::UserKey { key: UserKey::Phone("+14155550101".parse().unwrap()), user_id: ann },
        Moved::UserKey { key: external, user_id: bob },
        Moved::Contact { user_id: ann, contact_id: bob },
        Moved::Session(Session { spent: None, overtaken: vec![], ..session.clone() }),
        Moved::Session(Session { overtaken: vec![], ..session.clone() }),
        Moved::Session(session),
        device(PushTarget::Webhook(text("token"))),
        device(PushTarget::WebPush(subscription)),
        Moved::Chat { head: Head::at(&message, message_ttl, 3), chat: group },
        Moved::Chat { chat: direct.clone(), head: Head::default() },
        Moved::Chat {
            chat: direct.clone(),
            head: Head { sequence: Sequence(7), last_message: Some(last.clone()), ..Head::default() },
        },
        Moved::Chat { chat: direct, head: Head { sequence: Sequence(9), last_message: Some(last), ..Head::default() } },
        Moved::Pair { pair: DirectPair::new(ann, bob).unwrap(), chat_id },
        Moved::Member { chat_id, member: muted, delivery_state },
        Moved::Member { chat_id, member: new, delivery_state: DeliveryState::default() },
        Moved::Message(Message { expires_at: None, body: encrypted, ..message.clone() }),
        Moved::Message(Message { state, ..message.clone() }),
        Moved::Message(Message { state: reacted, ..message.clone() }),
        Moved::Message(message.clone()),
        Moved::Send(ExportedSend {
            chat_id,
            sender_id: ann,
            client_message_id: ClientMessageId::from_bytes([10; 16]),
            receipt,
            fingerprint: [11; 16],
        }),
        Moved::Block { user_id: ann, blocked_id: bob },
        Moved::Restriction {
            user_id: bob,
            restrictions: Restrictions {
                suspension: Some(Suspension { since: at(2), reason: Some(text("spam")) }),
                not_before: None,
                denied: vec![DeniedToken { token_id: [12; 32], denied_at: at(4), expires_at: at(8) }],
            },
        },
        Moved::Restriction {
            user_id: ann,
            restrictions: Restrictions { not_before: Some(at(3)), ..Restrictions::default() },
        },
        Moved::Invitation(invitation),
        Moved::Invitation(Invitation { declined_at: Some(at(3)), ..invitation }),
        Moved::Passkey(Passkey { sign_count: 7, last_used_at: Some(at(4)), ..passkey.clone() }),
        Moved::Passkey(passkey),
        Moved::Update(update),
        Moved::Update(deleted),
        Moved::Reactions { message: MessageKey::from(&message), member: member_reactions },
    ]
}

fn file(rows: &[Moved]) -> Vec<u8> {
    let mut writer = ExportWriter::begin(vec![], at(5), "embedded").unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap().0
}

fn read(file: &[u8]) -> anyhow::Result<(Vec<Moved>, Summary)> {
    let mut reader = ExportReader::begin(file)?;
    let mut rows = vec![];
    while let Some(row) = reader.next()? {
        rows.push(row);
    }
    Ok((rows, reader.summary().expect("it is read to its end").clone()))
}

/// The reason for refusing a file.
fn refused(file: &[u8]) -> String {
    match read(file) {
        Ok((rows, _)) => panic!("{} rows of it are accepted", rows.len()),
        Err(refusal) => format!("{refusal:#}").replace(env!("CARGO_PKG_VERSION"), "0.0.0"),
    }
}

#[test]
fn a_file_reads_back_as_written() {
    let file = file(&rows());
    let (read, summary) = read(&file).unwrap();
    assert_eq!(read, rows());
    assert_eq!(summary.rows.values().sum::<u64>(), rows().len() as u64);
    let kinds: std::collections::BTreeSet<_> = rows().iter().map(Moved::kind).collect();
    assert_eq!(kinds.len(), ExportKind::ALL.len(), "every kind is among them");
    assert!(ExportKind::ALL.is_sorted(), "the order of the file is that of the kinds");
}

/// The format is stable: a change of these lines requires a new version.
#[test]
fn lines_have_the_documented_format() {
    let text = String::from_utf8(file(&rows())).unwrap();
    let lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let [header, rows @ .., trailer] = &lines[..] else { panic!("{text}") };
    expect_file!["sample.jsonl"].assert_eq(&rows.concat());
    let header = header.replace(env!("CARGO_PKG_VERSION"), "0.0.0").replace(r#","from""#, ",\n\"from\"");
    expect![[r#"
        {"kind":"header","row":{"format":"tidings-export","version":1,"exported_at":"2023-11-14T22:13:25.000Z",
        "from":"embedded","tidings":"0.0.0"}}
    "#]]
    .assert_eq(&header);
    let (counts, _) = trailer.split_once("sha256").unwrap();
    let counts = counts.replace(r#""message""#, "\n\"message\"");
    expect![[r#"
        {"kind":"trailer","row":{"rows":{"block":1,"chat":4,"contact":1,"invitation":2,"member":2,
        "message":4,"pair":1,"passkey":2,"push_device":2,"reactions":1,"restriction":2,"send":1,"session":3,"update":2,"user":4,"user_key":2},""#]]
    .assert_eq(&counts);
}

/// The documentation names the kinds in the order that an import requires.
#[test]
fn every_kind_is_documented_in_the_order_of_the_file() {
    let page = include_str!("../../../../../../docs/moving.md");
    let (_, section) = page.split_once("\n## The file\n").unwrap();
    let kinds = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(kind, _)| kind);
    let mut documented: Vec<&str> = kinds.collect();
    documented.retain(|kind| !["header", "checksum", "trailer"].contains(kind));
    assert_eq!(documented, ExportKind::ALL.map(ExportKind::name));
}

/// The documentation names every field of the sample rows.
#[test]
fn every_field_is_documented() {
    fn fields(row: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        match row {
            serde_json::Value::Object(row) => row.iter().for_each(|(name, value)| {
                found.insert(name.clone());
                // Its fields are the application's.
                if name != "metadata" {
                    fields(value, found);
                }
            }),
            serde_json::Value::Array(rows) => rows.iter().for_each(|row| fields(row, found)),
            _ => {}
        }
    }
    let page = include_str!("../../../../../../docs/moving.md");
    for row in rows() {
        let kind = row.kind().name();
        let documented = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).unwrap();
        let mut named = std::collections::BTreeSet::new();
        let line = serde_json::to_value(ExportLine::from(&row)).unwrap();
        fields(&line["row"], &mut named);
        for name in named {
            assert!(
                [format!("`{name}`"), format!("\"{name}\"")].iter().any(|name| documented.contains(name)),
                "`{name}` of `{kind}` is not in docs/moving.md"
            );
        }
    }
}

#[test]
fn damage_is_named_by_its_line() {
    let many: Vec<Moved> = (0..2500u16)
        .map(|n| {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&n.to_be_bytes());
            Moved::Contact { user_id: UserId::from_bytes(id), contact_id: UserId::from_bytes([9; 16]) }
        })
        .collect();
    let whole = String::from_utf8(file(&many)).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let with = |line: usize, say: &dyn Fn(&str) -> String| {
        let mut lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        lines[line - 1] = say(&lines[line - 1]);
        refused(lines.concat().as_bytes())
    };
    let check = |said: String, expected: Expect| expected.assert_eq(&said);
    check(
        with(1500, &|line| line.replace("contact_id", "contact_ie")),
        expect!["line 1500: `row.contact_ie` cannot be read, at column 81"],
    );
    check(
        with(1500, &|line| line.replacen("user_0", "user_1", 1)),
        expect!["lines 1003 to 2002: checksum mismatch; one of them is damaged"],
    );
    check(with(1500, &|_| String::new()), expect!["lines 1003 to 2001: checksum mismatch; one of them is damaged"]);
    check(with(1500, &|line| line.repeat(2)), expect!["lines 1003 to 2003: checksum mismatch; one of them is damaged"]);
    check(
        with(2, &|line| line.replace("\"contact\"", "\"contract\"")),
        expect!["line 2: `kind` cannot be read, at column 18"],
    );
    check(with(3, &|line| line.replace('\n', " {}\n")), expect!["line 3: something follows the row, at column 119"]);
    check(
        with(1, &|line| line.replace("tidings-export", "other")),
        expect!["line 1: its format is `other`, and not `tidings-export`"],
    );
    check(
        with(1, &|line| line.replace("\"version\":1", "\"version\":2")),
        expect![
            "line 1: it has version 2, this version of tidings reads version 1; import it with the version that wrote it, `0.0.0`"
        ],
    );
    check(
        with(1, &|_| "hello\n".to_owned()),
        expect!["line 1: it is not a header; choose a file that `tidings store export` has written"],
    );
    check(
        with(lines.len(), &|line| line.replace("2500", "2501")),
        expect!["line 2504: the trailer counts 2501 of kind contact, and there are 2500"],
    );
    check(
        with(lines.len(), &|line| line.replace("{\"contact\"", "{ \"contact\"")),
        expect!["line 2504: the trailer is damaged"],
    );
    check(with(lines.len(), &|line| format!("{line}{{}}\n")), expect!["line 2505: something follows the trailer"]);
    check(
        with(lines.len(), &|_| String::new()),
        expect!["line 2504: the file ends before its trailer; it is truncated"],
    );
    check(with(40, &|line| " ".repeat(LINE_BYTES_MAX) + line), expect!["line 40: it is longer than 65536 bytes"]);
    check(refused(&whole.as_bytes()[..whole.len() - 1]), expect!["line 2504: it is cut off; the file is truncated"]);
    check(refused(b""), expect!["line 1: the file ends before its trailer; it is truncated"]);
}

/// A row that the API would reject is refused with its line number, and without its contents.
#[test]
fn rows_are_checked_as_strictly_as_requests() {
    let refuse = |kind: ExportKind, from: &str, to: &str| {
        let of_kind = rows().into_iter().filter(|row| row.kind() == kind);
        let mut files = of_kind.map(|row| String::from_utf8(file(&[row])).unwrap());
        let text = files.find(|text| text.lines().nth(1).unwrap().contains(from)).unwrap();
        let line = text.lines().nth(1).unwrap();
        let said = refused(text.replace(line, &line.replacen(from, to, 1)).as_bytes());
        assert!(said.starts_with("line 2: "), "{said}");
        said["line 2: ".len()..].to_owned()
    };
    let check = |kind, from: &str, to: &str, expected: Expect| expected.assert_eq(&refuse(kind, from, to));
    check(
        ExportKind::User,
        "+14155550101",
        "14155550101",
        expect!["phone number is not in E.164 form (+ and 7 to 15 digits)"],
    );
    check(ExportKind::User, "nobody", "strangers", expect!["`row.presence_visibility` cannot be read, at column 163"]);
    check(
        ExportKind::UserKey,
        "phone_number",
        "issuer",
        expect!["a key is a `phone_number`, or an `issuer` and a `subject`"],
    );
    check(
        ExportKind::Contact,
        &UserId::from_bytes([2; 16]).to_string(),
        &UserId::from_bytes([1; 16]).to_string(),
        expect!["`user_01040G2081040G2081040G2081` has listed themselves"],
    );
    check(
        ExportKind::Block,
        &UserId::from_bytes([2; 16]).to_string(),
        &UserId::from_bytes([1; 16]).to_string(),
        expect!["`user_01040G2081040G2081040G2081` has blocked themselves"],
    );
    check(
        ExportKind::Invitation,
        &UserId::from_bytes([2; 16]).to_string(),
        &UserId::from_bytes([1; 16]).to_string(),
        expect!["`user_01040G2081040G2081040G2081` has invited themselves"],
    );
    check(ExportKind::Restriction, "\"spam\"", "\"\"", expect!["`suspension.reason`: name is empty"]);
    check(
        ExportKind::Passkey,
        "0e0e",
        "0e0",
        expect!["`credential_id` is not 1 to 1023 bytes in lower-case hexadecimal digits"],
    );
    check(
        ExportKind::Passkey,
        "0f0f0f0f0f0f",
        "",
        expect!["`public_key` is not 1 to 1024 bytes in lower-case hexadecimal digits"],
    );
    check(ExportKind::Passkey, "\"Phone\"", "\" \"", expect!["`name`: name is empty"]);
    check(ExportKind::Session, "0707", "07", expect!["`current` is not 32 bytes in lower-case hexadecimal digits"]);
    check(
        ExportKind::PushDevice,
        "token\":\"token",
        "token\":\"",
        expect!["`token`: is 1 to 2048 visible ASCII characters"],
    );
    check(
        ExportKind::Chat,
        "\"group\",\"name\"",
        "\"direct\",\"name\"",
        expect!["a group has a `name`, and a direct chat has none"],
    );
    check(
        ExportKind::Chat,
        "\"member_count\":2",
        "\"member_count\":1001",
        expect!["`member_count` is 1001, limit is 1000"],
    );
    check(ExportKind::Chat, "seconds\":60", "seconds\":0", expect!["`message_ttl_seconds` cannot be 0"]);
    check(
        ExportKind::Pair,
        &UserId::from_bytes([2; 16]).to_string(),
        &UserId::from_bytes([1; 16]).to_string(),
        expect!["`user_01040G2081040G2081040G2081` cannot form a pair with themselves"],
    );
    check(ExportKind::Member, "\"read\":6", "\"read\":8", expect!["read up to 8 and delivered up to 7"]);
    check(ExportKind::Message, "\"sequence\":7", "\"sequence\":0", expect!["sequences begin at 1"]);
    check(ExportKind::Message, "a line", "a\\u0000line", expect!["content has a NUL character"]);
    check(
        ExportKind::Message,
        "\"sequence\":7",
        "\"sequence\":\"secret\"",
        expect!["`row.sequence` cannot be read, at column 88"],
    );
    check(
        ExportKind::Chat,
        "\"sequence\":7",
        "\"sequence\":70",
        expect!["`last_message` has sequence 70, and `head` is 9"],
    );
    check(
        ExportKind::Message,
        "\"edit_count\":2,",
        "",
        expect!["`state` has only one of `edited_at` and `edit_count`"],
    );
    check(
        ExportKind::Message,
        "\"reaction\":\"\u{1f44d}\"",
        "\"reaction\":\"\"",
        expect!["`row.state.reactions[0].reaction` cannot be read, at column 486"],
    );
    check(
        ExportKind::Update,
        "\"target_sequence\":7",
        "\"target_sequence\":8",
        expect!["an update at 8 follows its message, and `target_sequence` is 8"],
    );
    check(ExportKind::Update, "\"reacted\"", "\"liked\"", expect!["`change` and `reaction` do not fit: `liked`"]);
    check(
        ExportKind::Reactions,
        "[\"\u{1f44d}\",\"heart\"]",
        "[]",
        expect!["a member has 0 reactions on a message, it must be 1 to 10"],
    );
    check(ExportKind::Send, "0b0b", "0B0B", expect!["`fingerprint` is not 16 bytes in lower-case hexadecimal digits"]);
}

#[test]
fn the_digest_does_not_depend_on_the_order_of_rows() {
    let content = |rows: &[Moved]| {
        let mut content = ContentDigest::default();
        rows.iter().for_each(|row| content.add(row).unwrap());
        content
    };
    let (forward, mut rows) = (content(&rows()), rows());
    rows.reverse();
    assert_eq!(content(&rows), forward);
    let twice = [&rows[..], &rows[..1], &rows[..1]].concat();
    assert_ne!(content(&twice).digest(), forward.digest(), "duplicates do not cancel out");
    assert_ne!(content(&rows[1..]).digest(), forward.digest());
}

mod fuzz {
    use super::*;

    fn whole() -> String {
        String::from_utf8(file(&rows())).unwrap()
    }

    proptest! {
        /// No damaged file is accepted.
        #[test]
        fn no_damaged_byte_passes(damaged in damage::text(Just(whole()))) {
            prop_assume!(damaged != whole());
            prop_assert!(read(damaged.as_bytes()).is_err());
        }
    }

    #[test]
    fn no_byte_with_a_flipped_bit_passes() {
        let whole = file(&rows());
        for n in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 1 << (n % 8);
            assert!(read(&damaged).is_err(), "byte {n}");
        }
    }

    #[test]
    fn no_truncated_file_passes() {
        let whole = file(&rows());
        for len in 0..whole.len() {
            assert!(refused(&whole[..len]).starts_with("line "), "{len} bytes");
        }
    }
}
