use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, PointInTimeRecoveryDescription,
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, Projection as SdkProjection, ProjectionType,
    ScalarAttributeType, TableDescription, TableStatus, Tag, TimeToLiveSpecification, TimeToLiveStatus,
};
use ports::BoxError;
use tokio::time::{Instant, sleep};

use super::{Attribute, Definition, Index, Projection, TTL, Table};
use crate::Config;

/// How long the creation of a table may take.
const CREATION_DEADLINE: Duration = Duration::from_secs(120);
/// Interval of checks during creation.
const CREATION_POLL: Duration = Duration::from_millis(200);

/// Why the tables could not be created or inspected.
#[derive(Debug, thiserror::Error)]
#[error("table `{table}`: {action} failed")]
pub struct SchemaError {
    table: String,
    action: &'static str,
    #[source]
    source: BoxError,
}

/// A difference between a live account and the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDrift {
    /// The table, with its prefix.
    pub table: String,
    /// The property that differs.
    pub aspect: TableAspect,
}

/// A property of a table that differs from the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAspect {
    /// The table does not exist.
    Missing,
    /// Its keys differ. Changing them requires a new table.
    Keys,
    /// The index is missing or differs.
    Index,
    /// TTL is disabled for a table that needs it, or enabled for one that must not expire items.
    TimeToLive,
    /// It uses provisioned capacity instead of on-demand billing.
    Billing,
    /// It has no point-in-time recovery.
    Backups,
}

impl fmt::Display for TableDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.aspect {
            TableAspect::Missing => "is missing",
            TableAspect::Keys => "has other keys",
            TableAspect::Index => "lacks an index or has another",
            TableAspect::TimeToLive => "has another time to live",
            TableAspect::Billing => "is not billed by request",
            TableAspect::Backups => "has no point-in-time recovery",
        };
        write!(f, "table `{}` {what}", self.table)
    }
}

/// Creates the missing tables, and enables TTL and backups where they are missing. Safe to repeat at any time; it
/// changes no items.
pub async fn apply(client: &Client, config: &Config) -> Result<(), SchemaError> {
    for table in Table::ALL {
        let live = Live::new(client, config, table);
        if live.describe().await?.is_none() {
            live.create().await?;
        }
        live.wait_until_active().await?;
        if live.definition.expires && !live.expires().await? {
            live.let_expire().await?;
        }
        if config.point_in_time_recovery && live.definition.backed_up && !live.is_backed_up().await? {
            live.back_up().await?;
        }
    }
    Ok(())
}

/// Compares a live account with the definition.
pub async fn diff(client: &Client, config: &Config) -> Result<Vec<TableDrift>, SchemaError> {
    let mut drifts = vec![];
    for table in Table::ALL {
        let live = Live::new(client, config, table);
        let Some(description) = live.describe().await? else {
            drifts.push(live.drift(TableAspect::Missing));
            continue;
        };
        let definition = &live.definition;
        let mut check = |holds: bool, aspect| {
            if !holds {
                drifts.push(live.drift(aspect));
            }
        };
        let keys = key_schema(definition.partition_key, definition.sort_key);
        check(same_keys(&keys, description.key_schema()), TableAspect::Keys);
        check(same_index(definition.index, &description), TableAspect::Index);
        let billing = description.billing_mode_summary().and_then(|summary| summary.billing_mode());
        check(billing == Some(&BillingMode::PayPerRequest), TableAspect::Billing);
        check(live.expires().await? == definition.expires, TableAspect::TimeToLive);
        if config.point_in_time_recovery && definition.backed_up {
            check(live.is_backed_up().await?, TableAspect::Backups);
        }
    }
    Ok(drifts)
}

/// One table of a live account.
pub(super) struct Live<'a> {
    pub(super) client: &'a Client,
    pub(super) name: String,
    pub(super) definition: Definition,
}

impl<'a> Live<'a> {
    pub(super) fn new(client: &'a Client, config: &Config, table: Table) -> Self {
        let name = format!("{}{}", config.table_prefix, table.name());
        Self { client, name, definition: table.definition() }
    }

    fn drift(&self, aspect: TableAspect) -> TableDrift {
        TableDrift { table: self.name.clone(), aspect }
    }

    pub(super) fn failed(&self, action: &'static str) -> impl FnOnce(aws_sdk_dynamodb::Error) -> SchemaError {
        let table = self.name.clone();
        move |error| SchemaError { table, action, source: error.into() }
    }

