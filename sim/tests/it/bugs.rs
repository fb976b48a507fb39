//! Every known bug must be found within its number of seeds, in every shape in which it occurs.

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
    privacy_remembered PrivacyRemembered,
}

fn is_found(bug: Bug) {
    for shape in bug.shapes() {
        let found = bug.found(*shape);
        assert!(found.is_some(), "`{bug}` is not found in a {shape} within {} seeds: {}", bug.seeds(), bug.says());
    }
}

#[test]
fn every_bug_has_its_test() {
    assert_eq!(TESTED, Bug::ALL);
}
