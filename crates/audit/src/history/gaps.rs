use domain::{Invariant, Sequence};

use super::entry::Client;

/// Sequences that a reader did not receive although it received a later one. The log grows in order, so a reader of a
/// sequence must see all existing messages below it. The messages in the gap have expired, or the service has a fault. The
/// checker may learn which only when another client reports them.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) from: Sequence,
    pub(super) to: Sequence,
    pub(super) by: GapKind,
    /// Time at which the gap was seen.
    pub(super) at: u64,
    /// Entry in which the gap was seen.
    pub(super) entry: u64,
}

/// The kind of read that has the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapKind {
    /// A client skipped it. Messages that were sent before `owed_since` are not expected.
    Rendering { client: Client, owed_since: u64 },
    /// A client's sync.
    Sync { client: Client },
    /// The final read of the store.
    Stored,
}

impl Gap {
    pub(super) fn covers(&self, sequence: Sequence) -> bool {
        (self.from..=self.to).contains(&sequence)
    }

    /// The violated invariant if an unexpired message lies in the gap.
    pub(super) fn invariant(&self, was_acked: bool) -> Invariant {
        match self.by {
            GapKind::Rendering { .. } => Invariant::NoSilentLoss,
            GapKind::Sync { .. } => Invariant::SyncCompleteness,
            GapKind::Stored if was_acked => Invariant::AckImpliesPersistence,
            GapKind::Stored => Invariant::StoreIsAuthoritative,
        }
    }

    /// Description of the gap.
    pub(super) fn who(&self) -> String {
        match self.by {
            GapKind::Rendering { client, .. } => format!("{} on {} skipped it", client.user_id, client.device_id),
            GapKind::Sync { client } => format!("a sync of {} on {} omitted it", client.user_id, client.device_id),
            GapKind::Stored => "it is not stored".to_owned(),
        }
    }
}

/// Number of sequences in the gaps, without duplicates and without known ones. `known` counts the known ones of a range.
pub(super) fn unknown_in<'a>(gaps: impl Iterator<Item = &'a Gap>, known: impl Fn(Sequence, Sequence) -> u64) -> u64 {
    let mut ranges: Vec<(Sequence, Sequence)> = gaps.map(|gap| (gap.from, gap.to)).collect();
    ranges.sort_unstable();
    let (mut unknown, mut counted) = (0_u64, Sequence::ZERO);
    for (from, to) in ranges {
        let from = from.max(Sequence(counted.0.saturating_add(1)));
        if from <= to {
            unknown = unknown.saturating_add((to.0 - from.0).saturating_add(1).saturating_sub(known(from, to)));
            counted = to;
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_gaps_count_each_sequence_once() {
        let gap = |from, to| Gap { from: Sequence(from), to: Sequence(to), by: GapKind::Stored, at: 0, entry: 1 };
        let gaps = [gap(8, 9), gap(2, 5), gap(4, 6), gap(3, 3)];
        let seven_and_four =
            |from: Sequence, to: Sequence| [4, 7].iter().filter(|known| (from.0..=to.0).contains(known)).count() as u64;
        assert_eq!(unknown_in(gaps.iter(), seven_and_four), 6);
        assert_eq!(unknown_in([gap(1, u64::MAX), gap(1, u64::MAX)].iter(), |_, _| 0), u64::MAX);
    }
}
