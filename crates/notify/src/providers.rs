use async_trait::async_trait;
use domain::{PushDevice, PushTarget};
use ports::{Notification, Notifier, NotifyError, UnusableTarget};
use webhook::CallError;

use crate::{WebPushNotifier, WebhookNotifier};

/// The ways to reach devices that are switched on.
pub struct Providers {
    pub webhook: Option<WebhookNotifier>,
    pub webpush: Option<WebPushNotifier>,
}

impl Providers {
    fn webhook(&self) -> Result<&WebhookNotifier, UnusableTarget> {
        self.webhook.as_ref().ok_or(UnusableTarget::ProviderOff("webhook"))
    }

    fn webpush(&self) -> Result<&WebPushNotifier, UnusableTarget> {
        self.webpush.as_ref().ok_or(UnusableTarget::ProviderOff("webpush"))
    }
}

#[async_trait]
impl Notifier for Providers {
    fn check(&self, target: &PushTarget) -> Result<(), UnusableTarget> {
        match target {
            PushTarget::Webhook(_) => self.webhook().map(|_| ()),
            PushTarget::WebPush(subscription) => self.webpush()?.check(subscription),
        }
    }

    async fn notify(&self, device: &PushDevice, notification: &Notification) -> Result<(), NotifyError> {
        // A device may have been registered while its provider was on.
        let off = |off: UnusableTarget| NotifyError::Refused(off.into());
        match &device.target {
            PushTarget::Webhook(token) => self.webhook().map_err(off)?.notify(device, token, notification).await,
            PushTarget::WebPush(subscription) => {
                self.webpush().map_err(off)?.notify(device, subscription, notification).await
            }
        }
    }
}

/// What a call that was not taken means for a device, unless the device is gone.
pub(crate) fn not_told(error: CallError) -> NotifyError {
    match error {
        CallError::Gone(_) | CallError::Refused(_) => NotifyError::Refused(error.into()),
        CallError::Unavailable { retry_after, .. } => NotifyError::Unavailable { source: error.into(), retry_after },
        CallError::Unanswered(_) => NotifyError::Unavailable { source: error.into(), retry_after: None },
    }
}
