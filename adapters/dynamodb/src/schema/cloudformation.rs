//! The tables and the policies of roles as one CloudFormation template.
//!
//! A table with point-in-time recovery is protected from deletion, and retained when its stack is deleted. Policies
//! have generated names, so that several fleets can share an account.

use ports::ProcessRole;
use serde_json::{Map, Value, json};

use super::iam::{ArnParts, LogNames, Statement, document, log_statements, table_statements};
use super::{Attribute, Definition, Projection, TTL, Table};
use crate::Config;

/// The parameter with the table prefix, and its largest length: policies have a size limit, and name every table.
pub(super) const TABLE_PREFIX: &str = "TablePrefix";
const TABLE_PREFIX_LEN_MAX: usize = 32;
/// The parameter with the MSK cluster that uses IAM authentication, and the condition that it is set.
const MSK_CLUSTER: &str = "MskCluster";
const HAS_MSK_CLUSTER: &str = "HasMskCluster";
/// The parameter that says whether the stack makes the tables, its values, and the condition on them. A restore has made
/// the tables of another prefix already.
const TABLES: &str = "Tables";
const CREATED: &str = "created";
const RESTORED: &str = "restored";
const CREATES_TABLES: &str = "CreatesTables";

/// Longest object or list that [`indented`] writes on one line.
const LINE_LEN_MAX: usize = 120;

/// The recovery window of a table: the longest that the service offers (ADR-007, 10).
const RECOVERY_DAYS: u32 = 35;

/// The parts of ARNs in the template.
const PLACE: ArnParts<'static> = ArnParts {
    partition: "${AWS::Partition}",
    region: "${AWS::Region}",
    account_id: "${AWS::AccountId}",
    table_prefix: "${TablePrefix}",
    msk_cluster: "${MskCluster}",
};

/// The template, as JSON.
pub fn cloudformation(config: &Config, log: &LogNames) -> String {
    let (mut resources, mut outputs) = (Map::new(), Map::new());
    for table in Table::ALL {
        let id = format!("{}Table", camel_case(table.name()));
        outputs
            .insert(format!("{id}Arn"), json!({ "Condition": CREATES_TABLES, "Value": { "Fn::GetAtt": [id, "Arn"] } }));
        resources.insert(id, table_resource(config, &table.definition()));
    }
    for (id, policy) in ProcessRole::ALL.into_iter().flat_map(|role| policy_resources(role, log)) {
        let mut output = json!({ "Value": { "Ref": id } });
        if let Some(condition) = policy.get("Condition") {
            output["Condition"] = condition.clone();
        }
        outputs.insert(format!("{id}Arn"), output);
        resources.insert(id, policy);
    }
    let template = json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "The tables of Tidings, and what each role of its fleet may do to them and to the event log.",
        "Parameters": {
            TABLE_PREFIX: table_prefix(config),
            TABLES: {
                "Type": "String",
                "Description": "restored, if tidings store restore-tables has made the tables.",
                "Default": CREATED,
                "AllowedValues": [CREATED, RESTORED],
            },
            MSK_CLUSTER: {
                "Type": "String",
                "Description": "NAME/UUID, the end of the ARN of the MSK cluster, if its clients sign in with IAM.",
                "Default": "",
                "AllowedPattern": "([a-zA-Z0-9-]+/[a-zA-Z0-9-]+)?",
            },
        },
        "Conditions": {
            CREATES_TABLES: { "Fn::Equals": [{ "Ref": TABLES }, CREATED] },
            HAS_MSK_CLUSTER: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": MSK_CLUSTER }, ""] }] },
        },
        "Resources": resources,
        "Outputs": outputs,
    });
    indented(&template)
}

/// The parameter with the table prefix.
pub(super) fn table_prefix(config: &Config) -> Value {
    json!({
        "Type": "String",
        "Description": "Prefix of all table names, as in the setting dynamodb.table_prefix.",
        "Default": config.table_prefix,
        "AllowedPattern": "[a-zA-Z0-9_.-]*",
        "MaxLength": TABLE_PREFIX_LEN_MAX,
    })
}

/// Readable JSON: a line for each short value, indented with one space per level. The service limits the size of a
/// template.
pub(super) fn indented(template: &Value) -> String {
    let mut text = String::new();
    write_indented(&mut text, template, 0);
    text + "\n"
}

