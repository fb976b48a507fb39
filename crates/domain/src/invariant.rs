use std::fmt;

/// Declares every invariant with its plane, its name and what it says.
macro_rules! invariants {
    ($($plane:ident { $($variant:ident $name:literal: $statement:literal,)+ })+) => {
        /// What must be true of a service at every moment, whatever has failed.
        ///
        /// Each is stated here once. The simulator checks it on every step, `tidings verify` on what a deployment has
        /// stored, and where it is cheap an assertion at run time refuses the operation that would break it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $($(#[doc = $statement] $variant,)+)+
        }

        impl Invariant {
            /// All of them, by plane.
            pub const ALL: &[Self] = &[$($(Self::$variant,)+)+];

            /// Its name in reports, metrics and documents.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)+)+
                }
            }

            /// What it says, in a sentence.
            pub const fn statement(self) -> &'static str {
                match self {
                    $($(Self::$variant => $statement,)+)+
                }
            }

            /// Whose it is.
            pub const fn plane(self) -> Plane {
                match self {
                    $($(Self::$variant)|+ => Plane::$plane,)+
                }
            }
        }
    };
}

/// The part of the service that an invariant is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// What is stored.
    Store,
    /// What is told of it, in order.
    Log,
    /// Who may do what to whom.
    Planes,
    /// Where connections are, and what others see of it.
    Routing,
    /// What reaches people.
    Delivery,
}

impl Plane {
    /// Its name in reports and documents.
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
        DynamodbIsAuthoritative "dynamodb_is_authoritative": "Whatever a client is told of a message is what the store has.",
        WriteOrderPreserved "write_order_preserved": "An event is published after its row is committed, and pipelined sends into a chat keep their order.",
        CounterMustExist "counter_must_exist": "A chat has its head row, or takes no messages.",
        SequenceUniqueness "sequence_uniqueness": "No two messages of a chat have the same sequence.",
        SequenceContiguous "sequence_contiguous": "Sequences of a chat grow by one: a missing one belongs to a message that has expired.",
        AllocationMonotonicity "allocation_monotonicity": "The head of a chat never moves back.",
        SequenceMonotonicity "sequence_monotonicity": "The head of a chat is not below its last message.",
        CounterLowerBound "counter_lower_bound": "The head of a chat is not below any sequence that somebody was told.",
        IdempotencySequenceConsistency "idempotency_sequence_consistency": "A send key names the message that it was written with.",
        AckImpliesPersistence "ack_implies_persistence": "An acknowledged message is stored, under the id and sequence of its acknowledgement.",
        NoZeroSequence "no_zero_sequence": "Sequences start at 1.",
        DeliveryWatermarkMonotonic "delivery_watermark_monotonic": "A member's watermarks never move back while they are a member.",
        WatermarkBoundedByHead "watermark_bounded_by_head": "No watermark is above the head of its chat.",
        ReadImpliesDelivered "read_implies_delivered": "Nobody has read what was not delivered to them.",
        MembershipCheckUsesAuthority "membership_check_uses_authority": "A message is by somebody who was a member when it was committed.",
        SyncReadsAuthority "sync_reads_authority": "A sync sees every message that was acknowledged before it was asked for.",
        SyncCompleteness "sync_completeness": "A sync accounts for every sequence between its cursor and its end.",
        DirectChatUniqueness "direct_chat_uniqueness": "Two users have one direct chat at the most.",
        OwnerAlwaysExists "owner_always_exists": "A group with members has an owner.",
        GroupSizeBounded "group_size_bounded": "A group has 1000 members at the most, and its count is that of its rows.",
        TtlBoundedTables "ttl_bounded_tables": "What is kept for a time has a time at which it goes.",
        ExpiredNeverRead "expired_never_read": "No read returns a message whose time is over.",
        ItemSizeBounded "item_size_bounded": "No row is larger than what its table can hold.",
        AccessPatternEfficiency "access_pattern_efficiency": "No request reads a whole table.",
        GsiJustification "gsi_justification": "Every index serves a read that nothing else can serve.",
        BackupEnabled "backup_enabled": "Tables that cannot be rebuilt can be restored to a point in time.",
    }
    Log {
        KafkaReflectsDynamodb "kafka_reflects_dynamodb": "An event tells of a row that is stored, or that has expired.",
        PublishedEventually "published_eventually": "Every committed message reaches the log with no client's help.",
        OrderingPreserved "ordering_preserved": "Events of a chat first appear in the log in the order of their sequences.",
        CommitAfterProcess "commit_after_process": "A consumer's place is never ahead of what it has processed.",
        ReplaySafe "replay_safe": "An event that is read twice changes nothing the second time.",
    }
    Planes {
        DownstreamNeverWritesUpstream "downstream_never_writes_upstream": "Gateways and fanout write no authoritative state.",
        CachePopulatedFromAuthority "cache_populated_from_authority": "A cached list of members is one that the store had.",
        ConflictResolution "conflict_resolution": "Where store, log and routes differ, the store is what a client ends up with.",
        RedisIsEphemeral "redis_is_ephemeral": "When all shared memory is lost, nothing acknowledged is, and routes come back.",
    }
    Routing {
        RoutingTtlBounded "routing_ttl_bounded": "No answer names a route whose gateway has not beaten for longer than the expiry.",
        ZombiePrevention "zombie_prevention": "A connection that has ended is in no answer once its gateway has said so, or has fallen silent.",
        ConnIdUniqueness "conn_id_uniqueness": "No two connections have the same id.",
        RoutingDenormalizationConsistent "routing_denormalization_consistent": "A user's routes and a gateway's routes are the same routes.",
        PresenceDerivesFromConnections "presence_derives_from_connections": "Nobody is shown online who has no route.",
        MultiDeviceAggregation "multi_device_aggregation": "A user is online as long as one of their devices is.",
        PresenceStalenessBounded "presence_staleness_bounded": "A user whose last connection is gone is shown offline soon after its expiry.",
        PrivacyEnforced "privacy_enforced": "Nobody is shown a presence that its user does not let them see.",
        MultiDeviceDelivery "multi_device_delivery": "A push goes to every connection of every member but the one it came from.",
    }
    Delivery {
        NoSilentLoss "no_silent_loss": "Every member ends up with every acknowledged message.",
        NoDuplicateRender "no_duplicate_render": "No client shows a message twice, or a later one first.",
        OnlyMembersReceive "only_members_receive": "Nobody reads a chat they are no member of; a racing removal may leak one push.",
        BoundedBuffers "bounded_buffers": "What waits for a connection is bounded in messages and bytes.",
        BackpressureSignaled "backpressure_signaled": "A client that misses pushes because it is slow is told so.",
        ReconnectHeals "reconnect_heals": "A client that reconnects ends up with what it has missed.",
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