    pub(super) async fn describe(&self) -> Result<Option<TableDescription>, SchemaError> {
        match self.client.describe_table().table_name(&self.name).send().await.map_err(aws_sdk_dynamodb::Error::from) {
            Ok(output) => Ok(output.table),
            Err(aws_sdk_dynamodb::Error::ResourceNotFoundException(_)) => Ok(None),
            Err(error) => Err(self.failed("looking at it")(error)),
        }
    }

    pub(super) async fn create(&self) -> Result<(), SchemaError> {
        let Definition { partition_key, sort_key, index, .. } = self.definition;
        let request = self
            .client
            .create_table()
            .table_name(&self.name)
            .billing_mode(BillingMode::PayPerRequest)
            .set_key_schema(Some(key_schema(partition_key, sort_key)))
            .set_attribute_definitions(Some(attribute_definitions(&self.definition)))
            .set_global_secondary_indexes(index.map(|index| vec![secondary_index(index)]));
        match request.send().await.map_err(aws_sdk_dynamodb::Error::from) {
            // `ResourceInUse` means that another process is creating it.
            Ok(_) | Err(aws_sdk_dynamodb::Error::ResourceInUseException(_)) => Ok(()),
            Err(error) => Err(self.failed("creation")(error)),
        }
    }

    pub(super) async fn wait_until_active(&self) -> Result<(), SchemaError> {
        let deadline = Instant::now() + CREATION_DEADLINE;
        loop {
            let status = self.describe().await?.and_then(|description| description.table_status);
            if status == Some(TableStatus::Active) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let source = format!("it is not active after {CREATION_DEADLINE:?}").into();
                return Err(SchemaError { table: self.name.clone(), action: "creation", source });
            }
            sleep(CREATION_POLL).await;
        }
    }

    pub(super) async fn expires(&self) -> Result<bool, SchemaError> {
        let request = self.client.describe_time_to_live().table_name(&self.name);
        let output = request.send().await.map_err(|error| self.failed("looking at its time to live")(error.into()))?;
        Ok(output.time_to_live_description.is_some_and(|ttl| {
            let on = matches!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
            on && ttl.attribute_name() == Some(TTL)
        }))
    }

    pub(super) async fn let_expire(&self) -> Result<(), SchemaError> {
        let specification = TimeToLiveSpecification::builder().enabled(true).attribute_name(TTL).build();
        let specification = specification.expect("both fields are given");
        let request =
            self.client.update_time_to_live().table_name(&self.name).time_to_live_specification(specification);
        request.send().await.map_err(|error| self.failed("setting its time to live")(error.into()))?;
        Ok(())
    }

    pub(super) async fn is_backed_up(&self) -> Result<bool, SchemaError> {
        Ok(self.recovery().await?.is_some())
    }

    /// The point-in-time recovery of the table, if it is enabled.
    pub(super) async fn recovery(&self) -> Result<Option<PointInTimeRecoveryDescription>, SchemaError> {
        let request = self.client.describe_continuous_backups().table_name(&self.name);
        let output = request.send().await.map_err(|error| self.failed("looking at its backups")(error.into()))?;
        let recovery =
            output.continuous_backups_description.and_then(|backups| backups.point_in_time_recovery_description);
        let enabled = Some(PointInTimeRecoveryStatus::Enabled);
        Ok(recovery.filter(|recovery| recovery.point_in_time_recovery_status == enabled))
    }

    /// Enables point-in-time recovery. The service refuses that for a while after it has made a table.
    pub(super) async fn back_up(&self) -> Result<(), SchemaError> {
        let specification = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true).build();
        let specification = specification.expect("the one field is given");
        let deadline = Instant::now() + CREATION_DEADLINE;
        loop {
            let request = self
                .client
                .update_continuous_backups()
                .table_name(&self.name)
                .point_in_time_recovery_specification(specification.clone());
            match request.send().await.map_err(aws_sdk_dynamodb::Error::from) {
                Ok(_) => return Ok(()),
                Err(aws_sdk_dynamodb::Error::ContinuousBackupsUnavailableException(_)) if Instant::now() < deadline => {
                    sleep(CREATION_POLL).await;
                }
                Err(error) => return Err(self.failed("setting its backups")(error)),
            }
        }
    }

    /// Protects the table from deletion.
    pub(super) async fn protect(&self) -> Result<(), SchemaError> {
        let request = self.client.update_table().table_name(&self.name).deletion_protection_enabled(true);
        request.send().await.map_err(|error| self.failed("protecting it from deletion")(error.into()))?;
        self.wait_until_active().await
    }

    /// Sets tags, and leaves others.
    pub(super) async fn tag(&self, arn: &str, tags: &[(&str, &str)]) -> Result<(), SchemaError> {
        let tag = |(key, value): &(&str, &str)| Tag::builder().key(*key).value(*value).build();
        let tags = tags.iter().map(|pair| tag(pair).expect("both fields are given")).collect();
        let request = self.client.tag_resource().resource_arn(arn).set_tags(Some(tags));
        request.send().await.map_err(|error| self.failed("tagging it")(error.into()))?;
        Ok(())
    }

    /// The value of a tag.
    pub(super) async fn tagged(&self, arn: &str, key: &str) -> Result<Option<String>, SchemaError> {
        // A table has at most 50 tags, and a page is longer than that.
        let request = self.client.list_tags_of_resource().resource_arn(arn);
        let output = request.send().await.map_err(|error| self.failed("reading its tags")(error.into()))?;
        let tag = output.tags.unwrap_or_default().into_iter().find(|tag| tag.key == key);
        Ok(tag.map(|tag| tag.value))
    }
}

