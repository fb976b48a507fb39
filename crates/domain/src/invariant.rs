use std::fmt;

/// Declares every invariant with its plane, its name and its statement.
macro_rules! invariants {
    ($($plane:ident { $($variant:ident $name:literal: $statement:literal,)+ })+) => {
        /// A property that must hold at every moment, under any failure.
        ///
        /// Each is stated here once. The simulator checks it on every step, and `tidings store verify` on the stored
        /// data of a deployment. Where the check is cheap, a run-time assertion refuses an operation that would break
        /// it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $($(#[doc = $statement] $variant,)+)+
        }

        impl Invariant {
            /// All invariants, by plane.
            pub const ALL: &[Self] = &[$($(Self::$variant,)+)+];

            /// The name in reports, metrics and documents. It is a contract with dashboards and stays, even where it names
            /// an engine.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)+)+
                }
            }

            /// The statement, as one sentence.
            pub const fn statement(self) -> &'static str {
                match self {
                    $($(Self::$variant => $statement,)+)+
                }
            }

            /// The plane of the invariant.
            pub const fn plane(self) -> InvariantPlane {
                match self {
                    $($(Self::$variant)|+ => InvariantPlane::$plane,)+
                }
            }
        }
    };
}

/// The part of the service that an invariant belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvariantPlane {
    /// Stored data.
    Store,
    /// The event log and its order.
    Log,
    /// The separation of planes: which component may write which state.
    Planes,
    /// Routes of connections, and the presence derived from them.
    Routing,
    /// Delivery to clients.
    Delivery,
}

impl InvariantPlane {
    /// The name in reports and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Log => "log",
            Self::Planes => "planes",
            Self::Routing => "routing and presence",
            Self::Delivery => "delivery",
        }
    }
}

