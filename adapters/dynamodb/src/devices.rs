//! Items of devices: the session of a device, and its registration for notifications.
//!
//! Both are one item, which expires with the session. So the conditions of one transaction ensure that a device has one
//! session and that a registration ends with it. The sessions of a user are found without an index.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{DeviceId, PushDevice, PushTarget, SessionId, Timestamp, UserId, WebPushSubscription};
use ports::StoreError;

use crate::item::{DynamoItem, EXPIRES_AT, ItemKey, ItemReader, bytes, end, text};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// The session of a device.
const SESSION_ID: &str = "session_id";
/// The notification provider of a device; absent without a registration.
pub(crate) const PROVIDER: &str = "provider";

/// The item of a device.
pub(crate) fn device_key(user_id: UserId, device_id: DeviceId) -> ItemKey {
    ItemKey::of(Table::PushDevices, user_id, device_id)
}

/// Gives a device a session, replacing `earlier`.
pub(crate) fn sign_in(key: ItemKey, earlier: Option<SessionId>, session_id: SessionId, expires_at: Timestamp) -> Write {
    signed_in(key, session_id, expires_at).when(Condition::is(SESSION_ID, earlier.map(text)))
}

/// Gives a device a session, replacing any other.
pub(crate) fn signed_in(key: ItemKey, session_id: SessionId, expires_at: Timestamp) -> Write {
    let mut changes = session_end(expires_at);
    changes.push(AttributeChange::Set(SESSION_ID, Some(text(session_id))));
    Write::update(key, changes)
}

/// Extends the session of a device.
pub(crate) fn prolong(key: ItemKey, session_id: SessionId, expires_at: Timestamp) -> Write {
    Write::update(key, session_end(expires_at)).when(Condition::Equals(SESSION_ID, text(session_id)))
}

/// Deletes a device with its session.
pub(crate) fn sign_out(key: ItemKey, session_id: SessionId) -> Write {
    Write::delete(key).when(Condition::Equals(SESSION_ID, text(session_id)))
}

fn session_end(expires_at: Timestamp) -> Vec<AttributeChange> {
    end(Some(expires_at)).into_iter().map(|(name, value)| AttributeChange::Set(name, value)).collect()
}

/// The session of a device, if any.
pub(crate) fn session_of(item: &DynamoItem) -> Result<Option<SessionId>, StoreError> {
    ItemReader { table: Table::PushDevices, item }.maybe_parsed(SESSION_ID)
}

/// Registers a device for notifications.
pub(crate) fn register(device: &PushDevice) -> Write {
    let (provider, token, endpoint, p256dh, auth) = match &device.target {
        PushTarget::Webhook(token) => ("webhook", Some(text(token.as_str())), None, None, None),
        PushTarget::WebPush(subscription) => (
            "web_push",
            None,
            Some(text(subscription.endpoint())),
            Some(bytes(subscription.p256dh())),
            Some(bytes(subscription.auth())),
        ),
    };
    let registered_at = Some(text(device.registered_at));
    let changes = target_changes(Some(text(provider)), [token, endpoint, p256dh, auth, registered_at]);
    Write::update(device_key(device.user_id, device.device_id), changes)
}

/// Removes the registration of a device, and keeps its session.
pub(crate) fn unregister(key: ItemKey) -> Write {
    let nothing = target_changes(None, [const { None }; 5]);
    Write::update(key, nothing).when(Condition::Exists(PROVIDER)).when(Condition::Exists(SESSION_ID))
}

/// Deletes a device that has a registration and no session.
pub(crate) fn forget(key: ItemKey) -> Write {
    Write::delete(key).when(Condition::Exists(PROVIDER)).when(Condition::Absent(SESSION_ID))
}

fn target_changes(provider: Option<AttributeValue>, values: [Option<AttributeValue>; 5]) -> Vec<AttributeChange> {
    let names = ["token", "endpoint", "p256dh", "auth", "registered_at"];
    let rest = names.into_iter().zip(values).map(|(name, value)| AttributeChange::Set(name, value));
    std::iter::once(AttributeChange::Set(PROVIDER, provider)).chain(rest).collect()
}

/// The registration of a device, unless it has none or its session has expired.
pub(crate) fn read_registration(item: &DynamoItem, now: Timestamp) -> Result<Option<PushDevice>, StoreError> {
    let row = ItemReader { table: Table::PushDevices, item };
    let over = row.maybe_parsed::<Timestamp>(EXPIRES_AT)?.is_some_and(|at| at <= now);
    let Some(provider) = row.maybe_text(PROVIDER)?.filter(|_| !over) else { return Ok(None) };
    let target = match provider {
        "webhook" => PushTarget::Webhook(row.made("token")?),
        "web_push" => {
            let endpoint = row.text("endpoint")?.to_owned();
            let subscription = WebPushSubscription::new(endpoint, row.bytes("p256dh")?, row.bytes("auth")?);
            PushTarget::WebPush(subscription.map_err(|error| row.unreadable(error))?)
        }
        other => return Err(row.unreadable(format!("`{other}` is not a provider"))),
    };
    Ok(Some(PushDevice {
        user_id: row.parsed("user_id")?,
        device_id: row.parsed("device_id")?,
        target,
        registered_at: row.parsed("registered_at")?,
    }))
}
