//! The scenarios that every SDK passes (`clients/conformance`), with the Rust SDK against the real binary.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod device;
mod proxy;
mod runner;
mod scenario;
#[path = "../it/server.rs"]
mod server;

/// One test per scenario, with its name, and a test that the list is complete.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                on_its_own_server(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_scenario_of_the_list_is_a_test_here() {
            let listed: Vec<String> = scenario::all().iter().map(scenario::ConformanceScenario::test_name).collect();
            assert_eq!(listed, [$(stringify!($name)),*]);
        }
    };
}

/// Runs a scenario on a server with its settings.
async fn on_its_own_server(name: &str) {
    let scenario = scenario::all().into_iter().find(|scenario| scenario.test_name() == name).expect("the list has it");
    let settings: Vec<(&str, &str)> = scenario.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut server = server::TestServer::start_with(&settings).await;
    runner::run(scenario, &mut server).await.unwrap_or_else(|why| panic!("{why}"));
}

scenarios! {
    a_message_reaches_every_device_of_every_member_once_the_sender_s_own_among_them,
    sends_to_one_chat_keep_their_order_however_many_are_in_flight,
    messages_that_were_sent_while_a_device_was_offline_are_handed_out_when_it_reconnects,
    an_absence_of_more_than_one_page_is_caught_up_with,
    sends_that_were_queued_before_the_first_connection_go_out_with_it,
    sends_that_were_queued_offline_go_out_once_and_in_order,
    the_send_queue_survives_a_crash_of_its_device,
    a_crashed_device_resumes_at_its_position_and_no_message_is_duplicated,
    a_device_receives_messages_that_the_user_s_other_device_has_already_acknowledged,
    cut_connections_lose_and_duplicate_no_message,
    a_killed_server_loses_and_duplicates_no_message,
    clients_reconnect_after_a_graceful_restart_of_the_server,
    a_stalled_connection_is_replaced,
    a_silent_connection_is_kept_by_heartbeats,
    metadata_of_a_message_is_received_in_pushes_syncs_and_history,
    a_send_that_is_repeated_is_one_message,
    a_permanently_refused_send_fails_and_later_sends_continue,
    an_edit_is_seen_at_once_on_every_device_of_every_member,
    edits_that_were_made_while_a_device_was_offline_are_seen_when_it_reconnects,
    a_deletion_removes_the_message_on_every_device_also_on_one_that_was_offline,
    reactions_of_two_users_are_counted_and_each_user_sees_which_are_their_own,
    an_update_that_is_repeated_is_made_once,
    a_refused_update_changes_nothing_and_later_updates_and_sends_continue,
    updates_that_were_queued_offline_survive_a_crash_of_their_device_and_are_made_once_in_order_with_its_sends,
    a_killed_server_loses_and_repeats_no_update,
    a_processed_update_counts_as_delivered,
    a_message_that_was_not_stored_is_not_acknowledged_and_comes_again,
    nothing_overtakes_a_message_that_is_being_stored,
    stored_messages_are_acknowledged_ten_at_once_fewer_when_the_chat_is_quiet_or_before_a_close,
    a_read_mark_reaches_the_sender_and_clears_the_count_on_the_reader_s_other_device,
    an_offline_read_mark_is_sent_on_the_next_connection,
    typing_and_its_end_are_pushed_to_the_other_members,
    presence_changes_of_subscribed_users_arrive_across_reconnections_too,
    an_expired_message_is_removed_and_leaves_no_gap_for_an_offline_device,
    a_chat_that_is_created_while_its_members_are_connected_is_tracked_at_once,
    a_new_member_receives_later_messages_and_a_removed_member_none,
    leaving_a_group_is_reported_on_every_device_of_the_user,
    a_revoked_session_ends_permanently,
    a_session_that_is_revoked_while_its_device_is_offline_ends_when_it_reconnects,
    of_two_clients_of_one_device_the_newer_one_stays,
    tokens_are_renewed_before_they_expire_and_the_connection_goes_on,
}
