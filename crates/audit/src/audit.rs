use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::limits::RETENTION;
use domain::{ChatId, Invariant, Sequence, Timestamp};
use ports::{
    AuditLog, AuditPage, AuditSource, AuditedRecord, Clock, MessageRows, PageBookmark, StoreError, UpdateRows,
};

use crate::rows::{self, ChatSequence, Context, EditCounts, LogState, Reflected, RowChecks, UnexplainedRange};
use crate::{AuditPacer, AuditProgress, Checkpoint, Findings, Stage};

/// How often a suspected violation is re-checked before it is reported.
const CONFIRMATIONS: usize = 3;
/// Tolerance for clock differences: data that is kept for [`RETENTION`] may be deleted this much earlier.
const RETENTION_EDGE: Duration = Duration::from_secs(3600);
/// Chats of one page. A resumed audit repeats at most this many chats.
const CHATS_LEN: usize = 16;
/// Most sequences that are looked up in one unexplained range of the log.
const OPEN_LEN_MAX: u64 = 1000;

/// Most lost entries for which the log is read again at once.
const LOST_LEN_MAX: usize = 100_000;

/// Options of an audit.
#[derive(Clone)]
pub struct AuditOptions {
    /// Rows read in one call.
    pub page_len: usize,
    /// Age at which an unpublished event is overdue. Younger ones may still be in progress.
    pub overdue_after: Duration,
    /// The clock for expiry and retention.
    pub clock: Arc<dyn Clock>,
}

impl AuditOptions {
    /// Default options: pages of 200 rows, and ten minutes until an unpublished event is overdue.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { page_len: 200, overdue_after: Duration::from_secs(600), clock }
    }
}

/// Checks all rows of a store and its log against the invariants in [`CHECKED`](crate::CHECKED).
///
/// Memory is bounded: the audit reads pages, and keeps the findings and about 50 bytes of log state per chat, for at most
/// half a million chats. It may run during writes. Suspected violations are re-checked, so it reports no false positives.
///
/// Deleted data cannot be checked. A missing message is a violation only if the log, an update in the log, or the head of
/// its chat still names it and there is no sign that it has expired. Older gaps may be expired messages and are ignored.
///
/// `from` resumes an earlier audit. Its log state is lost, so only a complete audit finds messages that never reached the
/// log.
pub async fn audit(
    store: &dyn AuditSource,
    log: Option<&dyn AuditLog>,
    options: &AuditOptions,
    pace: &dyn AuditPacer,
    from: Option<Checkpoint>,
) -> Result<Findings, StoreError> {
    let all = store.size().await?;
    let Checkpoint { mut stage, mut after, read, findings } = from.unwrap_or_default();
    let started = options.clock.now();
    let mut audit = StoreAudit { store, options, pace, findings, logged: None, started, stage, read, all };
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

struct StoreAudit<'a> {
    store: &'a dyn AuditSource,
    options: &'a AuditOptions,
    pace: &'a dyn AuditPacer,
    findings: Findings,
    /// State of the log, if it was read.
    logged: Option<LogState>,
    started: Timestamp,
    stage: Stage,
    read: u64,
    all: u64,
}

