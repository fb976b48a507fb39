use std::sync::Arc;
use std::time::Duration;

use domain::limits::RETENTION;
use domain::{ChatId, Invariant, Sequence, Timestamp};
use ports::{AuditLog, AuditPage, AuditSource, Bookmark, Clock, LogRow, MessageRows, StoreError};

use crate::rows::{self, Context, LogState, Look, Open, Place, Reflected};
use crate::{Checkpoint, Findings, Pace, Progress, Stage};

/// How often a suspect is looked at again before it is believed.
const CONFIRMATIONS: usize = 3;
/// How much before its time what is kept for [`RETENTION`] may be gone already: clocks differ.
const RETENTION_EDGE: Duration = Duration::from_secs(3600);
/// Chats of one page: an audit that is resumed looks at so many again.
const CHATS_LEN: usize = 16;
/// Sequences of one range that the log has left open which are looked up, at the most.
const OPEN_LEN_MAX: u64 = 1000;

/// How an audit goes about it.
#[derive(Clone)]
pub struct Options {
    /// Rows that are read at once.
    pub page_len: usize,
    /// What has waited for the log for longer is overdue, and what is younger may be on its way.
    pub overdue_after: Duration,
    /// The time that rows are judged by.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// Pages of 200 rows, and ten minutes to get into the log.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { page_len: 200, overdue_after: Duration::from_secs(600), clock }
    }
}

/// Checks all that a store holds, and its log, against what must be true of them: [`CHECKED`](crate::CHECKED).
///
/// It reads in pages and remembers little, whatever the size: findings, and of the log some 50 bytes for each chat, for half
/// a million chats at the most. It can be asked while others write. What a write in between makes look wrong is looked at
/// again, so what it reports is wrong.
///
/// What is in no page any more cannot be checked. Above all: a message that is missing is a violation where the log still
/// tells of it, or the head of its chat does, and nothing says that it has expired. Older holes may be those of expired
/// messages and are passed over.
///
/// `from` goes on where an earlier audit has stopped. What the log has told that one is not known any more, so messages
/// that never got into the log are found by a whole audit alone.
pub async fn audit(
    store: &dyn AuditSource,
    log: Option<&dyn AuditLog>,
    options: &Options,
    pace: &dyn Pace,
    from: Option<Checkpoint>,
) -> Result<Findings, StoreError> {
    let all = store.size().await?;
    let Checkpoint { mut stage, mut after, read, findings } = from.unwrap_or_default();
    let started = options.clock.now();
    let mut audit = Audit { store, options, pace, findings, logged: None, started, stage, read, all };
    loop {
        audit.stage = stage;
        match stage {
            Stage::Log => {
                if let Some(log) = log {
                    audit.log(log).await?;
                }
            }
            Stage::Chats => audit.chats(after.take()).await?,
            Stage::Listings | Stage::Pairs | Stage::SendKeys | Stage::Others => audit.table(after.take()).await?,
        }
        let Some(next) = Stage::ALL.into_iter().find(|next| *next > stage) else { return Ok(audit.findings) };
        stage = next;
        audit.reached(stage, None).await;
    }
}

struct Audit<'a> {
    store: &'a dyn AuditSource,
    options: &'a Options,
    pace: &'a dyn Pace,
    findings: Findings,
    /// What the log has told, if it was read.
    logged: Option<LogState>,
    started: Timestamp,
    stage: Stage,
    read: u64,
    all: u64,
}

