use std::sync::Arc;

use async_trait::async_trait;
use ports::{
    AuditLog, AuditSource, BoxError, Engine, EventLog, EventProducer, ExportSource, ImportTarget, Outbox, PeerRegistry,
    Stores,
};

use crate::EmbeddedStore;

#[async_trait]
impl Engine for EmbeddedStore {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn location(&self) -> String {
        format!("embedded {}", self.path().display())
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn peers(&self) -> Result<Option<Arc<dyn PeerRegistry>>, BoxError> {
        Ok(None)
    }

    fn stores(&self) -> Stores {
        Stores::on(&Arc::new(self.clone()))
    }

    fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.clone())
    }

    fn outbox(&self) -> Option<Arc<dyn Outbox>> {
        None
    }

    fn producer(&self) -> Result<Option<Arc<dyn EventProducer>>, BoxError> {
        Ok(None)
    }

    fn audit(&self) -> (Arc<dyn AuditSource>, Arc<dyn AuditLog>) {
        (Arc::new(self.clone()), Arc::new(self.clone()))
    }

    fn transfer(&self) -> (Arc<dyn ExportSource>, Arc<dyn ImportTarget>) {
        (Arc::new(self.clone()), Arc::new(self.clone()))
    }

    async fn close(self: Box<Self>) {
        Self::close(*self).await;
    }
}