fn write_indented(text: &mut String, value: &Value, depth: usize) {
    let parts: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(name, value)| (Some(name), value)).collect(),
        Value::Array(array) => array.iter().map(|value| (None, value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
    };
    let line = value.to_string();
    let is_container = |value: &Value| value.is_object() || value.is_array();
    if line.len() <= LINE_LEN_MAX || !is_container(value) {
        text.push_str(&line);
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    text.push(open);
    for (n, (name, part)) in parts.into_iter().enumerate() {
        let separator = if n == 0 { "\n" } else { ",\n" };
        text.push_str(separator);
        text.extend(std::iter::repeat_n(' ', depth + 1));
        if let Some(name) = name {
            text.push_str(&format!("{}: ", json!(name)));
        }
        write_indented(text, part, depth + 1);
    }
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', depth));
    text.push(close);
}

fn table_resource(config: &Config, definition: &Definition) -> Value {
    let fate = if definition.backed_up { "Retain" } else { "Delete" };
    let mut properties = json!({
        "TableName": { "Fn::Sub": format!("${{{TABLE_PREFIX}}}{}", definition.name) },
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": attribute_definitions(definition),
        "KeySchema": key_schema(definition.partition_key, definition.sort_key),
        "SSESpecification": { "SSEEnabled": true },
        "DeletionProtectionEnabled": definition.backed_up,
        "Tags": [
            { "Key": "application", "Value": "tidings" },
            { "Key": "table-prefix", "Value": { "Ref": TABLE_PREFIX } },
        ],
    });
    if let Some(index) = definition.index {
        let projection = match index.projection {
            Projection::Keys => "KEYS_ONLY",
            Projection::All => "ALL",
        };
        properties["GlobalSecondaryIndexes"] = json!([{
            "IndexName": index.name,
            "KeySchema": key_schema(index.partition_key, index.sort_key),
            "Projection": { "ProjectionType": projection },
        }]);
    }
    if definition.expires {
        properties["TimeToLiveSpecification"] = json!({ "AttributeName": TTL, "Enabled": true });
    }
    if definition.backed_up && config.point_in_time_recovery {
        properties["PointInTimeRecoverySpecification"] =
            json!({ "PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": RECOVERY_DAYS });
    }
    json!({
        "Type": "AWS::DynamoDB::Table",
        "Condition": CREATES_TABLES,
        "DeletionPolicy": fate,
        "UpdateReplacePolicy": fate,
        "Properties": properties,
    })
}

fn key_schema(partition_key: &str, sort_key: Option<Attribute>) -> Vec<Value> {
    let element = |name: &str, key_type: &str| json!({ "AttributeName": name, "KeyType": key_type });
    let sort_key = sort_key.map(|attribute| element(attribute.name(), "RANGE"));
    std::iter::once(element(partition_key, "HASH")).chain(sort_key).collect()
}

fn attribute_definitions(definition: &Definition) -> Vec<Value> {
    let describe = |attribute: Attribute| {
        let attribute_type = match attribute {
            Attribute::Text(_) => "S",
            Attribute::Number(_) => "N",
        };
        json!({ "AttributeName": attribute.name(), "AttributeType": attribute_type })
    };
    definition.key_attributes().into_iter().map(describe).collect()
}

/// The policies of a role by resource id: for tables, and for the log if there is a cluster.
fn policy_resources(role: ProcessRole, log: &LogNames) -> Vec<(String, Value)> {
    let resource = |what: &str, statements: Vec<Statement>| {
        let stated = |statement: Statement| statement.json(|arn| json!({ "Fn::Sub": arn }));
        json!({
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "Description": format!("What processes of Tidings in the role {role} do to {what}."),
                "PolicyDocument": document(statements.into_iter().map(stated).collect()),
            },
        })
    };
    let (name, mut policies) = (camel_case(role.name()), vec![]);
    let (of_tables, of_log) = (table_statements(role, &PLACE), log_statements(role, log, &PLACE));
    if !of_tables.is_empty() {
        policies.push((format!("{name}Policy"), resource("tables", of_tables)));
    }
    if !of_log.is_empty() {
        let mut policy = resource("the event log", of_log);
        policy["Condition"] = json!(HAS_MSK_CLUSTER);
        policies.push((format!("{name}LogPolicy"), policy));
    }
    policies
}

