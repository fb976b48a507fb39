use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, Type};

pub(super) const REQUEST_ID: &str = "X-Request-ID";
pub(super) const AUTHENTICATE: &str = "WWW-Authenticate";
pub(super) const RETRY_AFTER: &str = "Retry-After";
pub(super) const REPLAY: &str = "X-Idempotent-Replay";
/// The state of the limit that a request counts against.
pub(super) const LIMITS: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// Every header of an answer, by name.
pub(super) fn all() -> Vec<(String, RefOr<Header>)> {
    let headers = [
        (
            REQUEST_ID,
            Type::String,
            "The id of the request, for a report to the operator; the client's own if it gave one.",
        ),
        (AUTHENTICATE, Type::String, "`Bearer`."),
        (RETRY_AFTER, Type::Integer, "Seconds to wait before the next try."),
        (REPLAY, Type::String, "`true` if this is the answer to an earlier request with the same `Idempotency-Key`."),
        (LIMITS[0], Type::Integer, "Requests that are allowed at once. Absent where the limit is off."),
        (LIMITS[1], Type::Integer, "Requests that are left."),
        (LIMITS[2], Type::Integer, "When all requests are available again, in Unix seconds."),
    ];
    let described = headers.map(|(name, schema_type, description)| {
        let schema = ObjectBuilder::new().schema_type(SchemaType::Type(schema_type)).build();
        (name.to_owned(), HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build().into())
    });
    described.into()
}

/// A header of an answer, described elsewhere in the document.
pub(super) fn reference(name: &str) -> (String, RefOr<Header>) {
    (name.to_owned(), RefOr::Ref(Ref::new(format!("#/components/headers/{name}"))))
}
