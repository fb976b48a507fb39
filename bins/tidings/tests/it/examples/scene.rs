use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Fields whose values the server makes up and no two servers make up alike.
const SECRETS: [&str; 7] =
    ["access_token", "refresh_token", "ticket", "kid", "x", "web_push_public_key", "next_cursor"];
/// What ids begin with.
const PREFIXES: [&str; 7] = ["user_", "chat_", "msg_", "sess_", "conn_", "evt_", "rep_"];

/// What stands on the real server for the ids and secrets of the documents.
#[derive(Default)]
pub(super) struct Scene {
    real: BTreeMap<String, String>,
}

impl Scene {
    /// Has a text of the documents stand for one of the server.
    pub(super) fn cast(&mut self, documented: &Value, real: impl Into<String>) {
        self.real.insert(documented.as_str().unwrap().to_owned(), real.into());
    }

    /// A text of the documents as it is on the server.
    pub(super) fn text(&self, documented: &Value) -> String {
        let text = documented.as_str().map_or_else(|| documented.to_string(), ToOwned::to_owned);
        self.real.get(&text).cloned().unwrap_or(text)
    }

    /// A body of the documents as it is sent to the server.
    pub(super) fn body(&self, documented: &Value) -> Value {
        match documented {
            Value::String(_) => json!(self.text(documented)),
            Value::Array(values) => values.iter().map(|value| self.body(value)).collect(),
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), self.body(value))).collect(),
            other => other.clone(),
        }
    }

    /// Asserts that an answer is the documented one: the same fields and values, but for ids, times and secrets. An id
    /// that is seen for the first time is cast; later the same one has to stand for it.
    #[track_caller]
    pub(super) fn expect(&mut self, documented: &Value, answered: &Value) {
        let difference = self.difference("", documented, answered);
        assert_eq!(difference, None, "documented {documented:#}\nanswered {answered:#}");
    }

    /// Where the two differ.
    fn difference(&mut self, place: &str, documented: &Value, answered: &Value) -> Option<String> {
        match (documented, answered) {
            (Value::Object(documented), Value::Object(answered)) => {
                if !documented.keys().eq(answered.keys()) {
                    return Some(format!("{place}: other fields"));
                }
                let mut fields = documented.iter().zip(answered.values());
                fields.find_map(|((name, documented), answered)| self.difference(name, documented, answered))
            }
            (Value::Array(documented), Value::Array(answered)) if documented.len() == answered.len() => {
                documented.iter().zip(answered).find_map(|(one, other)| self.difference(place, one, other))
            }
            (Value::String(text), Value::String(real)) if SECRETS.contains(&place) => {
                self.real.insert(text.clone(), real.clone());
                None
            }
            (Value::String(text), Value::String(real)) if is_id(text) => {
                let cast = self.real.entry(text.clone()).or_insert_with(|| real.clone());
                (cast != real || !is_alike(text, real)).then(|| format!("{place}: {real} does not stand for {text}"))
            }
            (Value::String(text), Value::String(real)) if is_time(text) => {
                (!is_time(real)).then(|| format!("{place}: {real} is no time"))
            }
            _ => (documented != answered).then(|| format!("{place}: {answered} is not {documented}")),
        }
    }
}

fn is_id(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || uuid::Uuid::try_parse(text).is_ok()
}

/// Whether two ids are of one kind.
fn is_alike(one: &str, other: &str) -> bool {
    let kind = |text: &str| (text.split_once('_').map(|(prefix, _)| prefix.to_owned()), text.len());
    kind(one) == kind(other)
}

fn is_time(text: &str) -> bool {
    text.len() == "2026-03-14T09:26:53.589Z".len() && text.parse::<domain::Timestamp>().is_ok()
}

/// Asserts that a value fits a schema of a document; the schema may refer to the document's components.
#[track_caller]
pub(super) fn assert_fits(document: &Value, schema: &Value, value: &Value) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{value:#} does not fit: {wrong:#?}");
}

#[test]
fn other_fields_words_and_people_are_differences_and_other_ids_times_and_secrets_are_not() {
    let documented = json!({
        "user_id": "user_01K9D2ZT5QW4N7XH8TB5CN0ADA",
        "created_at": "2026-03-14T09:00:00.000Z",
        "access_token": "secret",
        "role": "owner",
        "count": 1,
    });
    let mut scene = Scene::default();
    scene.cast(&documented["user_id"], "user_01K9D31E8ZR6V2M9QK3PFS0B0B");
    let mut differs = |answered: &Value| scene.difference("", &documented, answered).is_some();
    assert!(differs(&documented), "somebody else stands for Ada");
    let mut real = documented.clone();
    real["user_id"] = json!("user_01K9D31E8ZR6V2M9QK3PFS0B0B");
    assert!(!differs(&real));
    let with = |field: &str, value: Value| {
        let mut answered = real.clone();
        answered[field] = value;
        answered
    };
    assert!(!differs(&with("access_token", json!("another"))));
    assert!(!differs(&with("created_at", json!("2026-11-15T22:00:00.000Z"))));
    assert!(differs(&with("created_at", json!("today"))));
    assert!(differs(&with("role", json!("admin"))));
    assert!(differs(&with("count", json!("1"))));
    assert!(differs(&with("more", json!(null))));
}