/// Rows that are read together, and can be read again.
enum Unit<'a> {
    Records(&'a AuditPage<LogRow>),
    Chat(ChatId),
    Messages(ChatId, Sequence),
    /// Of the table of this stage, behind a place.
    Page(Option<&'a Bookmark>),
}

/// What was seen in a page of a table.
struct Seen {
    look: Look,
    rows: usize,
    next: Option<Bookmark>,
}

impl Audit<'_> {
    /// The log, record by record and against the store.
    async fn log(&mut self, log: &dyn AuditLog) -> Result<(), StoreError> {
        let mut state = LogState::default();
        let (bytes_max, mut after) = (self.store.row_bytes_max(), None);
        loop {
            let page = log.records(after.as_ref(), self.options.page_len).await?;
            self.read_rows(page.rows.len()).await;
            let (look, missing) = self.reflect(&page).await?;
            self.settle(look, Unit::Records(&page)).await?;
            // First what is missing, then what the page itself may say about it.
            missing.into_iter().for_each(|place| state.miss(place));
            state.take(&page, log.has_each_once(), bytes_max).report(&mut self.findings);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        while let Some(open) = state.pop_open() {
            self.open(open).await?;
        }
        rows::consumers(&log.consumers().await?).report(&mut self.findings);
        self.logged = Some(state);
        Ok(())
    }

    async fn reflect(&self, page: &AuditPage<LogRow>) -> Result<(Look, Vec<Place>), StoreError> {
        let (places, chats) = rows::spoken_of(page);
        let mut store = Reflected::default();
        for places in places.chunks(self.options.page_len) {
            store.stored.extend(places.iter().copied().zip(self.store.stored(places).await?));
        }
        for chats in chats.chunks(self.options.page_len) {
            store.chats.extend(chats.iter().copied().zip(self.store.standing(chats).await?));
        }
        Ok(rows::reflect(page, &store, self.options.clock.now()))
    }

    /// Sequences that the log has left open: the store, and what is on its way, may explain them.
    async fn open(&mut self, open: Open) -> Result<(), StoreError> {
        let (chat_id, first, last, is_logged) = match open {
            Open::Unlogged(chat_id, first, last) => (chat_id, first, last, false),
            Open::Missing(chat_id, first, last) => (chat_id, first, last, true),
        };
        let leaving = self.store.leaving(chat_id).await?;
        let last = last.min(Sequence(first.0.saturating_add(OPEN_LEN_MAX)));
        let places: Vec<Place> = (first.0..=last.0).map(|sequence| (chat_id, Sequence(sequence))).collect();
        let stored = self.store.stored(&places).await?;
        let now = self.options.clock.now();
        for ((_, sequence), stored) in places.into_iter().zip(stored) {
            let subject = format!("{chat_id} sequence {sequence}");
            match stored {
                _ if leaving.contains(&sequence) => {}
                Some(stored) if is_logged || stored.expires_at.is_some_and(|at| at <= now) => {}
                Some(_) => {
                    let detail = format!("{subject}: it is stored, and the log has later ones and not this one");
                    self.findings.violate(Invariant::PublishedEventually, detail);
                }
                None => {
                    if is_logged {
                        let detail =
                            format!("{subject}: an event tells of it, it is not stored, and it has not expired");
                        self.findings.violate(Invariant::KafkaReflectsDynamodb, detail);
                    }
                    let detail = format!("{subject}: it is missing, and nothing says that it has expired");
                    self.findings.check(Invariant::SequenceContiguous, false, || detail);
                }
            }
        }
        Ok(())
    }

    /// Chats, one after the other, with their messages.
    async fn chats(&mut self, mut after: Option<Bookmark>) -> Result<(), StoreError> {
        loop {
            let page = self.store.chats(after.as_ref(), CHATS_LEN).await?;
            let mut look = Look::default();
            for audited in &page.rows {
                match &audited.row {
                    Ok(chat_id) => self.chat(*chat_id).await?,
                    Err(_) => drop(look.sound(audited, self.store.row_bytes_max())),
                }
            }
            look.report(&mut self.findings);
            let Some(next) = page.next else { return Ok(()) };
            self.reached(Stage::Chats, Some(&next)).await;
            after = Some(next);
        }
    }

    async fn chat(&mut self, chat_id: ChatId) -> Result<(), StoreError> {
        let (look, rows, head) = self.look_at_chat(chat_id).await?;
        self.read_rows(rows).await;
        self.settle(look, Unit::Chat(chat_id)).await?;
        let (mut from, mut is_beyond) = (Sequence::ZERO, false);
        loop {
            let (look, page) = self.look_at_messages(chat_id, from).await?;
            self.read_rows(page.len()).await;
            self.settle(look, Unit::Messages(chat_id, from)).await?;
            let Some(next) = page.last().and_then(|last| last.sequence.0.checked_add(1)) else { return Ok(()) };
            // One page beyond the head shows whether something is stored there that should not be. What others send
            // meanwhile would have no end.
            if is_beyond {
                return Ok(());
            }
            from = Sequence(next);
            is_beyond = head.is_some_and(|head| from > head);
        }
    }

    /// A chat that is gone meanwhile has nothing wrong with it.
    async fn look_at_chat(&self, chat_id: ChatId) -> Result<(Look, usize, Option<Sequence>), StoreError> {
        let Some(chat) = self.store.chat(chat_id).await? else { return Ok((Look::default(), 0, None)) };
        let overdue_before = self.options.clock.now().minus(self.options.overdue_after);
        let mut look = rows::chat(&chat, self.store.row_bytes_max(), overdue_before);
        let head = chat.head.as_ref().and_then(|head| head.row.as_ref().ok());
        if let Some(head) = head
            && let Some(last) = &head.last_message
        {
            let stored = self.store.stored(&[(chat_id, head.sequence)]).await?;
            let is_gone = last.expires_at.is_some_and(|at| at <= self.options.clock.now());
            look.check(Invariant::SequenceContiguous, is_gone || stored.iter().any(Option::is_some), || {
                let subject = format!("{chat_id} sequence {}", head.sequence);
                (subject, "the head of the chat names it, it is not stored, and it has not expired".to_owned())
            });
        }
        Ok((look, 2 + 3 * chat.members.len(), head.map(|head| head.sequence)))
    }

    async fn look_at_messages(&self, chat_id: ChatId, from: Sequence) -> Result<(Look, Vec<MessageRows>), StoreError> {
        let page = self.store.messages(chat_id, from, self.options.page_len).await?;
        let standing = self.store.standing(&[chat_id]).await?.first().copied().unwrap_or_default();
        let now = self.options.clock.now();
        let context = Context {
            chat_id,
            bytes_max: self.store.row_bytes_max(),
            standing,
            keys_since: now.minus(RETENTION.saturating_sub(RETENTION_EDGE)),
        };
        let mut look = rows::messages(&page, from, &context);
        self.check_logged(&mut look, chat_id, &page, context.keys_since);
        Ok((look, page))
    }

    /// Messages that were there when the log was read, and that it has not told of.
    fn check_logged(&self, look: &mut Look, chat_id: ChatId, page: &[MessageRows], kept_since: Timestamp) {
        let Some(logged) = &self.logged else { return };
        let (now, settled) = (self.options.clock.now(), self.started.minus(self.options.overdue_after));
        for rows in page {
            let Ok(message) = &rows.message.row else { continue };
            let should_be = (kept_since..=settled).contains(&message.created_at) && !message.is_expired(now);
            if should_be {
                let lacks = logged.lacks((chat_id, rows.sequence), message.created_at);
                look.check(Invariant::PublishedEventually, !lacks, || {
                    let subject = format!("{chat_id} sequence {}", rows.sequence);
                    (subject, format!("it was stored at {} and is not in the log", message.created_at))
                });
            }
        }
    }

    /// A table that is read row by row.
    async fn table(&mut self, mut after: Option<Bookmark>) -> Result<(), StoreError> {
        loop {
            let Seen { look, rows, next } = self.look_at_table(after.as_ref()).await?;
            self.read_rows(rows).await;
            self.settle(look, Unit::Page(after.as_ref())).await?;
            let Some(next) = next else { return Ok(()) };
            self.reached(self.stage, Some(&next)).await;
            after = Some(next);
        }
    }

    async fn look_at_table(&self, after: Option<&Bookmark>) -> Result<Seen, StoreError> {
        let len = self.options.page_len;
        match self.stage {
            Stage::Listings => Ok(self.seen(&self.store.listings(after, len).await?, rows::listing)),
            Stage::Pairs => Ok(self.seen(&self.store.pairs(after, len).await?, rows::pair)),
            Stage::SendKeys => Ok(self.seen(&self.store.send_keys(after, len).await?, rows::send_key)),
            Stage::Others | Stage::Log | Stage::Chats => {
                Ok(self.seen(&self.store.others(after, len).await?, |_, ()| {}))
            }
        }
    }

    fn seen<T>(&self, page: &AuditPage<T>, judge: impl Fn(&mut Look, &T)) -> Seen {
        let mut look = Look::default();
        for audited in &page.rows {
            if let Some(row) = look.sound(audited, self.store.row_bytes_max()) {
                judge(&mut look, row);
            }
        }
        Seen { look, rows: page.rows.len(), next: page.next.clone() }
    }

    /// Reports what was seen. Suspects are looked at again first: rows that were just being written are whole by then.
    async fn settle(&mut self, mut look: Look, unit: Unit<'_>) -> Result<(), StoreError> {
        for _ in 0..CONFIRMATIONS {
            if look.suspects.is_empty() {
                break;
            }
            self.pace.moment().await;
            look.confirm(&match unit {
                Unit::Records(page) => self.reflect(page).await?.0,
                Unit::Chat(chat_id) => self.look_at_chat(chat_id).await?.0,
                Unit::Messages(chat_id, from) => self.look_at_messages(chat_id, from).await?.0,
                Unit::Page(after) => self.look_at_table(after).await?.look,
            });
        }
        look.report(&mut self.findings);
        Ok(())
    }

    async fn read_rows(&mut self, rows: usize) {
        self.read += rows as u64;
        self.pace.read(Progress { stage: self.stage.name(), read: self.read, all: self.all.max(self.read) }).await;
    }

    async fn reached(&self, stage: Stage, after: Option<&Bookmark>) {
        let after = after.cloned();
        self.pace.reached(&Checkpoint { stage, after, read: self.read, findings: self.findings.clone() }).await;
    }
}
