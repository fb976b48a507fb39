//! What each role of the fleet does to which table: what the ports need that it is handed, and nothing else.
//!
//! The contract suites run under it, port by port, so that what is missing here fails a test; another test looks for
//! what is allowed and never done.

use std::collections::{BTreeMap, BTreeSet};

use ports::ProcessRole;

use super::Table;

#[cfg(test)]
pub(crate) mod guard;

/// Something that is done to items of a table, as IAM tells it apart. A part of a transaction counts as what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Reads one item.
    Get,
    /// Reads many items by their keys.
    BatchGet,
    /// Reads items of a partition.
    Query,
    /// Reads items of a partition of the table's index.
    QueryIndex,
    /// Writes an item.
    Put,
    /// Changes an item.
    Update,
    /// Deletes an item.
    Delete,
    /// Has a transaction depend on an item.
    Check,
}

impl Action {
    /// Its name in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "dynamodb:GetItem",
            Self::BatchGet => "dynamodb:BatchGetItem",
            Self::Query | Self::QueryIndex => "dynamodb:Query",
            Self::Put => "dynamodb:PutItem",
            Self::Update => "dynamodb:UpdateItem",
            Self::Delete => "dynamodb:DeleteItem",
            Self::Check => "dynamodb:ConditionCheckItem",
        }
    }
}

/// What a role may do, by table. A table that is not there is out of its reach.
pub fn access(role: ProcessRole) -> BTreeMap<Table, BTreeSet<Action>> {
    let mut allowed: BTreeMap<Table, BTreeSet<Action>> = BTreeMap::new();
    for (table, actions) in ports_of(role).iter().flat_map(|port| port.needs()) {
        allowed.entry(*table).or_default().extend(*actions);
    }
    allowed
}

/// A port that the store answers for, or a task of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Port {
    MessageWriter,
    MessageReader,
    ChatWriter,
    ChatReader,
    UserWriter,
    UserReader,
    Contacts,
    Blocks,
    Reports,
    LastSeen,
    Sessions,
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

/// The ports that the planes of a role are handed.
fn ports_of(role: ProcessRole) -> &'static [Port] {
    match role {
        // It reaches the store through other roles alone.
        ProcessRole::Gateway => &[],
        ProcessRole::Ingest => {
            &[Port::MessageWriter, Port::MessageReader, Port::ChatReader, Port::Watermarks, Port::Outbox, Port::Purge]
        }
        // Downstream never writes upstream (ADR-003, 6.3).
        ProcessRole::Fanout => &[Port::ChatReader],
        ProcessRole::Api => &[
            Port::MessageReader,
            Port::ChatWriter,
            Port::ChatReader,
            Port::UserWriter,
            Port::UserReader,
            Port::Contacts,
            Port::Blocks,
            Port::Reports,
            Port::LastSeen,
            Port::Sessions,
            Port::Codes,
            Port::Watermarks,
            Port::Outbox,
            Port::Requests,
            Port::PushDevices,
            Port::Notices,
            Port::DeadLetters,
            Port::Accounts,
            Port::Expirer,
        ],
    }
}

