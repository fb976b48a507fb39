use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, ContentType, DeviceId, MessageId, Sequence, Timestamp, UserId,
};
use proptest::prelude::*;
use protocol::client::{ClientEvent, ClientSession, Ended, Output, SendBounds};
use protocol::frame::{
    ClientFrame, ConnectionEstablished, HeartbeatAck, Inbound, MessageBody, RequestId, Resync, SendMessage,
    SendMessageAck, ServerFrame, Sync, SyncResponse,
};
use protocol::{ErrorBody, ErrorCode};

const CHATS: u8 = 3;
const ME: [u8; 16] = [42; 16];
/// Small, so that a few messages take several pages.
const PAGE: usize = 3;

/// One step of a generated run: user actions, server actions and network faults.
#[derive(Clone, Debug)]
enum ScheduleStep {
    OtherSends { chat: u8 },
    ISend { chat: u8 },
    Expire { chat: u8, which: prop::sample::Index },
    Serve(ServerReaction),
    Deliver { which: prop::sample::Index },
    DropPush { which: prop::sample::Index },
    DoublePush { which: prop::sample::Index },
    Disconnect,
    Pass { millis: u64 },
}

/// How the server handles the next frame of the client.
#[derive(Clone, Copy, Debug)]
enum ServerReaction {
    Well,
    Refused(ErrorCode),
    /// The request is executed, but the reply says that the service is unavailable.
    DoneButUnavailable,
}

fn steps() -> impl Strategy<Value = ScheduleStep> {
    let chat = 0..CHATS;
    let which = any::<prop::sample::Index>;
    let served = prop_oneof![
        12 => Just(ServerReaction::Well),
        1 => Just(ServerReaction::Refused(ErrorCode::ServerBusy)),
        1 => Just(ServerReaction::Refused(ErrorCode::RateLimited)),
        1 => Just(ServerReaction::DoneButUnavailable),
    ];
    prop_oneof![
        6 => chat.clone().prop_map(|chat| ScheduleStep::OtherSends { chat }),
        4 => chat.clone().prop_map(|chat| ScheduleStep::ISend { chat }),
        1 => (chat, which()).prop_map(|(chat, which)| ScheduleStep::Expire { chat, which }),
        8 => served.prop_map(ScheduleStep::Serve),
        12 => which().prop_map(|which| ScheduleStep::Deliver { which }),
        2 => which().prop_map(|which| ScheduleStep::DropPush { which }),
        2 => which().prop_map(|which| ScheduleStep::DoublePush { which }),
        1 => Just(ScheduleStep::Disconnect),
        2 => (0u64..4000).prop_map(|millis| ScheduleStep::Pass { millis }),
    ]
}

struct ServerRow {
    body: MessageBody<'static>,
    expired: bool,
}

