//! The examples of the OpenAPI document: one story, in the body types that the API itself reads and writes.
//!
//! A test plays it on a real server, so the examples match its behaviour.

mod conversation;
mod passkeys;
mod people;
mod safety;

use serde::Serialize;
use serde_json::{Value, json};

/// The examples of one operation.
struct OperationExamples {
    operation_id: &'static str,
    parameters: Vec<(&'static str, Value)>,
    cases: Vec<ExampleCase>,
}

/// One request and its response; an absent body is `null`.
struct ExampleCase {
    name: &'static str,
    request: Value,
    status: u16,
    answer: Value,
}

impl OperationExamples {
    fn of(operation_id: &'static str) -> Self {
        Self { operation_id, parameters: Vec::new(), cases: Vec::new() }
    }

    fn with(mut self, parameter: &'static str, value: impl Serialize) -> Self {
        self.parameters.push((parameter, json!(value)));
        self
    }

    fn case(mut self, name: &'static str, request: impl Serialize, status: u16, answer: impl Serialize) -> Self {
        self.cases.push(ExampleCase { name, request: json!(request), status, answer: json!(answer) });
        self
    }

    /// The only case of an operation without a request body.
    fn answered(self, answer: impl Serialize) -> Self {
        self.case("example", (), 200, answer)
    }

    /// The only case of an operation without a response body.
    fn done(self, request: impl Serialize) -> Self {
        self.case("example", request, 204, ())
    }
}

/// Adds the examples to the document.
pub(super) fn add_to(document: &mut Value) {
    let parts = [people::examples(), passkeys::examples(), conversation::examples(), safety::examples()];
    let examples: Vec<_> = parts.into_iter().flatten().collect();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(|item| item.values_mut()) {
        if let Some(examples) = examples.iter().find(|examples| operation["operationId"] == examples.operation_id) {
            add_examples(operation, examples);
        }
    }
}

fn add_examples(operation: &mut Value, examples: &OperationExamples) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let shown = examples.parameters.iter().find(|(name, _)| parameter["name"] == *name);
        if let Some((_, value)) = shown {
            parameter["example"] = value.clone();
        }
    }
    for ExampleCase { name, request, status, answer } in &examples.cases {
        if !request.is_null() {
            operation["requestBody"]["content"]["application/json"]["examples"][name] = json!({ "value": request });
        }
        if !answer.is_null() {
            let content = &mut operation["responses"][status.to_string()]["content"]["application/json"];
            content["examples"][name] = json!({ "value": answer });
        }
    }
}
