use std::fmt;
use std::str::FromStr;

use domain::Invariant;

use crate::plan::{RunPlan, RunShape};
use crate::run::run;

/// Declares the known bugs: name, description, the invariants it may violate, and the shapes in which it occurs.
macro_rules! bugs {
    ($($variant:ident $name:literal [$($invariant:ident)+] in [$($shape:ident)+] within $seeds:literal: $says:literal,)+) => {
        /// A bug that occurred once, here or elsewhere. The simulator injects it to test that the checkers find it.
        ///
        /// No bug is in the code of a plane. Each is in the simulated environment, which behaves as a broken one would.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $(#[doc = $says] $variant,)+
        }

        impl Bug {
            /// All known bugs.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Description in one sentence.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $says,)+ }
            }

            /// The invariants that it may violate; the simulator must find one of these violations.
            pub const fn breaks(self) -> &'static [Invariant] {
                match self { $(Self::$variant => &[$(Invariant::$invariant,)+],)+ }
            }

            /// The shapes in which it occurs.
            pub const fn shapes(self) -> &'static [RunShape] {
                match self { $(Self::$variant => &[$(RunShape::$shape,)+],)+ }
            }

            /// Number of seeds, from 0 on, within which it must be found.
            pub const fn seeds(self) -> u64 {
                match self { $(Self::$variant => $seeds,)+ }
            }
        }
    };
}