fn key_schema(partition_key: &str, sort_key: Option<Attribute>) -> Vec<KeySchemaElement> {
    let element = |name: &str, key_type| {
        let element = KeySchemaElement::builder().attribute_name(name).key_type(key_type).build();
        element.expect("both fields are given")
    };
    let sort_key = sort_key.map(|attribute| element(attribute.name(), KeyType::Range));
    std::iter::once(element(partition_key, KeyType::Hash)).chain(sort_key).collect()
}

fn attribute_definitions(definition: &Definition) -> Vec<AttributeDefinition> {
    let describe = |attribute: Attribute| {
        let attribute_type = match attribute {
            Attribute::Text(_) => ScalarAttributeType::S,
            Attribute::Number(_) => ScalarAttributeType::N,
        };
        let described = AttributeDefinition::builder().attribute_name(attribute.name()).attribute_type(attribute_type);
        described.build().expect("both fields are given")
    };
    definition.key_attributes().into_iter().map(describe).collect()
}

fn secondary_index(index: Index) -> GlobalSecondaryIndex {
    let built = GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(key_schema(index.partition_key, index.sort_key)))
        .projection(SdkProjection::builder().projection_type(projection_type(index.projection)).build());
    built.build().expect("name and keys are given")
}

fn projection_type(projection: Projection) -> ProjectionType {
    match projection {
        Projection::Keys => ProjectionType::KeysOnly,
        Projection::All => ProjectionType::All,
    }
}

fn same_index(index: Option<Index>, description: &TableDescription) -> bool {
    let live = description.global_secondary_indexes();
    match (index, live) {
        (None, []) => true,
        (Some(index), [live]) => {
            let projection = live.projection().and_then(|projection| projection.projection_type());
            live.index_name() == Some(index.name)
                && same_keys(&key_schema(index.partition_key, index.sort_key), live.key_schema())
                && projection == Some(&projection_type(index.projection))
        }
        _ => false,
    }
}

/// Whether two key schemas have the same attributes with the same roles.
fn same_keys(ours: &[KeySchemaElement], live: &[KeySchemaElement]) -> bool {
    ours.len() == live.len() && ours.iter().all(|element| live.contains(element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::DynamoServer;

    #[tokio::test]
    async fn applied_tables_are_as_defined_however_often() {
        let server = DynamoServer::start().await;
        let missing = Table::ALL.map(|table| TableDrift { table: server.name(table), aspect: TableAspect::Missing });
        assert_eq!(diff(&server.client, &server.config).await.unwrap(), missing);
        for _ in 0..2 {
            apply(&server.client, &server.config).await.unwrap();
            assert_eq!(diff(&server.client, &server.config).await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn a_foreign_table_is_recognized() {
        let server = DynamoServer::with_tables().await;
        let name = server.name(Table::Notices);
        server.client.delete_table().table_name(&name).send().await.unwrap();
        let other = Live { name: name.clone(), ..Live::new(&server.client, &server.config, Table::Users) };
        other.create().await.unwrap();

        let drifts = diff(&server.client, &server.config).await.unwrap();
        let expected = [TableAspect::Keys, TableAspect::Index, TableAspect::TimeToLive];
        assert_eq!(drifts, expected.map(|aspect| TableDrift { table: name.clone(), aspect }));
        assert_eq!(drifts[0].to_string(), "table `tidings_notices` has other keys");
    }
}
