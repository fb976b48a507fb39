/// Turns a suite of [`contract`](crate::contract) into tests, one for each promise, on a fresh subject each.
///
/// `durable: stores()` runs all suites of the durable ports; the others are named one by one. The subject is an
/// expression that may await; it is evaluated anew in every test.
#[macro_export]
macro_rules! contract_tests {
    (durable: $stores:expr) => {
        $crate::contract_tests!(messages: $stores);
        $crate::contract_tests!(pages: $stores);
        $crate::contract_tests!(unread: $stores);
        $crate::contract_tests!(chats: $stores);
        $crate::contract_tests!(users: $stores);
        $crate::contract_tests!(contacts: $stores);
        $crate::contract_tests!(blocks: $stores);
        $crate::contract_tests!(reports: $stores);
        $crate::contract_tests!(last_seen: $stores);
        $crate::contract_tests!(sessions: $stores);
        $crate::contract_tests!(codes: $stores);
        $crate::contract_tests!(watermarks: $stores);
        $crate::contract_tests!(log: $stores);
        $crate::contract_tests!(requests: $stores);
        $crate::contract_tests!(push_devices: $stores);
        $crate::contract_tests!(notices: $stores);
        $crate::contract_tests!(dead_letters: $stores);
        $crate::contract_tests!(accounts: $stores);
        $crate::contract_tests!(expiry: $stores);
    };
    (messages: $stores:expr) => {
        $crate::contract_tests!(@ messages, $stores, [
            adr_004_scenario_1_basic_sequence_allocation,
            adr_004_scenario_2_idempotent_retry,
            adr_004_scenario_3_concurrent_writers,
            adr_004_scenario_4_race_on_idempotency,
            adr_004_scenario_5_failure_after_allocation,
            adr_004_scenario_6_first_message_of_a_new_chat,
            adr_004_scenario_7_counter_missing,
            g1_an_acknowledged_message_is_in_every_read,
            g1_the_head_follows_the_last_message,
            g2_the_key_includes_the_sender,
            g2_the_key_includes_the_chat,
            g2_a_key_reused_for_something_else_is_refused,
            g2_a_batch_may_hold_a_send_twice,
            g2_a_key_outlives_its_message,
            g2_a_retry_is_one_after_the_chat_has_changed_its_ttl,
            g3_sequences_are_contiguous_under_concurrent_writers,
            g3_sequences_become_visible_in_order,
            g3_refused_sends_use_no_sequence,
            g3_a_batch_spans_chats_that_count_for_themselves,
            g4_only_members_send,
            g5_every_send_of_a_batch_is_answered_in_its_place,
            g11_a_message_lives_as_long_as_it_or_its_chat_says,
        ]);
    };
    (pages: $stores:expr) => {
        $crate::contract_tests!(@ pages, $stores, [
            g6_a_page_holds_everything_above_its_cursor,
            g6_a_page_is_of_one_chat,
            g6_a_page_is_bounded_by_count,
            g6_a_page_is_bounded_by_bytes,
            g6_a_chat_that_does_not_exist_has_an_empty_page,
            g6_a_cursor_above_the_head_is_told_the_head,
            heads_are_in_the_order_asked,
            history_is_newest_first_below_its_bound,
            by_id_finds_nothing_under_an_unknown_id,
            g11_an_expired_message_is_in_no_read,
            g11_a_page_of_expired_messages_is_empty_and_moves_on,
            g11_a_purged_message_leaves_its_place_and_no_words,
        ]);
    };
    (unread: $stores:expr) => {
        $crate::contract_tests!(@ unread, $stores, [
            g10_what_others_sent_above_the_watermark_is_unread,
            g10_a_readers_own_messages_are_not_unread,
            g10_expired_messages_are_not_unread,
            g10_purged_messages_are_not_unread,
            g10_far_above_the_watermark_every_sequence_is_unread,
            unread_counts_are_in_the_order_asked,
        ]);
    };
    (chats: $stores:expr) => {
        $crate::contract_tests!(@ chats, $stores, [
            a_pair_has_one_direct_chat,
            a_pair_that_asks_at_once_from_both_sides_has_one_direct_chat,
            a_new_group_is_whole,
            a_group_is_opened_once_for_its_id,
            chats_are_in_the_order_asked,
            memberships_are_found_from_both_ends,
            first_members_are_in_the_order_asked,
            outsiders_and_unknown_chats_have_no_members,
            a_rename_is_written,
            a_message_ttl_is_written_with_its_copy,
            a_message_ttl_brings_no_lost_head_back,
            a_new_member_starts_at_the_head,
            a_member_who_is_gone_is_gone_from_both_ends,
            a_group_always_has_one_owner,
            a_mute_is_the_members_own,
            a_refused_command_changes_nothing,
            a_group_never_grows_beyond_its_bound,
        ]);
    };
    (users: $stores:expr) => {
        $crate::contract_tests!(@ users, $stores, [
            a_key_finds_the_user_it_made,
            a_key_that_signs_in_at_once_has_one_user,
            a_subject_belongs_to_its_issuer,
            users_are_in_the_order_asked,
            an_update_sets_what_is_given,
        ]);
    };
    (contacts: $stores:expr) => {
        $crate::contract_tests!(@ contacts, $stores, [
            a_contact_is_listed_until_it_is_removed,
            a_contact_is_listed_by_one_side,
            contacts_are_by_id_page_by_page,
            contacts_are_looked_up_in_the_order_asked,
        ]);
    };
    (blocks: $stores:expr) => {
        $crate::contract_tests!(@ blocks, $stores, [
            a_block_holds_until_it_is_taken_back,
            a_block_is_of_one_side,
            blocks_are_by_id_page_by_page,
            blocks_are_looked_up_in_the_order_asked,
            g4_neither_writes_to_the_other_while_one_has_blocked,
            g2_a_send_from_before_the_block_is_answered_as_before,
            two_blocks_are_lifted_one_by_one,
            no_chat_is_opened_over_a_block,
            of_a_block_and_an_opening_at_once_one_sees_the_other,
            a_mute_lifts_no_block,
            who_goes_leaves_no_block,
        ]);
    };
    (reports: $stores:expr) => {
        $crate::contract_tests!(@ reports, $stores, [
            a_report_is_there_as_it_was_filed,
            a_report_is_filed_once_for_its_id,
            reports_are_oldest_first_page_by_page,
            a_report_is_resolved_once,
            what_was_to_expire_is_gone_with_the_resolution,
            a_resolved_report_is_gone_after_its_time,
            a_user_has_so_many_open_reports_of_a_day,
            who_goes_takes_their_reports_along,
        ]);
    };
    (last_seen: $stores:expr) => {
        $crate::contract_tests!(@ last_seen, $stores, [
            last_seen_only_moves_forward,
            users_are_seen_together,
            a_user_who_is_seen_twice_at_once_was_seen_at_the_later_time,
            a_sighting_changes_nothing_else,
            nobody_is_made_by_a_sighting,
        ]);
    };
    (sessions: $stores:expr) => {
        $crate::contract_tests!(@ sessions, $stores, [
            a_session_is_there_until_it_expires,
            a_device_has_one_session,
            sessions_are_oldest_first,
            a_refresh_rotates_the_token,
            a_reused_token_deletes_the_session,
            a_refused_refresh_changes_nothing,
            refreshes_of_one_session_are_judged_one_by_one,
            a_user_revokes_only_their_own_sessions,
        ]);
    };
    (codes: $stores:expr) => {
        $crate::contract_tests!(@ codes, $stores, [
            a_code_is_spent_by_its_use,
            a_new_code_replaces_the_earlier_one,
            an_expired_code_is_wrong,
            concurrent_wrong_tries_lock_the_phone,
            of_concurrent_right_tries_one_is_correct,
            a_lock_stays_when_a_new_code_is_issued,
        ]);
    };
    (watermarks: $stores:expr) => {
        $crate::contract_tests!(@ watermarks, $stores, [
            g7_a_watermark_only_moves_forward,
            g7_a_watermark_never_passes_the_head,
            g10_read_implies_delivered,
            g10_concurrent_devices_keep_the_furthest_place,
            only_members_move_watermarks,
            watermarks_are_in_the_order_asked,
        ]);
    };
    (log: $stores:expr) => {
        $crate::contract_tests!(@ log, $stores, [
            every_commit_leaves_its_events_in_order,
            g1_every_acknowledged_message_is_in_the_log_in_order,
            a_consumer_goes_on_behind_its_last_commit,
            a_commit_before_anything_was_returned_skips_nothing,
            each_group_has_its_own_place,
            a_waiting_consumer_is_woken,
            a_dropped_call_of_next_loses_nothing,
            an_event_is_found_at_its_place_again_and_again,
            a_group_begins_at_the_event_it_was_sent_to,
            a_group_begins_at_the_time_it_was_sent_to,
            a_place_that_is_not_written_yet_is_not_skipped_to,
            a_consumer_that_was_there_before_loses_nothing_by_a_seek,
            what_is_not_committed_is_lag,
            a_purge_is_told_chat_by_chat,
            g11_the_event_of_a_purged_message_is_gone_with_it,
        ]);
    };
    (outbox: $subject:expr) => {
        $crate::contract_tests!(@ outbox, $subject, [
            a_message_waits_until_it_is_published,
            what_was_not_committed_does_not_wait,
            the_published_place_only_moves_forward,
            many_messages_are_published_step_by_step,
            changes_wait_in_the_order_of_their_commits,
            a_forgotten_change_is_gone,
            what_waits_is_overdue_longest_first,
            what_is_published_is_overdue_no_more,
            commits_of_this_process_are_told,
            a_dropped_call_of_committed_loses_nothing,
            g11_an_expired_message_is_not_published,
            g11_a_chat_of_expired_messages_waits_no_longer,
            g11_a_purge_waits_to_be_told,
        ]);
    };
    (requests: $stores:expr) => {
        $crate::contract_tests!(@ requests, $stores, [
            an_unanswered_request_is_resumed_with_its_reservation,
            an_answered_request_is_replayed,
            a_key_with_another_request_is_a_mismatch,
            a_key_belongs_to_its_user,
            concurrent_tries_share_one_reservation,
            a_request_is_forgotten_after_a_day,
        ]);
    };
    (push_devices: $stores:expr) => {
        $crate::contract_tests!(@ push_devices, $stores, [
            a_registration_takes_the_place_of_the_one_before,
            devices_are_in_the_order_asked,
            a_removed_device_is_gone,
            a_user_has_a_bounded_number_of_devices,
            of_concurrent_registrations_no_more_than_the_bound_are_kept,
            a_device_is_forgotten_when_its_session_ends,
            a_device_that_signs_in_anew_stays_registered,
        ]);
    };
    (notices: $stores:expr) => {
        $crate::contract_tests!(@ notices, $stores, [
            a_notice_is_due_at_its_moment,
            a_notice_is_owed_once,
            due_notices_are_taken_longest_due_first,
            a_taken_notice_is_put_off,
            of_concurrent_takers_one_gets_a_notice,
            a_device_that_was_told_is_silent_for_a_while,
            a_failed_notice_is_due_again_and_counts_its_tries,
            a_dropped_notice_makes_room_for_the_next,
            a_notice_that_is_gone_stays_gone,
            notices_owed_late_or_long_ago_are_found,
        ]);
    };
    (dead_letters: $stores:expr) => {
        $crate::contract_tests!(@ dead_letters, $stores, [
            a_dead_letter_is_kept_as_it_was_buried_first,
            dead_letters_are_listed_oldest_first_page_by_page,
            a_forgotten_dead_letter_is_gone,
            a_dead_letter_is_kept_for_seven_days,
        ]);
    };
    (accounts: $stores:expr) => {
        $crate::contract_tests!(@ accounts, $stores, [
            a_deletion_begins_with_a_tombstone,
            the_key_of_a_deleted_account_is_free,
            a_deletion_is_listed_until_it_ends,
            a_deletion_that_begins_again_is_the_same,
            nobody_is_deleted,
        ]);
    };
    (expiry: $stores:expr) => {
        $crate::contract_tests!(@ expiry, $stores, [
            g11_what_was_made_to_end_is_in_no_read,
            the_messages_of_one_sender_end_alone,
            a_lifetime_counts_from_when_a_message_was_sent,
            g2_a_key_outlives_what_was_made_to_end,
            many_messages_end_step_by_step,
            a_chat_that_does_not_exist_has_nothing_to_end,
        ]);
    };
    (transfer: $movables:expr) => {
        $crate::contract_tests!(@ transfer, $movables, [
            everything_comes_into_another_store_as_it_was,
            whoever_was_in_one_store_goes_on_in_another,
            what_has_moved_is_not_published_again,
            what_is_over_stays_behind,
            a_store_that_holds_something_takes_no_import,
            an_unfinished_import_is_marked_and_begun_again,
        ]);
    };
    (tickets: $tickets:expr) => {
        $crate::contract_tests!(@ tickets, $tickets, [
            a_ticket_is_taken_once,
            of_concurrent_takers_one_gets_the_ticket,
            a_ticket_is_void_once_it_expires,
        ]);
    };
    (limits: $limits:expr) => {
        $crate::contract_tests!(@ limits, $limits, [
            a_bucket_empties_and_fills_again,
            an_unused_bucket_is_full_and_no_fuller,
            keys_count_for_themselves,
            concurrent_takers_get_no_more_than_the_burst,
        ]);
    };
    (routes: $routes:expr) => {
        $crate::contract_tests!(@ routes, $routes, [
            a_registered_route_is_found,
            gateways_are_asked_once_for_each_user,
            multi_device_routing_delivers_to_all_servers,
            an_unregistered_route_is_gone,
            a_gateway_is_a_users_until_their_last_route_there_is_gone,
            server_crash_causes_entries_to_expire_within_expiry_window,
            stale_routing_entry_ends_with_its_gateway,
            reconnect_updates_mapping_idempotently,
            split_brain_prevented_by_conn_id_uniqueness,
            a_beat_says_whether_the_gateway_was_known,
            a_beat_revives_the_routes_of_its_gateway,
            live_gateways_are_those_that_beat,
            a_route_that_is_not_refreshed_ends,
            a_refresh_says_how_it_stood,
            a_lost_route_is_there_again_when_it_is_refreshed,
            the_routes_of_a_gateway_are_listed_live_or_not,
        ]);
    };
    (transitions: $routes:expr) => {
        $crate::contract_tests!(@ transitions, $routes, [
            first_connection_transitions_to_online,
            last_connection_transitions_to_offline,
            multi_device_keeps_user_online,
            routes_that_end_together_are_one_going,
            a_going_is_told_when_its_grace_is_over,
            who_is_back_within_the_grace_was_not_away,
            who_was_back_in_time_is_claimed_and_no_news,
            since_when_somebody_is_gone_is_known_at_once,
            the_grace_counts_from_the_last_going,
            who_comes_back_later_is_told,
            who_has_waited_longest_is_claimed_first,
            each_transition_is_claimed_once,
            an_unsettled_claim_comes_again,
            a_change_meanwhile_is_told_behind_the_claim,
            a_coming_and_going_within_a_claim_is_told,
            a_going_meanwhile_has_its_grace,
            a_change_and_its_undoing_meanwhile_are_nothing,
            a_late_settlement_ends_no_other_claim,
            a_lost_route_that_is_refreshed_announces_nobody,
            who_goes_unknown_is_told,
            presence_staleness_bounded_by_expiry_window,
            a_sweep_leaves_users_with_another_route_online,
            the_last_of_several_dead_gateways_counts,
            who_left_later_than_a_gateway_died_was_seen_until_then,
            a_sweep_is_bounded,
            concurrent_sweeps_announce_each_user_once,
            what_a_silent_gateway_has_just_written_outlives_a_sweep,
            a_gateway_that_is_back_loses_nothing,
            a_gateway_that_is_back_too_late_brings_its_users_back,
        ]);
    };
    (member_cache: $cache:expr) => {
        $crate::contract_tests!(@ member_cache, $cache, [
            members_are_remembered_as_filled,
            an_invalidated_chat_is_forgotten,
            members_are_forgotten_with_time,
        ]);
    };
    (peers: $peers:expr) => {
        $crate::contract_tests!(@ peers, $peers, [
            a_process_is_found_in_its_roles,
            a_process_that_leaves_is_gone,
            a_silent_process_is_forgotten,
        ]);
    };
    (@ $suite:ident, $subject:expr, [$($promise:ident),* $(,)?]) => {
        mod $suite {
            // The subject is written in the words of the file that runs the suite.
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::contract::$suite::$promise($subject).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_promise_is_listed() {
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
        let list = fs::read_to_string(contract.join("list.rs")).unwrap();
        let mut promises = 0;
        for file in fs::read_dir(&contract).unwrap() {
            let source = fs::read_to_string(file.unwrap().path()).unwrap();
            for name in source.split("\npub async fn ").skip(1).filter_map(|text| text.split('(').next()) {
                assert!(list.contains(&format!(" {name},\n")), "`{name}` is in no list, so no adapter runs it");
                promises += 1;
            }
        }
        assert!(promises > 30, "only {promises} promises were found");
    }
}
