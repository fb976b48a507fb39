/// Turns a suite of this crate into tests, one per guarantee, each on a new subject.
///
/// `durable: stores()` runs all suites of the durable ports, and `durable_with_log: stores()` also the one of their log.
/// The other suites are named one by one. The subject is an expression that may await; every test evaluates it.
#[macro_export]
macro_rules! tests {
    (durable_with_log: $stores:expr) => {
        $crate::tests!(durable: $stores);
        $crate::tests!(log: $stores);
    };
    (durable: $stores:expr) => {
        $crate::tests!(messages: $stores);
        $crate::tests!(pages: $stores);
        $crate::tests!(updates: $stores);
        $crate::tests!(unread: $stores);
        $crate::tests!(chats: $stores);
        $crate::tests!(users: $stores);
        $crate::tests!(contacts: $stores);
        $crate::tests!(blocks: $stores);
        $crate::tests!(invitations: $stores);
        $crate::tests!(reports: $stores);
        $crate::tests!(last_seen: $stores);
        $crate::tests!(sessions: $stores);
        $crate::tests!(restrictions: $stores);
        $crate::tests!(passkeys: $stores);
        $crate::tests!(codes: $stores);
        $crate::tests!(watermarks: $stores);
        $crate::tests!(requests: $stores);
        $crate::tests!(push_devices: $stores);
        $crate::tests!(notices: $stores);
        $crate::tests!(dead_letters: $stores);
        $crate::tests!(accounts: $stores);
        $crate::tests!(expiry: $stores);
    };
    (messages: $stores:expr) => {
        $crate::tests!(@ messages, $stores, [
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
            g2_a_retry_matches_after_the_chat_has_changed_its_ttl,
            g3_sequences_are_contiguous_under_concurrent_writers,
            g3_sequences_become_visible_in_order,
            g3_refused_sends_use_no_sequence,
            g3_sequences_of_a_batch_are_per_chat,
            g4_only_members_send,
            g5_every_send_of_a_batch_has_an_outcome_at_its_index,
            g11_a_message_lives_as_long_as_it_or_its_chat_says,
        ]);
    };
    (pages: $stores:expr) => {
        $crate::tests!(@ pages, $stores, [
            g6_a_page_holds_everything_above_its_cursor,
            g6_a_page_is_of_one_chat,
            g6_a_page_is_bounded_by_count,
            g6_a_page_is_bounded_by_bytes,
            g6_a_page_counts_characters_as_json_escapes_them,
            g6_a_chat_that_does_not_exist_has_an_empty_page,
            g6_a_cursor_above_the_head_returns_the_head,
            heads_are_in_the_order_asked,
            history_is_newest_first_below_its_bound,
            by_id_finds_nothing_under_an_unknown_id,
            g11_an_expired_message_is_in_no_read,
            g11_a_page_of_expired_messages_is_empty_and_moves_on,
            g11_a_purged_message_keeps_its_sequence_and_no_preview,
        ]);
    };
    (updates: $stores:expr) => {
        $crate::tests!(@ updates, $stores, [
            an_update_is_an_entry_of_the_sequence,
            an_edited_message_is_edited_in_every_read,
            an_update_of_an_earlier_message_keeps_the_preview,
            g2_a_retried_update_is_one_update,
            updates_of_one_batch_see_each_other,
            g11_a_deleted_message_is_in_no_read,
            g11_the_expiry_of_an_update_is_fixed_when_it_is_committed,
            g11_an_expired_update_is_in_no_page,
            reactions_are_counted_and_listed,
            a_refused_update_changes_nothing,
            an_admin_deletes_the_messages_of_others,
            g10_updates_are_not_unread,
            g6_a_page_with_updates_is_bounded,
            concurrent_reactions_are_all_counted,
        ]);
    };
    (unread: $stores:expr) => {
        $crate::tests!(@ unread, $stores, [
            g10_messages_of_others_above_the_watermark_are_unread,
            g10_a_readers_own_messages_are_not_unread,
            g10_expired_messages_are_not_unread,
            g10_purged_messages_are_not_unread,
            g10_a_large_unread_count_is_exact_or_a_lower_bound,
            g10_an_unread_count_over_too_many_rows_is_inexact,
            unread_counts_are_in_the_order_asked,
        ]);
    };
    (chats: $stores:expr) => {
        $crate::tests!(@ chats, $stores, [
            a_pair_has_one_direct_chat,
            concurrent_requests_of_a_pair_open_one_direct_chat,
            a_new_group_is_complete,
            a_group_is_opened_once_for_its_id,
            chats_are_in_the_order_asked,
            memberships_are_found_by_chat_and_by_user,
            first_members_are_in_the_order_asked,
            non_members_and_unknown_chats_have_no_membership,
            an_inbox_is_in_the_order_of_last_activity,
            memberships_in_chats_are_in_the_order_asked,
            chats_are_counted_and_a_direct_chat_is_found_by_its_pair,
            a_rename_is_written,
            a_message_ttl_is_written_with_its_copy,
            a_message_ttl_does_not_recreate_a_lost_head,
            a_new_member_starts_at_the_head,
            a_removed_member_is_found_neither_by_chat_nor_by_user,
            the_last_member_leaves_a_group_empty,
            a_group_always_has_one_owner,
            a_mute_is_the_members_own,
            a_refused_command_changes_nothing,
            a_group_never_grows_beyond_its_bound,
        ]);
    };
    (users: $stores:expr) => {
        $crate::tests!(@ users, $stores, [
            a_key_finds_the_user_it_made,
            a_key_that_signs_in_at_once_has_one_user,
            a_subject_belongs_to_its_issuer,
            an_external_id_finds_its_user_until_the_account_is_deleted,
            users_are_in_the_order_asked,
            an_update_sets_the_given_fields,
            a_name_of_an_earlier_release_stays_readable,
        ]);
    };
    (contacts: $stores:expr) => {
        $crate::tests!(@ contacts, $stores, [
            a_contact_is_listed_until_it_is_removed,
            a_contact_is_listed_by_one_side,
            contacts_are_by_id_page_by_page,
            contacts_are_looked_up_in_the_order_asked,
        ]);
    };
    (blocks: $stores:expr) => {
        $crate::tests!(@ blocks, $stores, [
            a_block_holds_until_it_is_removed,
            a_block_has_one_direction,
            blocks_are_by_id_page_by_page,
            blocks_are_looked_up_in_the_order_asked,
            g4_neither_user_sends_to_a_direct_chat_during_a_block,
            g2_a_retry_of_a_send_before_the_block_returns_its_receipt,
            mutual_blocks_are_removed_one_by_one,
            no_direct_chat_is_opened_during_a_block,
            a_block_and_a_concurrent_opening_are_serialized,
            a_mute_keeps_blocks,
            direct_chats_with_a_block_are_found_in_the_order_asked,
            neither_user_changes_the_settings_of_a_direct_chat_during_a_block,
            deleting_an_account_removes_its_blocks,
        ]);
    };
    (invitations: $stores:expr) => {
        $crate::tests!(@ invitations, $stores, [
            an_addition_without_consent_is_an_invitation,
            consent_is_that_of_the_moment_of_the_addition,
            a_refused_addition_is_no_invitation,
            an_accepted_invitation_makes_a_member_at_the_head,
            an_acceptance_without_a_head_row_makes_a_member,
            an_acceptance_is_checked_like_an_addition,
            an_invitation_to_a_full_group_cannot_be_accepted,
            concurrent_answers_are_decided_one_by_one,
            a_declined_invitation_is_not_repeated,
            an_addition_with_consent_ends_a_pending_invitation,
            a_later_invitation_replaces_a_pending_one,
            an_invitation_expires,
            invitations_of_one_inviter_are_bounded,
            deleting_an_account_deletes_its_invitations,
        ]);
    };
    (reports: $stores:expr) => {
        $crate::tests!(@ reports, $stores, [
            a_report_is_read_as_it_was_filed,
            a_report_is_filed_once_for_its_id,
            reports_are_oldest_first_page_by_page,
            a_report_is_resolved_once,
            a_resolution_deletes_an_expiring_copy,
            a_resolved_report_ends_after_its_retention,
            a_user_has_a_bounded_number_of_open_reports_per_day,
            deleting_an_account_deletes_its_reports,
        ]);
    };
    (last_seen: $stores:expr) => {
        $crate::tests!(@ last_seen, $stores, [
            last_seen_only_moves_forward,
            one_call_updates_many_users,
            concurrent_updates_keep_the_latest_time,
            a_last_seen_update_changes_nothing_else,
            a_last_seen_update_creates_no_user,
        ]);
    };
    (sessions: $stores:expr) => {
        $crate::tests!(@ sessions, $stores, [
            a_session_exists_until_it_expires,
            a_device_has_one_session,
            sessions_are_oldest_first,
            a_refresh_rotates_the_token,
            a_reused_token_deletes_the_session,
            a_refused_refresh_changes_nothing,
            concurrent_refreshes_are_decided_one_by_one,
            both_successors_of_a_forgiven_token_are_valid,
            a_user_revokes_only_their_own_sessions,
        ]);
    };
    (restrictions: $stores:expr) => {
        $crate::tests!(@ restrictions, $stores, [
            restrictions_apply_to_their_user_only,
            a_suspended_user_does_not_send,
            concurrent_changes_are_decided_one_by_one,
            denied_tokens_are_bounded,
        ]);
    };
    (passkeys: $stores:expr) => {
        $crate::tests!(@ passkeys, $stores, [
            a_passkey_is_found_by_credential_and_by_user,
            a_credential_id_belongs_to_one_passkey,
            the_passkeys_of_a_user_are_bounded,
            a_removed_passkey_is_refused,
            a_use_moves_the_counter_forward,
            of_concurrent_uses_with_one_counter_one_is_recorded,
            deleting_an_account_deletes_its_passkeys,
        ]);
    };
    (codes: $stores:expr) => {
        $crate::tests!(@ codes, $stores, [
            a_code_is_spent_by_its_use,
            a_new_code_replaces_the_earlier_one,
            an_expired_code_is_wrong,
            concurrent_wrong_tries_lock_the_phone,
            of_concurrent_right_tries_one_is_correct,
            a_known_device_passes_a_lock,
            a_new_code_does_not_renew_the_tries,
            a_lock_stays_when_a_new_code_is_issued,
        ]);
    };
    (watermarks: $stores:expr) => {
        $crate::tests!(@ watermarks, $stores, [
            g7_a_watermark_only_moves_forward,
            g7_a_watermark_never_passes_the_head,
            g10_read_implies_delivered,
            g10_concurrent_devices_keep_the_highest_sequence,
            only_members_move_watermarks,
            watermarks_are_in_the_order_asked,
            a_watermark_has_the_time_of_its_move,
        ]);
    };
    (log: $stores:expr) => {
        $crate::tests!(@ log, $stores, [
            every_commit_leaves_its_events_in_order,
            events_are_numbered_in_commit_order_across_kinds,
            concurrent_commits_of_every_kind_get_different_numbers,
            a_change_of_a_chat_without_its_head_has_no_number,
            g1_every_acknowledged_message_is_in_the_log_in_order,
            a_consumer_continues_after_its_last_commit,
            a_commit_before_anything_was_returned_skips_nothing,
            each_group_has_its_own_position,
            a_waiting_consumer_is_woken,
            a_dropped_call_of_next_loses_nothing,
            an_event_keeps_its_position,
            a_seek_to_an_event_starts_with_that_event,
            a_seek_to_a_time_starts_with_the_first_event_not_older,
            a_seek_beyond_the_end_skips_no_event,
            an_existing_consumer_is_not_affected_by_a_seek,
            lag_counts_uncommitted_events,
            a_purge_leaves_one_event_per_chat,
            g11_the_event_of_a_purged_message_is_removed,
        ]);
    };
    (outbox: $subject:expr) => {
        $crate::tests!(@ outbox, $subject, [
            a_message_is_pending_until_it_is_published,
            only_commits_are_pending,
            the_published_sequence_only_moves_forward,
            many_messages_are_published_step_by_step,
            changes_are_pending_in_commit_order,
            a_confirmed_change_is_not_pending,
            overdue_chats_are_longest_pending_first,
            a_published_chat_is_not_overdue,
            committed_returns_the_commits_of_this_process,
            a_dropped_call_of_committed_loses_nothing,
            g11_an_expired_message_is_not_published,
            g11_a_chat_of_expired_messages_stops_being_overdue,
            g11_a_purge_is_pending_once,
            updates_are_pending_like_messages,
            g11_an_update_is_published_without_its_deleted_message,
        ]);
    };
    (requests: $stores:expr) => {
        $crate::tests!(@ requests, $stores, [
            an_unanswered_request_is_resumed_with_its_reservation,
            an_answered_request_is_replayed,
            a_key_with_another_request_is_a_mismatch,
            a_key_belongs_to_its_user,
            concurrent_tries_share_one_reservation,
            a_request_is_forgotten_after_a_day,
        ]);
    };
    (push_devices: $stores:expr) => {
        $crate::tests!(@ push_devices, $stores, [
            a_second_registration_replaces_the_first,
            devices_are_in_the_order_asked,
            a_removed_device_is_absent,
            a_user_has_a_bounded_number_of_devices,
            of_concurrent_registrations_no_more_than_the_bound_are_kept,
            a_device_is_forgotten_when_its_session_ends,
            a_device_that_signs_in_again_stays_registered,
        ]);
    };
    (notices: $stores:expr) => {
        $crate::tests!(@ notices, $stores, [
            a_notice_is_due_at_its_due_time,
            a_notice_is_pending_once,
            due_notices_are_taken_longest_due_first,
            a_taken_notice_is_postponed,
            of_concurrent_takers_one_gets_a_notice,
            a_notified_device_gets_no_notice_during_its_silence,
            a_failed_notice_is_due_again_and_counts_its_attempts,
            a_dropped_notice_allows_a_new_one,
            settling_a_settled_notice_changes_nothing,
            notices_added_late_are_found,
        ]);
    };
    (dead_letters: $stores:expr) => {
        $crate::tests!(@ dead_letters, $stores, [
            a_dead_letter_is_kept_as_it_was_buried_first,
            dead_letters_are_listed_oldest_first_page_by_page,
            a_removed_dead_letter_is_absent,
            a_dead_letter_is_kept_for_seven_days,
        ]);
    };
    (accounts: $stores:expr) => {
        $crate::tests!(@ accounts, $stores, [
            a_deletion_begins_with_a_tombstone,
            the_key_of_a_deleted_account_is_free,
            a_deletion_is_listed_until_it_ends,
            an_older_token_of_a_deleted_subject_leads_to_the_tombstone,
            a_deletion_that_begins_again_is_the_same,
            deleting_an_unknown_user_has_no_effect,
        ]);
    };
    (expiry: $stores:expr) => {
        $crate::tests!(@ expiry, $stores, [
            g11_a_message_made_to_expire_is_in_no_read,
            the_messages_of_one_sender_expire_alone,
            a_lifetime_counts_from_the_time_of_the_send,
            g2_a_send_key_outlives_a_message_made_to_expire,
            many_messages_expire_in_steps,
            g11_no_message_outlives_the_longest_lifetime,
            g11_an_updated_message_made_to_expire_loses_its_reactions,
            every_chat_is_listed_once,
            an_unknown_chat_has_nothing_to_expire,
        ]);
    };
    (transfer: $movables:expr) => {
        $crate::tests!(@ transfer, $movables, [
            every_row_is_equal_after_a_move,
            users_continue_after_a_move,
            a_user_of_an_earlier_version_gets_an_external_id,
            updates_continue_after_a_move,
            an_import_publishes_nothing,
            expired_rows_are_not_exported,
            an_import_needs_an_empty_store,
            an_unfinished_import_is_marked_and_can_restart,
        ]);
    };
    (tickets: $tickets:expr) => {
        $crate::tests!(@ tickets, $tickets, [
            a_ticket_is_taken_once,
            of_concurrent_takers_one_gets_the_ticket,
            a_ticket_is_void_once_it_expires,
            a_challenge_is_spent_once,
            of_concurrent_spenders_one_succeeds,
        ]);
    };
    (limits: $limits:expr) => {
        $crate::tests!(@ limits, $limits, [
            a_bucket_empties_and_fills_again,
            an_unused_bucket_is_full_and_no_fuller,
            keys_are_independent,
            concurrent_takers_get_no_more_than_the_burst,
            several_buckets_are_taken_from_together_or_not_at_all,
            concurrent_takers_of_several_buckets_get_no_more_than_the_burst,
        ]);
    };
    (routes: $routes:expr) => {
        $crate::tests!(@ routes, $routes, [
            a_registered_route_is_found,
            gateways_are_listed_with_the_users_on_them,
            multi_device_routing_delivers_to_all_servers,
            an_unregistered_route_is_absent,
            a_gateway_stays_in_a_users_set_until_their_last_route_ends,
            server_crash_causes_entries_to_expire_within_expiry_window,
            stale_routing_entry_ends_with_its_gateway,
            reconnect_updates_mapping_idempotently,
            split_brain_prevented_by_conn_id_uniqueness,
            a_heartbeat_returns_whether_the_gateway_was_registered,
            a_beat_revives_the_routes_of_its_gateway,
            live_gateways_have_a_recent_heartbeat,
            a_route_that_is_not_refreshed_ends,
            a_refresh_returns_the_earlier_state,
            a_refresh_restores_a_lost_route,
            the_routes_of_a_gateway_are_listed_live_or_not,
        ]);
    };
    (transitions: $routes:expr) => {
        $crate::tests!(@ transitions, $routes, [
            first_connection_transitions_to_online,
            last_connection_transitions_to_offline,
            multi_device_keeps_user_online,
            routes_that_end_together_are_one_transition,
            offline_is_announced_after_the_grace_period,
            a_reconnect_within_the_grace_period_is_not_announced,
            a_reconnect_before_the_announcement_announces_nothing,
            the_last_seen_time_is_known_before_the_announcement,
            each_disconnection_restarts_the_grace_period,
            a_reconnect_after_the_announcement_is_announced,
            the_longest_due_user_is_claimed_first,
            each_transition_is_claimed_once,
            an_unsettled_claim_is_given_out_again,
            a_change_during_a_claim_is_due_after_it,
            going_offline_during_an_online_claim_is_announced,
            going_offline_during_a_claim_has_a_grace_period,
            a_change_undone_during_a_claim_is_not_due,
            a_late_settlement_ends_no_other_claim,
            a_refreshed_lost_route_announces_nothing,
            unregistering_a_lost_route_is_announced,
            presence_staleness_bounded_by_expiry_window,
            a_sweep_leaves_users_with_another_route_online,
            the_last_of_several_dead_gateways_counts,
            a_disconnection_after_a_gateway_died_sets_last_seen,
            a_sweep_is_bounded,
            concurrent_sweeps_announce_each_user_once,
            routes_written_after_the_last_heartbeat_outlive_a_sweep,
            a_returning_gateway_keeps_its_refreshed_routes,
            a_gateway_that_returns_after_a_sweep_restores_its_users,
        ]);
    };
    (member_cache: $cache:expr) => {
        $crate::tests!(@ member_cache, $cache, [
            members_are_remembered_as_filled,
            an_invalidated_chat_is_forgotten,
            members_are_forgotten_with_time,
        ]);
    };
    (recipients: $recipients:expr) => {
        $crate::tests!(@ recipients, $recipients, [
            a_chat_that_is_not_cached_has_no_cached_recipients,
            cached_recipients_are_found_at_every_lookup,
            a_changed_member_list_counts_at_once_in_every_process,
            an_invalidated_chat_has_no_cached_recipients,
            recipients_of_given_members_need_no_cache,
            named_users_are_found_with_their_connections,
            recipients_end_with_their_routes_and_gateways,
        ]);
    };
    (peers: $peers:expr) => {
        $crate::tests!(@ peers, $peers, [
            a_process_is_found_in_its_roles,
            a_deregistered_process_is_removed,
            an_unannounced_process_expires,
        ]);
    };
    (@ $suite:ident, $subject:expr, [$($promise:ident),* $(,)?]) => {
        mod $suite {
            // The subject expression may use the names of the file that runs the suite.
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::$suite::$promise($subject).await;
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
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
