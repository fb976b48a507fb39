use std::collections::BTreeMap;

use domain::limits::{UNREAD_EXACT_MAX, UNREAD_ROWS_MAX};
use domain::{ChatId, ClientMessageId, Invariant, MessageId, Sequence, UserId};

use super::checker::Now;
use super::entry::{Client, Page, Seen};
use super::gaps::{Gap, GapKind, unknown_in};
use super::members::{Members, MembershipState};
use super::sends::{ChatSends, MatchedSend, SendId};
use crate::Findings;

/// The known state of a chat. Its log must be the same for all clients and never change.
#[derive(Debug)]
pub(super) struct ChatHistory {
    chat_id: ChatId,
    messages: BTreeMap<Sequence, KnownMessage>,
    locations: BTreeMap<MessageId, Sequence>,
    /// The highest sequence seen in any response.
    pub(super) highest: Sequence,
    pub(super) sends: ChatSends,
    pub(super) members: Members,
    /// Gaps with sequences that are still unknown.
    gaps: Vec<Gap>,
    /// The known position of each user, from messages that a client rendered or marked.
    come: BTreeMap<UserId, Sequence>,
    shown: BTreeMap<UserId, ShownWatermarks>,
    unread: Vec<ShownUnread>,
    /// Whether the whole chat was read from the store at the end.
    pub(super) is_stored: bool,
}

/// A message that appeared in some response.
#[derive(Debug)]
struct KnownMessage {
    message_id: MessageId,
    sender_id: UserId,
    /// `None` while only an acknowledgement mentions it and its send has two contents.
    content: Option<u64>,
    of: MatchedSend,
    was_acked: bool,
    /// The entry and the time of its first appearance.
    entry: u64,
    at: u64,
}

/// Watermarks of a user, as returned by the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShownWatermarks {
    pub(super) delivered: Sequence,
    pub(super) read: Sequence,
}

/// An unread count, compared at the end with all messages that turn out to exist.
#[derive(Debug)]
struct ShownUnread {
    user_id: UserId,
    head: Sequence,
    read: Sequence,
    count: u64,
    entry: u64,
}

/// State that was known when a request was sent. The response must not be older.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    pub(super) highest: Sequence,
    pub(super) watermarks: ShownWatermarks,
    pub(super) at: u64,
}

impl ChatHistory {
    /// A chat without messages. `erased` are the users who erase their messages, and since when.
    pub(super) fn new(chat_id: ChatId, erased: &BTreeMap<UserId, u64>) -> Self {
        Self {
            chat_id,
            messages: BTreeMap::new(),
            locations: BTreeMap::new(),
            highest: Sequence::ZERO,
            sends: ChatSends::new(erased.clone()),
            members: Members::default(),
            gaps: Vec::new(),
            come: BTreeMap::new(),
            shown: BTreeMap::new(),
            unread: Vec::new(),
            is_stored: false,
        }
    }

    /// The oldest state that a request sent now may return.
    pub(super) fn floor(&self, user_id: UserId, now: Now) -> Floor {
        let watermarks = self.shown.get(&user_id).copied().unwrap_or_default();
        Floor { highest: self.highest, watermarks, at: now.at }
    }

    /// Handles an acknowledgement.
    pub(super) fn acked(
        &mut self,
        sender_id: UserId,
        client_message_id: ClientMessageId,
        location: (MessageId, Sequence),
        now: Now,
        findings: &mut Findings,
    ) {
        let key = (sender_id, client_message_id);
        let Some(send) = self.sends.get(key) else {
            return findings.check(Invariant::StoreIsAuthoritative, false, || {
                format!("{now}: {} is acknowledged to {sender_id}, but {client_message_id} was never sent", location.0)
            });
        };
        let content = if let [content] = *send.contents { Some(content) } else { None };
        let told = ReportedMessage { location, sender_id, content, of: MatchedSend::One(key), is_ack: true };
        self.told(told, now, findings);
    }

