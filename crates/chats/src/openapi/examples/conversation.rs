use std::borrow::Cow;

use domain::{ChatType, ContentType, PresenceVisibility, Role, Sequence, Timestamp, UserId};
use protocol::frame::{MessageBody, SendMessageAck, UpdateBody, UpdateName};
use protocol::rest::{
    AddMember, Around, ChangeRole, ChatDetails, ChatSummary, CreateChat, Data, EditMessage, Export, ExportedChat,
    History, Inbox, Invitation, Invitations, LastMessage, MarkDelivered, MarkRead, MarkedRead, Member,
    MemberWatermarks, Message, MessageStatus, Mute, Muted, MyMembership, Paged, Pagination, Reactions, Reactor,
    Receipts, SendMessage, Session, UpdateChat,
};
use protocol::story;

use super::OperationExamples;
use super::people::{ada, bob, laptop, session};

/// Ada's chats with Bob: their direct chat and their group.
pub(super) fn examples() -> Vec<OperationExamples> {
    [chats(), members(), invitations(), messages(), updates(), receipts(), account()].into_iter().flatten().collect()
}

fn chats() -> Vec<OperationExamples> {
    let direct = CreateChat { chat_type: ChatType::Direct, name: None, member_ids: vec![story::bob()] };
    let named =
        CreateChat { chat_type: ChatType::Group, name: Some("Sailing".to_owned()), member_ids: vec![story::bob()] };
    let rename =
        UpdateChat { name: Some("Saturday sailing".to_owned()), message_ttl_seconds: Some(Some(30 * 24 * 3600)) };
    let renamed =
        ChatSummary { name: Some("Saturday sailing".to_owned()), message_ttl_seconds: Some(30 * 24 * 3600), ..group() };
    let inbox = Inbox { chats: vec![conversing(), group()] };
    vec![
        OperationExamples::of("create_chat")
            .with("Idempotency-Key", "b2f6d8a4-1c93-4e57-8d0b-5a7e3f9c6124")
            .case("direct", &direct, 201, details(quiet()))
            .case("direct_again", &direct, 200, details(quiet()))
            .case("group", named, 201, details(group())),
        OperationExamples::of("inbox")
            .with("limit", 20)
            .answered(Paged { data: inbox, pagination: Pagination::new(None) }),
        OperationExamples::of("chat").with("chat_id", story::direct_chat()).answered(details(conversing())),
        OperationExamples::of("update_chat").with("chat_id", story::group()).case(
            "example",
            rename,
            200,
            details(renamed),
        ),
    ]
}

fn members() -> Vec<OperationExamples> {
    let cleo = |role| Data { data: member(story::cleo(), "Cleo", role, story::now()) };
    let in_group = |operation_id| OperationExamples::of(operation_id).with("chat_id", story::group());
    let muted = |muted, muted_until| Data { data: Muted { chat_id: story::group(), muted, muted_until } };
    let for_an_hour = Mute { duration_seconds: Some(3600) };
    let add_cleo = AddMember { user_id: story::cleo(), role: Role::Member };
    let invited = Data { data: Member { invited: true, ..cleo(Role::Member).data } };
    vec![
        in_group("add_member")
            .with("Idempotency-Key", "47c1e9d5-8a02-4b6f-93e7-d1f05b8c2a36")
            .case("example", &add_cleo, 201, cleo(Role::Member))
            .case("invited", &add_cleo, 202, invited),
        in_group("change_role").with("user_id", story::cleo()).case(
            "example",
            ChangeRole { role: Role::Admin },
            200,
            cleo(Role::Admin),
        ),
        in_group("remove_member").with("user_id", story::cleo()).done(()),
        in_group("mute_chat").case("for_an_hour", for_an_hour, 200, muted(true, Some(story::now()))).case(
            "for_ever",
            Mute::default(),
            200,
            muted(true, None),
        ),
        in_group("unmute_chat").answered(muted(false, None)),
        in_group("leave_chat").done(()),
    ]
}

