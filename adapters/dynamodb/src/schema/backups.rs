//! Scheduled backups of all tables with lasting data, by AWS Backup, as one CloudFormation template.
//!
//! They keep data for longer than point-in-time recovery does, and in a vault from which the tables' owner cannot remove
//! it. A second vault may be in another region or account. The backups of different tables are of different times, so
//! a whole fleet is restored to a point in time wherever that is possible.

use serde_json::{Value, json};

use super::Table;
use super::cloudformation::{TABLE_PREFIX, indented, table_prefix};
use crate::Config;

const SCHEDULE: &str = "Schedule";
const KEEP_DAYS: &str = "KeepDays";
const COPY_VAULT: &str = "CopyVaultArn";
const HAS_COPY_VAULT: &str = "HasCopyVault";

/// The template, as JSON.
pub fn backups(config: &Config) -> String {
    let lifecycle = json!({ "DeleteAfterDays": { "Ref": KEEP_DAYS } });
    let copy = json!({ "DestinationBackupVaultArn": { "Ref": COPY_VAULT }, "Lifecycle": lifecycle });
    let tables: Vec<Value> = Table::ALL.into_iter().filter(|table| table.definition().backed_up).map(arn).collect();
    let managed =
        |policy: &str| json!({ "Fn::Sub": format!("arn:${{AWS::Partition}}:iam::aws:policy/service-role/{policy}") });
    let template = json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Scheduled backups of the tables of Tidings.",
        "Parameters": {
            TABLE_PREFIX: table_prefix(config),
            SCHEDULE: {
                "Type": "String",
                "Description": "When backups are taken, as a schedule of AWS Backup.",
                "Default": "cron(0 3 * * ? *)",
            },
            KEEP_DAYS: {
                "Type": "Number",
                "Description": "How many days backups are kept.",
                "Default": 90,
                "MinValue": 1,
            },
            COPY_VAULT: {
                "Type": "String",
                "Description": "A vault in another region or account that receives a copy of each backup.",
                "Default": "",
                "AllowedPattern": "(arn:[a-z-]+:backup:.+)?",
            },
        },
        "Conditions": { HAS_COPY_VAULT: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": COPY_VAULT }, ""] }] } },
        "Resources": {
            "Vault": {
                "Type": "AWS::Backup::BackupVault",
                "DeletionPolicy": "Retain",
                "UpdateReplacePolicy": "Retain",
                "Properties": { "BackupVaultName": { "Fn::Sub": "${AWS::StackName}" } },
            },
            "Plan": {
                "Type": "AWS::Backup::BackupPlan",
                "Properties": { "BackupPlan": {
                    "BackupPlanName": { "Fn::Sub": "${AWS::StackName}" },
                    "BackupPlanRule": [{
                        "RuleName": "tables",
                        "TargetBackupVault": { "Ref": "Vault" },
                        "ScheduleExpression": { "Ref": SCHEDULE },
                        "StartWindowMinutes": 60,
                        "Lifecycle": lifecycle,
                        "CopyActions": { "Fn::If": [HAS_COPY_VAULT, [copy], { "Ref": "AWS::NoValue" }] },
                    }],
                } },
            },
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "AssumeRolePolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [{
                            "Effect": "Allow",
                            "Principal": { "Service": "backup.amazonaws.com" },
                            "Action": "sts:AssumeRole",
                        }],
                    },
                    "ManagedPolicyArns": [
                        managed("AWSBackupServiceRolePolicyForBackup"),
                        managed("AWSBackupServiceRolePolicyForRestores"),
                    ],
                },
            },
            "Selection": {
                "Type": "AWS::Backup::BackupSelection",
                "Properties": {
                    "BackupPlanId": { "Ref": "Plan" },
                    "BackupSelection": {
                        "SelectionName": "tables",
                        "IamRoleArn": { "Fn::GetAtt": ["Role", "Arn"] },
                        "Resources": tables,
                    },
                },
            },
        },
        "Outputs": { "VaultArn": { "Value": { "Fn::GetAtt": ["Vault", "BackupVaultArn"] } } },
    });
    indented(&template)
}

fn arn(table: Table) -> Value {
    let name = format!("table/${{{TABLE_PREFIX}}}{}", table.name());
    json!({ "Fn::Sub": format!("arn:${{AWS::Partition}}:dynamodb:${{AWS::Region}}:${{AWS::AccountId}}:{name}") })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn every_table_with_lasting_data_is_backed_up() {
        let template: Value = serde_json::from_str(&backups(&Config::default())).unwrap();
        let selected = &template["Resources"]["Selection"]["Properties"]["BackupSelection"]["Resources"];
        let selected: Vec<&str> =
            selected.as_array().unwrap().iter().map(|arn| arn["Fn::Sub"].as_str().unwrap()).collect();
        for definition in Table::ALL.map(Table::definition) {
            let end = format!(":table/${{TablePrefix}}{}", definition.name);
            let is_selected = selected.iter().any(|arn| arn.ends_with(&end));
            assert_eq!(is_selected, definition.backed_up, "{}", definition.name);
        }
    }

    #[test]
    fn cfn_lint_finds_nothing_wrong_with_the_backups() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("backups.json");
        fs::write(&file, backups(&Config::default())).unwrap();
        let linted =
            Command::new(engines::cfn_lint()).args(["--include-checks", "I", "--"]).arg(&file).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&linted.stdout), String::from_utf8_lossy(&linted.stderr));
        assert!(linted.status.success(), "{said}");
    }
}
