use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::limits::PUSH_DEVICES_MAX;
use domain::{DeviceId, PushDevice, PushTarget, PushTargetError, PushToken, WebPushSubscription};
use ports::UnusableTarget;
use protocol::ErrorCode;
use protocol::rest::{self, PushProvider, Sensitive};
use serde::Deserialize;
use utoipa::IntoParams;

use super::RouteState;
use crate::Api;
use crate::http::{Caller, Json, Path, RestError};

#[derive(Deserialize, IntoParams)]
pub(crate) struct DevicePath {
    /// The device.
    #[param(value_type = String, format = "uuid")]
    device_id: DeviceId,
}

/// Registers a device of the caller for notifications while they are away; replaces an earlier registration.
///
/// Either `webhook` with the token by which the operator's service knows the device, or `webpush` with the subscription
/// of a browser. The registration ends with the device's session.
#[utoipa::path(
    put,
    path = "/devices/{device_id}/push",
    tag = "devices", params(DevicePath),
    responses((status = 204, description = "The device is registered"))
)]
pub(crate) async fn register_push(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(DevicePath { device_id }): Path<DevicePath>,
    Json(body): Json<rest::PushRegistration>,
) -> Result<StatusCode, RestError> {
    let target = target(&body)?;
    api.notifier.check(&target).map_err(unusable)?;
    if !is_signed_in_on(&api, &caller, device_id).await? {
        return Err(RestError::new(ErrorCode::NotFound, "you are not signed in on this device"));
    }
    let device = PushDevice { user_id: caller.user_id, device_id, target, registered_at: api.now() };
    if !api.push_devices.put(device).await? {
        let message = format!("{PUSH_DEVICES_MAX} devices are registered; remove one of them first");
        return Err(RestError::new(ErrorCode::InvalidOperation, message));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the notifications of a device; succeeds even if it is not registered.
///
/// Messages reach the device over its connection as before.
#[utoipa::path(
    delete,
    path = "/devices/{device_id}/push",
    tag = "devices", params(DevicePath),
    responses((status = 204, description = "The device is not registered"))
)]
pub(crate) async fn unregister_push(
    State(api): RouteState,
    Caller(caller): Caller,
    Path(DevicePath { device_id }): Path<DevicePath>,
) -> Result<StatusCode, RestError> {
    api.push_devices.remove(caller.user_id, device_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a device belongs to the caller. Users with tokens of another system have no sessions here, and choose their
/// device ids.
async fn is_signed_in_on(api: &Api, caller: &auth::Principal, device_id: DeviceId) -> Result<bool, RestError> {
    if caller.session_id.is_none() || caller.device_id == Some(device_id) {
        return Ok(true);
    }
    let sessions = api.auth.sessions(caller).await?;
    Ok(sessions.iter().any(|session| session.device_id == device_id))
}

fn target(body: &rest::PushRegistration) -> Result<PushTarget, RestError> {
    match body.provider {
        PushProvider::Webhook => {
            let token = needed("token", body.token.as_ref())?;
            let token = PushToken::try_from(token.0.clone()).map_err(|error| RestError::field("token", error))?;
            Ok(PushTarget::Webhook(token))
        }
        PushProvider::Webpush => {
            let endpoint = needed("endpoint", body.endpoint.as_ref())?;
            let keys = needed("keys", body.keys.as_ref())?;
            let (p256dh, auth) = (base64("keys.p256dh", &keys.p256dh)?, base64("keys.auth", &keys.auth)?);
            let subscription = WebPushSubscription::new(endpoint.0.clone(), &p256dh, &auth).map_err(|error| {
                let field = match error {
                    PushTargetError::Text => "endpoint",
                    PushTargetError::Point => "keys.p256dh",
                    PushTargetError::Auth => "keys.auth",
                };
                RestError::field(field, error)
            })?;
            Ok(PushTarget::WebPush(subscription))
        }
    }
}

fn needed<'a, T>(field: &str, value: Option<&'a T>) -> Result<&'a T, RestError> {
    value.ok_or_else(|| RestError::field(field, "is missing"))
}

/// Some browsers' tools pad base64url and some do not.
fn base64(field: &str, text: &Sensitive) -> Result<Vec<u8>, RestError> {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(text.0.trim_end_matches('='));
    decoded.map_err(|_| RestError::field(field, "is not base64url"))
}

fn unusable(error: UnusableTarget) -> RestError {
    let field = match &error {
        UnusableTarget::ProviderOff(_) => "provider",
        UnusableTarget::Subscription(_) => "endpoint",
    };
    RestError::field(field, error)
}