/// One client, one correct server, and a faulty network between them.
struct World {
    session: ClientSession,
    now: Instant,
    rows: BTreeMap<ChatId, Vec<ServerRow>>,
    sends: u64,
    connected: bool,
    /// Whether the server knows that it dropped a push.
    missed: bool,
    from_client: VecDeque<Inbound>,
    answers: VecDeque<(Option<RequestId>, ServerFrame)>,
    pushes: Vec<ServerFrame>,
    handed_out: BTreeMap<ChatId, Vec<u64>>,
    acked: BTreeMap<ClientMessageId, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let mut world = Self {
            session: ClientSession::new(now, SendBounds { queue_len_max: 1000, in_flight_max: 4 }, seed),
            now,
            rows: (0..CHATS).map(|n| (chat_id(n), Vec::new())).collect(),
            sends: 0,
            connected: false,
            missed: false,
            from_client: VecDeque::new(),
            answers: VecDeque::new(),
            pushes: Vec::new(),
            handed_out: BTreeMap::new(),
            acked: BTreeMap::new(),
        };
        world.session.track(now, chat_id(0), Sequence::ZERO);
        world.drive();
        world
    }

    fn step(&mut self, step: ScheduleStep) {
        match step {
            ScheduleStep::OtherSends { chat } => {
                let message = self.append(chat_id(chat), UserId::from_bytes([1; 16]), None);
                self.push(message);
            }
            ScheduleStep::ISend { chat } => {
                self.sends += 1;
                let mut id = [0; 16];
                id[..8].copy_from_slice(&self.sends.to_be_bytes());
                let send = SendMessage {
                    client_message_id: ClientMessageId::from_bytes(id),
                    chat_id: chat_id(chat),
                    body: Body::new("mine".to_owned().try_into().unwrap(), ContentType::Text),
                    ttl: None,
                };
                self.session.send(self.now, send).unwrap();
            }
            ScheduleStep::Expire { chat, which } => {
                let rows = self.rows.get_mut(&chat_id(chat)).unwrap();
                if !rows.is_empty() {
                    let at = which.index(rows.len());
                    rows[at].expired = true;
                }
            }
            ScheduleStep::Serve(served) => self.serve(served),
            ScheduleStep::Deliver { which } => {
                // Replies keep their order; a push may arrive at any time.
                let at = which.index(self.pushes.len() + 1);
                if at < self.pushes.len() {
                    let push = self.pushes.remove(at);
                    self.hear(None, push);
                } else if let Some((request_id, answer)) = self.answers.pop_front() {
                    self.hear(request_id, answer);
                }
            }
            ScheduleStep::DropPush { which } if !self.pushes.is_empty() => {
                self.pushes.remove(which.index(self.pushes.len()));
                self.missed = true;
            }
            ScheduleStep::DoublePush { which } if !self.pushes.is_empty() => {
                let push = self.pushes[which.index(self.pushes.len())].clone();
                self.pushes.push(push);
            }
            ScheduleStep::DropPush { .. } | ScheduleStep::DoublePush { .. } => {}
            ScheduleStep::Disconnect => self.lose(),
            ScheduleStep::Pass { millis } => self.now += Duration::from_millis(millis),
        }
        self.session.handle_timeout(self.now);
        self.drive();
    }

    /// Stops the faults and runs until the client and the server agree.
    fn settle(&mut self) {
        for _ in 0..400 {
            while !self.from_client.is_empty() {
                self.serve(ServerReaction::Well);
            }
            for push in std::mem::take(&mut self.pushes) {
                self.hear(None, push);
            }
            while let Some((request_id, answer)) = self.answers.pop_front() {
                self.hear(request_id, answer);
            }
            if self.connected && std::mem::take(&mut self.missed) {
                self.hear(None, ServerFrame::Resync(Resync { reason: "test".to_owned() }));
            }
            self.drive();
            if self.from_client.is_empty() {
                self.now = self.session.poll_timeout().expect("it never stops").max(self.now);
                self.session.handle_timeout(self.now);
                self.drive();
            }
        }
    }

    /// Executes the outputs of the session.
    fn drive(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Connect => {
                    self.connected = true;
                    self.missed = false;
                    self.session.handle_connected(self.now);
                    let established = ConnectionEstablished {
                        connection_id: ConnectionId::from_bytes([1; 16]),
                        user_id: UserId::from_bytes(ME),
                        device_id: DeviceId::from_bytes([1; 16]),
                        server_time: Timestamp::default(),
                        heartbeat_interval_ms: 5000,
                        protocol_version: 1,
                    };
                    self.answers.push_back((None, ServerFrame::ConnectionEstablished(established)));
                }
                Output::Transmit(text) => self.from_client.push_back(Inbound::parse(&text).unwrap()),
                Output::Event(event) => self.check(event),
                Output::Disconnect => self.cut(),
                Output::ListChats => {
                    for (chat_id, rows) in &self.rows {
                        self.session.list(self.now, *chat_id, Sequence::ZERO, Sequence(rows.len() as u64));
                    }
                }
                Output::LookUp(chat_id) => self.session.track(self.now, chat_id, Sequence::ZERO),
                Output::RefreshToken => panic!("no token was refused"),
            }
        }
    }

    fn check(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Message(message) => {
                let row = &self.rows[&message.chat_id][message.sequence.0 as usize - 1];
                assert_eq!(message, row.body);
                let handed_out = self.handed_out.entry(message.chat_id).or_default();
                let last = handed_out.last().copied().unwrap_or(0);
                assert!(message.sequence.0 > last, "{} after {last}", message.sequence);
                for skipped in last + 1..message.sequence.0 {
                    assert!(self.rows[&message.chat_id][skipped as usize - 1].expired, "{skipped} was skipped");
                }
                handed_out.push(message.sequence.0);
                self.session.stored(self.now, message.chat_id, message.sequence);
            }
            ClientEvent::Sent(ack) => {
                assert_eq!(self.acked.insert(ack.client_message_id, ack.sequence.0), None, "acked twice");
            }
            ClientEvent::SendFailed { error, .. } | ClientEvent::Refused(error) => panic!("{error:?}"),
            ClientEvent::Stopped(reason) => panic!("stopped: {reason:?}"),
            _ => {}
        }
    }

    fn lose(&mut self) {
        if self.connected {
            self.cut();
            self.session.handle_disconnected(self.now, Ended::Lost);
        }
    }

    /// Drops the socket with all frames in flight.
    fn cut(&mut self) {
        self.connected = false;
        self.from_client.clear();
        self.answers.clear();
        self.pushes.clear();
    }

    fn hear(&mut self, request_id: Option<RequestId>, frame: ServerFrame) {
        let text = frame.encode(request_id.as_ref());
        self.session.handle_text(self.now, std::str::from_utf8(&text).unwrap());
    }

    fn append(&mut self, chat_id: ChatId, sender_id: UserId, id: Option<ClientMessageId>) -> MessageBody<'static> {
        let rows = self.rows.get_mut(&chat_id).unwrap();
        let body = MessageBody {
            message_id: MessageId::from_bytes([rows.len() as u8; 16]),
            chat_id,
            sequence: Sequence(rows.len() as u64 + 1),
            sender_id,
            content: if id.is_some() { "mine".into() } else { "theirs".into() },
            content_type: ContentType::Text,
            metadata: None,
            created_at: Timestamp::default(),
            expires_at: None,
            client_message_id: id,
            state: None,
        };
        rows.push(ServerRow { body: body.clone(), expired: false });
        body
    }

    fn push(&mut self, message: MessageBody<'static>) {
        if self.connected {
            self.pushes.push(ServerFrame::Message(message));
        }
    }

    fn serve(&mut self, served: ServerReaction) {
        let Some(Inbound { request_id, frame }) = self.from_client.pop_front() else { return };
        let answer = match (frame, served) {
            (ClientFrame::Heartbeat, _) => {
                ServerFrame::HeartbeatAck(HeartbeatAck { server_time: Timestamp::default() })
            }
            (ClientFrame::Ack { chat_id, sequence }, _) => {
                assert!(sequence.0 <= self.rows[&chat_id].len() as u64, "an ack above the head");
                return;
            }
            (_, ServerReaction::Refused(code)) => ServerFrame::Error(ErrorBody::new(code, "no")),
            (ClientFrame::SendMessage(send), served) => {
                let ack = self.commit(&send);
                match served {
                    ServerReaction::DoneButUnavailable => {
                        ServerFrame::Error(ErrorBody::new(ErrorCode::ServiceUnavailable, "perhaps"))
                    }
                    _ => ServerFrame::SendMessageAck(ack),
                }
            }
            (ClientFrame::SyncRequest(sync), _) => ServerFrame::SyncResponse(self.read(sync)),
            (frame, _) => panic!("{frame:?}"),
        };
        self.answers.push_back((request_id, answer));
    }

    fn commit(&mut self, send: &SendMessage) -> SendMessageAck {
        let id = Some(send.client_message_id);
        let known = self.rows[&send.chat_id].iter().find(|row| row.body.client_message_id == id);
        let (body, deduplicated) = match known {
            Some(row) => (row.body.clone(), true),
            None => (self.append(send.chat_id, UserId::from_bytes(ME), id), false),
        };
        SendMessageAck {
            client_message_id: send.client_message_id,
            message_id: body.message_id,
            chat_id: body.chat_id,
            sequence: body.sequence,
            created_at: body.created_at,
            deduplicated,
        }
    }

    fn read(&self, sync: Sync) -> SyncResponse<'static> {
        let rows = &self.rows[&sync.chat_id];
        let examined = rows.len().min(sync.after.0 as usize + PAGE);
        let page = &rows[sync.after.0 as usize..examined];
        let has_more = examined < rows.len();
        SyncResponse {
            chat_id: sync.chat_id,
            messages: page.iter().filter(|row| !row.expired).map(|row| row.body.clone()).collect(),
            updates: vec![],
            updated_messages: vec![],
            has_more,
            next_sequence: has_more.then_some(Sequence(examined as u64 + 1)),
            head_sequence: Sequence(rows.len() as u64),
        }
    }
}

fn chat_id(n: u8) -> ChatId {
    ChatId::from_bytes([n + 1; 16])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_message_arrives_once_and_in_order_over_any_network(
        seed in any::<u64>(),
        steps in proptest::collection::vec(steps(), 1..200),
    ) {
        let mut world = World::new(seed);
        for step in steps {
            world.step(step);
        }
        world.settle();
        for (chat_id, rows) in &world.rows {
            let head = Sequence(rows.len() as u64);
            prop_assert_eq!(world.session.watermark(*chat_id), Some(head), "the watermark has reached the head");
            let handed_out = world.handed_out.remove(chat_id).unwrap_or_default();
            for row in rows.iter().filter(|row| !row.expired) {
                prop_assert!(handed_out.binary_search(&row.body.sequence.0).is_ok(), "{} is missing", row.body.sequence);
            }
            for row in rows {
                if let Some(id) = row.body.client_message_id {
                    prop_assert_eq!(world.acked.get(&id), Some(&row.body.sequence.0));
                }
            }
        }
        prop_assert_eq!(world.acked.len() as u64, world.sends, "every send was acknowledged");
    }
}
