//! Authorization of every route and every frame, for all callers from an anonymous one to the owner of a chat, and
//! attempts at impersonation.

mod admin;
mod foreign;
mod frames;
mod routes;
mod stage;
mod tricks;

/// The rights of each caller. These rules share the users of a stage.
mod callers {
    use super::foreign::{
        a_cursor_is_good_for_the_list_and_the_user_it_was_given_to, an_id_of_another_kind_names_nothing,
        an_idempotency_key_is_its_users_own, phone_numbers_and_sessions_of_others_are_never_returned,
        the_client_message_id_of_another_user_reveals_nothing,
    };
    use super::frames::{
        a_removed_member_receives_no_pushes_and_cannot_sync, connections_need_a_currently_valid_token,
        every_frame_is_answered_as_the_table_says,
    };
    use super::routes::every_route_answers_every_caller_as_in_the_table;
    use crate::rules::rules;

    rules!(
        on crate::authorization::stage::AuthorizationStage::set();
        a_cursor_is_good_for_the_list_and_the_user_it_was_given_to,
        an_id_of_another_kind_names_nothing,
        an_idempotency_key_is_its_users_own,
        phone_numbers_and_sessions_of_others_are_never_returned,
        the_client_message_id_of_another_user_reveals_nothing,
        a_removed_member_receives_no_pushes_and_cannot_sync,
        connections_need_a_currently_valid_token,
        every_frame_is_answered_as_the_table_says,
        every_route_answers_every_caller_as_in_the_table,
    );
}

/// Attacks on the public listener, and on the one of operators.
mod attacks {
    use super::admin::{
        every_route_of_operators_needs_the_role_of_the_table, no_answer_to_operators_has_the_content_of_a_message,
        no_route_of_operators_answers_without_their_token, operator_routes_are_not_on_the_public_listener,
    };
    use super::tricks::{
        a_path_that_is_not_a_route_leads_nowhere, a_request_that_two_readers_could_read_differently_is_refused,
        a_token_that_we_did_not_sign_is_worth_nothing, json_with_two_meanings_or_no_end_is_refused,
        names_bring_no_headers_and_no_markup_with_them, no_header_turns_a_request_into_another_one,
        oversized_requests_are_refused_before_they_are_read,
    };
    use crate::rules::rules;

    rules!(
        every_route_of_operators_needs_the_role_of_the_table,
        no_answer_to_operators_has_the_content_of_a_message,
        no_route_of_operators_answers_without_their_token,
        operator_routes_are_not_on_the_public_listener,
        a_path_that_is_not_a_route_leads_nowhere,
        a_request_that_two_readers_could_read_differently_is_refused,
        a_token_that_we_did_not_sign_is_worth_nothing,
        json_with_two_meanings_or_no_end_is_refused,
        names_bring_no_headers_and_no_markup_with_them,
        no_header_turns_a_request_into_another_one,
        oversized_requests_are_refused_before_they_are_read,
    );
}
