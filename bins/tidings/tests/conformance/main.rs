//! The scenarios that every SDK passes (`clients/conformance`), with the Rust SDK against the real binary.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod device;
mod proxy;
mod runner;
mod scenario;
#[path = "../it/server.rs"]
mod server;

/// A test for each scenario, named as it is, and one that none is missing.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let scenario = scenario::all().into_iter().find(|scenario| scenario.test_name() == stringify!($name));
                runner::run(scenario.expect("the list has it")).await;
            }
        )*

        #[test]
        fn every_scenario_of_the_list_is_a_test_here() {
            let listed: Vec<String> = scenario::all().iter().map(scenario::Scenario::test_name).collect();
            assert_eq!(listed, [$(stringify!($name)),*]);
        }
    };
}

scenarios! {
    a_message_reaches_every_device_of_every_member_once_the_sender_s_own_among_them,
    sends_into_one_chat_keep_their_order_however_many_are_under_way,
    what_was_sent_while_a_device_was_away_is_handed_out_when_it_is_back,
    an_absence_of_more_than_one_page_is_caught_up_with,
    sends_that_were_queued_before_the_first_connection_go_out_with_it,
    sends_that_were_queued_offline_go_out_once_and_in_order,
    a_queue_of_sends_survives_the_death_of_its_device,
    a_device_that_died_goes_on_where_it_was_and_no_message_comes_twice,
    a_device_gets_what_the_user_s_other_device_has_taken_already,
    connections_that_are_cut_lose_and_double_nothing,
    a_server_that_is_killed_loses_and_doubles_nothing,
    a_server_that_goes_away_in_order_is_followed_when_it_is_back,
    a_connection_over_which_nothing_comes_any_more_is_replaced,
    a_silent_connection_is_kept_by_heartbeats,
    a_send_that_is_repeated_is_one_message,
    a_send_that_is_refused_for_good_fails_and_those_behind_it_go_on,
    a_message_that_was_not_stored_is_not_acknowledged_and_comes_again,
    nothing_overtakes_a_message_that_is_being_stored,
    what_was_stored_is_acknowledged_ten_messages_at_once_fewer_before_a_close,
    a_read_mark_reaches_the_sender_and_clears_the_count_on_the_reader_s_other_device,
    a_read_mark_that_was_made_offline_is_told_with_the_next_connection,
    typing_is_told_to_the_others_and_its_end,
    whoever_is_watched_is_told_to_come_and_go_over_reconnections_too,
    an_expired_message_is_gone_and_no_hole_to_whoever_was_away,
    a_chat_that_is_made_while_its_members_are_connected_is_followed_at_once,
    a_new_member_gets_what_is_sent_from_then_on_and_a_removed_one_nothing_more,
    whoever_leaves_a_group_is_told_so_on_every_device,
    a_session_that_is_revoked_ends_for_good,
    a_session_that_is_revoked_while_its_device_is_away_ends_when_it_is_back,
    of_two_clients_of_one_device_the_newer_one_stays,
    tokens_are_renewed_before_they_expire_and_the_connection_goes_on,
}
