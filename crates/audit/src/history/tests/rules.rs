use std::collections::BTreeSet;

use domain::Invariant;

use super::super::CHECKED;
use super::script::check;

/// A valid history of a chat: Ann with two devices, Bob, and temporarily Eve.
const GOOD: &str = "
    ann1 joining ann
    ann1 joined ann
    ann1 joining bob
    ann1 joined bob
    ann1 starts 0
    ann2 starts 0
    bob1 starts 0
    ann1 connects k1
    ann2 connects k2
    bob1 connects k3
    ann1 sends a
    ann1 sends b
    bob1 sends c
    ann1 acked a 1
    ann1 shows a 1
    bob1 shows a 1
    ann1 acked b 3
    bob1 acked c 2
    bob1 shows c 2
    bob1 shows b 3
    bob1 drops
    ann1 shows c 2
    ann1 shows b 3
    ann2 shows a 1
    ann2 shows c 2
    ann2 shows b 3
    ann1 sends d ttl 5
    ann1 acked d 4
    ann1 shows d 4
    ann1 joining eve
    ann1 joined eve
    eve1 starts
    ann1 sends e
    ann1 acked e 5
    ann1 shows e 5
    eve1 shows e 5
    ann1 leaving eve
    ann1 left eve
    ann1 sends f
    ann1 acked f 6
    ann1 shows f 6
    eve1 shows f 6
    ann2 shows d 4
    ann2 shows e 5
    ann2 shows f 6
    wait 6000
    bob1 connects k4
    bob1 syncs 3
    bob1 synced 3 6 last e=5 f=6
    bob1 shows e 5
    bob1 shows f 6
    bob1 marks 6 5
    bob1 asks
    bob1 shown 6 3 2 3
    bob1 asks
    bob1 shown 6 6 5 1
    bob1 sends lost
    bob1 refused lost SERVICE_UNAVAILABLE
    eve1 sends late
    eve1 refused late NOT_A_MEMBER
    reader stored 0 4 a=1 c=2 b=3
    reader stored 4 6 last e=5 f=6
    reader settled
";

#[test]
fn a_good_history_passes_and_exercises_every_rule() {
    let findings = check(GOOD);
    assert_eq!(findings.violations().map(|violation| &*violation.detail).collect::<Vec<_>>(), [""; 0]);
    let exercised: BTreeSet<Invariant> = findings.iter().filter(|(_, t)| t.checked > 0).map(|(i, _)| i).collect();
    assert_eq!(exercised, CHECKED.iter().copied().collect());
}

/// Asserts that a history violates exactly these invariants.
fn finds(broken: &[Invariant], script: &str) {
    let findings = check(script);
    let found: Vec<Invariant> = findings.iter().filter(|(_, t)| t.violated > 0).map(|(i, _)| i).collect();
    let details: Vec<_> = findings.violations().collect();
    assert_eq!(found, broken, "{script}\n{details:#?}");
}

fn fine(script: &str) {
    finds(&[], script);
}

#[test]
fn one_sequence_is_one_message_for_all_clients() {
    let sent = "ann1 sends a\n bob1 sends b\n";
    fine(&format!("{sent} ann1 acked a 1\n bob1 acked b 2\n eve1 shows a 1"));
    finds(&[Invariant::SequenceUniqueness], &format!("{sent} ann1 acked a 1\n bob1 acked b 1"));
    finds(&[Invariant::SequenceUniqueness], &format!("{sent} eve1 shows a 1\n reader stored 0 1 last b=1"));
}