fn messages() -> Vec<OperationExamples> {
    let in_chat = |operation_id| OperationExamples::of(operation_id).with("chat_id", story::direct_chat());
    let send = SendMessage {
        client_message_id: story::first_send(),
        content: story::FIRST_CONTENT.into(),
        content_type: None,
        metadata: None,
        ttl_seconds: None,
    };
    let ack = |deduplicated| Data {
        data: SendMessageAck {
            client_message_id: story::first_send(),
            message_id: story::first_message(),
            chat_id: story::direct_chat(),
            sequence: Sequence(1),
            created_at: story::first_moment(),
            deduplicated,
        },
    };
    let head_sequence = Sequence(2);
    let history = History { messages: vec![second(), first()], head_sequence };
    let around = Around {
        messages: vec![first(), second()],
        head_sequence,
        target_sequence: Sequence(1),
        has_more_before: false,
        has_more_after: false,
    };
    vec![
        in_chat("send_message").case("first", &send, 201, ack(false)).case("repeated", &send, 200, ack(true)),
        in_chat("history").with("limit", 20).answered(Paged { data: history, pagination: Pagination::new(None) }),
        in_chat("around").with("sequence", 1).with("limit", 20).answered(Data { data: around }),
        OperationExamples::of("message").with("message_id", story::first_message()).answered(Data { data: first() }),
    ]
}

/// What becomes of Bob's answer and of a third message of Ada's, in entries after it.
fn updates() -> Vec<OperationExamples> {
    let of_message = |operation_id, sequence: u64| {
        OperationExamples::of(operation_id).with("chat_id", story::direct_chat()).with("sequence", sequence)
    };
    let with_reaction = |operation_id| of_message(operation_id, 2).with("reaction", story::reaction());
    let ack = |client_message_id, message_id, sequence| Data {
        data: SendMessageAck {
            client_message_id,
            message_id,
            chat_id: story::direct_chat(),
            sequence: Sequence(sequence),
            created_at: story::now(),
            deduplicated: false,
        },
    };
    let edit = EditMessage {
        client_message_id: story::edit(),
        content: story::EDITED_CONTENT.into(),
        content_type: None,
        metadata: None,
    };
    let reactions = Reactions {
        chat_id: story::direct_chat(),
        sequence: Sequence(2),
        members: vec![Reactor { user_id: story::ada(), reactions: vec![story::reaction()] }],
    };
    vec![
        with_reaction("add_reaction").with("client_message_id", story::update()).answered(ack(
            story::update(),
            story::reaction_entry(),
            3,
        )),
        of_message("reactions", 2)
            .with("limit", 20)
            .answered(Paged { data: reactions, pagination: Pagination::new(None) }),
        with_reaction("remove_reaction").with("client_message_id", story::unreact()).answered(ack(
            story::unreact(),
            story::removal_entry(),
            4,
        )),
        of_message("edit_message", 1).case("example", edit, 200, ack(story::edit(), story::edit_entry(), 5)),
        of_message("delete_message", 1).with("client_message_id", story::deletion()).answered(ack(
            story::deletion(),
            story::deletion_entry(),
            6,
        )),
    ]
}

fn receipts() -> Vec<OperationExamples> {
    let in_chat = |operation_id| OperationExamples::of(operation_id).with("chat_id", story::direct_chat());
    let marks = |user_id| MemberWatermarks {
        user_id,
        delivered_sequence: Sequence(2),
        delivered_at: Some(story::second_moment()),
        read_sequence: Sequence(2),
        read_at: Some(story::second_moment()),
    };
    let read =
        MarkedRead { chat_id: story::direct_chat(), delivered_sequence: Sequence(2), read_sequence: Sequence(2) };
    let delivered = MarkedRead { read_sequence: Sequence(0), ..read.clone() };
    let receipts = Receipts {
        chat_id: story::direct_chat(),
        sequence: Sequence(2),
        member_count: 2,
        delivered_count: 1,
        read_count: 1,
        members: vec![marks(story::ada()), marks(story::bob())],
    };
    vec![
        in_chat("mark_delivered").case(
            "example",
            MarkDelivered { last_acked_sequence: Sequence(2) },
            200,
            Data { data: delivered },
        ),
        in_chat("mark_read").case("example", MarkRead { last_read_sequence: Sequence(2) }, 200, Data { data: read }),
        in_chat("receipts").with("sequence", 2).answered(Data { data: receipts }),
    ]
}

fn account() -> Vec<OperationExamples> {
    let chat = |chat: ChatSummary, sequence, moved_at, messages, updates| ExportedChat {
        chat_id: chat.chat_id,
        chat_type: chat.chat_type,
        name: chat.name,
        role: chat.my_membership.role,
        joined_at: story::morning(),
        muted_until: None,
        delivered_sequence: sequence,
        delivered_at: moved_at,
        read_sequence: sequence,
        read_at: moved_at,
        messages,
        updates,
    };
    let reacted = UpdateBody {
        chat_id: story::direct_chat(),
        sequence: Sequence(3),
        target_sequence: Sequence(2),
        user_id: story::ada(),
        kind: UpdateName::Reacted,
        reaction: Some(story::reaction()),
        created_at: story::now(),
        client_message_id: Some(story::update()),
    };
    let export = Export {
        exported_at: story::now(),
        user: ada(PresenceVisibility::Everyone),
        sessions: vec![Session { is_current: false, ..session() }, laptop()],
        passkeys: vec![],
        push_devices: vec![],
        invitations: vec![],
        contacts: vec![],
        chats: vec![
            chat(conversing(), Sequence(2), Some(story::second_moment()), vec![first().message], vec![reacted]),
            chat(group(), Sequence::ZERO, None, vec![], vec![]),
        ],
        is_complete: true,
    };
    vec![OperationExamples::of("export_me").answered(Data { data: export })]
}

