//! The examples of the OpenAPI document: one story, told in the bodies that the API itself writes and reads.
//!
//! A test plays it on a real server, so what is shown here is what happens.

mod conversation;
mod people;
mod safety;

use serde::Serialize;
use serde_json::{Value, json};

/// What the story shows of one operation.
struct Told {
    operation_id: &'static str,
    parameters: Vec<(&'static str, Value)>,
    cases: Vec<Case>,
}

/// One request and its answer; `null` is the body of those that have none.
struct Case {
    name: &'static str,
    request: Value,
    status: u16,
    answer: Value,
}

impl Told {
    fn of(operation_id: &'static str) -> Self {
        Self { operation_id, parameters: Vec::new(), cases: Vec::new() }
    }

    fn with(mut self, parameter: &'static str, value: impl Serialize) -> Self {
        self.parameters.push((parameter, json!(value)));
        self
    }

    fn case(mut self, name: &'static str, request: impl Serialize, status: u16, answer: impl Serialize) -> Self {
        self.cases.push(Case { name, request: json!(request), status, answer: json!(answer) });
        self
    }

    /// The one case of an operation that takes no body.
    fn answered(self, answer: impl Serialize) -> Self {
        self.case("example", (), 200, answer)
    }

    /// The one case of an operation that answers nothing.
    fn done(self, request: impl Serialize) -> Self {
        self.case("example", request, 204, ())
    }
}

/// Puts the story into the document.
pub(super) fn add_to(document: &mut Value) {
    let told: Vec<_> = people::told().into_iter().chain(conversation::told()).chain(safety::told()).collect();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(|item| item.values_mut()) {
        if let Some(told) = told.iter().find(|told| operation["operationId"] == told.operation_id) {
            tell(operation, told);
        }
    }
}

fn tell(operation: &mut Value, told: &Told) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let shown = told.parameters.iter().find(|(name, _)| parameter["name"] == *name);
        if let Some((_, value)) = shown {
            parameter["example"] = value.clone();
        }
    }
    for Case { name, request, status, answer } in &told.cases {
        if !request.is_null() {
            operation["requestBody"]["content"]["application/json"]["examples"][name] = json!({ "value": request });
        }
        if !answer.is_null() {
            let content = &mut operation["responses"][status.to_string()]["content"]["application/json"];
            content["examples"][name] = json!({ "value": answer });
        }
    }
}
