use std::sync::Arc;

use protocol::rest::Failure;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, Required,
    ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::Api;
use crate::router::all_routes;

const BEARER: &str = "bearer";

/// The OpenAPI document of the API, made from the routes themselves.
pub fn openapi() -> OpenApi {
    let mut document = all_routes(|private| private).into_openapi();
    for operation in operations(&mut document) {
        // OpenAPI wants words for every answer, and most of ours are said by the operation's own.
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                response.description = "Success".to_owned();
            }
        }
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Failure::name()))).build();
        let failure = ResponseBuilder::new()
            .description("A failure: `error.code` says which")
            .content("application/json", content)
            .build();
        operation.responses.responses.insert("default".to_owned(), failure.into());
    }
    allow_absent_bodies(&mut document);
    document
}

/// Says that a body may be left out whose fields may all be left out: that is how [`Json`](crate::http::Json) reads it.
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

/// An empty document that says what the API is.
pub(crate) fn described() -> OpenApiRouter<Arc<Api>> {
    let info = InfoBuilder::new()
        .title("Tidings")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Success is `{data, pagination?}`, failure `{error}`. Every answer has an `X-Request-ID`; answers of limited \
             routes have `X-RateLimit-Limit`, `-Remaining` and `-Reset`, and every 429 has a `Retry-After`.",
        ))
        .build();
    let mut schemas = vec![(Failure::name().into_owned(), Failure::schema())];
    Failure::schemas(&mut schemas);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .build();
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).components(Some(components)).build())
}

/// The same routes, described as asking for a token.
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
