use std::sync::Arc;

use crate::{
    AccountStore, BlockStore, ChatReader, ChatWriter, CodeStore, ContactStore, DeadLetterStore, InvitationStore,
    LastSeenStore, MessageExpirer, MessageReader, MessageWriter, NoticeStore, PasskeyStore, PushDeviceStore,
    ReportStore, RequestStore, RestrictionStore, SessionStore, UserReader, UserWriter, WatermarkStore,
};

/// Expands the list of durable ports into [`DurableStore`] and [`Stores`], so that a port is listed once.
macro_rules! durable_ports {
    ($($(#[$doc:meta])+ $field:ident: $port:ident,)+) => {
        /// A store engine with every durable port. Implementing the ports implements this trait.
        pub trait DurableStore: $($port +)+ 'static {}

        impl<S: $($port +)+ 'static> DurableStore for S {}

        /// Every durable port of one store.
        ///
        /// Composition gives each plane only the ports that it needs from this struct. The log is separate
        /// ([`EventLog`](crate::EventLog)), because a fleet has it in another engine.
        ///
        /// To add a port:
        ///
        /// 1. Add its row to the list in `stores.rs`. The row is both the field and the bound of [`DurableStore`].
        /// 2. Implement it in every store. Until then, the places that open the store do not compile.
        #[derive(Clone)]
        pub struct Stores {
            $($(#[$doc])+ pub $field: Arc<dyn $port>,)+
        }

        impl Stores {
            /// All ports on one store.
            pub fn on<S: DurableStore>(store: &Arc<S>) -> Self {
                Self { $($field: store.clone(),)+ }
            }
        }
    };
}

durable_ports! {
    /// Writes messages.
    message_writer: MessageWriter,
    /// Reads messages.
    message_reader: MessageReader,
    /// Shortens the lifetime of messages.
    expirer: MessageExpirer,
    /// Writes chats.
    chat_writer: ChatWriter,
    /// Reads chats.
    chat_reader: ChatReader,
    /// Stores watermarks.
    watermarks: WatermarkStore,
    /// Writes users.
    user_writer: UserWriter,
    /// Reads users.
    user_reader: UserReader,
    /// Stores contact lists.
    contacts: ContactStore,
    /// Stores blocks.
    blocks: BlockStore,
    /// Stores invitations to groups.
    invitations: InvitationStore,
    /// Stores reports of users.
    reports: ReportStore,
    /// Stores last-seen times.
    last_seen: LastSeenStore,
    /// Deletes accounts.
    accounts: AccountStore,
    /// Stores login sessions.
    sessions: SessionStore,
    /// Stores the restrictions of users.
    restrictions: RestrictionStore,
    /// Stores passkeys.
    passkeys: PasskeyStore,
    /// Stores one-time codes.
    codes: CodeStore,
    /// Stores responses to idempotent requests.
    requests: RequestStore,
    /// Stores the devices that receive notifications.
    push_devices: PushDeviceStore,
    /// Stores pending notifications.
    notices: NoticeStore,
    /// Stores failed deliveries.
    dead_letters: DeadLetterStore,
}
