use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{DeviceId, PushDevice, PushTarget, Timestamp};
use ports::{Clock, Notification, Notifier, NotifyError, UnusableTarget};
use tidings_notify::{NotificationPorts, Notifications, NotificationsConfig};
use tokio::task::AbortHandle;

use crate::world::{NotifyTestClock, World, seconds, start};

/// A notifier that records notifications and fails on request.
pub(crate) struct NotificationRecorder {
    clock: Arc<NotifyTestClock>,
    told: Mutex<Vec<RecordedNotification>>,
    failures: Mutex<VecDeque<InjectedFailure>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedNotification {
    pub(crate) at: Duration,
    pub(crate) device_id: DeviceId,
    pub(crate) notification: Notification,
}

#[derive(Clone, Copy)]
pub(crate) enum InjectedFailure {
    Gone,
    Refused,
    Unavailable {
        retry_after: Option<Duration>,
    },
    /// No response.
    Hangs,
}

#[async_trait]
impl Notifier for NotificationRecorder {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        unreachable!("nothing is registered through it")
    }

    async fn notify(&self, device: &PushDevice, notification: &Notification) -> Result<(), NotifyError> {
        let at = self.clock.now().since(start());
        let told = RecordedNotification { at, device_id: device.device_id, notification: notification.clone() };
        self.told.lock().unwrap().push(told);
        let failure = self.failures.lock().unwrap().pop_front();
        match failure {
            None => Ok(()),
            Some(InjectedFailure::Gone) => Err(NotifyError::Gone),
            Some(InjectedFailure::Refused) => Err(NotifyError::Refused("the answer was 400 Bad Request".into())),
            Some(InjectedFailure::Unavailable { retry_after }) => {
                Err(NotifyError::Unavailable { source: "the answer was 503 Service Unavailable".into(), retry_after })
            }
            Some(InjectedFailure::Hangs) => std::future::pending().await,
        }
    }
}

impl NotificationRecorder {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        Arc::new(Self { clock: world.clock.clone(), told: Mutex::default(), failures: Mutex::default() })
    }

    /// Makes the next attempts fail.
    pub(crate) fn fail(&self, failures: impl IntoIterator<Item = InjectedFailure>) {
        self.failures.lock().unwrap().extend(failures);
    }

    /// The attempts since the last call.
    pub(crate) fn take(&self) -> Vec<RecordedNotification> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// The times of the attempts since the last call, relative to the start of the world.
    pub(crate) fn take_times(&self) -> Vec<Duration> {
        self.take().into_iter().map(|told| told.at).collect()
    }
}

pub(crate) fn ports(world: &World, recorder: &Arc<NotificationRecorder>) -> NotificationPorts {
    NotificationPorts {
        chats: world.store.clone(),
        members: world.members.clone(),
        messages: world.store.clone(),
        watermarks: world.store.clone(),
        users: world.store.clone(),
        routes: world.routes.clone(),
        devices: world.store.clone(),
        notices: world.store.clone(),
        dead_letters: world.store.clone(),
        notifier: recorder.clone(),
        clock: world.clock.clone(),
        ids: world.ids.clone(),
    }
}

/// The default configuration, with longer delays so that tests can act in between.
pub(crate) fn config() -> NotificationsConfig {
    NotificationsConfig { delay: seconds(5), silence: seconds(60), ..NotificationsConfig::default() }
}

/// Starts notifications.
pub(crate) fn notify(world: &World, recorder: &Arc<NotificationRecorder>) -> Arc<Notifications> {
    let notifications = Arc::new(Notifications::new(ports(world, recorder), config()));
    run(world, &notifications);
    notifications
}

pub(crate) fn run(world: &World, notifications: &Arc<Notifications>) -> AbortHandle {
    let (notifications, log) = (notifications.clone(), world.store.clone());
    tokio::spawn(async move { notifications.run(log).await }).abort_handle()
}

/// The time `after` the start of the world.
pub(crate) fn at(after: Duration) -> Timestamp {
    start() + after
}