#[test]
fn one_send_is_one_message() {
    let sent = "ann1 sends a\n";
    fine(&format!("{sent} ann1 acked a 1\n ann1 sends a\n ann1 acked a 1"));
    finds(&[Invariant::IdempotencySequenceConsistency], &format!("{sent} ann1 acked a 1\n ann1 acked a 2"));
    finds(&[Invariant::IdempotencySequenceConsistency], &format!("{sent} ann1 acked a 1\n ann1 acked a 2 as x"));
    finds(&[Invariant::IdempotencySequenceConsistency], &format!("{sent} bob1 shows a 1\n bob1 shows a 2 as x"));
    fine("ann1 sends a saying y\n ann1 sends b saying y\n bob1 shows a 1 saying y\n bob1 shows b 2 saying y");
}

#[test]
fn a_message_equals_its_send() {
    let sent = "ann1 sends a\n";
    let broken = [Invariant::StoreIsAuthoritative];
    finds(&broken, &format!("{sent} bob1 shows a 1 saying b"));
    finds(&broken, &format!("{sent} bob1 shows a 1 by bob"));
    finds(&broken, "bob1 shows a 1");
    finds(&broken, "bob1 acked a 1");
    finds(&broken, &format!("{sent} ann1 acked a 1\n ann1 sends b\n eve1 shows b 1 as a"));
}

#[test]
fn an_edited_message_has_the_content_of_its_send_or_of_an_edit() {
    let sent = "ann1 sends a\n ann1 acked a 1\n bob1 shows a 1\n";
    let edited = "ann1 editing a b\n ann1 updates u\n ann1 acked u 2\n";
    fine(&format!("{sent} {edited} eve1 shows a 1 saying b\n eve1 shows u 2\n reader stored 0 2 last a=1 u=2"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{sent} {edited} eve1 shows a 1 saying c"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{sent} bob1 editing a b\n eve1 shows a 1 saying b"));
}

