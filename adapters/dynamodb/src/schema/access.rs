//! The table access of each role: exactly the access that its ports need.
//!
//! The contract suites run with these restrictions, port by port, so that missing access fails a test. Another test
//! finds access that is allowed but never used.

use std::collections::{BTreeMap, BTreeSet};

use ports::ProcessRole;

use super::{SCAN, Table};

#[cfg(test)]
pub(crate) mod guard;

/// An action on items of a table, as IAM distinguishes it. Each part of a transaction counts as its own action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableAction {
    /// Reads one item.
    Get,
    /// Reads many items by their keys.
    BatchGet,
    /// Reads items of a partition.
    Query,
    /// Reads items of a partition of the table's index.
    QueryIndex,
    /// Reads the whole table.
    Scan,
    /// Writes an item.
    Put,
    /// Changes an item.
    Update,
    /// Deletes an item.
    Delete,
    /// Uses an item in a transaction condition.
    Check,
}

impl TableAction {
    /// Its name in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "dynamodb:GetItem",
            Self::BatchGet => "dynamodb:BatchGetItem",
            Self::Query | Self::QueryIndex => "dynamodb:Query",
            Self::Scan => SCAN,
            Self::Put => "dynamodb:PutItem",
            Self::Update => "dynamodb:UpdateItem",
            Self::Delete => "dynamodb:DeleteItem",
            Self::Check => "dynamodb:ConditionCheckItem",
        }
    }
}

/// The allowed actions of a role, by table. A table without an entry is inaccessible.
pub fn access(role: ProcessRole) -> BTreeMap<Table, BTreeSet<TableAction>> {
    let mut allowed: BTreeMap<Table, BTreeSet<TableAction>> = BTreeMap::new();
    for (table, actions) in ports_of(role).iter().flat_map(|port| port.needs()) {
        allowed.entry(*table).or_default().extend(*actions);
    }
    allowed
}

/// A port that the store implements, or a background task of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StorePort {
    MessageWriter,
    MessageReader,
    ChatWriter,
    ChatReader,
    UserWriter,
    UserReader,
    Contacts,
    Blocks,
    Invitations,
    Reports,
    LastSeen,
    Sessions,
    Restrictions,
    Passkeys,
    Codes,
    Watermarks,
    Outbox,
    Purge,
    Requests,
    PushDevices,
    Notices,
    DeadLetters,
    Accounts,
    Expirer,
}

/// The ports that the planes of a role use.
fn ports_of(role: ProcessRole) -> &'static [StorePort] {
    match role {
        // It accesses the store only through other roles.
        ProcessRole::Gateway => &[],
        ProcessRole::Ingest => &[
            StorePort::MessageWriter,
            StorePort::MessageReader,
            StorePort::ChatReader,
            StorePort::Watermarks,
            StorePort::Outbox,
            StorePort::Purge,
        ],
        // Downstream never writes upstream (ADR-003, 6.3).
        ProcessRole::Fanout => &[StorePort::ChatReader],
        ProcessRole::Api => &[
            StorePort::MessageReader,
            StorePort::ChatWriter,
            StorePort::ChatReader,
            StorePort::UserWriter,
            StorePort::UserReader,
            StorePort::Contacts,
            StorePort::Blocks,
            StorePort::Invitations,
            StorePort::Reports,
            StorePort::LastSeen,
            StorePort::Sessions,
            StorePort::Restrictions,
            StorePort::Passkeys,
            StorePort::Codes,
            StorePort::Watermarks,
            StorePort::Outbox,
            StorePort::Requests,
            StorePort::PushDevices,
            StorePort::Notices,
            StorePort::DeadLetters,
            StorePort::Accounts,
            StorePort::Expirer,
        ],
    }
}

