use serde_json::{Value, json};

/// The `ws` binding of the channel: headers and query parameters of the handshake.
pub(super) fn binding() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let uuid = |description: &str| json!({ "type": "string", "format": "uuid", "description": description });
    json!({ "ws": {
        "method": "GET",
        "headers": {
            "type": "object",
            "properties": {
                "Authorization": text("`Bearer` and an access token."),
                "X-Device-ID": uuid("The connecting device; the session must belong to it."),
            },
        },
        "query": {
            "type": "object",
            "properties": {
                "ticket": text("A ticket from POST `/api/v1/auth/ws-ticket`, valid once and for 30 s."),
                "token": text("An access token, for clients that can use neither a header nor a ticket."),
                "device_id": uuid("Replaces `X-Device-ID`."),
            },
        },
        "bindingVersion": "0.1.0",
    } })
}

/// The ways in which a client authenticates.
pub(super) fn security_schemes() -> Value {
    let query = |name: &str, description: &str| json!({ "type": "httpApiKey", "name": name, "in": "query", "description": description });
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "For clients that can set headers.",
        },
        "ticket": query("ticket", "For browsers: a ticket from POST `/api/v1/auth/ws-ticket`."),
        "token": query("token", "An access token; it is never logged."),
    })
}

/// The responses to a refused handshake: plain HTTP with the body `{error, message, details?}`.
pub(super) fn refusals() -> Value {
    let refusals = [
        (
            400,
            "invalid_request",
            "The device id is missing or not a UUID, or the request is not a WebSocket handshake.",
        ),
        (401, "invalid_token", "The token or ticket is missing, invalid, expired or issued to another device."),
        (401, "token_revoked", "The session has ended, or the token was revoked."),
        (403, "account_suspended", "The user is suspended."),
        (403, "forbidden_origin", "The origin of the page is neither this server's nor on the operator's list."),
        (429, "rate_limited", "Too many connections; `Retry-After` says when to retry."),
        (503, "service_unavailable", "The server accepts no connections now."),
    ];
    let row = |(http_status, error, description): (u16, &str, &str)| json!({ "http_status": http_status, "error": error, "description": description });
    refusals.into_iter().map(row).collect()
}
