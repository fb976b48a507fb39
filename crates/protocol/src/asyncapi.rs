//! The AsyncAPI document of the WebSocket, generated from the frame table, the payload types and the code tables.

mod codes;
mod examples;
mod handshake;

use std::collections::BTreeSet;

use domain::limits::REQUEST_ID_CHARS_MAX;
use serde_json::{Map, Value, json};

use crate::frame::{ClientFrameType, Described, ServerFrame};

const CHANNEL: &str = "connection";

const DESCRIPTION: &str = "\
One connection per device, text frames of JSON: `{type, request_id?, timestamp?, payload}`. Unknown fields and \
unknown types are ignored on both sides. A `request_id` is the client's own, opaque, 1 to 64 characters; it is \
required on frames that have a reply and is echoed in the reply. Pushes have none. A frame over 64 KiB closes the \
connection.

**Handshake.** `Authorization` and `X-Device-ID` in headers; browsers, which cannot set headers, use `?ticket=` and \
`?device_id=`. The client sends nothing before `connection_established`, which is always the first frame.

**Heartbeat.** Any frame proves that the client is alive. An idle client sends a `heartbeat` every \
`heartbeat_interval_ms`. After 10 s without a frame, delivery of pushes is no longer reliable; after 15 s the server \
closes the connection with 4008.

**Order and loss.** Messages are ordered by their sequence in the chat. A push may be lost or duplicated; a client \
that sees a gap, receives a `resync` or reconnects sends a `sync_request` with the sequence up to which it has \
everything.

**Violations.** An invalid frame is answered with `INVALID_MESSAGE`; ten of them within 60 s close the \
connection with 1002.";

/// The AsyncAPI 3.0 document of `GET /v1/ws`, from the server's point of view: it receives the frames that clients
/// send.
pub fn asyncapi() -> Value {
    let from_client: Vec<_> = ClientFrameType::ALL.iter().map(|frame_type| frame_type.described()).collect();
    let from_server = ServerFrame::described();
    let names = from_client.iter().chain(&from_server).map(|frame| pascal(frame.frame_type));
    let channel_messages: Map<String, Value> =
        names.map(|name| (name.clone(), json!({ "$ref": format!("#/components/messages/{name}") }))).collect();
    let security = ["bearer", "ticket", "token"];
    let security = security.map(|scheme| json!({ "$ref": format!("#/components/securitySchemes/{scheme}") }));
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidings",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:8080",
                "protocol": "ws",
                "description": "The default listen address of `tidings serve`.",
                "security": security,
            },
        },
        "channels": {
            CHANNEL: {
                "address": "/v1/ws",
                "title": "A connection",
                "summary": "The frames that one device and the server exchange.",
                "messages": channel_messages,
                "bindings": handshake::binding(),
            },
        },
        "operations": operations(&from_server),
        "components": {
            "schemas": schemas(&from_client, &from_server),
            "messages": messages(&from_client, &from_server),
            "securitySchemes": handshake::security_schemes(),
        },
        "x-handshake-refusals": handshake::refusals(),
        "x-error-codes": codes::error_codes(),
        "x-close-codes": codes::close_codes(),
    })
}

/// The frames a client may send with their replies, and the server's pushes.
fn operations(from_server: &[Described]) -> Value {
    let channel = json!({ "$ref": format!("#/channels/{CHANNEL}") });
    let message = |frame_type| json!({ "$ref": format!("#/channels/{CHANNEL}/messages/{}", pascal(frame_type)) });
    let mut operations = Map::new();
    let mut answers = BTreeSet::new();
    for frame_type in ClientFrameType::ALL {
        let described = frame_type.described();
        let mut operation = json!({
            "action": "receive",
            "channel": channel,
            "summary": described.summary,
            "messages": [message(described.frame_type)],
        });
        if let Some(answer) = frame_type.answer() {
            operation["reply"] = json!({ "channel": channel, "messages": [message(answer), message("error")] });
            answers.insert(answer);
        }
        operations.insert(described.frame_type.to_owned(), operation);
    }
    for frame in from_server.iter().filter(|frame| !answers.contains(frame.frame_type)) {
        let operation = json!({
            "action": "send",
            "channel": channel,
            "summary": frame.summary,
            "messages": [message(frame.frame_type)],
        });
        operations.insert(frame.frame_type.to_owned(), operation);
    }
    operations.into()
}

fn messages(from_client: &[Described], from_server: &[Described]) -> Value {
    let mut messages = Map::new();
    for (frames, examples) in [(from_client, examples::from_client()), (from_server, examples::from_server())] {
        for Described { frame_type, summary, .. } in frames {
            let name = pascal(frame_type);
            let told = examples.iter().filter(|example| example["type"] == *frame_type);
            let message = json!({
                "name": frame_type,
                "title": frame_type,
                "summary": summary,
                "contentType": "application/json",
                "payload": { "$ref": format!("#/components/schemas/{name}Frame") },
                "examples": told.map(|example| json!({ "payload": example })).collect::<Value>(),
            });
            messages.insert(name, message);
        }
    }
    messages.into()
}

