use async_trait::async_trait;
use domain::{PushDevice, PushTarget};
use ports::{Notification, Notifier, NotifyError, UnusableTarget};
use webhook::HttpCallError;

use crate::{WebPushNotifier, WebhookNotifier};

/// The enabled notification providers.
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
        // The provider may have been disabled since the device was registered.
        let off = |off: UnusableTarget| NotifyError::Refused(off.into());
        match &device.target {
            PushTarget::Webhook(token) => self.webhook().map_err(off)?.notify(device, token, notification).await,
            PushTarget::WebPush(subscription) => {
                self.webpush().map_err(off)?.notify(device, subscription, notification).await
            }
        }
    }
}

/// The result of a failed call for a device. The caller handles a device that is gone.
pub(crate) fn notify_error(error: HttpCallError) -> NotifyError {
    match error {
        HttpCallError::Gone(_) | HttpCallError::Refused(_) => NotifyError::Refused(error.into()),
        HttpCallError::Unavailable { retry_after, .. } => {
            NotifyError::Unavailable { source: error.into(), retry_after }
        }
        HttpCallError::Unanswered(_) => NotifyError::Unavailable { source: error.into(), retry_after: None },
    }
}