invariants! {
    Store {
        StoreIsAuthoritative "dynamodb_is_authoritative": "Every message that a client receives equals the stored message.",
        WriteOrderPreserved "write_order_preserved": "An event is published after its row is committed, and pipelined sends to a chat keep their order.",
        CounterMustExist "counter_must_exist": "A chat without a head row accepts no messages.",
        SequenceUniqueness "sequence_uniqueness": "No two messages of a chat have the same sequence.",
        SequenceContiguous "sequence_contiguous": "Sequences of a chat grow by one; a missing sequence belongs to an expired message.",
        AllocationMonotonicity "allocation_monotonicity": "The head of a chat never moves back.",
        SequenceMonotonicity "sequence_monotonicity": "The head of a chat is at or above the sequence of its last message.",
        CounterLowerBound "counter_lower_bound": "The head of a chat is at or above every sequence that a client has received.",
        IdempotencySequenceConsistency "idempotency_sequence_consistency": "A send key names the message that it was written with.",
        AckImpliesPersistence "ack_implies_persistence": "An acknowledged message is stored, under the id and sequence of its acknowledgement.",
        NoZeroSequence "no_zero_sequence": "Sequences start at 1.",
        DeliveryWatermarkMonotonic "delivery_watermark_monotonic": "A member's watermarks never move back while they are a member.",
        WatermarkBoundedByHead "watermark_bounded_by_head": "No watermark is above the head of its chat.",
        ReadImpliesDelivered "read_implies_delivered": "A member's read watermark is at or below their delivered watermark.",
        MembershipCheckUsesAuthority "membership_check_uses_authority": "The sender of a message was a member at the time of its commit.",
        SyncReadsAuthority "sync_reads_authority": "A sync returns every message that was acknowledged before the request.",
        SyncCompleteness "sync_completeness": "A sync covers every sequence between its cursor and its end.",
        DirectChatUniqueness "direct_chat_uniqueness": "A pair of users has at most one direct chat.",
        OwnerAlwaysExists "owner_always_exists": "A group with members has an owner.",
        GroupSizeBounded "group_size_bounded": "A group has at most 1000 members, and its member count equals its number of member rows.",
        TtlBoundedTables "ttl_bounded_tables": "Every row with a limited lifetime has an expiry time.",
        ExpiredNeverRead "expired_never_read": "No read returns an expired message.",
        ItemSizeBounded "item_size_bounded": "No row exceeds the size limit of its table.",
        PartitionKeyDistributed "partition_key_distributed": "No partition key gets more than half of the requests that one partition serves.",
        AccessPatternEfficiency "access_pattern_efficiency": "No request reads a whole table.",
        GsiJustification "gsi_justification": "Every index serves a read that no other index or table can serve.",
        BackupEnabled "backup_enabled": "Tables that cannot be rebuilt can be restored to a point in time.",
    }
    Log {
        LogReflectsStore "kafka_reflects_dynamodb": "Every event refers to a row that is stored or has expired.",
        PublishedEventually "published_eventually": "Every committed message reaches the log without a retry by the client.",
        OrderingPreserved "ordering_preserved": "Events of a chat first appear in the log in the order of their sequences.",
        CommitAfterProcess "commit_after_process": "A consumer never commits an offset before it has processed the events up to it.",
        ReplaySafe "replay_safe": "Processing an event twice has the same effect as processing it once.",
    }
    Planes {
        DownstreamNeverWritesUpstream "downstream_never_writes_upstream": "Gateways and fanout write no authoritative state.",
        CachePopulatedFromAuthority "cache_populated_from_authority": "A cached list of members equals a list that the store has held.",
        ConflictResolution "conflict_resolution": "If store, log and routes disagree, clients converge to the state of the store.",
        SharedStateIsEphemeral "redis_is_ephemeral": "A loss of all shared state loses no acknowledged message, and gateways rebuild the routes.",
    }
    Routing {
        RoutingTtlBounded "routing_ttl_bounded": "No answer contains a route of a gateway with an expired heartbeat.",
        ZombiePrevention "zombie_prevention": "A closed connection is in no answer after its gateway has unregistered it or has expired.",
        ConnIdUniqueness "conn_id_uniqueness": "No two connections have the same id.",
        RoutingDenormalizationConsistent "routing_denormalization_consistent": "The routes indexed by user and the routes indexed by gateway are the same.",
        PresenceDerivesFromConnections "presence_derives_from_connections": "A user without a route is not shown as online.",
        MultiDeviceAggregation "multi_device_aggregation": "A user is online while at least one of their devices is connected.",
        PresenceStalenessBounded "presence_staleness_bounded": "After a user's last connection ends, they are shown as offline soon after its expiry.",
        PrivacyEnforced "privacy_enforced": "A user's presence is shown only to viewers whom their privacy setting allows.",
        MultiDeviceDelivery "multi_device_delivery": "A push goes to every connection of every member except the connection that it came from.",
    }
    Delivery {
        NoSilentLoss "no_silent_loss": "Every member eventually has every acknowledged message.",
        NoDuplicateRender "no_duplicate_render": "No client shows a message twice or out of order.",
        OnlyMembersReceive "only_members_receive": "Only members can read a chat; a concurrent removal may leak one push.",
        BoundedBuffers "bounded_buffers": "The outbound queue of a connection is bounded in messages and bytes.",
        BackpressureSignaled "backpressure_signaled": "A client that misses pushes because it is slow is notified.",
        ReconnectHeals "reconnect_heals": "A client that reconnects receives every message that it has missed.",
        ConvergentState "convergent_state": "Every client that has all entries of a chat has the stored state of each message that it has shown.",
        OutwardAtLeastOnce "outward_at_least_once": "Every event reaches the application's server, and every notice its device, at least once, or becomes a dead letter.",
        WebhookKeepsOrder "webhook_keeps_order": "The application's server first gets the events of a chat in the order of their numbers.",
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_invariant_has_a_name_of_its_own_and_a_sentence() {
        let names: BTreeSet<&str> = Invariant::ALL.iter().map(|invariant| invariant.name()).collect();
        assert_eq!(names.len(), Invariant::ALL.len());
        assert!(Invariant::ALL.iter().all(|invariant| invariant.statement().ends_with('.')));
    }
}
