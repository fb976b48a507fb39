use std::collections::BTreeMap;

use domain::limits::UNREAD_EXACT_MAX;
use domain::{ChatId, ClientMessageId, Invariant, MessageId, Sequence, UserId};

use super::checker::Now;
use super::entry::{Client, Page, Seen};
use super::gaps::{By, Gap, unknown_in};
use super::members::{Members, Standing};
use super::sends::{Key, Of, Sends};
use crate::Findings;

/// What is known of a chat: one log, the same for everybody and for ever.
#[derive(Debug)]
pub(super) struct Chat {
    chat_id: ChatId,
    messages: BTreeMap<Sequence, Known>,
    places: BTreeMap<MessageId, Sequence>,
    /// The highest sequence that anybody was told.
    pub(super) highest: Sequence,
    pub(super) sends: Sends,
    pub(super) members: Members,
    /// Those of which a sequence is unknown yet.
    gaps: Vec<Gap>,
    /// How far users are known to have come: by what one of their clients rendered or marked.
    come: BTreeMap<UserId, Sequence>,
    shown: BTreeMap<UserId, Watermarks>,
    unread: Vec<Unread>,
    /// Whether all of it was read at the end.
    pub(super) is_stored: bool,
}

/// A message that somebody was told of.
#[derive(Debug)]
struct Known {
    message_id: MessageId,
    sender_id: UserId,
    /// Unknown while only an acknowledgement of a send with two contents tells of it.
    content: Option<u64>,
    of: Of,
    was_acked: bool,
    /// The entry and the time in which it was told first.
    entry: u64,
    at: u64,
}

/// The watermarks of a user, as the server showed them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watermarks {
    pub(super) delivered: Sequence,
    pub(super) read: Sequence,
}

/// An unread count, to be compared with all that turns out to have been there.
#[derive(Debug)]
struct Unread {
    user_id: UserId,
    head: Sequence,
    read: Sequence,
    count: u64,
    entry: u64,
}

/// What was known when a question was asked: an answer cannot fall behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    pub(super) highest: Sequence,
    pub(super) watermarks: Watermarks,
    pub(super) at: u64,
}

impl Chat {
    pub(super) fn new(chat_id: ChatId) -> Self {
        Self {
            chat_id,
            messages: BTreeMap::new(),
            places: BTreeMap::new(),
            highest: Sequence::ZERO,
            sends: Sends::default(),
            members: Members::default(),
            gaps: Vec::new(),
            come: BTreeMap::new(),
            shown: BTreeMap::new(),
            unread: Vec::new(),
            is_stored: false,
        }
    }

    /// What a question that is asked now must see.
    pub(super) fn floor(&self, user_id: UserId, now: Now) -> Floor {
        let watermarks = self.shown.get(&user_id).copied().unwrap_or_default();
        Floor { highest: self.highest, watermarks, at: now.at }
    }

    /// An acknowledgement tells of a message.
    pub(super) fn acked(
        &mut self,
        sender_id: UserId,
        client_message_id: ClientMessageId,
        place: (MessageId, Sequence),
        now: Now,
        findings: &mut Findings,
    ) {
        let key = (sender_id, client_message_id);
        let Some(send) = self.sends.get(key) else {
            return findings.check(Invariant::DynamodbIsAuthoritative, false, || {
                format!("{now}: {} is acknowledged to {sender_id}, who never sent {client_message_id}", place.0)
            });
        };
        let content = if let [content] = *send.contents { Some(content) } else { None };
        let told = Told { place, sender_id, content, of: Of::One(key), is_ack: true };
        self.told(told, now, findings);
    }

    /// A client or a reader tells of a message. Tells which send it is.
    pub(super) fn seen(&mut self, seen: &Seen, now: Now, findings: &mut Findings) -> Of {
        let Seen { sequence, message_id, sender_id, client_message_id, content } = *seen;
        let of = self.sends.of(sender_id, client_message_id, content);
        let is_sent = match of {
            Of::One(key) => self.sends.get(key).is_some_and(|send| send.contents.contains(&content)),
            Of::Several { .. } => true,
            Of::Nobody => false,
        };
        findings.check(Invariant::DynamodbIsAuthoritative, is_sent, || {
            format!("{now}: {message_id} at {sequence} of {} is not what {sender_id} sent", self.chat_id)
        });
        if is_sent {
            let is_once = self.sends.count(sender_id, content, message_id);
            findings.check(Invariant::IdempotencySequenceConsistency, is_once, || {
                format!("{now}: {message_id} at {sequence} of {} is a second message of one send", self.chat_id)
            });
        }
        let place = (message_id, sequence);
        self.told(Told { place, sender_id, content: Some(content), of, is_ack: false }, now, findings);
        of
    }

