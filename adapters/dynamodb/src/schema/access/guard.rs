//! Enforces the access rights of ports inside a test: refuses an action that is not allowed, as AWS would, and records
//! the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept};
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemInput;
use aws_sdk_dynamodb::operation::get_item::GetItemInput;
use aws_sdk_dynamodb::operation::query::QueryInput;
use aws_sdk_dynamodb::operation::scan::ScanInput;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::operation::update_item::UpdateItemInput;
use aws_sdk_dynamodb::types::TransactWriteItem;
use ports::BoxError;

use super::{StorePort, TableAction};
use crate::schema::Table;
use crate::testing::DynamoServer;

/// The recorded actions of ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done(Arc<Mutex<BTreeSet<(StorePort, Table, TableAction)>>>);

impl Done {
    /// The actions of one port.
    pub(crate) fn by(&self, port: StorePort) -> BTreeSet<(Table, TableAction)> {
        let done = self.0.lock().unwrap();
        done.iter().filter(|(by, ..)| *by == port).map(|(_, table, action)| (*table, *action)).collect()
    }
}

/// A client of the server with the rights of one port.
pub(crate) fn client_of(server: &DynamoServer, port: StorePort, done: &Done) -> Client {
    let guard = AccessGuard { port, table_prefix: server.config.table_prefix.clone(), done: done.clone() };
    Client::from_conf(server.client.config().to_builder().interceptor(guard).build())
}

#[derive(Debug)]
struct AccessGuard {
    port: StorePort,
    table_prefix: String,
    done: Done,
}

impl Intercept for AccessGuard {
    fn name(&self) -> &'static str {
        "AccessGuard"
    }

    fn read_before_execution(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input();
        let requested = if let Some(get) = input.downcast_ref::<GetItemInput>() {
            vec![(get.table_name(), TableAction::Get)]
        } else if let Some(get) = input.downcast_ref::<BatchGetItemInput>() {
            get.request_items()
                .into_iter()
                .flatten()
                .map(|(name, _)| (Some(name.as_str()), TableAction::BatchGet))
                .collect()
        } else if let Some(query) = input.downcast_ref::<QueryInput>() {
            let action = if query.index_name().is_some() { TableAction::QueryIndex } else { TableAction::Query };
            vec![(query.table_name(), action)]
        } else if let Some(scan) = input.downcast_ref::<ScanInput>() {
            vec![(scan.table_name(), TableAction::Scan)]
        } else if let Some(update) = input.downcast_ref::<UpdateItemInput>() {
            vec![(update.table_name(), TableAction::Update)]
        } else if let Some(transaction) = input.downcast_ref::<TransactWriteItemsInput>() {
            transaction.transact_items().iter().map(part).collect()
        } else {
            return Err(format!("{:?} makes a request that policies do not cover", self.port).into());
        };
        requested.into_iter().try_for_each(|(name, action)| self.judge(name, action))
    }
}

impl AccessGuard {
    fn judge(&self, name: Option<&str>, action: TableAction) -> Result<(), BoxError> {
        let ours = name.and_then(|name| name.strip_prefix(&self.table_prefix));
        let table = Table::ALL.into_iter().find(|table| Some(table.name()) == ours);
        let table = table.ok_or_else(|| format!("{:?} uses an unknown table: {name:?}", self.port))?;
        let allowed = self.port.needs().iter().any(|(of, actions)| *of == table && actions.contains(&action));
        if !allowed {
            let refusal = format!("`schema::access` does not let {:?} do {action:?} to {table:?}", self.port);
            return Err(refusal.into());
        }
        self.done.0.lock().unwrap().insert((self.port, table, action));
        Ok(())
    }
}

/// The table and action of a part of a transaction.
fn part(part: &TransactWriteItem) -> (Option<&str>, TableAction) {
    let put = part.put().map(|put| (put.table_name(), TableAction::Put));
    let update = part.update().map(|update| (update.table_name(), TableAction::Update));
    let delete = part.delete().map(|delete| (delete.table_name(), TableAction::Delete));
    let check = part.condition_check().map(|check| (check.table_name(), TableAction::Check));
    let (name, action) = put.or(update).or(delete).or(check).expect("a part does something");
    (Some(name), action)
}
