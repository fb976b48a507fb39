use std::collections::BTreeMap;

use domain::limits::GROUP_MEMBERS_MAX;
use domain::{
    Chat, ChatId, ChatType, Invariant, Message, MessageState, MessageUpdate, Role, Sequence, Timestamp, UpdateKind,
};
use ports::{
    AuditedChatRows, AuditedChatState, Head, IndexedLocation, ListingState, MemberRows, MessageRows, ReactionCounts,
    Receipt, StoredEntry, UpdateRows,
};

use super::RowChecks;

/// Most edited messages of a chat whose edits are counted.
const EDITED_MAX: usize = 100_000;

/// Checks a chat, its members and its head.
pub(crate) fn chat(rows: &AuditedChatRows, bytes_max: usize, overdue_before: Timestamp) -> RowChecks {
    let mut look = RowChecks::default();
    let chat_id = &rows.chat.key;
    let chat = look.sound(&rows.chat, bytes_max);
    look.check(Invariant::CounterMustExist, rows.head.is_some(), || {
        (chat_id.clone(), "it has no head row: its sends are refused until `tidings store recover-counter`".to_owned())
    });
    let head = rows.head.as_ref().and_then(|head| look.sound(head, bytes_max));
    for member in &rows.members {
        one_member(&mut look, chat_id, member, head, bytes_max);
    }
    if let Some(chat) = chat {
        membership(&mut look, chat, rows);
    }
    let is_late = rows.waiting_since.is_some_and(|since| since < overdue_before);
    look.check(Invariant::PublishedEventually, !is_late, || {
        let since = rows.waiting_since.map_or_else(String::new, |since| since.to_string());
        (chat_id.clone(), format!("something of it has waited for the log since {since}"))
    });
    look
}

fn membership(look: &mut RowChecks, chat: &Chat, rows: &AuditedChatRows) {
    let Chat { chat_id, member_count, .. } = chat;
    let members = rows.members.len();
    match chat.chat_type {
        ChatType::Group => {
            look.check(Invariant::GroupSizeBounded, members <= GROUP_MEMBERS_MAX, || {
                (chat_id.to_string(), format!("it has {members} members, and {GROUP_MEMBERS_MAX} is the most"))
            });
            if members > 0 {
                let is_owner = |rows: &MemberRows| rows.member.row.as_ref().is_ok_and(|it| it.role == Role::Owner);
                look.check(Invariant::OwnerAlwaysExists, rows.members.iter().any(is_owner), || {
                    (chat_id.to_string(), format!("none of its {members} members is its owner"))
                });
            }
        }
        ChatType::Direct => {
            look.check(Invariant::DirectChatUniqueness, rows.pair_leads_to == Some(*chat_id), || {
                let wrong = match rows.pair_leads_to {
                    Some(other) => format!("its two members have another direct chat, `{other}`"),
                    None => "no row of a pair leads to it: the two can open another".to_owned(),
                };
                (chat_id.to_string(), wrong)
            });
        }
    }
    look.check(Invariant::GroupSizeBounded, *member_count as usize == members, || {
        (format!("the count of {chat_id}"), format!("it says {member_count} members, and there are {members} rows"))
    });
}

fn one_member(look: &mut RowChecks, chat_id: &str, rows: &MemberRows, head: Option<&Head>, bytes_max: usize) {
    let user_id = rows.user_id;
    let subject = || format!("{user_id} in {chat_id}");
    look.sound(&rows.member, bytes_max);
    look.check(Invariant::NoSilentLoss, rows.listing != ListingState::Missing, || {
        (subject(), "the chat is not among the chats of this member: no device of theirs syncs it".to_owned())
    });
    look.check(Invariant::StoreIsAuthoritative, rows.listing != ListingState::Different, || {
        (subject(), "the row of the chat and the row of the user say different things".to_owned())
    });
    look.check(Invariant::DeliveryWatermarkMonotonic, rows.watermarks.is_some(), || {
        (subject(), "the watermarks are lost, and count as 0".to_owned())
    });
    let Some(marks) = rows.watermarks.as_ref().and_then(|audited| look.sound(audited, bytes_max)) else { return };
    look.check(Invariant::ReadImpliesDelivered, marks.read <= marks.delivered, || {
        (subject(), format!("read up to {} and delivered up to {}", marks.read, marks.delivered))
    });
    if let Some(head) = head {
        let highest = marks.read.max(marks.delivered);
        look.check(Invariant::WatermarkBoundedByHead, highest <= head.sequence, || {
            (subject(), format!("a watermark is at {highest}, and the head of the chat at {}", head.sequence))
        });
    }
}

/// Context of the rules for entries.
pub(crate) struct Context {
    pub(crate) chat_id: ChatId,
    pub(crate) bytes_max: usize,
    /// State of the chat, read after the rows.
    pub(crate) standing: AuditedChatState,
    /// Entries at the sequences that the rows refer to, read after the rows.
    pub(crate) referred: BTreeMap<Sequence, StoredEntry>,
    /// Entries created since then must have a send key.
    pub(crate) keys_since: Timestamp,
    pub(crate) now: Timestamp,
}

