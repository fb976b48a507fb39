//! What is known of a device: the session it has, and how it is told of messages.
//!
//! Both are one item, which ends when the session does. So a device has one session, a registration ends with the
//! session of its device, and the sessions of a user are found without an index, all by the conditions of one
//! transaction.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{DeviceId, PushDevice, PushTarget, SessionId, Timestamp, UserId, WebPushSubscription};
use ports::StoreError;

use crate::item::{EXPIRES_AT, Item, Key, Row, bytes, end, text};
use crate::schema::Table;
use crate::write::{Change, Condition, Write};

/// The session of a device.
const SESSION_ID: &str = "session_id";
/// How a device is told; without it, it is not.
pub(crate) const PROVIDER: &str = "provider";

/// The item of a device.
pub(crate) fn device_key(user_id: UserId, device_id: DeviceId) -> Key {
    Key::of(Table::PushDevices, user_id, device_id)
}

/// Gives a device a session, in the place of the one it had.
pub(crate) fn sign_in(key: Key, earlier: Option<SessionId>, session_id: SessionId, expires_at: Timestamp) -> Write {
    signed_in(key, session_id, expires_at).when(Condition::is(SESSION_ID, earlier.map(text)))
}

/// Gives a device a session, whichever it had.
pub(crate) fn signed_in(key: Key, session_id: SessionId, expires_at: Timestamp) -> Write {
    let mut changes = session_end(expires_at);
    changes.push(Change::Set(SESSION_ID, Some(text(session_id))));
    Write::update(key, changes)
}

/// Has a device's session end later.
pub(crate) fn prolong(key: Key, session_id: SessionId, expires_at: Timestamp) -> Write {
    Write::update(key, session_end(expires_at)).when(Condition::Equals(SESSION_ID, text(session_id)))
}

/// Forgets a device with its session.
pub(crate) fn sign_out(key: Key, session_id: SessionId) -> Write {
    Write::delete(key).when(Condition::Equals(SESSION_ID, text(session_id)))
}

fn session_end(expires_at: Timestamp) -> Vec<Change> {
    end(Some(expires_at)).into_iter().map(|(name, value)| Change::Set(name, value)).collect()
}

/// The session a device has, if any.
pub(crate) fn session_of(item: &Item) -> Result<Option<SessionId>, StoreError> {
    Row { table: Table::PushDevices, item }.maybe_parsed(SESSION_ID)
}

/// Registers a device.
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

/// Takes the registration of a device away, and leaves its session.
pub(crate) fn unregister(key: Key) -> Write {
    let nothing = target_changes(None, [const { None }; 5]);
    Write::update(key, nothing).when(Condition::Exists(PROVIDER)).when(Condition::Exists(SESSION_ID))
}

/// Forgets a device that has a registration and no session.
pub(crate) fn forget(key: Key) -> Write {
    Write::delete(key).when(Condition::Exists(PROVIDER)).when(Condition::Absent(SESSION_ID))
}

fn target_changes(provider: Option<AttributeValue>, values: [Option<AttributeValue>; 5]) -> Vec<Change> {
    let names = ["token", "endpoint", "p256dh", "auth", "registered_at"];
    let rest = names.into_iter().zip(values).map(|(name, value)| Change::Set(name, value));
    std::iter::once(Change::Set(PROVIDER, provider)).chain(rest).collect()
}

/// The registration of a device, unless it has none or its session is over.
pub(crate) fn read_registration(item: &Item, now: Timestamp) -> Result<Option<PushDevice>, StoreError> {
    let row = Row { table: Table::PushDevices, item };
    let over = row.maybe_parsed::<Timestamp>(EXPIRES_AT)?.is_some_and(|at| at <= now);
    let Some(provider) = row.maybe_text(PROVIDER)?.filter(|_| !over) else { return Ok(None) };
    let target = match provider {
        "webhook" => PushTarget::Webhook(row.made("token")?),
        "web_push" => {
            let endpoint = row.text("endpoint")?.to_owned();
            let subscription = WebPushSubscription::new(endpoint, row.bytes("p256dh")?, row.bytes("auth")?);
            PushTarget::WebPush(subscription.map_err(|error| row.unreadable(error))?)
        }
        other => return Err(row.unreadable(format!("`{other}` is no provider"))),
    };
    Ok(Some(PushDevice {
        user_id: row.parsed("user_id")?,
        device_id: row.parsed("device_id")?,
        target,
        registered_at: row.parsed("registered_at")?,
    }))
}
