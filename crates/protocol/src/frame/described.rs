use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// One type of frame, as the AsyncAPI document tells of it.
pub(crate) struct Described {
    /// The type as it stands on the wire.
    pub(crate) frame_type: &'static str,
    /// What a frame of this type says.
    pub(crate) summary: &'static str,
    /// The name of its payload among the schemas.
    pub(crate) payload: String,
    /// The schema of the payload and of everything in it, by name.
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
}

impl Described {
    /// A type of frame whose payload serializes as `P`; `summary` is the text of a doc comment.
    pub(super) fn new<P: ToSchema>(frame_type: &'static str, summary: &'static str) -> Self {
        let payload = P::name().into_owned();
        let mut schemas = vec![(payload.clone(), P::schema())];
        P::schemas(&mut schemas);
        Self { frame_type, summary: summary.trim(), payload, schemas }
    }
}
