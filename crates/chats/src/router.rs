use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use domain::limits::FRAME_BYTES_MAX;
use protocol::ErrorCode;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::{RestError, authenticate, deadline, envelope, limit_requests};
use crate::openapi::{described, secured};
use crate::routes::{
    account, auth, blocks, chats, contacts, devices, history, inbox, invitations, members, messages, passkeys,
    presence, receipts, reports, service, sessions, updates, users,
};
use crate::{Api, openapi};

/// The whole REST API, with `/openapi.json`, `/asyncapi.json`, `/asyncapi-events.json` and `/.well-known/jwks.json` at the root.
///
/// `also` has further routes for the same listener. Their responses have a request id and the error body of a wrong
/// method too, and unmatched paths get the 404 of this router. Serve the router with
/// `into_make_service_with_connect_info::<SocketAddr>()`, because one-time codes are limited by address.
pub fn router(api: Api, also: Router) -> Router {
    let api = Arc::new(api);
    let document = |document: Value| {
        // All answers share these bytes: the documents are long, and a client may leave many answers unread.
        let bytes = Bytes::from(document.to_string());
        let answer = ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes);
        get(move || async { answer })
    };
    let guard = |private: OpenApiRouter<Arc<Api>>| {
        private
            .route_layer(from_fn_with_state(api.clone(), limit_requests))
            .route_layer(from_fn_with_state(api.clone(), authenticate))
    };
    let (router, _) = all_routes(guard).split_for_parts();
    router
        .route("/openapi.json", document(openapi()))
        .route("/asyncapi.json", document(protocol::asyncapi()))
        .route("/asyncapi-events.json", document(protocol::event::events_asyncapi()))
        .with_state(api.clone())
        .merge(also)
        .fallback(not_found)
        // Set after the guard, so that a wrong method is refused without authentication.
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(FRAME_BYTES_MAX))
        .layer(from_fn(deadline))
        .layer(from_fn_with_state(api, envelope))
}

/// Every route with its description; `guard` adds authentication and limits to the private ones.
pub(crate) fn all_routes(
    guard: impl FnOnce(OpenApiRouter<Arc<Api>>) -> OpenApiRouter<Arc<Api>>,
) -> OpenApiRouter<Arc<Api>> {
    let public = OpenApiRouter::default()
        .routes(routes!(service::service))
        .routes(routes!(auth::request_otp))
        .routes(routes!(auth::verify_otp))
        .routes(routes!(auth::refresh))
        .routes(routes!(passkeys::passkey_challenge))
        .routes(routes!(passkeys::sign_in_with_passkey));
    let api = public.merge(guard(private_routes()));
    described().routes(routes!(service::jwks)).nest("/api/v1", api)
}

fn private_routes() -> OpenApiRouter<Arc<Api>> {
    let routes = OpenApiRouter::default()
        .routes(routes!(auth::logout))
        .routes(routes!(auth::ws_ticket))
        .routes(routes!(passkeys::passkeys, passkeys::add_passkey))
        .routes(routes!(passkeys::begin_passkey))
        .routes(routes!(passkeys::remove_passkey))
        .routes(routes!(users::me, users::update_me, account::delete_me))
        .routes(routes!(account::export_me))
        .routes(routes!(users::lookup))
        .routes(routes!(users::user))
        .routes(routes!(contacts::contacts))
        .routes(routes!(contacts::add_contact, contacts::remove_contact))
        .routes(routes!(blocks::blocks))
        .routes(routes!(blocks::block, blocks::unblock))
        .routes(routes!(invitations::invitations))
        .routes(routes!(invitations::accept_invitation))
        .routes(routes!(invitations::decline_invitation))
        .routes(routes!(reports::report))
        .routes(routes!(presence::presence))
        .routes(routes!(presence::query_presence))
        .routes(routes!(inbox::inbox, chats::create_chat))
        .routes(routes!(chats::chat, chats::update_chat))
        .routes(routes!(members::add_member))
        .routes(routes!(members::change_role, members::remove_member))
        .routes(routes!(members::leave_chat))
        .routes(routes!(members::mute_chat))
        .routes(routes!(members::unmute_chat))
        .routes(routes!(history::history, messages::send_message))
        .routes(routes!(history::around))
        .routes(routes!(updates::edit_message, updates::delete_message))
        .routes(routes!(updates::reactions))
        .routes(routes!(updates::add_reaction, updates::remove_reaction))
        .routes(routes!(messages::message))
        .routes(routes!(receipts::mark_delivered))
        .routes(routes!(receipts::mark_read))
        .routes(routes!(receipts::receipts))
        .routes(routes!(sessions::sessions, sessions::revoke_sessions))
        .routes(routes!(sessions::revoke_session))
        .routes(routes!(devices::register_push, devices::unregister_push));
    secured(routes)
}

async fn not_found(uri: Uri) -> RestError {
    let path: String = uri.path().chars().take(100).collect();
    RestError::new(ErrorCode::NotFound, format!("there is nothing at `{path}`"))
}

async fn method_not_allowed(method: Method) -> RestError {
    RestError::new(ErrorCode::MethodNotAllowed, format!("this route does not take `{method}`"))
}