    /// Handles a message seen by a client or a reader. Returns the send that it belongs to.
    pub(super) fn seen(&mut self, seen: &Seen, now: Now, findings: &mut Findings) -> MatchedSend {
        let Seen { sequence, message_id, sender_id, client_message_id, content } = *seen;
        let of = self.sends.of(sender_id, client_message_id, content);
        let is_sent = match of {
            MatchedSend::One(key) => self.sends.get(key).is_some_and(|send| send.may_have(content)),
            MatchedSend::Several { .. } => true,
            MatchedSend::Nobody => false,
        };
        findings.check(Invariant::StoreIsAuthoritative, is_sent, || {
            format!("{now}: {message_id} at {sequence} of {} is not what {sender_id} sent", self.chat_id)
        });
        if is_sent {
            let is_once = self.sends.count(sender_id, content, message_id);
            findings.check(Invariant::IdempotencySequenceConsistency, is_once, || {
                format!("{now}: {message_id} at {sequence} of {} is a second message of one send", self.chat_id)
            });
        }
        let location = (message_id, sequence);
        self.told(ReportedMessage { location, sender_id, content: Some(content), of, is_ack: false }, now, findings);
        of
    }

    fn told(&mut self, told: ReportedMessage, now: Now, findings: &mut Findings) {
        let ReportedMessage { location: (message_id, sequence), sender_id, content, of, is_ack } = told;
        let chat_id = self.chat_id;
        findings.check(Invariant::NoZeroSequence, sequence > Sequence::ZERO, || {
            format!("{now}: {message_id} of {chat_id} is at 0")
        });
        let elsewhere = self.locations.get(&message_id).copied().filter(|location| *location != sequence);
        if let Some(elsewhere) = elsewhere {
            return findings.check(Invariant::IdempotencySequenceConsistency, false, || {
                format!("{now}: {message_id} of {chat_id} is at {sequence}, but was at {elsewhere} before")
            });
        }
        if let Some(known) = self.messages.get_mut(&sequence) {
            let (other, first) = (known.message_id, known.entry);
            findings.check(Invariant::SequenceUniqueness, other == message_id, || {
                format!("{now}: {sequence} of {chat_id} is {message_id}, entry {first} said {other}")
            });
            if other != message_id {
                return;
            }
            let is_same_content =
                known.content.is_none() || content.is_none() || known.content == content || self.sends.is_edited(of);
            let is_same = known.sender_id == sender_id && is_same_content;
            findings.check(Invariant::StoreIsAuthoritative, is_same, || {
                format!("{now}: {message_id} at {sequence} of {chat_id} is another message than in entry {first}")
            });
            if !is_same {
                return;
            }
            known.content = known.content.or(content);
            known.was_acked |= is_ack;
            if known.of == of {
                return;
            }
            if let MatchedSend::One(_) = of {
                known.of = of;
            }
        } else {
            findings.checked(Invariant::SequenceUniqueness, 1);
            let Now { entry, at, .. } = now;
            let known = KnownMessage { message_id, sender_id, content, of, was_acked: is_ack, entry, at };
            self.messages.insert(sequence, known);
            self.locations.insert(message_id, sequence);
            self.judge_gaps(sequence, findings);
        }
        if let MatchedSend::One(key) = of {
            let owed_since = self.members.owed_since(key.0);
            let was_member = owed_since.is_some_and(|since| since == 0 || since < self.began(of));
            self.sends.location(key, (message_id, sequence), was_member, findings);
            self.judge_send(key, sequence, now, findings);
        }
        self.highest = self.highest.max(sequence);
    }

    /// Checks the sequence and the sender of a send that became a message. It must come after all messages known at its
    /// start, and its sender must be a member.
    fn judge_send(&self, key: SendId, sequence: Sequence, now: Now, findings: &mut Findings) {
        let Some(send) = self.sends.get(key) else { return };
        let (floor, began) = (send.beginning.floor, send.beginning.entry);
        findings.check(Invariant::AllocationMonotonicity, sequence > floor, || {
            format!("{now}: {} began when {floor} of {} was known, but is at {sequence}", key.1, self.chat_id)
        });
        if self.members.are_told() {
            let was_out = match self.members.standing(key.0) {
                MembershipState::Never => true,
                MembershipState::Out { since } => since < began,
                MembershipState::In { .. } | MembershipState::Between => false,
            };
            findings.check(Invariant::MembershipCheckUsesAuthority, !was_out, || {
                format!("{now}: {} sent {sequence} of {} without being a member", key.0, self.chat_id)
            });
        }
    }

