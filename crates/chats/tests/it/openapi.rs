use std::collections::BTreeSet;

use axum::body::Body;
use expect_test::expect_file;
use serde_json::Value;

use crate::world::{World, request};

fn document() -> Value {
    tidings_chats::openapi()
}

#[test]
fn the_committed_document_is_the_present_one() {
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    expect_file!["../../../../docs/openapi.json"].assert_eq(&text);
}

#[tokio::test]
async fn the_documents_are_served_at_the_root() {
    for (path, document) in [
        ("/openapi.json", document()),
        ("/asyncapi.json", protocol::asyncapi()),
        ("/asyncapi-events.json", protocol::event::events_asyncapi()),
    ] {
        let answer = World::new().send(request("GET", path, Body::empty())).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.body, document, "{path}");
    }
}

#[tokio::test]
async fn every_documented_route_exists_and_asks_for_a_token_where_the_document_says_so() {
    let world = World::new();
    let document = document();
    let mut routes = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let answer = world.send(request(&method.to_uppercase(), path, Body::empty())).await;
            assert!(![404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
            assert_eq!(answer.status == 401, operation.get("security").is_some(), "{method} {path}: {answer:?}");
            routes += 1;
        }
    }
    assert_eq!(routes, 58);
}

#[test]
fn operations_have_unique_names_and_describe_their_path_parameters() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "two operations are called {name}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let described = parameters.iter().filter(|parameter| parameter["in"] == "path");
            let described: BTreeSet<_> = described.map(|parameter| parameter["name"].as_str().unwrap()).collect();
            let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(described, in_path, "{method} {path}");
        }
    }
}

#[test]
fn every_operation_has_a_description_parameters_answers_and_an_example() {
    let document = document();
    let tags: BTreeSet<_> = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str()).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let said = |field: &str| operation[field].as_str().is_some_and(|text| !text.is_empty());
            assert!(said("summary") && said("description"), "{method} {path}");
            assert!(
                operation["tags"].as_array().unwrap().iter().all(|tag| tags.contains(&tag.as_str())),
                "{method} {path}"
            );
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
                let shown = parameter.get("example").is_some();
                assert!(shown || parameter["required"] == false, "{method} {path}: {parameter}");
            }
            let examples = "/content/application~1json/examples";
            if let Some(body) = operation.get("requestBody") {
                assert!(body.pointer(examples).is_some(), "{method} {path} shows no request");
            }
            let mut failures = 0;
            for (status, answer) in operation["responses"].as_object().unwrap() {
                match answer["$ref"].as_str() {
                    Some(failure) => {
                        let answer = document.pointer(failure.strip_prefix('#').unwrap()).unwrap();
                        assert!(answer["x-error-codes"].is_array(), "{method} {path} {status}");
                        failures += 1;
                    }
                    None => {
                        let empty = answer["content"].is_null();
                        assert!(
                            empty || answer.pointer(examples).is_some(),
                            "{method} {path} {status} shows no answer"
                        );
                        assert!(answer["headers"]["X-Request-ID"].is_object(), "{method} {path} {status}");
                    }
                }
            }
            assert!(failures >= 2, "{method} {path} can fail");
        }
    }
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
                }
                fields.values().for_each(|value| check(document, value));
            }
            Value::Array(values) => values.iter().for_each(|value| check(document, value)),
            _ => {}
        }
    }
    let document = document();
    check(&document, &document);
}
