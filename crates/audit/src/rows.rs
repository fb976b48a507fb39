//! The rules of what is stored, over rows as a source shows them. Pure: rows in, what does not go together out.
//!
//! Nothing is reported here. A look has suspects, and the audit believes those that are there again when it looks a
//! second time: rows of a store that is being written to may not go together for a moment.

mod chat;
mod links;
mod log;
mod ranges;

use std::collections::BTreeMap;

use domain::Invariant;
use ports::{Audited, End};

pub(crate) use chat::{Context, chat, messages};
pub(crate) use links::{listing, pair, send_key};
pub(crate) use log::{LogState, Open, Place, Reflected, consumers, reflect, spoken_of};

use crate::Findings;

/// What an audit of a store and its log checks.
pub const CHECKED: &[Invariant] = &[
    Invariant::DynamodbIsAuthoritative,
    Invariant::CounterMustExist,
    Invariant::SequenceUniqueness,
    Invariant::SequenceContiguous,
    Invariant::SequenceMonotonicity,
    Invariant::CounterLowerBound,
    Invariant::IdempotencySequenceConsistency,
    Invariant::NoZeroSequence,
    Invariant::DeliveryWatermarkMonotonic,
    Invariant::WatermarkBoundedByHead,
    Invariant::ReadImpliesDelivered,
    Invariant::DirectChatUniqueness,
    Invariant::OwnerAlwaysExists,
    Invariant::GroupSizeBounded,
    Invariant::TtlBoundedTables,
    Invariant::ItemSizeBounded,
    Invariant::KafkaReflectsDynamodb,
    Invariant::PublishedEventually,
    Invariant::OrderingPreserved,
    Invariant::CommitAfterProcess,
    Invariant::NoSilentLoss,
    Invariant::OnlyMembersReceive,
];

/// What a look at some rows has shown.
#[derive(Debug, Default)]
pub(crate) struct Look {
    checked: BTreeMap<Invariant, u64>,
    pub(crate) suspects: Vec<Suspect>,
}

/// Something that does not hold as it was read.
#[derive(Debug)]
pub(crate) struct Suspect {
    invariant: Invariant,
    /// What it is about. Two looks mean the same thing if they name the same subject.
    subject: String,
    detail: String,
}

impl Look {
    /// Notes a check. `wrong` says what it is about, and what is wrong with it.
    pub(crate) fn check(&mut self, invariant: Invariant, holds: bool, wrong: impl FnOnce() -> (String, String)) {
        *self.checked.entry(invariant).or_default() += 1;
        if !holds {
            let (subject, detail) = wrong();
            self.suspects.push(Suspect { invariant, subject, detail });
        }
    }

    /// Looks at what all rows have in common, and returns what the row says if it says anything.
    pub(crate) fn sound<'a, T>(&mut self, audited: &'a Audited<T>, bytes_max: usize) -> Option<&'a T> {
        let Audited { table, key, bytes, end, row } = audited;
        let subject = || format!("`{key}` of `{table}`");
        self.check(Invariant::DynamodbIsAuthoritative, row.is_ok(), || {
            let reason = row.as_ref().err().map_or("", String::as_str);
            (subject(), format!("it cannot be read: {reason}"))
        });
        self.check(Invariant::ItemSizeBounded, *bytes <= bytes_max, || {
            (subject(), format!("it takes {bytes} bytes, and {bytes_max} is the most"))
        });
        if *end != End::Lasting {
            self.check(Invariant::TtlBoundedTables, *end == End::Timed, || {
                (subject(), "it is kept for a time, and nothing says when it goes".to_owned())
            });
        }
        row.as_ref().ok()
    }

    /// Keeps the suspects that another look at the same rows has too.
    pub(crate) fn confirm(&mut self, again: &Self) {
        self.suspects.retain(|suspect| again.suspects.iter().any(|other| other.is(suspect)));
    }

    /// Reports what was checked, and the suspects that are left.
    pub(crate) fn report(self, findings: &mut Findings) {
        for (invariant, times) in self.checked {
            findings.checked(invariant, times);
        }
        for Suspect { invariant, subject, detail } in self.suspects {
            findings.violate(invariant, format!("{subject}: {detail}"));
        }
    }
}

impl Suspect {
    fn is(&self, other: &Self) -> bool {
        self.invariant == other.invariant && self.subject == other.subject
    }
}