#[test]
fn an_update_has_one_sequence_like_a_send() {
    let sent = "ann1 sends a\n ann1 acked a 1\n ann1 updates u\n ann1 acked u 2\n";
    fine(&format!("{sent} reader stored 0 2 last a=1 u=2"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} reader stored 0 2 last a=1"));
    finds(&[Invariant::IdempotencySequenceConsistency], &format!("{sent} ann1 acked u 3 as v"));
    finds(&[Invariant::SequenceUniqueness], &format!("{sent} bob1 shows a 2 as b"));
    finds(&[Invariant::NoSilentLoss], &format!("bob1 starts 0\n {sent} bob1 shows a 1\n ann1 settled"));
    let crossed = "ann1 sends a\n ann1 updates u\n ann1 acked u 1\n ann1 acked a 2";
    finds(&[Invariant::WriteOrderPreserved], crossed);
}

#[test]
fn an_update_may_be_missing_if_its_message_may_have_been_deleted_before() {
    let sent = "ann1 sends a\n ann1 acked a 1\n";
    let (updates, acked, stored) = ("bob1 updates u\n", "bob1 acked u 2\n", "reader stored 0 2 last");
    for deletes in ["ann1 erases\n", "ann1 deleting 1\n"] {
        fine(&format!("{sent} {deletes} {updates} {acked} {stored}"));
        fine(&format!("{sent} {updates} {deletes} {acked} {stored}"));
        finds(&[Invariant::AckImpliesPersistence], &format!("{sent} {updates} {acked} {deletes} {stored}"));
    }
}

#[test]
fn a_deleted_message_may_be_missing_from_then_on() {
    let sent = "bob1 starts 0\n ann1 sends a\n ann1 acked a 1\n";
    fine(&format!("{sent} ann1 deleting 1\n reader stored 0 1 last\n ann1 settled"));
    let broken = [Invariant::AckImpliesPersistence, Invariant::NoSilentLoss];
    finds(&broken, &format!("{sent} ann1 deleting 2\n reader stored 0 1 last\n ann1 settled"));
}

#[test]
fn refused_sends_do_not_exist_and_unknown_ones_exist_at_most_once() {
    let broken = [Invariant::StoreIsAuthoritative];
    finds(&broken, "ann1 sends a\n ann1 refused a NOT_A_MEMBER\n bob1 shows a 1");
    finds(&broken, "ann1 sends a\n bob1 shows a 1\n ann1 refused a NOT_A_MEMBER");
    fine("ann1 sends a\n ann1 refused a SERVICE_UNAVAILABLE\n bob1 shows a 1");
    fine("ann1 sends a\n ann1 refused a SERVICE_UNAVAILABLE\n reader stored 0 0 last");
    let again = "ann1 sends a\n ann1 connects k\n";
    fine(&format!("{again} ann1 sends a\n ann1 refused a NOT_A_MEMBER\n bob1 shows a 1"));
    fine(&format!("{again} ann1 refused a NOT_A_MEMBER\n bob1 shows a 1"));
    fine("ann1 sends a\n ann1 refused a NOT_A_MEMBER\n ann1 sends a\n ann1 acked a 1");
    fine("ann1 sends a unordered\n ann1 refused a NOT_A_MEMBER\n bob1 shows a 1");
}

#[test]
fn sends_that_begin_after_a_delivery_are_ordered_after_it() {
    finds(&[Invariant::AllocationMonotonicity], "ann1 sends a\n ann1 acked a 2\n bob1 sends b\n bob1 acked b 1");
    finds(&[Invariant::AllocationMonotonicity], "ann1 sends a\n eve1 shows a 2\n bob1 sends b\n eve2 shows b 1");
    fine("ann1 sends a\n bob1 sends b\n ann1 acked a 2\n bob1 acked b 1");
}

#[test]
fn sends_of_a_client_keep_their_order_unless_one_was_refused() {
    let sent = "ann1 sends a\n ann1 sends b\n ann1 sends c\n";
    finds(&[Invariant::WriteOrderPreserved], &format!("{sent} ann1 acked a 2\n ann1 acked b 1"));
    finds(&[Invariant::WriteOrderPreserved], &format!("{sent} ann1 acked c 2\n bob1 shows a 3"));
    fine(&format!("{sent} ann1 refused a SERVER_BUSY\n ann1 acked b 1\n ann1 acked a 2\n ann1 acked c 3"));
    fine("ann1 sends a\n ann2 sends b\n ann1 acked a 2\n ann2 acked b 1");
    fine("ann1 sends a unordered\n ann1 sends b unordered\n ann1 acked a 2\n ann1 acked b 1");
    // The first attempt of `a` may have been rejected unnoticed, before Bob was a member.
    let joins = "ann1 joining bob\n ann1 joined bob\n";
    let [first, second] = ["bob1 sends a\n", "bob1 sends b\n bob1 acked b 1\n bob1 acked a 2\n"];
    fine(&format!("{first} {joins} {second}"));
    finds(&[Invariant::WriteOrderPreserved], &format!("{joins} {first} {second}"));
}

#[test]
fn sequences_start_at_one() {
    finds(&[Invariant::AllocationMonotonicity, Invariant::NoZeroSequence], "ann1 sends a\n ann1 acked a 0");
    finds(&[Invariant::AllocationMonotonicity, Invariant::NoZeroSequence], "ann1 sends a\n bob1 shows a 0");
}

#[test]
fn an_acknowledged_message_is_stored() {
    let sent = "ann1 sends a\n ann1 sends b\n ann1 acked a 1\n ann1 acked b 2\n wait 1\n";
    fine(&format!("{sent} reader stored 0 2 last a=1 b=2"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} reader stored 0 2 last b=2"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} reader stored 0 1 last a=1"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} reader stored 0 1 a=1\n reader stored 1 1 last"));
    finds(&[Invariant::StoreIsAuthoritative], "ann1 sends a\n bob1 shows a 1\n wait 1\n reader stored 0 0 last");
    let expiring = "ann1 sends a ttl 1\n ann1 acked a 1\n";
    fine(&format!("{expiring} wait 1000\n reader stored 0 1 last"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{expiring} wait 999\n reader stored 0 1 last"));
}

#[test]
fn permanently_missing_sequences_must_have_expired() {
    let sent = "ann1 sends a\n ann1 sends b\n";
    finds(&[Invariant::SequenceContiguous], &format!("{sent} ann1 acked a 1\n reader stored 0 3 last a=1 b=3"));
    fine(&format!("ann1 sends x ttl 1\n wait 1000\n {sent} reader stored 0 3 last a=1 b=3"));
    finds(&[Invariant::SequenceContiguous], &format!("ann1 sends x ttl 1\n {sent} reader stored 0 3 last a=1 b=3"));
    finds(
        &[Invariant::SequenceContiguous],
        &format!("ann1 sends x ttl 1\n wait 1000\n {sent} reader stored 0 4 last a=1 b=4"),
    );
}

#[test]
fn only_expired_messages_may_be_skipped() {
    let sent = "ann1 sends a\n ann1 sends b\n ann1 sends c\n";
    finds(
        &[Invariant::NoSilentLoss],
        &format!("{sent} ann1 acked b 2\n bob1 starts 0\n bob1 shows a 1\n bob1 shows c 3"),
    );
    finds(&[Invariant::NoSilentLoss], &format!("{sent} bob1 shows a 1\n bob1 shows c 3\n ann1 acked b 2"));
    finds(&[Invariant::NoSilentLoss], &format!("{sent} ann1 acked a 1\n bob1 starts 0\n bob1 shows b 2"));
    fine(&format!("{sent} ann1 acked a 1\n bob1 starts 1\n bob1 shows b 2"));
    fine(&format!("{sent} ann1 acked a 1\n bob1 shows b 2"));
    let expiring = "ann1 sends a\n ann1 sends b ttl 1\n ann1 sends c\n bob1 shows a 1\n";
    fine(&format!("{expiring} wait 1000\n bob1 shows c 3\n ann1 acked b 2"));
    finds(&[Invariant::NoSilentLoss], &format!("{expiring} wait 999\n bob1 shows c 3\n ann1 acked b 2"));
}

#[test]
fn every_message_is_shown_once_and_in_order() {
    let sent = "ann1 sends a\n ann1 sends b\n";
    finds(&[Invariant::NoDuplicateRender], &format!("{sent} bob1 shows a 1\n bob1 shows a 1"));
    finds(&[Invariant::NoDuplicateRender], &format!("{sent} bob1 shows b 2\n bob1 shows a 1"));
    finds(&[Invariant::NoDuplicateRender], &format!("{sent} bob1 starts 1\n bob1 shows a 1"));
    fine(&format!("{sent} bob1 shows a 1\n bob1 shows b 2\n bob1 starts 0\n bob1 shows a 1\n bob1 shows b 2"));
}

#[test]
fn a_sync_returns_all_known_messages() {
    let sent = "ann1 sends a\n ann1 sends b\n ann1 acked a 1\n ann1 acked b 2\n";
    fine(&format!("{sent} bob1 syncs 0\n bob1 synced 0 2 last a=1 b=2"));
    fine(&format!("{sent} bob1 syncs 0\n bob1 synced 0 1 a=1"));
    finds(&[Invariant::SyncReadsAuthority], &format!("{sent} bob1 syncs 0\n bob1 synced 0 1 last a=1"));
    finds(&[Invariant::SyncCompleteness], &format!("{sent} bob1 syncs 0\n bob1 synced 0 2 last b=2"));
    finds(&[Invariant::SyncCompleteness], &format!("{sent} bob1 syncs 0\n bob1 synced 0 2 last b=2 a=1"));
    finds(&[Invariant::SyncCompleteness], &format!("{sent} bob1 syncs 1\n bob1 synced 1 2 last a=1 b=2"));
    // The loss of C1: a sequence that was allocated first is committed late, below the cursor of a client that has synced.
    let late = "ann1 sends a\n bob1 sends b\n bob1 acked b 2\n eve1 syncs 0\n eve1 synced 0 2 last b=2\n";
    finds(&[Invariant::SyncCompleteness], &format!("{late} ann1 acked a 1"));
    // A sync that was requested before the acknowledgement may miss the message.
    fine("bob1 syncs 0\n ann1 sends a\n ann1 acked a 1\n bob1 synced 0 0 last");
}

#[test]
fn messages_of_a_user_who_erases_them_may_be_missing_from_then_on() {
    let sent = "bob1 starts 0\n ann1 sends a\n ann1 acked a 1\n";
    let missed = "bob1 synced 0 1 last\n ann1 settled";
    fine(&format!("{sent} ann1 erases\n {missed}"));
    finds(&[Invariant::SyncCompleteness], &format!("{sent} bob1 synced 0 1 last\n ann1 erases\n ann1 settled"));
    finds(&[Invariant::SyncCompleteness, Invariant::NoSilentLoss], &format!("{sent} bob1 erases\n {missed}"));
    // A send that is in progress meanwhile may succeed, and is erased too.
    fine(&format!("ann1 starts 0\n ann1 erases\n {sent} {missed}"));
}

#[test]
fn messages_may_be_missing_once_the_last_member_may_have_left() {
    let sent = "ann1 joining ann\n ann1 joined ann\n ann1 joining bob\n ann1 joined bob\n \
                ann1 sends a\n ann1 acked a 1\n ann1 leaving bob\n ann1 left bob\n";
    let missed = "reader stored 0 1 last\n";
    fine(&format!("{sent} ann1 leaving ann\n {missed}"));
    fine(&format!("{sent} ann1 leaving ann\n ann1 left ann\n {missed}"));
    // A send that is in progress meanwhile may succeed, and is erased too.
    fine(&format!("{sent} ann1 leaving ann\n ann1 sends b\n ann1 acked b 2\n reader stored 0 2 last"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} {missed}"));
    finds(&[Invariant::AckImpliesPersistence], &format!("{sent} {missed} ann1 leaving ann\n ann1 left ann"));
    // With another member, the chat keeps its messages.
    let with_cid = "ann1 joining cid\n ann1 joined cid\n";
    finds(&[Invariant::AckImpliesPersistence], &format!("{with_cid} {sent} ann1 leaving ann\n {missed}"));
}

#[test]
fn no_response_contains_an_expired_message() {
    let sent = "ann1 sends a ttl 1\n ann1 acked a 1\n";
    fine(&format!("{sent} wait 1000\n reader stored 0 1 last a=1"));
    finds(&[Invariant::ExpiredNeverRead], &format!("{sent} wait 1001\n reader stored 0 1 last a=1"));
    finds(&[Invariant::ExpiredNeverRead], &format!("{sent} wait 1001\n bob1 syncs 0\n bob1 synced 0 1 last a=1"));
    fine(&format!("{sent} bob1 syncs 0\n wait 1001\n bob1 synced 0 1 last a=1"));
}

#[test]
fn every_member_ends_up_with_every_message() {
    let sent = "ann1 sends a\n ann1 acked a 1\n";
    fine(&format!("bob1 starts 0\n {sent} bob1 shows a 1\n ann1 settled"));
    finds(&[Invariant::NoSilentLoss], &format!("bob1 starts 0\n {sent} ann1 settled"));
    finds(&[Invariant::NoSilentLoss], &format!("bob1 starts 0\n {sent} ann1 settled\n ann1 settled"));
    fine(&format!("bob1 starts 0\n {sent} bob1 stops\n ann1 settled"));
    fine("bob1 starts 0\n ann1 sends a\n ann1 settled");
    // Bob starts at the server's position of his user, which is before he joined.
    let members = "ann1 joining bob\n ann1 joined bob\n bob1 starts\n ann1 joining ann\n ann1 joined ann\n";
    finds(&[Invariant::NoSilentLoss], &format!("{members} {sent} ann1 settled"));
    fine(&format!("{members} {sent} bob1 marks 1 0\n ann1 settled"));
    // A new member does not have to receive earlier messages.
    let later =
        "ann1 joining ann\n ann1 joined ann\n ann1 sends a\n ann1 acked a 1\n ann1 joining bob\n ann1 joined bob\n";
    fine(&format!("{later} bob1 starts\n ann1 settled"));
    fine(&format!("{later} bob1 starts 0\n ann1 sends b\n bob1 shows b 2\n ann1 settled"));
}

#[test]
fn other_devices_and_reconnected_clients_receive_everything() {
    let devices = "bob1 starts 0\n bob2 starts 0\n ann1 sends a\n ann1 acked a 1\n bob1 shows a 1\n";
    fine(&format!("{devices} bob2 shows a 1\n ann1 settled"));
    finds(&[Invariant::MultiDeviceDelivery, Invariant::NoSilentLoss], &format!("{devices} ann1 settled"));
    let own = "ann1 starts 0\n ann2 starts 0\n ann1 sends a\n ann1 acked a 1\n ann1 shows a 1\n ann1 settled";
    finds(&[Invariant::MultiDeviceDelivery, Invariant::NoSilentLoss], own);
    let away = "bob1 starts 0\n bob1 connects k1\n bob1 drops\n ann1 sends a\n ann1 acked a 1\n bob1 connects k2\n";
    fine(&format!("{away} bob1 shows a 1\n ann1 settled"));
    finds(&[Invariant::NoSilentLoss, Invariant::ReconnectHeals], &format!("{away} ann1 settled"));
}

#[test]
fn only_members_receive_but_for_one_push_that_races_with_the_removal() {
    let members = "ann1 joining ann\n ann1 joined ann\n ann1 joining bob\n ann1 joined bob\n";
    let removed = format!("{members} ann1 leaving bob\n ann1 left bob\n ann1 sends a\n ann1 sends b\n");
    fine(&format!("{removed} bob1 shows a 1\n bob2 shows a 1"));
    finds(&[Invariant::OnlyMembersReceive], &format!("{removed} bob1 shows a 1\n bob2 shows b 2"));
    finds(&[Invariant::OnlyMembersReceive], &format!("{removed} eve1 shows a 1"));
    finds(&[Invariant::OnlyMembersReceive], &format!("{removed} bob1 syncs 0\n bob1 synced 0 1 last a=1"));
    fine(&format!(
        "{members} ann1 sends a\n ann1 sends b\n ann1 leaving bob\n ann1 left bob\n bob1 shows a 1\n bob1 shows b 2"
    ));
    fine(&format!("{members} ann1 leaving bob\n ann1 sends a\n ann1 sends b\n bob1 shows a 1\n bob1 shows b 2"));
    fine(&format!("{removed} ann1 joining bob\n bob1 shows a 1\n bob1 shows b 2"));
}

#[test]
fn only_members_send() {
    let members = "ann1 joining ann\n ann1 joined ann\n ann1 joining bob\n ann1 joined bob\n";
    let broken = [Invariant::MembershipCheckUsesAuthority];
    finds(&broken, &format!("{members} ann1 leaving bob\n ann1 left bob\n bob1 sends a\n bob1 acked a 1"));
    finds(&broken, &format!("{members} eve1 sends a\n ann1 shows a 1"));
    fine(&format!("{members} bob1 sends a\n ann1 leaving bob\n ann1 left bob\n bob1 acked a 1"));
    fine(&format!("{members} ann1 leaving bob\n bob1 sends a\n bob1 acked a 1\n ann1 left bob"));
}

#[test]
fn watermarks_stay_in_their_bounds_and_never_go_back() {
    let sent = "ann1 sends a\n ann1 sends b\n ann1 acked a 1\n ann1 acked b 2\n bob1 asks\n";
    fine(&format!("{sent} bob1 shown 2 2 1 1\n bob1 asks\n bob1 shown 2 2 1 1"));
    finds(&[Invariant::WatermarkBoundedByHead], &format!("{sent} bob1 shown 2 3 2 0"));
    finds(&[Invariant::ReadImpliesDelivered], &format!("{sent} bob1 shown 2 1 2 0"));
    finds(&[Invariant::CounterLowerBound], &format!("{sent} bob1 shown 1 1 1 1"));
    let again = format!("{sent} bob1 shown 2 2 1 1\n bob1 asks\n");
    finds(&[Invariant::DeliveryWatermarkMonotonic], &format!("{again} bob1 shown 2 1 1 1"));
    finds(&[Invariant::DeliveryWatermarkMonotonic], &format!("{again} bob1 shown 2 2 0 2"));
    // Two concurrent requests may be answered in any order.
    fine(&format!("{sent} bob2 asks\n bob1 shown 2 2 1 1\n bob2 shown 2 1 1 1"));
    let members = "ann1 joining ann\n ann1 joined ann\n ann1 joining bob\n ann1 joined bob\n";
    finds(&[Invariant::DeliveryWatermarkMonotonic], &format!("{members} {again} bob1 shown 2 1 1 1"));
    fine(&format!("{members} {again} ann1 leaving bob\n bob1 shown 2 1 1 1"));
}

#[test]
fn unread_counts_messages_of_others_above_the_read_watermark() {
    let sent = "ann1 sends a\n bob1 sends b\n ann1 acked a 1\n bob1 acked b 2\n bob1 asks\n";
    let stored = "reader stored 0 2 last a=1 b=2";
    fine(&format!("{sent} bob1 shown 2 0 0 1\n {stored}"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{sent} bob1 shown 2 0 0 0\n {stored}"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{sent} bob1 shown 2 0 0 2\n {stored}"));
    // An update is unread for nobody.
    let updated = "ann1 updates u\n ann1 acked u 3\n bob1 asks\n";
    let all = "reader stored 0 3 last a=1 b=2 u=3";
    fine(&format!("{sent} bob1 shown 2 0 0 1\n {updated} bob1 shown 3 0 0 1\n {all}"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{sent} {updated} bob1 shown 3 0 0 2\n {all}"));
    // A message that expired before any client saw it still counted as unread for a while.
    let expiring = "ann1 sends x ttl 1\n bob1 asks\n";
    let gone = "wait 1000\n ann1 sends a\n ann1 acked a 2\n reader stored 0 2 last a=2";
    fine(&format!("{expiring} bob1 shown 1 0 0 1\n {gone}"));
    finds(&[Invariant::StoreIsAuthoritative], &format!("{expiring} bob1 shown 1 0 0 2\n {gone}"));
    let later = "bob1 asks\n bob1 shown 0 0 0 1\n ann1 sends x ttl 1\n";
    finds(&[Invariant::StoreIsAuthoritative], &format!("{later} {gone}"));
    let own = "bob1 sends x ttl 1\n bob1 asks\n bob1 shown 1 0 0 1\n";
    finds(&[Invariant::StoreIsAuthoritative], &format!("{own} {gone}"));
}

#[test]
fn a_connection_has_an_id_of_its_own() {
    finds(&[Invariant::ConnIdUniqueness], "ann1 connects k\n bob1 connects k");
}

#[test]
fn a_violation_is_reported_at_the_entry_that_shows_it() {
    let findings = check("ann1 sends a\n bob1 shows a 1\n bob1 shows a 1");
    let details: Vec<_> = findings.violations().map(|violation| violation.detail.clone()).collect();
    let bob = super::script::client("bob1");
    let chat_id = super::script::chat();
    assert_eq!(details, [format!("entry 3: {} on {} shows 1 of {chat_id} after 1", bob.user_id, bob.device_id)]);
}