    /// Handles a message that a client passed to its application.
    pub(super) fn rendered(
        &mut self,
        client: Client,
        last: Option<Sequence>,
        seen: &Seen,
        now: Now,
        findings: &mut Findings,
    ) {
        let of = self.seen(seen, now, findings);
        let user_id = client.user_id;
        if let Some(last) = last {
            findings.check(Invariant::NoDuplicateRender, seen.sequence > last, || {
                let Client { user_id, device_id } = client;
                format!("{now}: {user_id} on {device_id} shows {} of {} after {last}", seen.sequence, self.chat_id)
            });
            if let Some(owed_since) = self.members.owed_since(user_id) {
                let by = GapKind::Rendering { client, owed_since };
                self.leave_out(last, Sequence(seen.sequence.0.saturating_sub(1)), by, now, findings);
            }
        }
        let come = self.come.entry(user_id).or_default();
        *come = seen.sequence.max(*come);
        if self.members.are_told() {
            self.judge_receiver(user_id, of, seen.message_id, now, findings);
        }
    }

    /// Checks that a removed user receives no message that was sent after the removal was acknowledged. A push may race
    /// with the removal, so one message per removal is allowed, on any number of devices.
    fn judge_receiver(
        &mut self,
        user_id: UserId,
        of: MatchedSend,
        message_id: MessageId,
        now: Now,
        findings: &mut Findings,
    ) {
        let began = self.began(of);
        let may = match self.members.standing(user_id) {
            MembershipState::Never => false,
            MembershipState::Out { since } if since < began => self.members.leak(user_id, message_id) <= 1,
            MembershipState::Out { .. } | MembershipState::In { .. } | MembershipState::Between => true,
        };
        findings.check(Invariant::OnlyMembersReceive, may, || {
            format!("{now}: {message_id} of {} reaches {user_id}, who is not a member", self.chat_id)
        });
    }

    /// Handles the response to a sync.
    pub(super) fn synced(
        &mut self,
        client: Client,
        asked: Option<Floor>,
        page: &Page,
        now: Now,
        findings: &mut Findings,
    ) {
        self.paged(GapKind::Sync { client }, asked.map(|floor| floor.at), page, now, findings);
        if let Some(floor) = asked.filter(|_| page.is_last) {
            findings.check(Invariant::SyncReadsAuthority, page.through >= floor.highest, || {
                let (chat_id, through, highest) = (self.chat_id, page.through, floor.highest);
                format!("{now}: a sync of {chat_id} ends at {through}, but {highest} was known when it was requested")
            });
        }
        if self.members.are_told() {
            for seen in &page.messages {
                let began = self.began(self.sends.of(seen.sender_id, seen.client_message_id, seen.content));
                // A push may race with a removal, but a read may not.
                let may = match self.members.standing(client.user_id) {
                    MembershipState::Never => false,
                    MembershipState::Out { since } => since > began,
                    MembershipState::In { .. } | MembershipState::Between => true,
                };
                findings.check(Invariant::OnlyMembersReceive, may, || {
                    format!("{now}: {} is synced by {}, who is not a member", seen.message_id, client.user_id)
                });
            }
        }
    }

    /// Handles a page of stored messages.
    pub(super) fn stored(&mut self, began_at: u64, page: &Page, now: Now, findings: &mut Findings) {
        self.paged(GapKind::Stored, Some(began_at), page, now, findings);
        if !page.is_last {
            return;
        }
        self.is_stored = true;
        for (sequence, known) in self.messages.range(Sequence(page.through.0.saturating_add(1))..) {
            if known.at < began_at {
                let invariant = match known.was_acked {
                    true => Invariant::AckImpliesPersistence,
                    false => Invariant::StoreIsAuthoritative,
                };
                findings.check(invariant, false, || {
                    format!("{now}: {} at {sequence} of {} is not stored", known.message_id, self.chat_id)
                });
            }
        }
    }