/// Checks messages of a chat, ascending from `from` on.
pub(crate) fn messages(rows: &[MessageRows], from: Sequence, context: &Context) -> RowChecks {
    let mut look = RowChecks::default();
    sequences(&mut look, rows.iter().map(|rows| rows.sequence), from, context);
    for rows in rows {
        look.check(Invariant::SequenceUniqueness, !rows.is_update, || {
            let subject = format!("{} sequence {}", context.chat_id, rows.sequence);
            (subject, "a message and an update are stored there".to_owned())
        });
        if let Some(message) = look.sound(&rows.message, context.bytes_max) {
            what_leads_to(&mut look, message, rows, context);
            state_of(&mut look, message, rows, context);
        }
    }
    look
}

/// Checks the sequences of entries of one kind, ascending from `from` on.
fn sequences(look: &mut RowChecks, all: impl Iterator<Item = Sequence>, from: Sequence, context: &Context) {
    let mut before: Option<Sequence> = None;
    for sequence in all {
        let subject = || format!("{} sequence {sequence}", context.chat_id);
        look.check(Invariant::NoZeroSequence, sequence > Sequence::ZERO, || {
            (subject(), "the first message of a chat is 1".to_owned())
        });
        let ascends = before.map_or(sequence >= from, |before| sequence > before);
        look.check(Invariant::SequenceUniqueness, ascends, || {
            (subject(), "it is stored after the same or a higher one".to_owned())
        });
        before = Some(sequence);
        if let Some(head) = context.standing.head {
            look.check(Invariant::SequenceMonotonicity, sequence <= head, || {
                (subject(), format!("the head of the chat is at {head}"))
            });
        }
    }
}

fn what_leads_to(look: &mut RowChecks, message: &Message, rows: &MessageRows, context: &Context) {
    let Message { message_id, .. } = message;
    let location = (context.chat_id, rows.sequence);
    let subject = || format!("{message_id} at {} sequence {}", location.0, location.1);
    let found = match rows.id_leads_to {
        IndexedLocation::Indexed => true,
        IndexedLocation::Nowhere => false,
        IndexedLocation::To(chat_id, sequence) => (chat_id, sequence) == location,
    };
    look.check(Invariant::StoreIsAuthoritative, found, || {
        let wrong = match rows.id_leads_to {
            IndexedLocation::To(chat_id, sequence) => format!("its id leads to {chat_id} sequence {sequence}"),
            IndexedLocation::Indexed | IndexedLocation::Nowhere => "its id leads nowhere".to_owned(),
        };
        (subject(), wrong)
    });
    if message.created_at >= context.keys_since {
        let expected = Receipt { message_id: *message_id, sequence: rows.sequence, created_at: message.created_at };
        key_of(look, rows.send_key, expected, subject);
    }
}

/// Checks that the send key of an entry names it.
fn key_of(look: &mut RowChecks, key: Option<Receipt>, entry: Receipt, subject: impl Fn() -> String) {
    let key = key.map(|receipt| (receipt.message_id, receipt.sequence));
    look.check(Invariant::IdempotencySequenceConsistency, key == Some((entry.message_id, entry.sequence)), || {
        let wrong = match key {
            Some((id, sequence)) => format!("its send key names {id} at sequence {sequence}"),
            None => "it has no send key: a retry would be a second entry".to_owned(),
        };
        (subject(), wrong)
    });
}

/// Checks the state that updates have left in a message. Updates that have expired are not there to compare with.
fn state_of(look: &mut RowChecks, message: &Message, rows: &MessageRows, context: &Context) {
    let MessageState { revision, edited, reactions } = &message.state;
    let (revision, sequence) = (*revision, rows.sequence);
    let subject = || format!("the state of {} sequence {sequence}", context.chat_id);
    if message.state != MessageState::default() {
        look.check(Invariant::StoreIsAuthoritative, revision > sequence, || {
            (subject(), format!("its revision is {revision}, which is not after the message"))
        });
        if let Some(head) = context.standing.head {
            look.check(Invariant::SequenceMonotonicity, revision <= head, || {
                (subject(), format!("its revision is {revision}, and the head of the chat is at {head}"))
            });
        }
        let last = context.referred.get(&revision).filter(|entry| entry.message_id.is_some());
        look.check(Invariant::StoreIsAuthoritative, last.is_none_or(|entry| entry.target == Some(sequence)), || {
            (subject(), format!("its revision is {revision}, which is not an update of the message"))
        });
        let edits = edited.map_or(0, |edited| u64::from(edited.count));
        look.check(Invariant::StoreIsAuthoritative, edits <= revision.0.saturating_sub(sequence.0), || {
            (subject(), format!("it counts {edits} edits, and its revision is {revision}"))
        });
    }
    // The reactions to an expired message may be deleted before it.
    let Some(of_members) = rows.reactions.as_ref().filter(|_| !message.is_expired(context.now)) else { return };
    let counts: ReactionCounts = reactions.iter().map(|known| (known.reaction.clone(), known.count)).collect();
    look.check(Invariant::StoreIsAuthoritative, counts == *of_members, || {
        let sum = |counts: &ReactionCounts| counts.values().map(|count| u64::from(*count)).sum::<u64>();
        let wrong = format!("it counts {} reactions, and its members have {}", sum(&counts), sum(of_members));
        (format!("the reactions to {} sequence {sequence}", context.chat_id), wrong)
    });
}

