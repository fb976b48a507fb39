use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Map, Value};

use crate::{root, said};

/// Prints a template as JSON, with the long form of its functions.
const DECODE: &str =
    "import json, sys\nfrom cfnlint.decode import cfn_yaml\nprint(json.dumps(cfn_yaml.load(sys.argv[1])))";

/// The template of a fleet with values of its parameters, evaluated as CloudFormation does.
pub(crate) struct Stack {
    template: Value,
    /// The values of parameters and pseudo parameters.
    values: BTreeMap<String, String>,
}

impl Stack {
    /// The stack with these parameters. Others have their defaults, or a placeholder if they have none.
    pub(crate) fn of(parameters: &[(&str, &str)]) -> Self {
        let python = engines::cfn_lint().with_file_name("python");
        let file = root().join("deploy/cloudformation/fleet.yaml");
        let template: Value = serde_json::from_str(&said(Command::new(python).args(["-c", DECODE]).arg(file))).unwrap();
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for (name, parameter) in template["Parameters"].as_object().unwrap() {
            let value = match &parameter["Default"] {
                Value::Null => format!("<{name}>"),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            values.insert(name.clone(), value);
        }
        for (name, value) in parameters {
            let known = values.insert((*name).to_owned(), (*value).to_owned());
            assert!(known.is_some(), "the template has no parameter {name}");
        }
        for (name, value) in [("AWS::Region", "eu-central-1"), ("AWS::Partition", "aws"), ("AWS::StackName", "tidings")]
        {
            values.insert(name.to_owned(), value.to_owned());
        }
        Self { template, values }
    }

    /// The descriptions of the assertions that these parameters violate.
    pub(crate) fn violated_rules(&self) -> Vec<String> {
        let mut violated = Vec::new();
        for rule in self.template["Rules"].as_object().unwrap().values() {
            if !self.holds(&rule["RuleCondition"]) {
                continue;
            }
            for assertion in rule["Assertions"].as_array().unwrap() {
                if !self.holds(&assertion["Assert"]) {
                    violated.push(assertion["AssertDescription"].as_str().unwrap().to_owned());
                }
            }
        }
        violated
    }

    /// A resource of the loop over all roles, such as `Task`.
    pub(crate) fn of_role(&self, role: &str, resource: &str) -> Value {
        let resources = &self.template["Resources"]["Fn::ForEach::Roles"];
        assert_eq!(resources[0], "Role");
        let resource = &resources[2][format!("${{Role}}{resource}")];
        assert!(resource.is_object(), "there is no such resource");
        self.evaluate(resource, Some(role)).unwrap()
    }

    /// Whether the stack has a resource.
    pub(crate) fn has(&self, resource: &str) -> bool {
        let resource = &self.template["Resources"][resource];
        assert!(resource.is_object(), "there is no such resource");
        resource["Condition"].as_str().is_none_or(|name| self.holds(&self.template["Conditions"][name]))
    }

    fn holds(&self, condition: &Value) -> bool {
        let [(function, argument)] = &*condition.as_object().unwrap().iter().collect::<Vec<_>>() else {
            panic!("{condition}")
        };
        match function.as_str() {
            "Fn::Not" => !self.holds(&argument[0]),
            "Fn::Equals" => self.evaluate(&argument[0], None) == self.evaluate(&argument[1], None),
            other => panic!("{other} is no condition that these tests know"),
        }
    }

    /// A value with its functions evaluated; `None` if it is `AWS::NoValue`. `role` is the variable of the loop.
    fn evaluate(&self, value: &Value, role: Option<&str>) -> Option<Value> {
        match value {
            Value::Array(values) => Some(values.iter().filter_map(|value| self.evaluate(value, role)).collect()),
            Value::Object(object) => match object.iter().next() {
                Some((function, argument))
                    if object.len() == 1 && (function == "Ref" || function.starts_with("Fn::")) =>
                {
                    self.call(function, argument, role)
                }
                _ => {
                    let entry = |(key, value): (&String, &Value)| Some((key.clone(), self.evaluate(value, role)?));
                    Some(Value::Object(object.iter().filter_map(entry).collect::<Map<_, _>>()))
                }
            },
            other => Some(other.clone()),
        }
    }

    fn call(&self, function: &str, argument: &Value, role: Option<&str>) -> Option<Value> {
        let text = |value: &Value| -> String {
            let evaluated = self.evaluate(value, role).expect("it has a value");
            evaluated.as_str().unwrap_or_else(|| panic!("{evaluated} is no text")).to_owned()
        };
        match function {
            "Ref" if argument == "AWS::NoValue" => None,
            "Ref" => Some(self.named(&text(argument), role).into()),
            "Fn::If" => {
                let condition = &self.template["Conditions"][argument[0].as_str().unwrap()];
                self.evaluate(&argument[if self.holds(condition) { 1 } else { 2 }], role)
            }
            "Fn::FindInMap" => {
                let found = &self.template["Mappings"][text(&argument[0])][text(&argument[1])][text(&argument[2])];
                assert!(!found.is_null(), "{argument} is not mapped");
                Some(found.clone())
            }
            "Fn::Sub" => {
                let (pattern, own) = match argument {
                    Value::Array(both) => (both[0].as_str().unwrap(), both[1].as_object().unwrap().clone()),
                    pattern => (pattern.as_str().unwrap(), Map::new()),
                };
                let mut parts = pattern.split("${");
                let mut filled = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    let (name, rest) = part.split_once('}').unwrap();
                    filled += &own.get(name).map_or_else(|| self.named(name, role), text);
                    filled += rest;
                }
                Some(filled.into())
            }
            // An attribute is known only when its resource exists.
            "Fn::GetAtt" => Some(format!("<{argument}>").into()),
            other => panic!("{other} is no function that these tests know"),
        }
    }

    /// A parameter, the variable of the loop, or a resource.
    fn named(&self, name: &str, role: Option<&str>) -> String {
        match role {
            Some(role) if name == "Role" => role.to_owned(),
            _ => self.values.get(name).cloned().unwrap_or_else(|| format!("<{name}>")),
        }
    }
}

#[test]
fn codes_are_written_to_the_log_only_on_request() {
    let violated = Stack::of(&[]).violated_rules();
    assert_eq!(violated.len(), 2, "{violated:?}");
    assert!(violated[0].contains("OtpWebhookUrl") && violated[1].contains("OtpSecretArn"), "{violated:?}");
    let arn = "arn:aws:secretsmanager:eu-central-1:1:secret:otp";
    let delivered = [("OtpWebhookUrl", "https://codes.example"), ("OtpSecretArn", arn)];
    assert_eq!(Stack::of(&delivered).violated_rules(), [""; 0]);
    assert_eq!(Stack::of(&[("OtpSender", "log")]).violated_rules(), [""; 0]);
    let unsigned = [("OtpSender", "log"), ("WebhookUrl", "https://app.example")];
    assert_eq!(Stack::of(&unsigned).violated_rules().len(), 1);
}