/// Bob invites Ada to a group of his.
fn invitations() -> Vec<OperationExamples> {
    let to_group = |operation_id| OperationExamples::of(operation_id).with("chat_id", story::bobs_group());
    let invitation = Invitation {
        chat_id: story::bobs_group(),
        name: "Regatta".to_owned(),
        member_count: 1,
        invited_by: bob(),
        created_at: story::now(),
        expires_at: story::invitation_end(),
    };
    let invitations = Data { data: Invitations { invitations: vec![invitation] } };
    let summary = ChatSummary {
        chat_id: story::bobs_group(),
        chat_type: ChatType::Group,
        name: Some("Regatta".to_owned()),
        ..quiet()
    };
    let members = vec![
        member(story::ada(), "Ada", Role::Member, story::now()),
        member(story::bob(), "Bob", Role::Owner, story::morning()),
    ];
    let joined = Data { data: ChatDetails { summary, members, invited_user_ids: vec![] } };
    vec![
        OperationExamples::of("invitations").answered(invitations),
        to_group("accept_invitation").answered(joined),
        to_group("decline_invitation").done(()),
    ]
}

/// The direct chat before its first message.
fn quiet() -> ChatSummary {
    ChatSummary {
        chat_id: story::direct_chat(),
        chat_type: ChatType::Direct,
        name: None,
        member_count: 2,
        created_at: story::morning(),
        other_participants: vec![bob()],
        last_message: None,
        last_message_at: None,
        unread_count: 0,
        unread_count_exact: true,
        my_membership: MyMembership { role: Role::Member, muted_until: None },
        message_ttl_seconds: None,
        head_sequence: Sequence::ZERO,
        my_read_sequence: Sequence::ZERO,
        my_delivered_sequence: Sequence::ZERO,
    }
}

/// The direct chat with a reply from Bob that Ada has not read.
fn conversing() -> ChatSummary {
    ChatSummary {
        last_message: Some(LastMessage {
            message_id: story::second_message(),
            sequence: Sequence(2),
            sender_id: story::bob(),
            preview: Some(story::SECOND_CONTENT.to_owned()),
            created_at: story::second_moment(),
        }),
        last_message_at: Some(story::second_moment()),
        unread_count: 1,
        unread_count_exact: true,
        head_sequence: Sequence(2),
        ..quiet()
    }
}

fn group() -> ChatSummary {
    ChatSummary {
        chat_id: story::group(),
        chat_type: ChatType::Group,
        name: Some("Sailing".to_owned()),
        my_membership: MyMembership { role: Role::Owner, muted_until: None },
        ..quiet()
    }
}

fn details(summary: ChatSummary) -> Data<ChatDetails> {
    let my_role = summary.my_membership.role;
    let members = vec![
        member(story::ada(), "Ada", my_role, story::morning()),
        member(story::bob(), "Bob", Role::Member, story::morning()),
    ];
    Data { data: ChatDetails { summary, members, invited_user_ids: vec![] } }
}

fn member(user_id: UserId, display_name: &str, role: Role, joined_at: Timestamp) -> Member {
    Member { user_id, display_name: display_name.to_owned(), role, joined_at, invited: false }
}

fn first() -> Message<'static> {
    let message = MessageBody {
        message_id: story::first_message(),
        chat_id: story::direct_chat(),
        sequence: Sequence(1),
        sender_id: story::ada(),
        content: Cow::Borrowed(story::FIRST_CONTENT),
        content_type: ContentType::Text,
        metadata: None,
        created_at: story::first_moment(),
        expires_at: None,
        client_message_id: Some(story::first_send()),
        state: None,
    };
    Message { message, status: Some(MessageStatus::Read) }
}

fn second() -> Message<'static> {
    let message = MessageBody {
        message_id: story::second_message(),
        sequence: Sequence(2),
        sender_id: story::bob(),
        content: Cow::Borrowed(story::SECOND_CONTENT),
        created_at: story::second_moment(),
        client_message_id: None,
        ..first().message
    };
    Message { message, status: None }
}
