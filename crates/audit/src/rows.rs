//! Rules for stored rows. Pure functions from rows to suspected violations.
//!
//! Nothing is reported here. Rows of a store in use may be inconsistent for a moment, so the audit re-checks suspected
//! violations and reports those that persist.

mod chat;
mod links;
mod log;
mod ranges;

use std::collections::BTreeMap;

use domain::Invariant;
use ports::{AuditedRow, End};

pub(crate) use chat::{Context, EditCounts, chat, messages, updates};
pub(crate) use links::{listing, pair, send_key};
pub(crate) use log::{ChatSequence, LogState, Reflected, UnexplainedRange, consumers, expired, reflect, spoken_of};

use crate::Findings;

/// The invariants that an audit of a store and its log checks.
pub const CHECKED: &[Invariant] = &[
    Invariant::StoreIsAuthoritative,
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
    Invariant::LogReflectsStore,
    Invariant::PublishedEventually,
    Invariant::OrderingPreserved,
    Invariant::CommitAfterProcess,
    Invariant::NoSilentLoss,
    Invariant::OnlyMembersReceive,
];

/// Result of checking some rows.
#[derive(Debug, Default)]
pub(crate) struct RowChecks {
    checked: BTreeMap<Invariant, u64>,
    pub(crate) suspects: Vec<Suspect>,
}

/// A suspected violation.
#[derive(Debug)]
pub(crate) struct Suspect {
    invariant: Invariant,
    /// The subject. Suspects of two checks are the same if their subjects are equal.
    subject: String,
    detail: String,
}

impl RowChecks {
    /// Counts a check. `wrong` returns the subject and the details of a violation.
    pub(crate) fn check(&mut self, invariant: Invariant, holds: bool, wrong: impl FnOnce() -> (String, String)) {
        *self.checked.entry(invariant).or_default() += 1;
        if !holds {
            let (subject, detail) = wrong();
            self.suspects.push(Suspect { invariant, subject, detail });
        }
    }

    /// Checks the properties common to all rows. Returns the row if it is readable.
    pub(crate) fn sound<'a, T>(&mut self, audited: &'a AuditedRow<T>, bytes_max: usize) -> Option<&'a T> {
        let AuditedRow { table, key, bytes, end, row } = audited;
        let subject = || format!("`{key}` of `{table}`");
        self.check(Invariant::StoreIsAuthoritative, row.is_ok(), || {
            let reason = row.as_ref().err().map_or("", String::as_str);
            (subject(), format!("it cannot be read: {reason}"))
        });
        self.check(Invariant::ItemSizeBounded, *bytes <= bytes_max, || {
            (subject(), format!("it takes {bytes} bytes, limit is {bytes_max}"))
        });
        if *end != End::Lasting {
            self.check(Invariant::TtlBoundedTables, *end == End::Timed, || {
                (subject(), "its table requires an expiry, but it has none".to_owned())
            });
        }
        row.as_ref().ok()
    }

    /// Keeps only the suspected violations that another check of the same rows has, too.
    pub(crate) fn confirm(&mut self, again: &Self) {
        self.suspects.retain(|suspect| again.suspects.iter().any(|other| other.is(suspect)));
    }

    /// Reports the checks and the remaining suspected violations.
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
