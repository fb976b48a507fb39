use domain::{PushDevice, PushToken};
use ports::{Notification, NotifyError};
use reqwest::StatusCode;
use webhook::{HttpCallError, Webhook};

use crate::body;
use crate::providers::notify_error;

/// Notifies devices through the operator's own service, which identifies a device by its token.
pub struct WebhookNotifier(pub Webhook);

impl WebhookNotifier {
    pub(crate) async fn notify(
        &self,
        device: &PushDevice,
        token: &PushToken,
        notification: &Notification,
    ) -> Result<(), NotifyError> {
        match self.0.post(body::encode(device, Some(token.as_str()), notification), &[]).await {
            // Only 410 means that the device is gone. A service that has moved answers 404 for all devices.
            Err(HttpCallError::Gone(StatusCode::GONE)) => Err(NotifyError::Gone),
            other => other.map_err(notify_error),
        }
    }
}