/// The number of edits of each message in the updates that were checked so far.
#[derive(Debug, Default)]
pub(crate) struct EditCounts(BTreeMap<Sequence, u32>);

impl EditCounts {
    /// Adds the edits of a page of updates.
    pub(crate) fn add(&mut self, page: &[UpdateRows]) {
        let updates = page.iter().filter_map(|rows| rows.update.row.as_ref().ok());
        for update in updates.filter(|update| update.kind == UpdateKind::Edited) {
            self.count(update.target);
        }
    }

    /// Counts an edit of a message. Returns the number of its edits so far, or 0 if there are too many messages.
    fn count(&mut self, target: Sequence) -> u32 {
        if self.0.len() >= EDITED_MAX && !self.0.contains_key(&target) {
            return 0;
        }
        let count = self.0.entry(target).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// The counts of the messages that a page changes.
    fn of(&self, page: &[UpdateRows]) -> Self {
        let targets = page.iter().filter_map(|rows| Some(rows.update.row.as_ref().ok()?.target));
        let known = targets.filter_map(|target| Some((target, *self.0.get(&target)?)));
        Self(known.collect())
    }
}

/// Checks updates of a chat, ascending from `from` on, after pages with these edits.
pub(crate) fn updates(rows: &[UpdateRows], from: Sequence, earlier: &EditCounts, context: &Context) -> RowChecks {
    let mut look = RowChecks::default();
    sequences(&mut look, rows.iter().map(|rows| rows.sequence), from, context);
    let mut edits = earlier.of(rows);
    for rows in rows {
        if let Some(update) = look.sound(&rows.update, context.bytes_max) {
            one_update(&mut look, update, rows, context);
            let count = if update.kind == UpdateKind::Edited { edits.count(update.target) } else { 0 };
            if let Some(message) = &rows.message {
                what_it_left(&mut look, update, message, count, rows, context);
            }
        }
    }
    look
}

fn one_update(look: &mut RowChecks, update: &MessageUpdate, rows: &UpdateRows, context: &Context) {
    let MessageUpdate { update_id, target, created_at, .. } = *update;
    let sequence = rows.sequence;
    let subject = || format!("the update {update_id} at {} sequence {sequence}", context.chat_id);
    look.check(Invariant::StoreIsAuthoritative, Sequence::ZERO < target && target < sequence, || {
        (subject(), format!("it changes {target}, which is not before it"))
    });
    // A message that is missing was deleted, or the check of the log reports it.
    let is_update = context.referred.get(&target).is_some_and(|entry| entry.target.is_some());
    look.check(Invariant::StoreIsAuthoritative, !is_update, || {
        (subject(), format!("it changes {target}, which is an update"))
    });
    if created_at >= context.keys_since {
        key_of(look, rows.send_key, Receipt { message_id: update_id, sequence, created_at }, subject);
    }
}

/// Checks that a message has an update, which is edit number `count` of it.
fn what_it_left(
    look: &mut RowChecks,
    update: &MessageUpdate,
    message: &Message,
    count: u32,
    rows: &UpdateRows,
    context: &Context,
) {
    let sequence = rows.sequence;
    let target = update.target;
    let subject = || format!("the update {} at {} sequence {sequence}", update.update_id, context.chat_id);
    let revision = message.state.revision;
    look.check(Invariant::StoreIsAuthoritative, revision >= sequence, || {
        (subject(), format!("its message {target} lacks it: the revision is {revision}"))
    });
    match &update.kind {
        UpdateKind::Edited => {
            let edits = message.state.edited.map_or(0, |edited| edited.count);
            let is_authors = update.user_id == message.sender_id;
            look.check(Invariant::StoreIsAuthoritative, is_authors && count <= edits, || match is_authors {
                true => (subject(), format!("it is edit {count} of message {target}, which counts {edits}")),
                false => (subject(), format!("it is an edit of message {target} by another user than its author")),
            });
        }
        UpdateKind::Deleted => {
            look.check(Invariant::StoreIsAuthoritative, message.is_expired(update.created_at), || {
                (subject(), format!("it has deleted message {target}, which has not expired"))
            });
        }
        UpdateKind::Reacted(_) | UpdateKind::Unreacted(_) => {}
    }
}
