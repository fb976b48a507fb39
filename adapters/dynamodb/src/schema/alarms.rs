//! The CloudWatch alarms of all tables and indexes as one CloudFormation template. `Fn::ForEach` keeps it below the size
//! that the service accepts.

use ports::ProcessRole;
use serde_json::{Map, Value, json};

use super::cloudformation::{TABLE_PREFIX, camel_case, indented, table_prefix};
use super::{Table, TableAction, access};
use crate::Config;

/// Four fifths of the quota of a table or an index on demand, in units a minute. The quota is 40,000 units a second.
const UNITS_MAX: u32 = 40_000 * 60 / 5 * 4;
/// A transaction that takes longer is slow, in milliseconds (ADR-007, 6.3).
const SLOW_MS: u32 = 100;
const TOPIC: &str = "AlarmTopicArn";

/// The rule of an alarm: a metric of DynamoDB and its threshold.
struct AlarmRule<'a> {
    description: &'a str,
    metric: &'a str,
    /// The dimension `Operation`, for metrics of requests.
    operation: Option<&'a str>,
    /// `Statistic` or `ExtendedStatistic`, and its value.
    statistic: (&'a str, &'a str),
    minutes: u32,
    threshold: u32,
}

impl AlarmRule<'_> {
    /// The alarm on a table or an index with these dimensions.
    fn resource(&self, mut dimensions: Vec<Value>) -> Value {
        if let Some(operation) = self.operation {
            dimensions.push(json!({ "Name": "Operation", "Value": operation }));
        }
        let (kind, statistic) = self.statistic;
        json!({
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmDescription": self.description,
                "Namespace": "AWS/DynamoDB",
                "MetricName": self.metric,
                "Dimensions": dimensions,
                kind: statistic,
                "Period": 60,
                "EvaluationPeriods": self.minutes,
                "Threshold": self.threshold,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
                "AlarmActions": [{ "Ref": TOPIC }],
            },
        })
    }
}

const SUM: (&str, &str) = ("Statistic", "Sum");

/// The alarms of every table and every index, by the end of their name.
const OF_ALL: [(&str, AlarmRule<'static>); 4] = [
    (
        "ReadThrottles",
        AlarmRule {
            description: "Reads of Tidings are throttled. One chat, or all? docs/runbooks/dynamodb.md.",
            metric: "ReadThrottleEvents",
            operation: None,
            statistic: SUM,
            minutes: 1,
            threshold: 0,
        },
    ),
    (
        "WriteThrottles",
        AlarmRule {
            description: "Writes of Tidings are throttled. One chat, or all? docs/runbooks/dynamodb.md.",
            metric: "WriteThrottleEvents",
            operation: None,
            statistic: SUM,
            minutes: 1,
            threshold: 0,
        },
    ),
    (
        "Reads",
        AlarmRule {
            description: "Tidings uses four fifths of the read units that the quota allows.",
            metric: "ConsumedReadCapacityUnits",
            operation: None,
            statistic: SUM,
            minutes: 5,
            threshold: UNITS_MAX,
        },
    ),
    (
        "Writes",
        AlarmRule {
            description: "Tidings uses four fifths of the write units that the quota allows.",
            metric: "ConsumedWriteCapacityUnits",
            operation: None,
            statistic: SUM,
            minutes: 5,
            threshold: UNITS_MAX,
        },
    ),
];

/// The alarm of every table on slow transactions.
const SLOW: AlarmRule<'static> = AlarmRule {
    description: "One in a hundred transactions of Tidings takes longer than 100 ms.",
    metric: "SuccessfulRequestLatency",
    operation: Some("TransactWriteItems"),
    statistic: ("ExtendedStatistic", "p99"),
    minutes: 5,
    threshold: SLOW_MS,
};

/// The alarm of every table whose items no role may delete. A chat without its counter refuses sends.
const DELETED: AlarmRule<'static> = AlarmRule {
    description: "An item was deleted that no role of Tidings may delete. docs/runbooks/counter-missing.md.",
    metric: "SuccessfulRequestLatency",
    operation: Some("DeleteItem"),
    statistic: ("Statistic", "SampleCount"),
    minutes: 1,
    threshold: 0,
};

