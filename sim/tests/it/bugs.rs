//! Every known bug must be found within its number of seeds, in every shape in which it occurs.

use domain::Invariant;
use tidings_sim::Bug;

/// One test per bug, so that they run in parallel and fail by name.
macro_rules! found {
    ($($test:ident $bug:ident,)+) => {
        const TESTED: &[Bug] = &[$(Bug::$bug,)+];
        $(
            #[test]
            fn $test() {
                is_found(Bug::$bug);
            }
        )+
    };
}

found! {
    two_phase_allocation TwoPhaseAllocation,
    ack_before_fsync AckBeforeFsync,
    torn_commit TornCommit,
    torn_tail_refused TornTailRefused,
    torn_record_taken TornRecordTaken,
    sync_does_nothing SyncDoesNothing,
    directory_unsynced DirectoryUnsynced,
    dedupe_forgotten DedupeForgotten,
    dedupe_without_sender DedupeWithoutSender,
    membership_from_memory MembershipFromMemory,
    retry_without_republish RetryWithoutRepublish,
    publish_before_commit PublishBeforeCommit,
    disordered_log DisorderedLog,
    offset_before_processing OffsetBeforeProcessing,
    watermark_by_maximum WatermarkByMaximum,
    watermark_moves_back WatermarkMovesBack,
    watermark_above_head WatermarkAboveHead,
    stale_sync StaleSync,
    expired_shown ExpiredShown,
    unread_counts_own UnreadCountsOwn,
    direct_chat_doubled DirectChatDoubled,
    senders_devices_skipped SendersDevicesSkipped,
    set_level_ttl SetLevelTtl,
    wipe_never_heals WipeNeverHeals,
    cache_never_forgets CacheNeverForgets,
    nobody_sweeps NobodySweeps,
    resync_ignored ResyncIgnored,
    overflow_forgotten OverflowForgotten,
    mailbox_unbounded MailboxUnbounded,
    one_device_decides OneDeviceDecides,
    fanout_writes FanoutWrites,
    replay_renamed ReplayRenamed,
    takeover_at_the_end TakeoverAtTheEnd,
    blocks_forgotten BlocksForgotten,
    unreadable_taken_for_empty UnreadableTakenForEmpty,
    privacy_remembered PrivacyRemembered,
    deletion_forgotten DeletionForgotten,
    location_forgotten LocationForgotten,
    throttled_without_backoff ThrottledWithoutBackoff,
    chat_in_one_item ChatInOneItem,
    changes_forgotten ChangesForgotten,
    webhook_commits_first WebhookCommitsFirst,
    webhook_unordered WebhookUnordered,
    notices_commit_first NoticesCommitFirst,
    notice_taken_once NoticeTakenOnce,
    notice_settled_early NoticeSettledEarly,
    updates_not_synced UpdatesNotSynced,
    update_forgotten UpdateForgotten,
    update_twice UpdateTwice,
    older_copy_kept OlderCopyKept,
    deletion_keeps_content DeletionKeepsContent,
    updates_to_former_members UpdatesToFormerMembers,
    reactions_drift ReactionsDrift,
    edit_by_any_member EditByAnyMember,
}

fn is_found(bug: Bug) {
    for shape in bug.shapes() {
        let found = bug.found(*shape);
        assert!(
            found.is_some(),
            "`{bug}` is not found in a {shape} within {} seeds: {}",
            bug.seeds(),
            bug.description()
        );
    }
}

/// Each of these invariants has a known bug that counts as found only if that invariant is violated.
const CONTROLLED: &[Invariant] = &[
    Invariant::ReplaySafe,
    Invariant::DownstreamNeverWritesUpstream,
    Invariant::ConflictResolution,
    Invariant::MultiDeviceAggregation,
    Invariant::BoundedBuffers,
    Invariant::BackpressureSignaled,
    Invariant::ItemSizeBounded,
    Invariant::PartitionKeyDistributed,
    Invariant::OutwardAtLeastOnce,
    Invariant::WebhookKeepsOrder,
    Invariant::ConvergentState,
];

#[test]
fn each_check_that_could_only_count_has_a_bug_of_its_own() {
    for invariant in CONTROLLED {
        assert!(Bug::ALL.iter().any(|bug| bug.breaks() == [*invariant]), "no bug shows that `{invariant}` can fail");
    }
}

#[test]
fn every_bug_has_its_test() {
    assert_eq!(TESTED, Bug::ALL);
}