    fn told(&mut self, told: Told, now: Now, findings: &mut Findings) {
        let Told { place: (message_id, sequence), sender_id, content, of, is_ack } = told;
        let chat_id = self.chat_id;
        findings.check(Invariant::NoZeroSequence, sequence > Sequence::ZERO, || {
            format!("{now}: {message_id} of {chat_id} is at 0")
        });
        let elsewhere = self.places.get(&message_id).copied().filter(|place| *place != sequence);
        if let Some(elsewhere) = elsewhere {
            return findings.check(Invariant::IdempotencySequenceConsistency, false, || {
                format!("{now}: {message_id} of {chat_id} is at {sequence}, and is at {elsewhere}")
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
            let is_same_content = known.content.is_none() || content.is_none() || known.content == content;
            let is_same = known.sender_id == sender_id && is_same_content;
            findings.check(Invariant::DynamodbIsAuthoritative, is_same, || {
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
            if let Of::One(_) = of {
                known.of = of;
            }
        } else {
            findings.checked(Invariant::SequenceUniqueness, 1);
            let Now { entry, at, .. } = now;
            let known = Known { message_id, sender_id, content, of, was_acked: is_ack, entry, at };
            self.messages.insert(sequence, known);
            self.places.insert(message_id, sequence);
            self.judge_gaps(sequence, findings);
        }
        if let Of::One(key) = of {
            let owed_since = self.members.owed_since(key.0);
            let was_member = owed_since.is_some_and(|since| since == 0 || since < self.began(of));
            self.sends.place(key, (message_id, sequence), was_member, findings);
            self.judge_send(key, sequence, now, findings);
        }
        self.highest = self.highest.max(sequence);
    }

    /// A send has become a message: it came after all that was there when it began, by somebody who may send.
    fn judge_send(&self, key: Key, sequence: Sequence, now: Now, findings: &mut Findings) {
        let Some(send) = self.sends.get(key) else { return };
        let (floor, began) = (send.beginning.floor, send.beginning.entry);
        findings.check(Invariant::AllocationMonotonicity, sequence > floor, || {
            format!("{now}: {} began when {floor} of {} was there, and is at {sequence}", key.1, self.chat_id)
        });
        if self.members.are_told() {
            let was_out = match self.members.standing(key.0) {
                Standing::Never => true,
                Standing::Out { since } => since < began,
                Standing::In { .. } | Standing::Between => false,
            };
            findings.check(Invariant::MembershipCheckUsesAuthority, !was_out, || {
                format!("{now}: {} sent {sequence} of {} and was no member of it", key.0, self.chat_id)
            });
        }
    }

    /// A client handed a message to its application.
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
                let by = By::Rendering { client, owed_since };
                self.leave_out(last, Sequence(seen.sequence.0.saturating_sub(1)), by, now, findings);
            }
        }
        let come = self.come.entry(user_id).or_default();
        *come = seen.sequence.max(*come);
        if self.members.are_told() {
            self.judge_receiver(user_id, of, seen.message_id, now, findings);
        }
    }

    /// What is sent after a removal was answered does not reach who was removed. A push may race with the removal: so one
    /// message is let through for each removal, to however many devices.
    fn judge_receiver(&mut self, user_id: UserId, of: Of, message_id: MessageId, now: Now, findings: &mut Findings) {
        let began = self.began(of);
        let may = match self.members.standing(user_id) {
            Standing::Never => false,
            Standing::Out { since } if since < began => self.members.leak(user_id, message_id) <= 1,
            Standing::Out { .. } | Standing::In { .. } | Standing::Between => true,
        };
        findings.check(Invariant::OnlyMembersReceive, may, || {
            format!("{now}: {message_id} of {} reaches {user_id}, who is no member", self.chat_id)
        });
    }

    /// A sync was answered.
    pub(super) fn synced(
        &mut self,
        client: Client,
        asked: Option<Floor>,
        page: &Page,
        now: Now,
        findings: &mut Findings,
    ) {
        self.paged(By::Sync { client }, asked.map(|floor| floor.at), page, now, findings);
        if let Some(floor) = asked.filter(|_| page.is_last) {
            findings.check(Invariant::SyncReadsAuthority, page.through >= floor.highest, || {
                let (chat_id, through, highest) = (self.chat_id, page.through, floor.highest);
                format!("{now}: a sync of {chat_id} ends at {through}, asked for when {highest} was there")
            });
        }
        if self.members.are_told() {
            for seen in &page.messages {
                let began = self.began(self.sends.of(seen.sender_id, seen.client_message_id, seen.content));
                // A push may race with a removal, a read may not.
                let may = match self.members.standing(client.user_id) {
                    Standing::Never => false,
                    Standing::Out { since } => since > began,
                    Standing::In { .. } | Standing::Between => true,
                };
                findings.check(Invariant::OnlyMembersReceive, may, || {
                    format!("{now}: {} is synced by {}, who is no member", seen.message_id, client.user_id)
                });
            }
        }
    }

    /// A page of what is stored was read.
    pub(super) fn stored(&mut self, began_at: u64, page: &Page, now: Now, findings: &mut Findings) {
        self.paged(By::Stored, Some(began_at), page, now, findings);
        if !page.is_last {
            return;
        }
        self.is_stored = true;
        for (sequence, known) in self.messages.range(Sequence(page.through.0.saturating_add(1))..) {
            if known.at < began_at {
                let invariant = match known.was_acked {
                    true => Invariant::AckImpliesPersistence,
                    false => Invariant::DynamodbIsAuthoritative,
                };
                findings.check(invariant, false, || {
                    format!("{now}: {} at {sequence} of {} is not stored", known.message_id, self.chat_id)
                });
            }
        }
    }

    fn paged(&mut self, by: By, asked_at: Option<u64>, page: &Page, now: Now, findings: &mut Findings) {
        let mut last = page.after;
        let mut is_ascending = page.after <= page.through;
        for seen in &page.messages {
            is_ascending &= last < seen.sequence && seen.sequence <= page.through;
            if seen.sequence > last {
                self.leave_out(last, Sequence(seen.sequence.0 - 1), by, now, findings);
                last = seen.sequence;
            }
            let of = self.seen(seen, now, findings);
            if by == By::Stored && self.messages.get(&seen.sequence).is_some_and(|known| known.was_acked) {
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

    /// A message that was told once and expired after that is in no answer to a question that came later still.
    fn judge_expiry(&self, seen: &Seen, of: Of, asked_at: Option<u64>, now: Now, findings: &mut Findings) {
        let (Of::One(key), Some(asked_at)) = (of, asked_at) else { return };
        let (Some(send), Some(known)) = (self.sends.get(key), self.messages.get(&seen.sequence)) else { return };
        let Some(ttl) = send.beginning.ttl_seconds else { return };
        let gone_at = known.at.saturating_add(ttl.saturating_mul(1000)).saturating_add(now.skew);
        findings.check(Invariant::ExpiredNeverRead, asked_at <= gone_at, || {
            format!("{now}: {} of {} is read, and was gone at {gone_at}", seen.message_id, self.chat_id)
        });
    }

    /// Somebody got nothing between two sequences, neither of which is meant.
    fn leave_out(&mut self, last: Sequence, to: Sequence, by: By, now: Now, findings: &mut Findings) {
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

    /// A message became known: does it belong where somebody got nothing?
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

    fn judge_gap(&self, gap: &Gap, sequence: Sequence, message: &Known, findings: &mut Findings) {
        let (may_be_gone, began) = match message.of {
            Of::One(key) => {
                self.sends.get(key).map_or((true, 0), |send| (send.may_be_gone(gap.at), send.beginning.entry))
            }
            Of::Several { may_expire } => (may_expire, 0),
            Of::Nobody => (true, 0),
        };
        let is_owed = match gap.by {
            By::Rendering { owed_since, .. } => owed_since == 0 || began > owed_since,
            By::Sync { .. } | By::Stored => {
                findings.checked(Invariant::ExpiredNeverRead, u64::from(may_be_gone));
                true
            }
        };
        findings.check(gap.invariant(message.was_acked), may_be_gone || !is_owed, || {
            let (id, chat_id, who) = (message.message_id, self.chat_id, gap.who());
            format!("{id} at {sequence} of {chat_id}: {who} in entry {}", gap.entry)
        });
    }

    /// A user's client says how far they have come.
    pub(super) fn marked(&mut self, user_id: UserId, delivered: Sequence) {
        let come = self.come.entry(user_id).or_default();
        *come = delivered.max(*come);
    }

    /// A user was shown how they stand.
    pub(super) fn shown(
        &mut self,
        user_id: UserId,
        asked: Option<Floor>,
        (head, marks, unread): (Sequence, Watermarks, u64),
        now: Now,
        findings: &mut Findings,
    ) {
        let Watermarks { delivered, read } = marks;
        let chat_id = self.chat_id;
        findings.check(Invariant::ReadImpliesDelivered, read <= delivered, || {
            format!("{now}: {user_id} has read {read} of {chat_id}, {delivered} was delivered")
        });
        // The head may have been looked at first.
        findings.check(Invariant::WatermarkBoundedByHead, delivered <= head.max(self.highest), || {
            format!("{now}: {user_id} is at {delivered} of {chat_id}, whose head is {head}")
        });
        let Some(floor) = asked else { return };
        findings.check(Invariant::CounterLowerBound, head >= floor.highest, || {
            format!("{now}: the head of {chat_id} is {head}, and {} was told before", floor.highest)
        });
        let before = floor.watermarks;
        let is_monotonic = delivered >= before.delivered && read >= before.read;
        findings.check(Invariant::DeliveryWatermarkMonotonic, is_monotonic, || {
            let (from, to) = ((before.delivered, before.read), (delivered, read));
            format!("{now}: {user_id} was at {from:?} of {chat_id}, and is at {to:?} delivered and read")
        });
        let shown = self.shown.entry(user_id).or_default();
        shown.delivered = delivered.max(shown.delivered);
        shown.read = read.max(shown.read);
        let above = self.messages.range(Sequence(read.0.saturating_add(1))..);
        let least = above.filter(|(sequence, known)| {
            **sequence <= floor.highest && known.sender_id != user_id && !self.may_be_gone(known, now)
        });
        let least = least.take(UNREAD_EXACT_MAX).count() as u64;
        findings.check(Invariant::DynamodbIsAuthoritative, unread >= least, || {
            format!("{now}: {user_id} has {unread} unread in {chat_id}, at least {least} are above {read}")
        });
        self.unread.push(Unread { user_id, head, read, count: unread, entry: now.entry });
    }

    /// The entry in which a message began; 0 if it is unknown which send it is.
    fn began(&self, of: Of) -> u64 {
        match of {
            Of::One(key) => self.sends.get(key).map_or(0, |send| send.beginning.entry),
            Of::Several { .. } | Of::Nobody => 0,
        }
    }

    fn may_be_gone(&self, known: &Known, now: Now) -> bool {
        match known.of {
            Of::One(key) => self.sends.get(key).is_none_or(|send| send.may_be_gone(now.at.saturating_add(now.skew))),
            Of::Several { may_expire } => may_expire,
            Of::Nobody => true,
        }
    }

    /// What is owed to a client that has come as far as `last`, or to whose user nothing else has come: the first message,
    /// the entry in which it was first told of, and how many there are.
    pub(super) fn owed(&self, user_id: UserId, last: Option<Sequence>, now: Now) -> Option<Owed> {
        let owed_since = self.members.owed_since(user_id)?;
        let last = last.unwrap_or_else(|| self.come.get(&user_id).copied().unwrap_or_default());
        let mut owed = self.messages.range(Sequence(last.0.saturating_add(1))..).filter(|(_, known)| {
            let began = self.began(known.of);
            (owed_since == 0 || began > owed_since) && !self.may_be_gone(known, now)
        });
        let (sequence, known) = owed.next()?;
        Some(Owed { sequence: *sequence, message_id: known.message_id, told: known.entry, more: owed.count() })
    }

    /// Everything is told. What is missing for ever must have had a time to go, and what was unread was there.
    pub(super) fn finish(&self, now: Now, findings: &mut Findings) {
        let gaps = self.gaps.iter().filter(|gap| !matches!(gap.by, By::Rendering { owed_since: 1.., .. }));
        let missing = unknown_in(gaps, |from, to| self.messages.range(from..=to).count() as u64);
        let vanished: Vec<_> = self.sends.vanished(now.at.saturating_add(now.skew)).collect();
        if self.is_stored || missing > 0 {
            findings.check(Invariant::SequenceContiguous, missing <= vanished.len() as u64, || {
                let (chat_id, vanished) = (self.chat_id, vanished.len());
                format!("{missing} sequences of {chat_id} are nobody's, {vanished} sends may have expired")
            });
        }
        if !self.is_stored {
            return;
        }
        for Unread { user_id, head, read, count, entry } in &self.unread {
            let above = || self.messages.range(Sequence(read.0.saturating_add(1))..);
            let others = above().filter(|(_, known)| {
                let began = self.began(known.of);
                known.sender_id != *user_id && began < *entry
            });
            // What has expired before anybody was told of it was unread, too: a place is left of it, and a send.
            let places = self.highest.max(*head).0.saturating_sub(read.0).saturating_sub(above().count() as u64);
            let sends =
                vanished.iter().filter(|((sender_id, _), send)| sender_id != user_id && send.beginning.entry < *entry);
            let most = others.count() as u64 + places.min(sends.count() as u64);
            let is_exact = self.highest.0.saturating_sub(read.0) <= UNREAD_EXACT_MAX as u64;
            findings.check(Invariant::DynamodbIsAuthoritative, !is_exact || *count <= most, || {
                format!(
                    "entry {entry}: {user_id} has {count} unread in {}, at most {most} are above {read}",
                    self.chat_id
                )
            });
        }
    }
}

/// What somebody was told of one message.
struct Told {
    place: (MessageId, Sequence),
    sender_id: UserId,
    content: Option<u64>,
    of: Of,
    is_ack: bool,
}

/// What a client lacks.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) sequence: Sequence,
    pub(super) message_id: MessageId,
    /// The entry in which it was told of first.
    pub(super) told: u64,
    /// How many there are behind it.
    pub(super) more: usize,
}
