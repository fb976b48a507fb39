//! The closed sets of words in bodies, for the OpenAPI document.

use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, ObjectBuilder, Type};

pub(super) fn role() -> Object {
    words(["owner", "admin", "member"])
}

pub(super) fn chat_type() -> Object {
    words(["direct", "group"])
}

pub(super) fn presence_visibility() -> Object {
    words(["everyone", "contacts_only", "nobody"])
}

/// The same where `null` leaves it as it is.
pub(super) fn maybe_presence_visibility() -> Object {
    let words = [Some("everyone"), Some("contacts_only"), Some("nobody"), None];
    let text_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::new().schema_type(text_or_null).enum_values(Some(words)).build()
}

fn words<const N: usize>(words: [&str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}