bugs! {
    TwoPhaseAllocation "two-phase-allocation" [SequenceContiguous SyncCompleteness NoSilentLoss SyncReadsAuthority AckImpliesPersistence WriteOrderPreserved] in [Fleet] within 100:
        "A sequence is allocated before its message is written, so a later message can become visible first (C1).",
    AckBeforeFsync "ack-before-fsync" [AckImpliesPersistence NoSilentLoss AllocationMonotonicity SequenceUniqueness CounterLowerBound StoreIsAuthoritative] in [Node] within 200:
        "A send is acknowledged before it is synced.",
    TornCommit "torn-commit" [SequenceMonotonicity SequenceUniqueness IdempotencySequenceConsistency LogReflectsStore SequenceContiguous StoreIsAuthoritative] in [Node] within 300:
        "An interrupted commit leaves some of its rows.",
    TornTailRefused "torn-tail-refused" [ConflictResolution PresenceStalenessBounded NoSilentLoss ReconnectHeals] in [Node] within 300:
        "Recovery refuses a journal whose last record is torn, and the node does not come back.",
    TornRecordTaken "torn-record-taken" [SequenceMonotonicity SequenceUniqueness IdempotencySequenceConsistency LogReflectsStore SequenceContiguous StoreIsAuthoritative] in [Node] within 300:
        "Recovery checks no checksum, and takes a torn record for a whole one.",
    SyncDoesNothing "sync-does-nothing" [AckImpliesPersistence NoSilentLoss AllocationMonotonicity SequenceUniqueness CounterLowerBound StoreIsAuthoritative] in [Node] within 200:
        "A sync returns before anything is on the disk.",
    DirectoryUnsynced "directory-unsynced" [DeliveryWatermarkMonotonic AckImpliesPersistence NoSilentLoss AllocationMonotonicity SequenceUniqueness CounterLowerBound StoreIsAuthoritative] in [Node] within 300:
        "The directory entry of a new journal is not synced, so a power cut loses the journal with all its records.",
    DedupeForgotten "dedupe-forgotten" [IdempotencySequenceConsistency AckImpliesPersistence NoDuplicateRender SequenceUniqueness StoreIsAuthoritative] in [Node Fleet] within 300:
        "A process loses its record of committed sends when it restarts.",
    DedupeWithoutSender "dedupe-without-sender" [AckImpliesPersistence NoSilentLoss IdempotencySequenceConsistency StoreIsAuthoritative] in [Node Fleet] within 100:
        "Two senders with the same client message id share one message (C4).",
    MembershipFromMemory "membership-from-memory" [MembershipCheckUsesAuthority OnlyMembersReceive] in [Node Fleet] within 200:
        "Former members may still send (C4).",
    RetryWithoutRepublish "retry-without-republish" [PublishedEventually NoSilentLoss] in [Fleet] within 100:
        "An event whose publication failed is never published again (C2).",
    PublishBeforeCommit "publish-before-commit" [LogReflectsStore] in [Fleet] within 100:
        "An event is published though its commit fails.",
    DisorderedLog "disordered-log" [OrderingPreserved] in [Fleet] within 100:
        "Events of one batch are published in random order.",
    OffsetBeforeProcessing "offset-before-processing" [CommitAfterProcess] in [Fleet] within 500:
        "A consumer commits its offset before it has processed the events.",
    WatermarkByMaximum "watermark-by-maximum" [NoSilentLoss ReconnectHeals] in [Fleet] within 300:
        "A client assumes that it has every message below the highest sequence it received (C5).",
    WatermarkMovesBack "watermark-moves-back" [DeliveryWatermarkMonotonic] in [Node Fleet] within 100:
        "The last written watermark wins, even if it is lower.",
    WatermarkAboveHead "watermark-above-head" [WatermarkBoundedByHead] in [Node Fleet] within 100:
        "A watermark can be stored above the head.",
    StaleSync "stale-sync" [SyncReadsAuthority SyncCompleteness NoSilentLoss] in [Node Fleet] within 200:
        "A sync reads a lagging replica and treats the result as complete.",
    ExpiredShown "expired-shown" [ExpiredNeverRead] in [Node Fleet] within 200:
        "Reads return expired messages until they are purged.",
    UnreadCountsOwn "unread-counts-own" [StoreIsAuthoritative] in [Node Fleet] within 200:
        "A user's own messages count as unread.",
    DirectChatDoubled "direct-chat-doubled" [DirectChatUniqueness] in [Node Fleet] within 300:
        "Two users who open their direct chat concurrently get two chats.",
    SendersDevicesSkipped "senders-devices-skipped" [MultiDeviceDelivery] in [Node Fleet] within 100:
        "A user's messages are not pushed to their other devices (C9).",
    SetLevelTtl "set-level-ttl" [RoutingTtlBounded PresenceStalenessBounded] in [Fleet] within 100:
        "Routes of a dead gateway do not expire while other routes are refreshed (C6).",
    WipeNeverHeals "wipe-never-heals" [SharedStateIsEphemeral NoSilentLoss MultiDeviceDelivery] in [Fleet] within 300:
        "A heartbeat extends existing routes but does not rewrite lost ones (C6).",
    CacheNeverForgets "cache-never-forgets" [OnlyMembersReceive MultiDeviceDelivery CachePopulatedFromAuthority] in [Node Fleet] within 300:
        "The member cache is never invalidated.",
    NobodySweeps "nobody-sweeps" [PresenceStalenessBounded] in [Fleet] within 500:
        "Users of a dead gateway are never announced as offline (C7).",
    ResyncIgnored "resync-ignored" [ConflictResolution] in [Node Fleet] within 300:
        "A client is not told that it missed pushes, so nothing heals a chat that is quiet afterwards.",
    OverflowForgotten "overflow-forgotten" [BackpressureSignaled] in [Node Fleet] within 300:
        "A gateway drops pushes to a slow reader and sends no resync.",
    MailboxUnbounded "mailbox-unbounded" [BoundedBuffers] in [Node Fleet] within 100:
        "A gateway queues more for a slow reader than the bounds of its mailbox.",
    OneDeviceDecides "one-device-decides" [MultiDeviceAggregation] in [Node Fleet] within 300:
        "A user is shown as offline when one of several devices disconnects.",
    FanoutWrites "fanout-writes" [DownstreamNeverWritesUpstream] in [Node Fleet] within 10:
        "Fanout moves watermarks in the store.",
    ReplayRenamed "replay-renamed" [ReplaySafe] in [Fleet] within 300:
        "An event that a consumer gets again has a message with another id.",
    TakeoverAtTheEnd "takeover-at-the-end" [CommitAfterProcess] in [Fleet] within 300:
        "A new consumer begins at the end of its partitions and not at their committed offsets.",
    BlocksForgotten "blocks-forgotten" [PrivacyEnforced] in [Node Fleet] within 300:
        "A blocked user still sees presence, receipts and typing.",
    UnreadableTakenForEmpty "unreadable-taken-for-empty" [SyncCompleteness] in [Node Fleet] within 300:
        "A page of messages that cannot be read is returned as an empty one.",
    PrivacyRemembered "privacy-remembered" [PrivacyEnforced] in [Node Fleet] within 500:
        "Visibility settings are cached and never refreshed.",
    DeletionForgotten "deletion-forgotten" [OwnerAlwaysExists ExpiredNeverRead] in [Node Fleet] within 300:
        "A deletion of an account is begun and never finished.",
    LocationForgotten "location-forgotten" [AckImpliesPersistence] in [Node Fleet] within 200:
        "The location of a message is lost, so its id finds nothing.",
    ThrottledWithoutBackoff "throttled-without-backoff" [PartitionKeyDistributed] in [Fleet] within 100:
        "A batch that the store refuses is sent again at once, without a pause.",
    ChatInOneItem "chat-in-one-item" [ItemSizeBounded] in [Node Fleet] within 300:
        "All messages of a chat are in one item, which grows with the chat.",
    ChangesForgotten "changes-forgotten" [OrderingPreserved] in [Fleet] within 500:
        "A process of the earlier version loses the number of changes, so event numbers are used twice.",
    WebhookCommitsFirst "webhook-commits-first" [OutwardAtLeastOnce] in [Node Fleet] within 300:
        "The webhook commits its offset before the application's server has the events.",
    WebhookUnordered "webhook-unordered" [WebhookKeepsOrder] in [Fleet] within 300:
        "The webhook takes a log that orders each kind of events for one that orders all of them.",
    NoticesCommitFirst "notices-commit-first" [OutwardAtLeastOnce] in [Node Fleet] within 100:
        "The notify plane commits its offset before the notices of its events are stored.",
    NoticeTakenOnce "notice-taken-once" [OutwardAtLeastOnce] in [Node Fleet] within 100:
        "A notice is deleted when a process takes it, so a notification that fails is not repeated.",
    NoticeSettledEarly "notice-settled-early" [OutwardAtLeastOnce] in [Node Fleet] within 100:
        "A notice counts as delivered although its push service has refused it.",
    UpdatesNotSynced "updates-not-synced" [SyncCompleteness ConvergentState] in [Node Fleet] within 100:
        "Updates are pushed, and no page of a sync has them.",
    UpdateForgotten "update-forgotten" [AckImpliesPersistence SequenceUniqueness AllocationMonotonicity CounterLowerBound] in [Node Fleet] within 100:
        "The store acknowledges an update and loses it.",
    UpdateTwice "update-twice" [IdempotencySequenceConsistency] in [Node Fleet] within 200:
        "A retry of an update is applied again, as a second entry.",
    OlderCopyKept "older-copy-kept" [ConvergentState] in [Node Fleet] within 100:
        "Of two copies of a message, a client keeps the one with the lower revision.",
    DeletionKeepsContent "deletion-keeps-content" [ExpiredNeverRead ConvergentState] in [Node Fleet] within 100:
        "The content of a deleted message stays in the history and in syncs.",
    UpdatesToFormerMembers "updates-to-former-members" [OnlyMembersReceive] in [Node] within 200:
        "Updates are pushed to users who have left the chat.",
    ReactionsDrift "reactions-drift" [ConvergentState] in [Node Fleet] within 100:
        "The count of a reaction stays when a member removes it.",
    EditByAnyMember "edit-by-any-member" [StoreIsAuthoritative] in [Node Fleet] within 100:
        "Members edit the messages of others.",
}

/// The detection of a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BugDetection {
    /// The seed that found it.
    pub seed: u64,
    /// The violated invariant.
    pub invariant: Invariant,
}

impl Bug {
    /// Searches for the bug in a shape, within its number of seeds. Only a violation of its own invariants counts.
    pub fn found(self, shape: RunShape) -> Option<BugDetection> {
        (0..self.seeds()).find_map(|seed| {
            let outcome = run(&RunPlan::of(seed, shape).with_bug(self));
            let is_broken = |invariant: &&Invariant| outcome.findings.tally(**invariant).violated > 0;
            self.breaks().iter().find(is_broken).map(|invariant| BugDetection { seed, invariant: *invariant })
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
