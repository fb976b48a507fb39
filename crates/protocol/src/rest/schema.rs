//! The closed sets of words in bodies, for the OpenAPI document.

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

fn words<const N: usize>(words: [&str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}