    fn paged(&mut self, by: GapKind, asked_at: Option<u64>, page: &Page, now: Now, findings: &mut Findings) {
        let mut last = page.after;
        let mut is_ascending = page.after <= page.through;
        for seen in &page.messages {
            is_ascending &= last < seen.sequence && seen.sequence <= page.through;
            if seen.sequence > last {
                self.leave_out(last, Sequence(seen.sequence.0 - 1), by, now, findings);
                last = seen.sequence;
            }
            let of = self.seen(seen, now, findings);
            if by == GapKind::Stored && self.messages.get(&seen.sequence).is_some_and(|known| known.was_acked) {
                findings.checked(Invariant::AckImpliesPersistence, 1);
            }
            self.judge_expiry(seen, of, asked_at, now, findings);
        }
        self.leave_out(last, page.through, by, now, findings);
        findings.check(Invariant::SyncCompleteness, is_ascending, || {
            let Page { after, through, .. } = page;
            format!("{now}: a page of {} is not in order between {after} and {through}", self.chat_id)
        });
    }

    /// Checks that no later request returns a message that is known and has expired since.
    fn judge_expiry(&self, seen: &Seen, of: MatchedSend, asked_at: Option<u64>, now: Now, findings: &mut Findings) {
        let (MatchedSend::One(key), Some(asked_at)) = (of, asked_at) else { return };
        let (Some(send), Some(known)) = (self.sends.get(key), self.messages.get(&seen.sequence)) else { return };
        let Some(ttl) = send.beginning.ttl_seconds else { return };
        let gone_at = known.at.saturating_add(ttl.saturating_mul(1000)).saturating_add(now.skew);
        findings.check(Invariant::ExpiredNeverRead, asked_at <= gone_at, || {
            format!("{now}: {} of {} is read, but had expired at {gone_at}", seen.message_id, self.chat_id)
        });
    }

    /// Records that a reader received no message after `last`, up to and including `to`.
    fn leave_out(&mut self, last: Sequence, to: Sequence, by: GapKind, now: Now, findings: &mut Findings) {
        let from = Sequence(last.0.saturating_add(1));
        if from > to {
            return;
        }
        let gap = Gap { from, to, by, at: now.at.saturating_add(now.skew), entry: now.entry };
        let mut known = 0;
        for (sequence, message) in self.messages.range(from..=to) {
            self.judge_gap(&gap, *sequence, message, findings);
            known += 1;
        }
        if known < (to.0 - from.0).saturating_add(1) {
            self.gaps.push(gap);
        }
    }

    /// Checks whether a newly known message lies in a recorded gap.
    fn judge_gaps(&mut self, sequence: Sequence, findings: &mut Findings) {
        let Some(message) = self.messages.get(&sequence) else { return };
        let mut is_closed = false;
        for gap in self.gaps.iter().filter(|gap| gap.covers(sequence)) {
            self.judge_gap(gap, sequence, message, findings);
            is_closed |= gap.from == gap.to;
        }
        if is_closed {
            self.gaps.retain(|gap| gap.from != gap.to || gap.from != sequence);
        }
    }

    fn judge_gap(&self, gap: &Gap, sequence: Sequence, message: &KnownMessage, findings: &mut Findings) {
        let (may_be_gone, began) = match message.of {
            MatchedSend::One(key) => {
                self.sends.get(key).map_or((true, 0), |send| (send.may_be_gone(gap.at), send.beginning.entry))
            }
            MatchedSend::Several { may_expire, .. } => (may_expire, 0),
            MatchedSend::Nobody => (true, 0),
        };
        let is_owed = match gap.by {
            GapKind::Rendering { owed_since, .. } => owed_since == 0 || began > owed_since,
            GapKind::Sync { .. } | GapKind::Stored => {
                findings.checked(Invariant::ExpiredNeverRead, u64::from(may_be_gone));
                true
            }
        };
        findings.check(gap.invariant(message.was_acked), may_be_gone || !is_owed, || {
            let (id, chat_id, who) = (message.message_id, self.chat_id, gap.who());
            format!("{id} at {sequence} of {chat_id}: {who} in entry {}", gap.entry)
        });
    }

