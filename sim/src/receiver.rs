//! The application's server and the push service, which get what leaves the deployment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{Invariant, PushDevice, PushTarget};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ports::{Notification, Notifier, NotifyError, UnusableTarget};
use protocol::event::EventEnvelope;
use tokio::time::sleep;
use webhook::{HttpCallError, NoAnswer, WebhookTransport};

use crate::process::SimProcess;
use crate::world::{Dependency, World};

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The servers of others, as seen by one process. They fail, sleep and refuse, and lose answers.
pub(crate) struct SimReceiver {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
}

/// How a receiver handles a request.
enum ReceiverBehavior {
    Takes,
    /// It takes the request, and its answer is lost.
    TakesSilently,
    Refuses,
    /// It asks for a pause.
    IsBusy(u64),
    /// It answers too late, and takes nothing.
    Sleeps,
}

impl SimReceiver {
    /// Delivers a request, and returns how its receiver handles it.
    async fn behavior(world: &World) -> ReceiverBehavior {
        world.travel().await;
        let dice = &world.streams.receiver;
        if world.is_unavailable(Dependency::Receiver) {
            return ReceiverBehavior::Sleeps;
        }
        if !dice.chance(world.rates().receiver_fails) {
            return ReceiverBehavior::Takes;
        }
        match dice.below(0, 4) {
            0 => ReceiverBehavior::TakesSilently,
            1 => ReceiverBehavior::Refuses,
            2 => ReceiverBehavior::IsBusy(dice.below(0, 6)),
            _ => ReceiverBehavior::Sleeps,
        }
    }
}

#[async_trait]
impl WebhookTransport for SimReceiver {
    async fn post(&self, body: Bytes, _: &[(&str, String)]) -> Result<(StatusCode, HeaderMap), HttpCallError> {
        let world = self.world.clone();
        let exchange = async move {
            let behavior = Self::behavior(&world).await;
            if let ReceiverBehavior::Takes | ReceiverBehavior::TakesSilently = behavior {
                match EventEnvelope::parse(&body) {
                    Ok(envelope) => world.received(&envelope.event),
                    Err(error) => {
                        world.violated(Invariant::OutwardAtLeastOnce, format!("an event is unreadable: {error}"))
                    }
                }
            }
            world.travel().await;
            let mut headers = HeaderMap::new();
            let status = match behavior {
                ReceiverBehavior::Takes => StatusCode::NO_CONTENT,
                ReceiverBehavior::Refuses => StatusCode::BAD_REQUEST,
                ReceiverBehavior::IsBusy(seconds) => {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                    StatusCode::SERVICE_UNAVAILABLE
                }
                ReceiverBehavior::TakesSilently => {
                    return Err(HttpCallError::Unanswered(NoAnswer::Failed("the answer was lost".into())));
                }
                ReceiverBehavior::Sleeps => {
                    sleep(PATIENCE).await;
                    return Err(HttpCallError::Unanswered(NoAnswer::Late("the receiver sleeps".into())));
                }
            };
            Ok((status, headers))
        };
        self.world.call(&self.process, exchange).await
    }
}

#[async_trait]
impl Notifier for SimReceiver {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        Ok(())
    }

    async fn notify(&self, device: &PushDevice, notification: &Notification) -> Result<(), NotifyError> {
        let (world, target) = (self.world.clone(), (device.user_id, notification.chat_id, device.device_id));
        let unavailable = |reason: &str, retry_after| NotifyError::Unavailable { source: reason.into(), retry_after };
        let exchange = async move {
            let behavior = Self::behavior(&world).await;
            if let ReceiverBehavior::Takes | ReceiverBehavior::TakesSilently = behavior {
                world.notified(target);
            }
            world.travel().await;
            match behavior {
                ReceiverBehavior::Takes => Ok(()),
                ReceiverBehavior::TakesSilently => Err(unavailable("the answer was lost", None)),
                ReceiverBehavior::Refuses => Err(NotifyError::Refused("it is too long".into())),
                ReceiverBehavior::IsBusy(seconds) => Err(unavailable("it is busy", Some(Duration::from_secs(seconds)))),
                ReceiverBehavior::Sleeps => {
                    sleep(PATIENCE).await;
                    Err(unavailable("it sleeps", None))
                }
            }
        };
        self.world.call(&self.process, exchange).await
    }
}
