use std::collections::BTreeMap;

use protocol::ErrorCode::{self, *};
use protocol::rest::Failure;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use super::headers;

/// The failure responses of an operation by status, each with a name that its codes determine.
pub(super) fn responses(operation: &Operation) -> BTreeMap<u16, (String, Response)> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    let codes = codes(operation);
    // In the order of the table, so that the same codes have the same name everywhere.
    for code in ErrorCode::ALL.into_iter().filter(|code| codes.contains(code)) {
        by_status.entry(code.http_status()).or_default().push(code);
    }
    by_status.into_iter().map(|(status, codes)| (status, (name(&codes), response(status, &codes)))).collect()
}

/// The failure codes of an operation: its own, and all that follow from its security, body and parameters.
fn codes(operation: &Operation) -> Vec<ErrorCode> {
    let mut codes = vec![ServiceUnavailable, InternalError];
    if operation.security.is_some() {
        // `Forbidden` is the answer to a suspended user.
        codes.extend([Unauthorized, Forbidden, RateLimited]);
    }
    if operation.request_body.is_some() {
        codes.extend([ValidationError, MessageTooLarge]);
    }
    for parameter in operation.parameters.iter().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        match (&parameter.parameter_in, parameter.name.as_str()) {
            (ParameterIn::Path, "chat_id") => codes.extend([NotFound, NotAMember]),
            (ParameterIn::Path, "sequence") | (ParameterIn::Query | ParameterIn::QueryString, _) => {
                codes.push(ValidationError)
            }
            (ParameterIn::Path, _) => codes.push(NotFound),
            (ParameterIn::Header, _) => codes.extend([ValidationError, IdempotencyKeyReused]),
            (ParameterIn::Cookie, _) => {}
        }
    }
    codes.extend(own_codes(operation.operation_id.as_deref().unwrap_or_default()));
    codes
}

fn own_codes(operation_id: &str) -> &'static [ErrorCode] {
    match operation_id {
        "request_otp" => &[RateLimited, InvalidOperation],
        "verify_otp" => &[Unauthorized, Forbidden, RateLimited, InvalidOperation],
        "passkey_challenge" => &[RateLimited, InvalidOperation],
        "sign_in_with_passkey" => &[Unauthorized, Forbidden, RateLimited, InvalidOperation],
        "passkeys" | "begin_passkey" | "remove_passkey" => &[InvalidOperation],
        "add_passkey" => &[Conflict, InvalidOperation],
        "refresh" => &[Unauthorized, Forbidden, RateLimited],
        "create_chat" => &[ChatFull, InvalidOperation],
        "me" | "delete_me" | "export_me" => &[NotFound],
        "update_me" => &[NotFound, InvalidOperation],
        "update_chat" | "change_role" | "remove_member" => &[InvalidOperation],
        "add_member" => &[AlreadyAMember, ChatFull, InvalidOperation],
        "accept_invitation" => &[ChatFull, InvalidOperation],
        "leave_chat" | "add_contact" | "register_push" | "block" => &[InvalidOperation],
        "report" => &[NotFound, NotAMember, InvalidOperation],
        "message" => &[NotAMember],
        "around" | "receipts" => &[InvalidSequence],
        "mark_delivered" | "mark_read" => &[InvalidSequence, ServerBusy, CounterMissing],
        "send_message" => &[InvalidOperation, IdempotencyKeyReused, InvalidContentType, ServerBusy, CounterMissing],
        "edit_message" => &[InvalidOperation, IdempotencyKeyReused, InvalidContentType, ServerBusy, CounterMissing],
        "delete_message" => &[InvalidOperation, IdempotencyKeyReused, ServerBusy, CounterMissing],
        "add_reaction" => &[Conflict, InvalidOperation, IdempotencyKeyReused, ServerBusy, CounterMissing],
        "remove_reaction" => &[InvalidOperation, IdempotencyKeyReused, ServerBusy, CounterMissing],
        _ => &[],
    }
}

/// `ForbiddenOrNotAMember`.
fn name(codes: &[ErrorCode]) -> String {
    codes.iter().map(|code| format!("{code:?}")).collect::<Vec<_>>().join("Or")
}

fn response(status: u16, codes: &[ErrorCode]) -> Response {
    let description: Vec<_> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Failure::name()))).build();
    let mut response = ResponseBuilder::new()
        .description(description.join(" "))
        .content("application/json", content)
        .extensions(Some(ExtensionsBuilder::new().add("x-error-codes", json!(codes)).build()))
        .build();
    let names = match status {
        401 => [headers::REQUEST_ID, headers::AUTHENTICATE].to_vec(),
        429 => [&[headers::REQUEST_ID, headers::RETRY_AFTER], headers::LIMITS.as_slice()].concat(),
        503 => [headers::REQUEST_ID, headers::RETRY_AFTER].to_vec(),
        _ => [headers::REQUEST_ID].to_vec(),
    };
    response.headers = names.into_iter().map(headers::reference).collect();
    response
}