    /// Handles a user who is about to leave, or to be removed. The last member takes the messages along.
    pub(super) fn leaving(&mut self, user_id: UserId, now: Now) {
        if self.members.may_be_last(user_id) {
            self.sends.abandon(now.at);
        }
        self.members.leaving(user_id);
    }

    /// Handles a message that a client is about to delete.
    pub(super) fn deleting(&mut self, sequence: Sequence, now: Now) {
        if let Some(KnownMessage { of: MatchedSend::One(key), .. }) = self.messages.get(&sequence) {
            self.sends.delete(*key, now.at);
        }
        self.sends.shorten(now.at);
    }

    /// Handles watermarks that a user's client sends.
    pub(super) fn marked(&mut self, user_id: UserId, delivered: Sequence) {
        let come = self.come.entry(user_id).or_default();
        *come = delivered.max(*come);
    }

    /// Handles the head, the watermarks and the unread count returned to a user.
    pub(super) fn shown(
        &mut self,
        user_id: UserId,
        asked: Option<Floor>,
        (head, marks, unread): (Sequence, ShownWatermarks, u64),
        now: Now,
        findings: &mut Findings,
    ) {
        let ShownWatermarks { delivered, read } = marks;
        let chat_id = self.chat_id;
        findings.check(Invariant::ReadImpliesDelivered, read <= delivered, || {
            format!("{now}: {user_id} has read {read} of {chat_id}, {delivered} was delivered")
        });
        // The server may have read the head before the watermarks.
        findings.check(Invariant::WatermarkBoundedByHead, delivered <= head.max(self.highest), || {
            format!("{now}: {user_id} is at {delivered} of {chat_id}, but the head is {head}")
        });
        let Some(floor) = asked else { return };
        findings.check(Invariant::CounterLowerBound, head >= floor.highest, || {
            format!("{now}: the head of {chat_id} is {head}, but {} was known before", floor.highest)
        });
        let before = floor.watermarks;
        // A member who leaves loses the watermarks, and an answer may be made of reads before and after that.
        let is_member =
            !self.members.are_told() || matches!(self.members.standing(user_id), MembershipState::In { .. });
        let is_monotonic = !is_member || (delivered >= before.delivered && read >= before.read);
        findings.check(Invariant::DeliveryWatermarkMonotonic, is_monotonic, || {
            let (from, to) = ((before.delivered, before.read), (delivered, read));
            format!("{now}: {user_id} moved back from {from:?} to {to:?} (delivered, read) of {chat_id}")
        });
        let shown = self.shown.entry(user_id).or_default();
        shown.delivered = delivered.max(shown.delivered);
        shown.read = read.max(shown.read);
        let above = self.messages.range(Sequence(read.0.saturating_add(1))..);
        let least = above.filter(|(sequence, known)| {
            let may_count = known.sender_id != user_id && !self.is_update(known.of);
            **sequence <= floor.highest && may_count && !self.may_be_gone(known, now)
        });
        let least = (least.count() as u64).min(UNREAD_EXACT_MAX);
        // An unread count examines a bounded number of rows and may miss unread messages above that.
        let looks_at_all = head.0.saturating_sub(read.0) <= UNREAD_ROWS_MAX as u64;
        findings.check(Invariant::StoreIsAuthoritative, !looks_at_all || unread >= least, || {
            format!("{now}: {user_id} has {unread} unread in {chat_id}, at least {least} are above {read}")
        });
        self.unread.push(ShownUnread { user_id, head, read, count: unread, entry: now.entry });
    }

    /// The entry in which the send of a message began; 0 if the send is unknown.
    fn began(&self, of: MatchedSend) -> u64 {
        match of {
            MatchedSend::One(key) => self.sends.get(key).map_or(0, |send| send.beginning.entry),
            MatchedSend::Several { .. } | MatchedSend::Nobody => 0,
        }
    }

