use std::fmt;
use std::str::FromStr;

use domain::Invariant;

use crate::plan::{Plan, Shape};
use crate::run::run;

/// Declares the known bugs: name, what it does, which promises may be broken by it, in which shapes it shows.
macro_rules! bugs {
    ($($variant:ident $name:literal [$($invariant:ident)+] in [$($shape:ident)+] within $seeds:literal: $says:literal,)+) => {
        /// A bug that somebody made once, here or elsewhere: put in on purpose, to see that the checkers bite.
        ///
        /// None of them is in the code of a plane. Each is in the world around it, which answers as a broken one would.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $(#[doc = $says] $variant,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it does, in a sentence.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $says,)+ }
            }

            /// What it breaks: the violation found is one of these.
            pub const fn breaks(self) -> &'static [Invariant] {
                match self { $(Self::$variant => &[$(Invariant::$invariant,)+],)+ }
            }

            /// Where it can show.
            pub const fn shapes(self) -> &'static [Shape] {
                match self { $(Self::$variant => &[$(Shape::$shape,)+],)+ }
            }

            /// Within how many seeds, from the first one on, it has to be found.
            pub const fn seeds(self) -> u64 {
                match self { $(Self::$variant => $seeds,)+ }
            }
        }
    };
}

bugs! {
    TwoPhaseAllocation "two-phase-allocation" [SequenceContiguous SyncCompleteness NoSilentLoss SyncReadsAuthority AckImpliesPersistence WriteOrderPreserved] in [Fleet] within 100:
        "A sequence is taken first and its message written later, so that a later one can be seen before it (C1).",
    AckBeforeFsync "ack-before-fsync" [AckImpliesPersistence NoSilentLoss AllocationMonotonicity SequenceUniqueness CounterLowerBound DynamodbIsAuthoritative] in [Node] within 200:
        "A send is answered before it is on the disk.",
    TornCommit "torn-commit" [SequenceMonotonicity SequenceUniqueness IdempotencySequenceConsistency KafkaReflectsDynamodb SequenceContiguous DynamodbIsAuthoritative] in [Node] within 300:
        "A commit that is cut off leaves a part of itself.",
    DedupeForgotten "dedupe-forgotten" [IdempotencySequenceConsistency AckImpliesPersistence NoDuplicateRender SequenceUniqueness DynamodbIsAuthoritative] in [Node Fleet] within 300:
        "Which sends were committed is known to a process only until it dies.",
    DedupeWithoutSender "dedupe-without-sender" [AckImpliesPersistence NoSilentLoss IdempotencySequenceConsistency DynamodbIsAuthoritative] in [Node Fleet] within 100:
        "Two members who name their sends alike share one message (C4).",
    MembershipFromMemory "membership-from-memory" [MembershipCheckUsesAuthority OnlyMembersReceive] in [Node Fleet] within 200:
        "Whoever was a member once may send (C4).",
    RetryWithoutRepublish "retry-without-republish" [PublishedEventually NoSilentLoss] in [Fleet] within 100:
        "An event whose publication failed is never published again (C2).",
    PublishBeforeCommit "publish-before-commit" [KafkaReflectsDynamodb] in [Fleet] within 100:
        "An event is published though its commit fails.",
    DisorderedLog "disordered-log" [OrderingPreserved] in [Fleet] within 100:
        "Events of one batch get into the log in any order.",
    OffsetBeforeProcessing "offset-before-processing" [CommitAfterProcess] in [Fleet] within 500:
        "A consumer keeps its place before it has processed what is there.",
    WatermarkByMaximum "watermark-by-maximum" [NoSilentLoss ReconnectHeals] in [Fleet] within 300:
        "A client believes to have everything below the highest sequence it saw (C5).",
    WatermarkMovesBack "watermark-moves-back" [DeliveryWatermarkMonotonic] in [Node Fleet] within 100:
        "The last mark wins, though it is older.",
    WatermarkAboveHead "watermark-above-head" [WatermarkBoundedByHead] in [Node Fleet] within 100:
        "A mark is taken as it comes, and one more.",
    StaleSync "stale-sync" [SyncReadsAuthority SyncCompleteness NoSilentLoss] in [Node Fleet] within 200:
        "A sync reads a replica that is behind, and takes it for all there is.",
    ExpiredShown "expired-shown" [ExpiredNeverRead] in [Node Fleet] within 200:
        "Expired messages are shown until somebody sweeps them away.",
    UnreadCountsOwn "unread-counts-own" [DynamodbIsAuthoritative] in [Node Fleet] within 200:
        "What I have written is unread to me.",
    DirectChatDoubled "direct-chat-doubled" [DirectChatUniqueness] in [Node Fleet] within 300:
        "Two who open their chat at once get one each.",
    SendersDevicesSkipped "senders-devices-skipped" [MultiDeviceDelivery] in [Node Fleet] within 100:
        "What a user sends is not pushed to their other devices (C9).",
    SetLevelTtl "set-level-ttl" [RoutingTtlBounded PresenceStalenessBounded] in [Fleet] within 100:
        "Routes of a dead gateway live as long as others are refreshed (C6).",
    WipeNeverHeals "wipe-never-heals" [RedisIsEphemeral NoSilentLoss MultiDeviceDelivery] in [Fleet] within 300:
        "A beat lengthens what is there, and does not write what is lost (C6).",
    CacheNeverForgets "cache-never-forgets" [OnlyMembersReceive MultiDeviceDelivery CachePopulatedFromAuthority] in [Node Fleet] within 300:
        "Who the members of a chat are is remembered, whatever changes.",
    NobodySweeps "nobody-sweeps" [PresenceStalenessBounded] in [Fleet] within 500:
        "Users of a gateway that died are never announced to be gone (C7).",
    PrivacyRemembered "privacy-remembered" [PrivacyEnforced] in [Node Fleet] within 500:
        "Who may be seen by whom is remembered, whatever they say later.",
}

/// How a bug was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which seed.
    pub seed: u64,
    /// What it broke.
    pub invariant: Invariant,
}

impl Bug {
    /// Looks for the bug in a shape, within its number of seeds; for one of the promises that it breaks.
    pub fn found(self, shape: Shape) -> Option<Found> {
        (0..self.seeds()).find_map(|seed| {
            let outcome = run(&Plan::of(seed, shape).with_bug(self));
            let is_broken = |invariant: &&Invariant| outcome.findings.tally(**invariant).violated > 0;
            self.breaks().iter().find(is_broken).map(|invariant| Found { seed, invariant: *invariant })
        })
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
        Self::ALL
            .iter()
            .copied()
            .find(|bug| bug.name() == text)
            .ok_or_else(|| format!("`{text}` is no known bug; there are {}", names()))
    }
}
