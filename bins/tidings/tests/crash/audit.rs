use std::collections::{BTreeMap, HashSet};

use audit::history::HistoryOp;
use client::{Api, Credential, HistoryRange, RawConnection};
use domain::limits::SYNC_PAGE_MAX;
use domain::{ChatId, ClientMessageId, MessageId, Sequence};
use protocol::frame::{ClientFrame, Inbound, MessageBody, RequestId, ServerFrame, Sync};

use crate::ledger::{SendLedger, id_of};
use crate::load::CrashLoad;

/// One message, the same for every reader.
pub(crate) type AuditRow = (MessageId, ClientMessageId);

/// The server's contents: the rows of each chat; the first row has sequence 1.
#[derive(Default)]
pub(crate) struct ServerAudit {
    chats: BTreeMap<ChatId, Vec<AuditRow>>,
    ids: HashSet<ClientMessageId>,
}

impl ServerAudit {
    pub(crate) fn rows(&self, chat_id: ChatId) -> &[AuditRow] {
        self.chats.get(&chat_id).map_or(&[], Vec::as_slice)
    }

    /// Reads the new messages of every chat by sync. Once all sends are acknowledged, the history equals the sends:
    /// each message is at its acknowledged sequence, exactly once, without a gap.
    pub(crate) async fn sync(&mut self, load: &CrashLoad) {
        for (chat_id, (client, reader)) in load.chats() {
            let mut connection = connect(reader).await;
            loop {
                let after = Sequence(self.rows(chat_id).len() as u64);
                load.history().note(*client, HistoryOp::SyncBegan { chat_id, after });
                let page = sync_page(&mut connection, chat_id, after).await;
                load.history().synced(*client, chat_id, after, &page);
                let ledger = &load.state().ledger;
                for message in &page.messages {
                    self.note(ledger, message);
                }
                if !page.has_more {
                    let rows = self.rows(chat_id).len();
                    assert_eq!(page.head_sequence, Sequence(rows as u64), "sync ends at the head");
                    assert_eq!(rows, ledger.sends_into(chat_id), "{chat_id} has one message for each send");
                    break;
                }
            }
            connection.close().await;
        }
        if load.keeps_orders() {
            load.state().ledger.check_orders();
        }
    }

    fn note(&mut self, ledger: &SendLedger, message: &MessageBody<'_>) {
        ledger.check(message);
        let id = id_of(&message.content);
        assert!(self.ids.insert(id), "{id} is there twice: {message:?}");
        let rows = self.chats.entry(message.chat_id).or_default();
        assert_eq!(message.sequence, Sequence(rows.len() as u64 + 1), "sequences are contiguous");
        rows.push((message.message_id, id));
    }

    /// Asserts that the history pages over REST are the same.
    pub(crate) async fn compare_with_rest(&self, load: &CrashLoad) {
        for (chat_id, (client, reader)) in load.chats() {
            load.history().store(*client, reader, chat_id).await;
            let mut rows: Vec<AuditRow> = Vec::new();
            loop {
                let after = Some(Sequence(rows.len() as u64));
                let range = HistoryRange { after, limit: Some(100), ..HistoryRange::default() };
                let page = reader.history(chat_id, range).await.unwrap();
                if page.messages.is_empty() {
                    assert_eq!(Some(page.head_sequence), after, "history ends at the head");
                    break;
                }
                rows.extend(page.messages.iter().map(|row| (row.message.message_id, id_of(&row.message.content))));
            }
            assert!(rows == self.rows(chat_id), "history of {chat_id} differs from sync");
        }
    }
}

pub(crate) async fn connect(reader: &Api) -> RawConnection {
    let token = reader.access_token().await.unwrap();
    RawConnection::connect(reader.base_url(), reader.device_id(), Credential::Token(&token)).await.unwrap()
}

/// A page of a sync, as the server answers it.
pub(crate) async fn sync_page(
    connection: &mut RawConnection,
    chat_id: ChatId,
    after: Sequence,
) -> protocol::frame::SyncResponse<'static> {
    let frame = ClientFrame::SyncRequest(Sync { chat_id, after, limit: SYNC_PAGE_MAX });
    connection.send(Inbound { request_id: RequestId::new("audit".to_owned()), frame }.encode()).unwrap();
    loop {
        match connection.next().await.expect("the server is up").frame {
            ServerFrame::SyncResponse(page) => return page,
            ServerFrame::Error(error) => panic!("sync is refused: {error:?}"),
            _ => {}
        }
    }
}