    /// Whether an entry is an update of a message.
    fn is_update(&self, of: MatchedSend) -> bool {
        match of {
            MatchedSend::One(key) => self.sends.get(key).is_some_and(|send| send.beginning.is_update),
            MatchedSend::Several { is_update, .. } => is_update,
            MatchedSend::Nobody => false,
        }
    }

    fn may_be_gone(&self, known: &KnownMessage, now: Now) -> bool {
        match known.of {
            MatchedSend::One(key) => {
                self.sends.get(key).is_none_or(|send| send.may_be_gone(now.at.saturating_add(now.skew)))
            }
            MatchedSend::Several { may_expire, .. } => may_expire,
            MatchedSend::Nobody => true,
        }
    }

    /// The messages that a client still has to receive after `last`, or after the known position of its user. Returns the
    /// first of them and the number of further ones.
    pub(super) fn owed(&self, user_id: UserId, last: Option<Sequence>, now: Now) -> Option<MissingMessages> {
        let owed_since = self.members.owed_since(user_id)?;
        let last = last.unwrap_or_else(|| self.come.get(&user_id).copied().unwrap_or_default());
        let mut owed = self.messages.range(Sequence(last.0.saturating_add(1))..).filter(|(_, known)| {
            let began = self.began(known.of);
            (owed_since == 0 || began > owed_since) && !self.may_be_gone(known, now)
        });
        let (sequence, known) = owed.next()?;
        Some(MissingMessages {
            sequence: *sequence,
            message_id: known.message_id,
            told: known.entry,
            more: owed.count(),
        })
    }

    /// Checks the complete history. Missing sequences must be explained by expired sends, and unread counts by messages.
    pub(super) fn finish(&self, now: Now, findings: &mut Findings) {
        let gaps = self.gaps.iter().filter(|gap| !matches!(gap.by, GapKind::Rendering { owed_since: 1.., .. }));
        let missing = unknown_in(gaps, |from, to| self.messages.range(from..=to).count() as u64);
        let vanished: Vec<_> = self.sends.vanished(now.at.saturating_add(now.skew)).collect();
        if self.is_stored || missing > 0 {
            findings.check(Invariant::SequenceContiguous, missing <= vanished.len() as u64, || {
                let (chat_id, vanished) = (self.chat_id, vanished.len());
                format!("{missing} sequences of {chat_id} have no message, but only {vanished} sends may have expired")
            });
        }
        if !self.is_stored {
            return;
        }
        for ShownUnread { user_id, head, read, count, entry } in &self.unread {
            let above = || self.messages.range(Sequence(read.0.saturating_add(1))..);
            let others = above().filter(|(_, known)| {
                let began = self.began(known.of);
                known.sender_id != *user_id && !self.is_update(known.of) && began < *entry
            });
            // A message that expired before any client saw it counts as unread, too. It needs a missing sequence and a send.
            let locations = self.highest.max(*head).0.saturating_sub(read.0).saturating_sub(above().count() as u64);
            let sends = vanished.iter().filter(|((sender_id, _), send)| {
                sender_id != user_id && !send.beginning.is_update && send.beginning.entry < *entry
            });
            let most = others.count() as u64 + locations.min(sends.count() as u64);
            findings.check(Invariant::StoreIsAuthoritative, *count <= most, || {
                format!(
                    "entry {entry}: {user_id} has {count} unread in {}, at most {most} are above {read}",
                    self.chat_id
                )
            });
        }
    }
}

/// A message as some response describes it.
struct ReportedMessage {
    location: (MessageId, Sequence),
    sender_id: UserId,
    content: Option<u64>,
    of: MatchedSend,
    is_ack: bool,
}

/// The messages that a client lacks.
#[derive(Debug)]
pub(super) struct MissingMessages {
    pub(super) sequence: Sequence,
    pub(super) message_id: MessageId,
    /// The entry of its first appearance.
    pub(super) told: u64,
    /// Number of further missing messages.
    pub(super) more: usize,
}