/// The template, as JSON.
pub fn alarms(config: &Config) -> String {
    let (mut tables, mut indexes) = (Map::new(), Map::new());
    for table in Table::ALL {
        let id = camel_case(table.name());
        if let Some(index) = table.definition().index {
            indexes.insert(format!("{id}Index"), json!({ "Table": table.name(), "Name": index.name }));
        }
        tables.insert(id, json!({ "Name": table.name() }));
    }
    let table = |map: &str, variable: &str, entry: &str| {
        let name = json!({ "Fn::FindInMap": [map, { "Ref": variable }, entry] });
        json!({ "Name": "TableName", "Value": { "Fn::Sub": [format!("${{{TABLE_PREFIX}}}${{Name}}"), { "Name": name }] } })
    };
    let index_name = json!({ "Fn::FindInMap": ["Indexes", { "Ref": "Index" }, "Name"] });
    let (mut of_table, mut of_index) = (Map::new(), Map::new());
    for (end, rule) in &OF_ALL {
        of_table.insert(format!("${{Table}}{end}"), rule.resource(vec![table("Tables", "Table", "Name")]));
        let index = json!({ "Name": "GlobalSecondaryIndexName", "Value": index_name });
        of_index.insert(format!("${{Index}}{end}"), rule.resource(vec![table("Indexes", "Index", "Table"), index]));
    }
    of_table.insert("${Table}Slow".to_owned(), SLOW.resource(vec![table("Tables", "Table", "Name")]));
    let deleted = json!({ "${Kept}Deletions": DELETED.resource(vec![table("Tables", "Kept", "Name")]) });
    let kept: Vec<String> = never_deleted().map(|table| camel_case(table.name())).collect();
    let ids = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    let template = json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "The alarms of the tables of Tidings and of their indexes.",
        "Transform": "AWS::LanguageExtensions",
        "Parameters": {
            TABLE_PREFIX: table_prefix(config),
            TOPIC: {
                "Type": "String",
                "Description": "The SNS topic that receives the alarms.",
                "AllowedPattern": "arn:[a-z-]+:sns:.+",
            },
        },
        "Resources": {
            "Fn::ForEach::Tables": ["Table", ids(&tables), of_table],
            "Fn::ForEach::Indexes": ["Index", ids(&indexes), of_index],
            "Fn::ForEach::Kept": ["Kept", kept, deleted],
        },
        "Mappings": { "Tables": tables, "Indexes": indexes },
    });
    indented(&template)
}

/// The tables whose items no role may delete.
fn never_deleted() -> impl Iterator<Item = Table> {
    let deletes = |role: ProcessRole, table: Table| {
        access(role).get(&table).is_some_and(|actions| actions.contains(&TableAction::Delete))
    };
    Table::ALL.into_iter().filter(move |table| !ProcessRole::ALL.into_iter().any(|role| deletes(role, *table)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_every_index_has_its_alarms_and_counters_one_on_deletions() {
        let template: Value = serde_json::from_str(&alarms(&Config::default())).unwrap();
        let list = |name: &str| -> Vec<String> {
            serde_json::from_value(template["Resources"][format!("Fn::ForEach::{name}")][1].clone()).unwrap()
        };
        assert_eq!(list("Tables").len(), Table::ALL.len());
        let indexes = Table::ALL.iter().filter(|table| table.definition().index.is_some()).count();
        assert_eq!(list("Indexes").len(), indexes);
        assert!(list("Kept").contains(&"ChatCounters".to_owned()), "{:?}", list("Kept"));
        assert!(!list("Kept").contains(&"Outbox".to_owned()), "the relay deletes published events");
        for alarm in ["ReadThrottles", "WriteThrottles"] {
            let of_index = &template["Resources"]["Fn::ForEach::Indexes"][2][format!("${{Index}}{alarm}")];
            assert_eq!(of_index["Properties"]["Dimensions"][1]["Name"], "GlobalSecondaryIndexName");
        }
    }
}
