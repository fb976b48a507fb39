use domain::{PushDevice, PushToken};
use ports::{Notification, NotifyError};
use reqwest::StatusCode;
use webhook::{CallError, Webhook};

use crate::body;
use crate::providers::not_told;

/// Tells devices through the operator's own service, which knows each by the token it was registered with.
pub struct WebhookNotifier(pub Webhook);

impl WebhookNotifier {
    pub(crate) async fn notify(
        &self,
        device: &PushDevice,
        token: &PushToken,
        notification: &Notification,
    ) -> Result<(), NotifyError> {
        match self.0.post(body::encode(device, Some(token.as_str()), notification), &[]).await {
            // 410 alone is said on purpose: a 404 is what a service says that has moved, and of every device.
            Err(CallError::Gone(StatusCode::GONE)) => Err(NotifyError::Gone),
            other => other.map_err(not_told),
        }
    }
}