/// The payload schemas, the frame schemas, and one union of frames per direction.
fn schemas(from_client: &[Described], from_server: &[Described]) -> Value {
    let mut schemas = Map::new();
    for (name, schema) in from_client.iter().chain(from_server).flat_map(|frame| &frame.schemas) {
        schemas.insert(name.clone(), json!(schema));
    }
    schemas.insert(
        "RequestId".to_owned(),
        json!({
            "type": "string",
            "minLength": 1,
            "maxLength": REQUEST_ID_CHARS_MAX,
            "description": "A client-chosen name for a request, echoed in the reply.",
        }),
    );
    for (union, frames) in [("ClientFrame", from_client), ("ServerFrame", from_server)] {
        for frame in frames {
            schemas.insert(format!("{}Frame", pascal(frame.frame_type)), frame_schema(frame));
        }
        let name =
            |frame: &Described| json!({ "$ref": format!("#/components/schemas/{}Frame", pascal(frame.frame_type)) });
        let description = format!("Any frame of the {}.", if union == "ClientFrame" { "client" } else { "server" });
        let any = json!({ "description": description, "oneOf": frames.iter().map(name).collect::<Value>() });
        schemas.insert(union.to_owned(), any);
    }
    schemas.into()
}

fn frame_schema(Described { frame_type, summary, payload, .. }: &Described) -> Value {
    let mut properties = json!({
        "type": { "type": "string", "const": frame_type },
        "payload": { "$ref": format!("#/components/schemas/{payload}") },
    });
    let mut required = vec!["type", "payload"];
    let request_id = RequestIdUse::of(frame_type);
    if request_id != RequestIdUse::Never {
        properties["request_id"] = json!({ "$ref": "#/components/schemas/RequestId" });
    }
    if request_id == RequestIdUse::Always {
        required.push("request_id");
    }
    json!({ "type": "object", "description": summary, "properties": properties, "required": required })
}

/// Whether frames of a type have a `request_id`.
#[derive(PartialEq, Eq)]
enum RequestIdUse {
    Always,
    Maybe,
    Never,
}

impl RequestIdUse {
    fn of(frame_type: &str) -> Self {
        let asked_by = ClientFrameType::ALL.iter().find(|asking| asking.answer() == Some(frame_type));
        match ClientFrameType::from_text(frame_type).or(asked_by.copied()) {
            Some(asking) if asking.needs_request_id() => Self::Always,
            Some(_) => Self::Maybe,
            None if frame_type == "error" => Self::Maybe,
            None => Self::Never,
        }
    }
}

/// Converts a frame type to a type name: `send_message` to `SendMessage`.
fn pascal(frame_type: &str) -> String {
    let words = frame_type.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

/// Asserts that a frame matches the document: `ClientFrame` for client frames, `ServerFrame` for server frames.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_described(union: &str, text: &str) {
    let schema = json!({ "$ref": format!("#/components/schemas/{union}"), "components": asyncapi()["components"] });
    let validator = jsonschema::validator_for(&schema).expect("the schemas are schemas");
    let frame: Value = serde_json::from_str(text).expect("a frame is JSON");
    // The error of a union only says that no branch fits, so name the branch of the frame's type.
    let branch = format!("{}Frame", pascal(frame["type"].as_str().unwrap_or_default()));
    assert!(validator.is_valid(&frame), "{text} is no {union}: look at {branch}");
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;
    use crate::frame::{ClientFrame, Inbound, Outbound};

    fn examples(message: &Value) -> Vec<String> {
        let examples = message["examples"].as_array().unwrap();
        examples.iter().map(|example| example["payload"].to_string()).collect()
    }

    #[test]
    fn the_committed_document_is_the_present_one() {
        let text = serde_json::to_string_pretty(&asyncapi()).unwrap() + "\n";
        expect_file!["../../../docs/asyncapi.json"].assert_eq(&text);
    }

    #[test]
    fn every_frame_of_a_client_has_an_example_that_the_parser_takes_and_writes_again() {
        let document = asyncapi();
        for frame_type in ClientFrameType::ALL {
            let told = examples(&document["components"]["messages"][pascal(frame_type.as_str())]);
            assert!(!told.is_empty(), "{frame_type:?} has no example");
            for example in told {
                let inbound = Inbound::parse(&example).unwrap_or_else(|refusal| panic!("{example}: {refusal:?}"));
                assert_ne!(inbound.frame, ClientFrame::Unknown, "{example}");
                let written: Value = serde_json::from_str(&inbound.encode()).unwrap();
                assert_eq!(written.to_string(), example);
                assert_described("ClientFrame", &example);
            }
        }
    }

    #[test]
    fn every_frame_of_the_server_has_an_example_that_a_client_reads() {
        let document = asyncapi();
        for frame in ServerFrame::described() {
            let told = examples(&document["components"]["messages"][pascal(frame.frame_type)]);
            assert!(!told.is_empty(), "{} has no example", frame.frame_type);
            for example in told {
                let outbound = Outbound::parse(&example).unwrap();
                assert_ne!(outbound.frame, ServerFrame::Unknown, "{example}");
                assert_described("ServerFrame", &example);
            }
        }
    }

    #[test]
    fn refused_keys_are_not_described() {
        let document = asyncapi();
        let schema = json!({ "$ref": "#/components/schemas/ClientFrame", "components": document["components"] });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let send = examples(&document["components"]["messages"]["SendMessage"]).remove(0);
        let damages = [
            ("\"request_id\":\"send-1\",", ""),
            ("\"send-1\"", "\"\""),
            ("chat_01", "room_01"),
            ("text/plain", "image/png"),
            (crate::story::CONTENT, ""),
            ("\"content\":", "\"text\":"),
            ("\"payload\"", "\"body\""),
            ("\"text/plain\"", "\"text/plain\",\"ttl_seconds\":0"),
        ];
        for (from, to) in damages {
            let damaged = send.replace(from, to);
            assert_ne!(damaged, send, "{from}");
            assert!(Inbound::parse(&damaged).is_err(), "{damaged}");
            assert!(!validator.is_valid(&serde_json::from_str(&damaged).unwrap()), "{damaged}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
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
        let document = asyncapi();
        check(&document, &document);
    }
}