impl Port {
    /// What the port does to which table.
    pub(crate) const fn needs(self) -> &'static [(Table, &'static [Action])] {
        use Action::{BatchGet, Check, Delete, Get, Put, Query, QueryIndex, Update};
        match self {
            Self::MessageWriter => &[
                (Table::Chats, &[BatchGet]),
                (Table::ChatMemberships, &[BatchGet, Check]),
                (Table::Messages, &[Put]),
                (Table::Expirations, &[Put]),
                (Table::ChatCounters, &[Get, Update]),
                (Table::IdempotencyKeys, &[BatchGet, Put]),
            ],
            Self::MessageReader => {
                &[(Table::Messages, &[Get, Query, QueryIndex]), (Table::ChatCounters, &[Get, BatchGet])]
            }
            Self::ChatWriter => &[
                (Table::Chats, &[Get, Put, Check]),
                (Table::ChatMemberships, &[BatchGet, Put, Update, Delete]),
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[BatchGet, Put, Update, Check]),
                (Table::DeliveryState, &[Put, Delete]),
                (Table::DirectChats, &[Get, Put]),
                (Table::Outbox, &[Put]),
                (Table::Blocks, &[BatchGet, Check]),
            ],
            Self::ChatReader => &[
                (Table::Chats, &[Get, BatchGet]),
                (Table::ChatMemberships, &[Get, BatchGet, Query]),
                (Table::DeliveryState, &[Query]),
            ],
            Self::UserWriter => &[(Table::Users, &[BatchGet, Put, Update]), (Table::UserKeys, &[Get, Put])],
            Self::UserReader => &[(Table::Users, &[BatchGet]), (Table::UserKeys, &[BatchGet])],
            Self::Contacts => &[(Table::Contacts, &[BatchGet, Query, Put, Delete])],
            Self::Blocks => &[
                (Table::Blocks, &[BatchGet, Query, Put, Delete]),
                (Table::ChatMemberships, &[BatchGet, Update]),
                (Table::DirectChats, &[BatchGet, Check]),
            ],
            Self::Reports => &[(Table::Reports, &[BatchGet, Query, Put, Update, Delete])],
            Self::LastSeen => &[(Table::Users, &[Update])],
            Self::Sessions => {
                &[(Table::Sessions, &[Get, BatchGet, Put, Delete]), (Table::PushDevices, &[Get, Query, Update, Delete])]
            }
            Self::Codes => &[(Table::OneTimeCodes, &[Get, Put])],
            Self::Watermarks => &[
                (Table::Chats, &[Get]),
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[BatchGet]),
                (Table::DeliveryState, &[BatchGet, Update]),
            ],
            Self::Outbox => &[
                (Table::Messages, &[Query]),
                (Table::ChatCounters, &[Get, QueryIndex, Update]),
                (Table::Outbox, &[Query, QueryIndex, Put, Delete]),
            ],
            Self::Purge => &[
                (Table::Messages, &[Delete]),
                (Table::Expirations, &[Query, Delete]),
                (Table::ChatCounters, &[Get, Update]),
                (Table::Outbox, &[Put]),
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
                (Table::Messages, &[Query, Update]),
                (Table::Expirations, &[Put, Delete]),
                (Table::ChatCounters, &[Get, Update]),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Advance, ChatId, Sequence, Timestamp, UserId, WatermarkKind};
    use expect_test::expect;
    use ports::{ChatWriter, NewGroup, Outbox, WatermarkStore, contract};

    use super::guard::{Done, client_of};
    use super::*;
    use crate::contract::guarded;
    use crate::item::{Item, Key};
    use crate::testing::Server;

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
              messages {Get, Query, QueryIndex, Put, Delete}
              expirations {Query, Put, Delete}
              chat_counters {Get, BatchGet, QueryIndex, Update}
              idempotency_keys {BatchGet, Put}
              delivery_state {BatchGet, Query, Update}
              outbox {Query, QueryIndex, Put, Delete}
            fanout
              chats {Get, BatchGet}
              chat_memberships {Get, BatchGet, Query}
              delivery_state {Query}
            api
              users {BatchGet, Put, Update}
              user_keys {Get, BatchGet, Put, Delete}
              chats {Get, BatchGet, Put, Check}
              chat_memberships {Get, BatchGet, Query, Put, Update, Delete}
              messages {Get, Query, QueryIndex, Update}
              expirations {Put, Delete}
              chat_counters {Get, BatchGet, QueryIndex, Put, Update, Check}
              delivery_state {BatchGet, Query, Put, Update, Delete}
              sessions {Get, BatchGet, Put, Delete}
              direct_chats {Get, BatchGet, Put, Check}
              one_time_codes {Get, Put}
              outbox {Query, QueryIndex, Put, Delete}
              push_devices {Get, Query, Update, Delete}
              notices {QueryIndex, Put, Update, Delete}
              dead_letters {Get, Query, Put, Delete}
              requests {Get, Put, Update}
              contacts {BatchGet, Query, Put, Delete}
              blocks {BatchGet, Query, Put, Delete, Check}
              reports {BatchGet, Query, Put, Update, Delete}
              deletions {Get, Query, Put, Delete}
        "#]]
        .assert_eq(&said);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_allowed_that_no_port_does() {
        // As few promises as have each port do everything that it does.
        macro_rules! keep {
            ($done:ident: $($suite:ident::$promise:ident),* $(,)?) => {
                $(contract::$suite::$promise(guarded(&$done).await.stores).await;)*
            };
        }
        let done = Done::default();
        keep!(done:
            messages::adr_004_scenario_2_idempotent_retry,
            messages::g1_an_acknowledged_message_is_in_every_read,
            pages::g11_a_purged_message_leaves_its_place_and_no_words,
            pages::heads_are_in_the_order_asked,
            chats::a_pair_has_one_direct_chat,
            chats::memberships_are_found_from_both_ends,
            chats::outsiders_and_unknown_chats_have_no_members,
            chats::chats_are_in_the_order_asked,
            chats::a_message_ttl_is_written_with_its_copy,
            chats::a_message_ttl_brings_no_lost_head_back,
            chats::a_group_never_grows_beyond_its_bound,
            users::an_update_sets_what_is_given,
            contacts::a_contact_is_listed_until_it_is_removed,
            blocks::a_block_holds_until_it_is_taken_back,
            blocks::no_chat_is_opened_over_a_block,
            blocks::a_mute_lifts_no_block,
            reports::a_report_is_resolved_once,
            reports::who_goes_takes_their_reports_along,
            last_seen::last_seen_only_moves_forward,
            sessions::sessions_are_oldest_first,
            sessions::a_user_revokes_only_their_own_sessions,
            codes::a_code_is_spent_by_its_use,
            watermarks::g7_a_watermark_only_moves_forward,
            watermarks::only_members_move_watermarks,
            requests::an_answered_request_is_replayed,
            push_devices::a_removed_device_is_gone,
            notices::a_dropped_notice_makes_room_for_the_next,
            dead_letters::a_forgotten_dead_letter_is_gone,
            accounts::a_deletion_begins_with_a_tombstone,
            accounts::a_deletion_is_listed_until_it_ends,
            expiry::a_lifetime_counts_from_when_a_message_was_sent,
        );
        contract::outbox::a_message_waits_until_it_is_published(guarded(&done).await).await;
        contract::outbox::what_is_published_is_overdue_no_more(guarded(&done).await).await;
        meet_damage(&done).await;
        for port in ProcessRole::ALL.into_iter().flat_map(ports_of) {
            let needs = port.needs().iter().flat_map(|(table, actions)| actions.iter().map(|action| (*table, *action)));
            assert_eq!(done.by(*port), needs.collect(), "{port:?}");
        }
    }

    /// Has ports do what no promise speaks of: watermarks go by the messages where a counter is lost, and the outbox
    /// sets aside what it cannot read.
    async fn meet_damage(done: &Done) {
        let server = Server::with_tables().await;
        let store = server.store();
        let of = |port| store.through(client_of(&server, port, done), &server.config);
        // The partition of its events is the first.
        let (chat_id, owner) = (ChatId::from_bytes([0; 16]), UserId::from_bytes([1; 16]));
        let name = "damaged".to_owned().try_into().unwrap();
        let group = NewGroup { chat_id, name, created_by: owner, members: vec![], created_at: Timestamp::default() };
        of(Port::ChatWriter).create_group(group).await.unwrap();

        let outbox = of(Port::Outbox);
        let place = outbox.waiting(chat_id).await.unwrap().remove(0).place;
        server.put(Key::of(Table::Outbox, 0, &place), Item::new()).await;
        assert_eq!(outbox.waiting(chat_id).await.unwrap(), []);

        let counter = Key::one(Table::ChatCounters, chat_id).attributes();
        let lose = server.client.delete_item().table_name(server.name(Table::ChatCounters)).set_key(Some(counter));
        lose.send().await.unwrap();
        let advance = of(Port::Watermarks).advance(owner, chat_id, WatermarkKind::Read, Sequence(1)).await.unwrap();
        assert_eq!(advance, Advance::AboveHead(Sequence::ZERO));
    }

    #[test]
    fn fanout_and_the_gateway_write_nothing() {
        assert_eq!(access(ProcessRole::Gateway), BTreeMap::new());
        let reads = [Action::Get, Action::BatchGet, Action::Query, Action::QueryIndex];
        let fanout: Vec<Action> = access(ProcessRole::Fanout).into_values().flatten().collect();
        assert!(!fanout.is_empty() && fanout.iter().all(|action| reads.contains(action)), "{fanout:?}");
    }

    #[test]
    fn no_role_deletes_a_counter() {
        for role in ProcessRole::ALL {
            let counters = access(role).remove(&Table::ChatCounters).unwrap_or_default();
            assert!(!counters.contains(&Action::Delete), "{role}");
        }
    }
}
