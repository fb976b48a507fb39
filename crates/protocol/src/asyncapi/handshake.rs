use serde_json::{Value, json};

/// What opens a connection: the `ws` binding of the channel.
pub(super) fn binding() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let uuid = |description: &str| json!({ "type": "string", "format": "uuid", "description": description });
    json!({ "ws": {
        "method": "GET",
        "headers": {
            "type": "object",
            "properties": {
                "Authorization": text("`Bearer` and an access token."),
                "X-Device-ID": uuid("The device that connects; the one its session is of."),
            },
        },
        "query": {
            "type": "object",
            "properties": {
                "ticket": text("A ticket of POST `/api/v1/auth/ws-ticket`, good once and for 30 s."),
                "token": text("An access token, where neither a header nor a ticket can be had."),
                "device_id": uuid("In the place of `X-Device-ID`."),
            },
        },
        "bindingVersion": "0.1.0",
    } })
}

/// The ways in which a client shows who it is.
pub(super) fn security_schemes() -> Value {
    let query = |name: &str, description: &str| json!({ "type": "httpApiKey", "name": name, "in": "query", "description": description });
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "For clients that can set headers.",
        },
        "ticket": query("ticket", "For browsers: a ticket of POST `/api/v1/auth/ws-ticket`."),
        "token": query("token", "An access token; it never reaches a log."),
    })
}

/// How a handshake is refused: plain HTTP, `{error, message, details?}`.
pub(super) fn refusals() -> Value {
    let refusals = [
        (400, "invalid_request", "The device id is missing or no uuid, or this is no WebSocket handshake."),
        (401, "invalid_token", "The token or ticket is missing, wrong, expired or of another device."),
        (401, "token_revoked", "The session has ended."),
        (
            403,
            "forbidden_origin",
            "The page that connects is neither ours nor of an origin that the operator has named.",
        ),
        (429, "rate_limited", "Too many connections; `Retry-After` says when to come back."),
        (503, "service_unavailable", "The server takes no connection now."),
    ];
    let row = |(http_status, error, description): (u16, &str, &str)| json!({ "http_status": http_status, "error": error, "description": description });
    refusals.into_iter().map(row).collect()
}
