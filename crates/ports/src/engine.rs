use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    AuditLog, AuditSource, BoxError, EventLog, EventProducer, ExportSource, ImportTarget, Outbox, PeerRegistry, Stores,
};

/// An opened store engine and its log, with the ports that operators' tools need.
///
/// The embedded store is one engine, with its log in the same directory. A fleet's engine joins two adapters: the store
/// in DynamoDB and the log in Kafka. A tool that takes an `Engine` works on both.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The name of the engine, as in the configuration.
    fn name(&self) -> &'static str;

    /// The name of the engine and the location of its data. Two engines with the same data have the same location.
    fn location(&self) -> String;

    /// Whether no other process can write while this engine is open.
    fn is_exclusive(&self) -> bool;

    /// Connects to the registry of the processes that serve from this engine; `None` if the engine is
    /// [exclusive](Self::is_exclusive): no process serves while it is open here.
    fn peers(&self) -> Result<Option<Arc<dyn PeerRegistry>>, BoxError>;

    /// Every durable port.
    fn stores(&self) -> Stores;

    /// The log of committed events.
    fn log(&self) -> Arc<dyn EventLog>;

    /// The outbox of the store; `None` if an event is in the log as soon as it is committed.
    fn outbox(&self) -> Option<Arc<dyn Outbox>>;

    /// Connects a producer to the log; `None` if there is no [`outbox`](Self::outbox). Tools that only read do not call
    /// it, so they need no permission to write.
    fn producer(&self) -> Result<Option<Arc<dyn EventProducer>>, BoxError>;

    /// Reads every row of the store, and every record and consumer offset of the log.
    fn audit(&self) -> (Arc<dyn AuditSource>, Arc<dyn AuditLog>);

    /// Exports the contents of the store, and imports those of another.
    fn transfer(&self) -> (Arc<dyn ExportSource>, Arc<dyn ImportTarget>);

    /// Makes all writes durable and closes the engine. Its ports must not be used afterwards.
    async fn close(self: Box<Self>);
}
