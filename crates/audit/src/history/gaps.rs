use domain::{Invariant, Sequence};

use super::entry::Client;

/// Sequences that somebody did not get though they got what lies behind: in a log that grows in order, whoever sees a
/// sequence sees all below it that will ever exist. So the messages that belong here have expired, or something is wrong,
/// and that may be known only when somebody else tells of them.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) from: Sequence,
    pub(super) to: Sequence,
    pub(super) by: By,
    /// When.
    pub(super) at: u64,
    /// In which entry.
    pub(super) entry: u64,
}

/// Who left it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A client passed over it. What was sent before this entry is not owed to it.
    Rendering { client: Client, owed_since: u64 },
    /// A sync of a client.
    Sync { client: Client },
    /// The last look at what is stored.
    Stored,
}

impl Gap {
    pub(super) fn covers(&self, sequence: Sequence) -> bool {
        (self.from..=self.to).contains(&sequence)
    }

    /// What is broken if a message that is not to be left out belongs here.
    pub(super) fn invariant(&self, was_acked: bool) -> Invariant {
        match self.by {
            By::Rendering { .. } => Invariant::NoSilentLoss,
            By::Sync { .. } => Invariant::SyncCompleteness,
            By::Stored if was_acked => Invariant::AckImpliesPersistence,
            By::Stored => Invariant::DynamodbIsAuthoritative,
        }
    }

    /// In words.
    pub(super) fn who(&self) -> String {
        match self.by {
            By::Rendering { client, .. } => format!("{} on {} passed over it", client.user_id, client.device_id),
            By::Sync { client } => format!("a sync of {} on {} left it out", client.user_id, client.device_id),
            By::Stored => "it is not stored".to_owned(),
        }
    }
}

/// How many sequences lie in gaps, each counted once, less those for which `known` tells how many of a range are known.
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
        let gap = |from, to| Gap { from: Sequence(from), to: Sequence(to), by: By::Stored, at: 0, entry: 1 };
        let gaps = [gap(8, 9), gap(2, 5), gap(4, 6), gap(3, 3)];
        let seven_and_four =
            |from: Sequence, to: Sequence| [4, 7].iter().filter(|known| (from.0..=to.0).contains(known)).count() as u64;
        assert_eq!(unknown_in(gaps.iter(), seven_and_four), 6);
        assert_eq!(unknown_in([gap(1, u64::MAX), gap(1, u64::MAX)].iter(), |_, _| 0), u64::MAX);
    }
}