impl StorePort {
    /// The actions of the port, by table.
    pub(crate) const fn needs(self) -> &'static [(Table, &'static [TableAction])] {
        use TableAction::{BatchGet, Check, Delete, Get, Put, Query, QueryIndex, Scan, Update};
        match self {
            Self::MessageWriter => &[
                (Table::Chats, &[BatchGet]),
                (Table::ChatMemberships, &[BatchGet, Check]),
                (Table::Messages, &[BatchGet, Put, Update]),
                (Table::MessageLocations, &[Put]),
                (Table::Expirations, &[Put, Delete]),
                (Table::ChatCounters, &[Get, BatchGet, Update]),
                (Table::IdempotencyKeys, &[BatchGet, Put]),
                (Table::Restrictions, &[Get, Query]),
                (Table::Updates, &[Put]),
                (Table::Reactions, &[BatchGet, Put, Delete]),
            ],
            Self::MessageReader => &[
                (Table::Messages, &[Get, BatchGet, Query, QueryIndex]),
                (Table::MessageLocations, &[Get]),
                (Table::ChatCounters, &[Get, BatchGet]),
                (Table::Updates, &[Query]),
                (Table::Reactions, &[BatchGet, Query]),
            ],
            Self::ChatWriter => &[
                (Table::Chats, &[Get, Put, Check]),
                (Table::ChatMemberships, &[BatchGet, Put, Update, Delete, Check]),
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[BatchGet, Put, Update]),
                (Table::DeliveryState, &[Put, Delete]),
                (Table::DirectChats, &[Get, Put]),
                (Table::Outbox, &[Put]),
                (Table::Blocks, &[BatchGet, Check]),
                (Table::Users, &[BatchGet, Check]),
                (Table::Contacts, &[BatchGet, Check]),
                (Table::Invitations, &[BatchGet, Query, Put, Delete]),
                (Table::Updates, &[Query]),
            ],
            Self::ChatReader => &[
                (Table::Chats, &[Get, BatchGet]),
                (Table::ChatMemberships, &[Get, BatchGet, Query]),
                (Table::ChatCounters, &[BatchGet]),
                (Table::DeliveryState, &[Query]),
                (Table::DirectChats, &[Get]),
            ],
            Self::UserWriter => &[(Table::Users, &[BatchGet, Put, Update]), (Table::UserKeys, &[Get, Put])],
            Self::UserReader => &[(Table::Users, &[BatchGet]), (Table::UserKeys, &[BatchGet])],
            Self::Contacts => &[(Table::Contacts, &[BatchGet, Query, Put, Delete])],
            Self::Blocks => &[
                (Table::Blocks, &[BatchGet, Query, Put, Delete]),
                (Table::ChatMemberships, &[BatchGet, Update]),
                (Table::DirectChats, &[BatchGet, Check]),
            ],
            Self::Invitations => &[
                (Table::Invitations, &[Query, Put, Delete]),
                (Table::Chats, &[Get, Put]),
                (Table::ChatMemberships, &[BatchGet, Put]),
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[BatchGet, Update]),
                (Table::DeliveryState, &[Put]),
                (Table::Outbox, &[Put]),
                (Table::Blocks, &[BatchGet, Check]),
                (Table::Updates, &[Query]),
            ],
            Self::Reports => &[(Table::Reports, &[BatchGet, Query, Put, Update, Delete])],
            Self::LastSeen => &[(Table::Users, &[Update])],
            Self::Sessions => {
                &[(Table::Sessions, &[Get, BatchGet, Put, Delete]), (Table::PushDevices, &[Get, Query, Update, Delete])]
            }
            Self::Restrictions => &[(Table::Restrictions, &[Get, Query, Put, Delete])],
            Self::Passkeys => &[(Table::Passkeys, &[Get, Query, Put, Update, Delete])],
            Self::Codes => &[(Table::OneTimeCodes, &[Get, Put])],
            Self::Watermarks => &[
                (Table::Chats, &[Get]),
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[BatchGet]),
                (Table::DeliveryState, &[BatchGet, Update]),
                (Table::Updates, &[Query]),
            ],
            Self::Outbox => &[
                (Table::Messages, &[BatchGet, Query]),
                (Table::ChatCounters, &[Get, QueryIndex, Update]),
                (Table::Outbox, &[Query, QueryIndex, Put, Delete]),
                (Table::Updates, &[Query]),
            ],
            Self::Purge => &[
                (Table::Messages, &[Delete]),
                (Table::Expirations, &[Query, Update, Delete]),
                (Table::ChatCounters, &[Get, Update]),
                (Table::Outbox, &[Put]),
                (Table::Reactions, &[Query, Delete]),
            ],
            Self::Requests => &[(Table::Requests, &[Get, Put, Update])],
            Self::PushDevices => &[(Table::PushDevices, &[Get, Query, Update, Delete])],
            Self::Notices => &[(Table::Notices, &[QueryIndex, Put, Update, Delete])],
            Self::DeadLetters => &[(Table::DeadLetters, &[Get, Query, Put, Delete])],
            Self::Accounts => &[
                (Table::Users, &[BatchGet, Put]),
                (Table::UserKeys, &[Delete]),
                (Table::Deletions, &[Get, Query, Put, Delete]),
            ],
            Self::Expirer => &[
                (Table::Chats, &[Scan]),
                (Table::Messages, &[Query, Update]),
                (Table::MessageLocations, &[Put]),
                (Table::Expirations, &[Put, Delete]),
                (Table::ChatCounters, &[Get, Update]),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Advance, ChatId, Sequence, Timestamp, Ttl, UpdateAction, UserId, WatermarkKind};
    use expect_test::expect;
    use ports::{AppendOutcome, ChatWriter, MessageWriter, NewEntry, NewGroup, NewMessage, Outbox, WatermarkStore};

    use super::guard::{Done, client_of};
    use super::*;
    use crate::contract::guarded;
    use crate::item::{DynamoItem, ItemKey};
    use crate::testing::{DynamoServer, chat, message, update};

    #[test]
    fn each_role_reaches_its_own_tables_and_no_others() {
        let mut said = String::new();
        for role in ProcessRole::ALL {
            said += &format!("{role}\n");
            for (table, actions) in access(role) {
                said += &format!("  {} {actions:?}\n", table.name());
            }
        }
        expect![[r#"
            gateway
            ingest
              chats {Get, BatchGet}
              chat_memberships {Get, BatchGet, Query, Check}
              messages {Get, BatchGet, Query, QueryIndex, Put, Update, Delete}
              message_locations {Get, Put}
              expirations {Query, Put, Update, Delete}
              chat_counters {Get, BatchGet, QueryIndex, Update}
              idempotency_keys {BatchGet, Put}
              delivery_state {BatchGet, Query, Update}
              direct_chats {Get}
              outbox {Query, QueryIndex, Put, Delete}
              restrictions {Get, Query}
              updates {Query, Put}
              reactions {BatchGet, Query, Put, Delete}
            fanout
              chats {Get, BatchGet}
              chat_memberships {Get, BatchGet, Query}
              chat_counters {BatchGet}
              delivery_state {Query}
              direct_chats {Get}
            api
              users {BatchGet, Put, Update, Check}
              user_keys {Get, BatchGet, Put, Delete}
              chats {Get, BatchGet, Scan, Put, Check}
              chat_memberships {Get, BatchGet, Query, Put, Update, Delete, Check}
              messages {Get, BatchGet, Query, QueryIndex, Update}
              message_locations {Get, Put}
              expirations {Put, Delete}
              chat_counters {Get, BatchGet, QueryIndex, Put, Update}
              delivery_state {BatchGet, Query, Put, Update, Delete}
              sessions {Get, BatchGet, Put, Delete}
              direct_chats {Get, BatchGet, Put, Check}
              one_time_codes {Get, Put}
              outbox {Query, QueryIndex, Put, Delete}
              push_devices {Get, Query, Update, Delete}
              notices {QueryIndex, Put, Update, Delete}
              dead_letters {Get, Query, Put, Delete}
              requests {Get, Put, Update}
              contacts {BatchGet, Query, Put, Delete, Check}
              blocks {BatchGet, Query, Put, Delete, Check}
              reports {BatchGet, Query, Put, Update, Delete}
              invitations {BatchGet, Query, Put, Delete}
              restrictions {Get, Query, Put, Delete}
              passkeys {Get, Query, Put, Update, Delete}
              deletions {Get, Query, Put, Delete}
              updates {Query}
              reactions {BatchGet, Query}
        "#]]
        .assert_eq(&said);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_allowed_that_no_port_does() {
        // A minimal set of contracts that exercises every action of each port.
        macro_rules! keep {
            ($done:ident: $($suite:ident::$promise:ident),* $(,)?) => {
                $(contract::$suite::$promise(guarded(&$done).await.stores).await;)*
            };
        }
        let done = Done::default();
        keep!(done:
            messages::adr_004_scenario_2_idempotent_retry,
            messages::g1_an_acknowledged_message_is_in_every_read,
            pages::g11_a_purged_message_keeps_its_sequence_and_no_preview,
            pages::heads_are_in_the_order_asked,
            pages::by_id_finds_nothing_under_an_unknown_id,
            chats::a_pair_has_one_direct_chat,
            chats::memberships_are_found_by_chat_and_by_user,
            chats::non_members_and_unknown_chats_have_no_membership,
            chats::chats_are_in_the_order_asked,
            chats::an_inbox_is_in_the_order_of_last_activity,
            chats::chats_are_counted_and_a_direct_chat_is_found_by_its_pair,
            chats::a_message_ttl_is_written_with_its_copy,
            chats::a_message_ttl_does_not_recreate_a_lost_head,
            chats::a_group_never_grows_beyond_its_bound,
            users::an_update_sets_the_given_fields,
            contacts::a_contact_is_listed_until_it_is_removed,
            blocks::a_block_holds_until_it_is_removed,
            blocks::no_direct_chat_is_opened_during_a_block,
            blocks::a_mute_keeps_blocks,
            blocks::neither_user_changes_the_settings_of_a_direct_chat_during_a_block,
            invitations::an_addition_without_consent_is_an_invitation,
            invitations::an_addition_with_consent_ends_a_pending_invitation,
            invitations::an_accepted_invitation_makes_a_member_at_the_head,
            invitations::an_acceptance_without_a_head_row_makes_a_member,
            invitations::a_declined_invitation_is_not_repeated,
            passkeys::a_use_moves_the_counter_forward,
            passkeys::a_removed_passkey_is_refused,
            reports::a_report_is_resolved_once,
            reports::deleting_an_account_deletes_its_reports,
            last_seen::last_seen_only_moves_forward,
            sessions::sessions_are_oldest_first,
            sessions::a_user_revokes_only_their_own_sessions,
            restrictions::a_suspended_user_does_not_send,
            restrictions::restrictions_apply_to_their_user_only,
            codes::a_code_is_spent_by_its_use,
            watermarks::g7_a_watermark_only_moves_forward,
            watermarks::only_members_move_watermarks,
            requests::an_answered_request_is_replayed,
            push_devices::a_removed_device_is_absent,
            notices::a_dropped_notice_allows_a_new_one,
            dead_letters::a_removed_dead_letter_is_absent,
            updates::an_update_is_an_entry_of_the_sequence,
            updates::g11_a_deleted_message_is_in_no_read,
            updates::reactions_are_counted_and_listed,
            accounts::a_deletion_begins_with_a_tombstone,
            accounts::a_deletion_is_listed_until_it_ends,
            expiry::a_lifetime_counts_from_the_time_of_the_send,
            expiry::every_chat_is_listed_once,
        );
        contract::outbox::a_message_is_pending_until_it_is_published(guarded(&done).await).await;
        contract::outbox::a_published_chat_is_not_overdue(guarded(&done).await).await;
        meet_damage(&done).await;
        meet_updates(&done).await;
        for port in ProcessRole::ALL.into_iter().flat_map(ports_of) {
            let needs = port.needs().iter().flat_map(|(table, actions)| actions.iter().map(|action| (*table, *action)));
            assert_eq!(done.by(*port), needs.collect(), "{port:?}");
        }
    }

    /// Exercises actions that no contract covers: the deletion of an expiring message, and updates that are not published.
    async fn meet_updates(done: &Done) {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let of = |port| store.through(client_of(&server, port, done), &server.config);
        let (chat_id, sender_id) = chat(&store).await;
        let expiring = NewMessage { ttl: Ttl::from_secs(600), ..message(chat_id, sender_id) };
        let deletion = update(chat_id, sender_id, 1, UpdateAction::Delete);
        let outcomes = of(StorePort::MessageWriter).commit(vec![expiring.into(), NewEntry::Update(deletion)]).await;
        assert!(outcomes.unwrap().iter().all(|outcome| matches!(outcome, AppendOutcome::New(_))));
        assert_eq!(of(StorePort::Outbox).unpublished(chat_id).await.unwrap().len(), 1);
    }

    /// Exercises actions that no contract covers: watermarks fall back to the messages if a counter is lost, and the
    /// outbox sets unreadable items aside.
    async fn meet_damage(done: &Done) {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let of = |port| store.through(client_of(&server, port, done), &server.config);
        // Its events are in the first partition.
        let (chat_id, owner) = (ChatId::from_bytes([0; 16]), UserId::from_bytes([1; 16]));
        let name = "damaged".to_owned().try_into().unwrap();
        let group = NewGroup { chat_id, name, created_by: owner, members: vec![], created_at: Timestamp::default() };
        of(StorePort::ChatWriter).create_group(group).await.unwrap();

        let outbox = of(StorePort::Outbox);
        let key = outbox.pending_changes(chat_id).await.unwrap().remove(0).key;
        server.put(ItemKey::of(Table::Outbox, 0, &key), DynamoItem::new()).await;
        assert_eq!(outbox.pending_changes(chat_id).await.unwrap(), []);

        let counter = ItemKey::one(Table::ChatCounters, chat_id).attributes();
        let lose = server.client.delete_item().table_name(server.name(Table::ChatCounters)).set_key(Some(counter));
        lose.send().await.unwrap();
        let (kind, at) = (WatermarkKind::Read, Timestamp::default());
        let advance = of(StorePort::Watermarks).advance(owner, chat_id, kind, Sequence(1), at).await.unwrap();
        assert_eq!(advance, Advance::AboveHead(Sequence::ZERO));
    }

    #[test]
    fn fanout_and_the_gateway_write_nothing() {
        assert_eq!(access(ProcessRole::Gateway), BTreeMap::new());
        let reads = [TableAction::Get, TableAction::BatchGet, TableAction::Query, TableAction::QueryIndex];
        let fanout: Vec<TableAction> = access(ProcessRole::Fanout).into_values().flatten().collect();
        assert!(!fanout.is_empty() && fanout.iter().all(|action| reads.contains(action)), "{fanout:?}");
    }

    #[test]
    fn no_role_deletes_a_counter() {
        for role in ProcessRole::ALL {
            let counters = access(role).remove(&Table::ChatCounters).unwrap_or_default();
            assert!(!counters.contains(&TableAction::Delete), "{role}");
        }
    }
}