/// `chat_members` in CloudFormation's style: `ChatMembers`.
pub(super) fn camel_case(name: &str) -> String {
    let capitalized = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    capitalized.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::process::Command;

    use super::super::iam::tests::log_names;
    use super::*;

    /// Largest template that the service accepts without an S3 bucket.
    const TEMPLATE_BYTES_MAX: usize = 51_200;

    fn template() -> Value {
        serde_json::from_str(&cloudformation(&Config::default(), &log_names())).unwrap()
    }

    #[test]
    fn the_template_is_one_that_cfn_lint_finds_nothing_wrong_with() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tidings.json");
        fs::write(&file, cloudformation(&Config::default(), &log_names())).unwrap();
        let linted =
            Command::new(engines::cfn_lint()).args(["--include-checks", "I", "--"]).arg(&file).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&linted.stdout), String::from_utf8_lossy(&linted.stderr));
        assert!(linted.status.success(), "{said}");
    }

    #[test]
    fn the_template_fits_into_one_call() {
        let len = cloudformation(&Config::default(), &log_names()).len();
        // Room for some tables more.
        assert!(len <= TEMPLATE_BYTES_MAX * 9 / 10, "{len}");
    }

    #[test]
    fn a_template_has_a_line_for_each_short_value_and_is_the_same_json() {
        let long = "x".repeat(LINE_LEN_MAX);
        let value = json!({ "a": { "Ref": "é\"" }, "b": [1, { "c": [] }], "d": [long], "e": null, "f": {} });
        let text = indented(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let expected = format!(
            "{{\n \"a\": {{\"Ref\":\"é\\\"\"}},\n \"b\": [1,{{\"c\":[]}}],\n \"d\": [\n  \"{long}\"\n ],\n \
             \"e\": null,\n \"f\": {{}}\n}}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn every_table_is_there_as_defined() {
        let template = template();
        let tables: Vec<&Value> = template["Resources"]
            .as_object()
            .unwrap()
            .values()
            .filter(|resource| resource["Type"] == "AWS::DynamoDB::Table")
            .collect();
        assert_eq!(tables.len(), Table::ALL.len());
        for definition in Table::ALL.map(Table::definition) {
            let name = json!({ "Fn::Sub": format!("${{TablePrefix}}{}", definition.name) });
            let table = tables.iter().find(|table| table["Properties"]["TableName"] == name).unwrap();
            assert_eq!(table["Condition"], CREATES_TABLES, "a restore has made it already");
            let properties = &table["Properties"];
            assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
            assert_eq!(properties["TimeToLiveSpecification"]["AttributeName"] == TTL, definition.expires);
            assert_eq!(
                properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] == true,
                definition.backed_up
            );
            let fate = if definition.backed_up { "Retain" } else { "Delete" };
            assert_eq!((&table["DeletionPolicy"], &table["UpdateReplacePolicy"]), (&json!(fate), &json!(fate)));
            let index = properties["GlobalSecondaryIndexes"][0]["IndexName"].as_str();
            assert_eq!(index, definition.index.map(|index| index.name));
        }
    }

    #[test]
    fn a_table_names_its_keys_and_its_index() {
        let messages = &template()["Resources"]["MessagesTable"]["Properties"];
        let key = |name: &str, key_type: &str| json!({ "AttributeName": name, "KeyType": key_type });
        let attribute = |name: &str, of: &str| json!({ "AttributeName": name, "AttributeType": of });
        assert_eq!(messages["KeySchema"], json!([key("chat_id", "HASH"), key("sequence", "RANGE")]));
        assert_eq!(
            messages["AttributeDefinitions"],
            json!([attribute("chat_id", "S"), attribute("sequence", "N"), attribute("message_id", "S")])
        );
        assert_eq!(
            messages["GlobalSecondaryIndexes"],
            json!([{
                "IndexName": "message_id-index",
                "KeySchema": [key("message_id", "HASH")],
                "Projection": { "ProjectionType": "KEYS_ONLY" },
            }])
        );
    }

    #[test]
    fn roles_that_touch_a_table_or_the_log_have_policies_that_are_put_out() {
        let template = template();
        let policies = template["Resources"].as_object().unwrap().iter();
        let policies = policies.filter(|(_, resource)| resource["Type"] == "AWS::IAM::ManagedPolicy");
        let policies: BTreeSet<&str> = policies.map(|(id, _)| id.as_str()).collect();
        let roles = ["Api", "Fanout", "Ingest"];
        let expected = roles.iter().flat_map(|role| [format!("{role}LogPolicy"), format!("{role}Policy")]);
        assert_eq!(policies, expected.collect::<Vec<_>>().iter().map(String::as_str).collect());
        for role in roles {
            let output = &template["Outputs"][format!("{role}PolicyArn")];
            assert_eq!(output, &json!({ "Value": { "Ref": format!("{role}Policy") } }));
        }
    }

    #[test]
    fn rights_on_the_log_depend_on_an_msk_cluster() {
        let template = template();
        let (of_tables, of_log) = (&template["Resources"]["FanoutPolicy"], &template["Resources"]["FanoutLogPolicy"]);
        assert_eq!((of_tables.get("Condition"), &of_log["Condition"]), (None, &json!(HAS_MSK_CLUSTER)));
        assert_eq!(template["Outputs"]["FanoutLogPolicyArn"]["Condition"], HAS_MSK_CLUSTER);
        assert!(of_log.to_string().contains("kafka-cluster:ReadData") && !of_log.to_string().contains("dynamodb"));
        assert!(!of_tables.to_string().contains("kafka"));
    }
}
