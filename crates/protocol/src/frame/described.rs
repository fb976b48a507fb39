use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// One type of frame, as the AsyncAPI document describes it.
pub(crate) struct Described {
    /// The type on the wire.
    pub(crate) frame_type: &'static str,
    /// The purpose of this frame type in one sentence.
    pub(crate) summary: &'static str,
    /// The name of its payload among the schemas.
    pub(crate) payload: String,
    /// The schema of the payload and of everything in it, by name.
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
}

impl Described {
    /// Describes a frame type with a payload that serializes as `P`; `summary` is the text of a doc comment.
    pub(super) fn new<P: ToSchema>(frame_type: &'static str, summary: &'static str) -> Self {
        let payload = P::name().into_owned();
        let mut schemas = vec![(payload.clone(), P::schema())];
        P::schemas(&mut schemas);
        Self { frame_type, summary: summary.trim(), payload, schemas }
    }
}