/// Rows that are read and re-checked together.
enum CheckUnit<'a> {
    Records(&'a AuditPage<AuditedRecord>),
    Chat(ChatId),
    Messages(ChatId, Sequence),
    /// Updates, after pages with these edits.
    Updates(ChatId, Sequence, &'a EditCounts),
    /// A page of the table of this stage, after a bookmark.
    Page(Option<&'a PageBookmark>),
}

/// The pages of a chat's messages or updates. One page beyond the head is read, to find entries that must not be there.
/// Reading on would never end while others send.
struct EntryPages {
    head: Option<Sequence>,
    /// The first sequence of the next page, if there is one.
    next: Option<Sequence>,
    is_beyond: bool,
}

impl EntryPages {
    fn new(head: Option<Sequence>) -> Self {
        Self { head, next: Some(Sequence::ZERO), is_beyond: false }
    }

    /// Goes to the page after one with this last entry.
    fn advance(&mut self, last: Option<Sequence>) {
        let next = last.and_then(|last| last.0.checked_add(1)).map(Sequence);
        self.next = next.filter(|_| !self.is_beyond);
        self.is_beyond = self.head.zip(next).is_some_and(|(head, next)| next > head);
    }
}

/// An entry that is not stored, without a sign that it has expired.
struct LostEntry {
    location: ChatSequence,
    is_logged: bool,
}

/// Result of one page of a table.
struct TablePageCheck {
    look: RowChecks,
    rows: usize,
    next: Option<PageBookmark>,
}

impl StoreAudit<'_> {
    /// Checks the log, record by record and against the store.
    async fn log(&mut self, log: &dyn AuditLog) -> Result<(), StoreError> {
        let mut state = LogState::default();
        let (bytes_max, mut after) = (self.store.row_bytes_max(), None);
        loop {
            let page = log.records(after.as_ref(), self.options.page_len).await?;
            self.read_rows(page.rows.len()).await;
            let (look, missing) = self.reflect(&page).await?;
            self.settle(look, CheckUnit::Records(&page)).await?;
            // First the missing messages, then the page itself, which may contain their expiry events.
            missing.into_iter().for_each(|location| state.miss(location));
            state.take(&page, log.has_each_once(), bytes_max).report(&mut self.findings);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut lost = vec![];
        while let Some(open) = state.pop_open() {
            lost.extend(self.open(open).await?);
            if lost.len() >= LOST_LEN_MAX {
                self.lost(log, std::mem::take(&mut lost)).await?;
            }
        }
        self.lost(log, lost).await?;
        for late in state.take_late().chunks(self.options.page_len) {
            self.late(late).await?;
        }
        rows::consumers(&log.consumers().await?).report(&mut self.findings);
        self.logged = Some(state);
        Ok(())
    }

    async fn reflect(&self, page: &AuditPage<AuditedRecord>) -> Result<(RowChecks, Vec<ChatSequence>), StoreError> {
        let (locations, chats) = rows::spoken_of(page);
        let mut store = Reflected::default();
        for locations in locations.chunks(self.options.page_len) {
            store.stored.extend(locations.iter().copied().zip(self.store.stored(locations).await?));
        }
        for targets in store.targets(&locations).chunks(self.options.page_len) {
            store.stored.extend(targets.iter().copied().zip(self.store.stored(targets).await?));
        }
        for chats in chats.chunks(self.options.page_len) {
            store.chats.extend(chats.iter().copied().zip(self.store.standing(chats).await?));
        }
        Ok(rows::reflect(page, &store, self.options.clock.now(), self.kept_since()))
    }

    /// Records and send keys of entries created since then are kept.
    fn kept_since(&self) -> Timestamp {
        self.options.clock.now().minus(RETENTION.saturating_sub(RETENTION_EDGE))
    }

    /// Reports messages that are out of order in the log, unless they have expired: with two publishers, one may have read a
    /// message before it was erased.
    async fn late(&mut self, locations: &[ChatSequence]) -> Result<(), StoreError> {
        let stored = self.store.stored(locations).await?;
        let now = self.options.clock.now();
        for ((chat_id, sequence), stored) in locations.iter().zip(stored) {
            if stored.is_some_and(|stored| stored.expires_at.is_none_or(|at| at > now)) {
                let detail =
                    format!("{chat_id} sequence {sequence}: it first appears in the log after a later message");
                self.findings.violate(Invariant::OrderingPreserved, detail);
            }
        }
        Ok(())
    }

    /// Reports entries that are neither stored nor explained, unless the log has their expiry events by now. Such an event
    /// may have been published after the log was read, and before the store was asked for unpublished events.
    async fn lost(&mut self, log: &dyn AuditLog, mut lost: Vec<LostEntry>) -> Result<(), StoreError> {
        let mut after = None;
        while !lost.is_empty() {
            let page = log.records(after.as_ref(), self.options.page_len).await?;
            self.read_rows(page.rows.len()).await;
            let expired = rows::expired(&page);
            lost.retain(|entry| !expired.contains(&entry.location));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        for LostEntry { location: (chat_id, sequence), is_logged } in lost {
            let subject = format!("{chat_id} sequence {sequence}");
            if is_logged {
                let detail = format!(
                    "{subject}: the log has an event of it or of its update, but it is not stored and has not expired"
                );
                self.findings.violate(Invariant::LogReflectsStore, detail);
            }
            let detail = format!("{subject}: it is missing, and there is no sign that it has expired");
            self.findings.check(Invariant::SequenceContiguous, false, || detail);
        }
        Ok(())
    }

    /// Checks sequences that the log does not explain. The store, or an unpublished event, may explain them. Returns
    /// those that are missing.
    async fn open(&mut self, open: UnexplainedRange) -> Result<Vec<LostEntry>, StoreError> {
        let (chat_id, first, last, is_logged) = match open {
            UnexplainedRange::Unlogged(chat_id, first, last) => (chat_id, first, last, false),
            UnexplainedRange::Missing(chat_id, first, last) => (chat_id, first, last, true),
        };
        let leaving = self.store.leaving(chat_id).await?;
        let passed_over = self.store.passed_over(chat_id).await?;
        let is_passed_over = |sequence| passed_over.iter().any(|(first, last)| (*first..=*last).contains(&sequence));
        let last = last.min(Sequence(first.0.saturating_add(OPEN_LEN_MAX)));
        let locations: Vec<ChatSequence> = (first.0..=last.0).map(|sequence| (chat_id, Sequence(sequence))).collect();
        let stored = self.store.stored(&locations).await?;
        let (now, mut lost) = (self.options.clock.now(), vec![]);
        for (location, stored) in locations.into_iter().zip(stored) {
            let sequence = location.1;
            match stored {
                _ if leaving.contains(&sequence) => {}
                Some(stored) if is_logged || stored.expires_at.is_some_and(|at| at <= now) => {}
                Some(_) => {
                    let subject = format!("{chat_id} sequence {sequence}");
                    let detail = format!("{subject}: it is stored, but the log has later messages and not this one");
                    self.findings.violate(Invariant::PublishedEventually, detail);
                }
                None if !is_logged && is_passed_over(sequence) => {}
                None => lost.push(LostEntry { location, is_logged }),
            }
        }
        Ok(lost)
    }

    /// Checks chats sequentially, with their entries.
    async fn chats(&mut self, mut after: Option<PageBookmark>) -> Result<(), StoreError> {
        loop {
            let page = self.store.chats(after.as_ref(), CHATS_LEN).await?;
            let mut look = RowChecks::default();
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
        self.settle(look, CheckUnit::Chat(chat_id)).await?;
        let mut pages = EntryPages::new(head);
        while let Some(from) = pages.next {
            let (look, page) = self.look_at_messages(chat_id, from).await?;
            self.read_rows(page.len()).await;
            self.settle(look, CheckUnit::Messages(chat_id, from)).await?;
            pages.advance(page.last().map(|last| last.sequence));
        }
        let (mut pages, mut edits) = (EntryPages::new(head), EditCounts::default());
        while let Some(from) = pages.next {
            let (look, page) = self.look_at_updates(chat_id, from, &edits).await?;
            self.read_rows(page.len()).await;
            self.settle(look, CheckUnit::Updates(chat_id, from, &edits)).await?;
            edits.add(&page);
            pages.advance(page.last().map(|last| last.sequence));
        }
        Ok(())
    }

    /// Checks a chat. A chat that was deleted meanwhile has no violations.
    async fn look_at_chat(&self, chat_id: ChatId) -> Result<(RowChecks, usize, Option<Sequence>), StoreError> {
        let Some(chat) = self.store.chat(chat_id).await? else { return Ok((RowChecks::default(), 0, None)) };
        let overdue_before = self.options.clock.now().minus(self.options.overdue_after);
        let mut look = rows::chat(&chat, self.store.row_bytes_max(), overdue_before);
        let head = chat.head.as_ref().and_then(|head| head.row.as_ref().ok());
        if let Some(head) = head
            && let Some(last) = &head.last_message
        {
            // The entry at the head may be an update that has expired. The head does not have its expiry time.
            let stored = self.store.stored(&[(chat_id, last.sequence)]).await?;
            let is_gone = last.expires_at.is_some_and(|at| at <= self.options.clock.now());
            look.check(Invariant::SequenceContiguous, is_gone || stored.iter().any(Option::is_some), || {
                let subject = format!("{chat_id} sequence {}", last.sequence);
                (
                    subject,
                    "it is the last message in the chat's head, but it is not stored and has not expired".to_owned(),
                )
            });
        }
        Ok((look, 2 + 3 * chat.members.len(), head.map(|head| head.sequence)))
    }

    async fn look_at_messages(
        &self,
        chat_id: ChatId,
        from: Sequence,
    ) -> Result<(RowChecks, Vec<MessageRows>), StoreError> {
        let page = self.store.messages(chat_id, from, self.options.page_len).await?;
        let messages = || page.iter().filter_map(|rows| Some((rows.sequence, rows.message.row.as_ref().ok()?)));
        let revisions = messages().map(|(_, message)| message.state.revision);
        let context = self.context(chat_id, revisions.filter(|revision| *revision > Sequence::ZERO)).await?;
        let mut look = rows::messages(&page, from, &context);
        for (sequence, message) in messages().filter(|(_, message)| !message.is_expired(context.now)) {
            self.check_logged(&mut look, &context, sequence, message.created_at);
        }
        Ok((look, page))
    }

    async fn look_at_updates(
        &self,
        chat_id: ChatId,
        from: Sequence,
        edits: &EditCounts,
    ) -> Result<(RowChecks, Vec<UpdateRows>), StoreError> {
        let page = self.store.updates(chat_id, from, self.options.page_len).await?;
        let updates = || page.iter().filter_map(|rows| Some((rows, rows.update.row.as_ref().ok()?)));
        let without_message = updates().filter(|(rows, _)| rows.message.is_none()).map(|(_, update)| update.target);
        let context = self.context(chat_id, without_message).await?;
        let mut look = rows::updates(&page, from, edits, &context);
        for (rows, update) in updates().filter(|(_, update)| !update.is_expired(context.now)) {
            self.check_logged(&mut look, &context, rows.sequence, update.created_at);
        }
        Ok((look, page))
    }

    /// The context of entries that refer to these sequences, read after the entries.
    async fn context(
        &self,
        chat_id: ChatId,
        referred: impl IntoIterator<Item = Sequence>,
    ) -> Result<Context, StoreError> {
        let referred: Vec<Sequence> = referred.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let locations: Vec<_> = referred.iter().map(|sequence| (chat_id, *sequence)).collect();
        let stored = if locations.is_empty() { vec![] } else { self.store.stored(&locations).await? };
        let referred: BTreeMap<_, _> =
            referred.into_iter().zip(stored).filter_map(|(sequence, entry)| Some((sequence, entry?))).collect();
        let standing = self.store.standing(&[chat_id]).await?.first().copied().unwrap_or_default();
        let (now, keys_since) = (self.options.clock.now(), self.kept_since());
        Ok(Context { chat_id, bytes_max: self.store.row_bytes_max(), standing, referred, keys_since, now })
    }

    /// Checks that the log contains an entry that was stored before it was read.
    fn check_logged(&self, look: &mut RowChecks, context: &Context, sequence: Sequence, created_at: Timestamp) {
        let Some(logged) = &self.logged else { return };
        let settled = self.started.minus(self.options.overdue_after);
        if (context.keys_since..=settled).contains(&created_at) {
            let lacks = logged.lacks((context.chat_id, sequence), created_at);
            look.check(Invariant::PublishedEventually, !lacks, || {
                let subject = format!("{} sequence {sequence}", context.chat_id);
                (subject, format!("it was stored at {created_at} but is not in the log"))
            });
        }
    }

    /// Checks a table row by row.
    async fn table(&mut self, mut after: Option<PageBookmark>) -> Result<(), StoreError> {
        loop {
            let TablePageCheck { look, rows, next } = self.look_at_table(after.as_ref()).await?;
            self.read_rows(rows).await;
            self.settle(look, CheckUnit::Page(after.as_ref())).await?;
            let Some(next) = next else { return Ok(()) };
            self.reached(self.stage, Some(&next)).await;
            after = Some(next);
        }
    }

    async fn look_at_table(&self, after: Option<&PageBookmark>) -> Result<TablePageCheck, StoreError> {
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

    fn seen<T>(&self, page: &AuditPage<T>, judge: impl Fn(&mut RowChecks, &T)) -> TablePageCheck {
        let mut look = RowChecks::default();
        for audited in &page.rows {
            if let Some(row) = look.sound(audited, self.store.row_bytes_max()) {
                judge(&mut look, row);
            }
        }
        TablePageCheck { look, rows: page.rows.len(), next: page.next.clone() }
    }

    /// Reports the result of a check. Suspected violations are re-checked first, because rows may just be being written.
    async fn settle(&mut self, mut look: RowChecks, unit: CheckUnit<'_>) -> Result<(), StoreError> {
        for _ in 0..CONFIRMATIONS {
            if look.suspects.is_empty() {
                break;
            }
            self.pace.moment().await;
            look.confirm(&match unit {
                CheckUnit::Records(page) => self.reflect(page).await?.0,
                CheckUnit::Chat(chat_id) => self.look_at_chat(chat_id).await?.0,
                CheckUnit::Messages(chat_id, from) => self.look_at_messages(chat_id, from).await?.0,
                CheckUnit::Updates(chat_id, from, edits) => self.look_at_updates(chat_id, from, edits).await?.0,
                CheckUnit::Page(after) => self.look_at_table(after).await?.look,
            });
        }
        look.report(&mut self.findings);
        Ok(())
    }

    async fn read_rows(&mut self, rows: usize) {
        self.read += rows as u64;
        self.pace.read(AuditProgress { stage: self.stage.name(), read: self.read, all: self.all.max(self.read) }).await;
    }

    async fn reached(&self, stage: Stage, after: Option<&PageBookmark>) {
        let after = after.cloned();
        self.pace.reached(&Checkpoint { stage, after, read: self.read, findings: self.findings.clone() }).await;
    }
}
