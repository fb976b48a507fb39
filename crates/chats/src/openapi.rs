mod examples;
mod failures;
mod headers;

use std::sync::Arc;

use protocol::rest::Failure;
use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, Content, InfoBuilder, License, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, Required, Schema,
    ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::Api;
use crate::router::all_routes;

const BEARER: &str = "bearer";

/// The families of operations, in reading order.
const TAGS: [(&str, &str); 14] = [
    ("service", "The service itself."),
    ("auth", "Signing in and out, and tokens."),
    ("users", "The caller's account, and other users."),
    ("contacts", "The contacts of the caller."),
    ("blocks", "The users that the caller has blocked."),
    ("invitations", "The invitations of the caller to groups."),
    ("reports", "Reports to the operators."),
    ("presence", "The presence of users, as far as their settings allow."),
    ("chats", "The inbox, and chats with their members."),
    ("members", "Members of groups and their roles."),
    ("messages", "Sending and reading messages."),
    ("receipts", "Delivered and read watermarks of members."),
    ("sessions", "The devices that the caller is signed in on."),
    ("devices", "Push notifications for users who are away."),
];

/// The OpenAPI document of the API, made from the routes themselves.
pub fn openapi() -> Value {
    let mut document = all_routes(|private| private).into_openapi();
    describe_answers(&mut document);
    allow_absent_bodies(&mut document);
    let mut document = serde_json::to_value(document).expect("an OpenAPI document is JSON");
    examples::add_to(&mut document);
    document
}

/// Adds a description and headers to every response, and adds the failure responses.
fn describe_answers(document: &mut OpenApi) {
    let mut failures = Vec::new();
    for operation in operations(document) {
        let limited = operation.security.is_some()
            || matches!(operation.operation_id.as_deref(), Some("request_otp" | "refresh"));
        let repeatable = operation
            .parameters
            .iter()
            .flatten()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == "Idempotency-Key"));
        for response in operation.responses.responses.values_mut() {
            let RefOr::T(response) = response else { continue };
            // OpenAPI requires a description of every response. Most have none, because the operation's own covers them.
            if response.description.is_empty() {
                response.description = "Success".to_owned();
            }
            let mut names = vec![headers::REQUEST_ID];
            names.extend(headers::LIMITS.iter().filter(|_| limited));
            names.extend(repeatable.then_some(headers::REPLAY));
            response.headers = names.into_iter().map(headers::reference).collect();
        }
        for (status, (name, response)) in failures::responses(operation) {
            operation.responses.responses.insert(status.to_string(), Ref::from_response_name(&name).into());
            failures.push((name, response.into()));
        }
    }
    let components = document.components.get_or_insert_default();
    components.responses.extend(failures);
    components.headers.extend(headers::all());
}

/// Marks a request body as optional if all its fields are: [`Json`](crate::http::Json) reads an absent body as `{}`.
fn allow_absent_bodies(document: &mut OpenApi) {
    let schemas = document.components.as_ref().map(|components| components.schemas.clone()).unwrap_or_default();
    let needs_nothing = |content: &RefOr<Content>| match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(reference)), .. }) => {
            let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
            matches!(schemas.get(name), Some(RefOr::T(Schema::Object(object))) if object.required.is_empty())
        }
        _ => false,
    };
    for body in operations(document).filter_map(|operation| operation.request_body.as_mut()) {
        if let RefOr::T(body) = body
            && body.content.values().all(needs_nothing)
        {
            body.required = Some(Required::False);
        }
    }
}

/// A document without operations that describes the API.
pub(crate) fn described() -> OpenApiRouter<Arc<Api>> {
    let info = InfoBuilder::new()
        .title("Tidings")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Success is `{data, pagination?}`, failure `{error}`. Every answer has an `X-Request-ID`; answers of \
             limited routes have `X-RateLimit-Limit`, `-Remaining` and `-Reset`, and every 429 has a `Retry-After`. \
             Cursors are opaque. A body is JSON of at most 64 KiB. Messages arrive in real time over the WebSocket, which \
             `/asyncapi.json` describes.",
        ))
        .license(Some(License::builder().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let mut schemas = vec![(Failure::name().into_owned(), Failure::schema())];
    Failure::schemas(&mut schemas);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .build();
    let tags = TAGS.map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build());
    let server = ServerBuilder::new().url("/").description(Some("The server that this document describes.")).build();
    let document =
        OpenApiBuilder::new().info(info).servers(Some([server])).tags(Some(tags)).components(Some(components));
    OpenApiRouter::with_openapi(document.build())
}

/// The same routes, described as requiring a bearer token.
pub(crate) fn secured(mut routes: OpenApiRouter<Arc<Api>>) -> OpenApiRouter<Arc<Api>> {
    for operation in operations(routes.get_openapi_mut()) {
        operation.security = Some(vec![SecurityRequirement::new::<_, [String; 0], String>(BEARER, [])]);
    }
    routes
}

fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|PathItem { get, put, post, patch, delete, .. }| {
        [get, put, post, patch, delete].into_iter().filter_map(Option::as_mut)
    })
}
