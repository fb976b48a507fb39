use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::{Notify, watch};
use tokio::{pin, select, time};
use tonic::{Status, Streaming};
use tracing::error;

use crate::directory::Links;
use crate::link::{CallError, Link};
use crate::proto::send_reply::Kind;
use crate::sends::{Answer, Next, Sends, unavailable};
use crate::{proto, wire};

/// How often a stream looks for sends whose time is over.
const TICK: Duration = Duration::from_millis(100);
/// How long the first try to connect again waits, and the last; each next one waits twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How a stream ended.
enum End {
    /// Nothing was left to answer, and nothing more was to be handed over.
    Drained,
    /// It broke, and with it what was handed over.
    Broken,
}

/// Brings the sends of one lane to their process, and the answers back, until the process is not listed any more or has
/// said that it is about to end.
pub(crate) async fn run(link: Arc<Link>, sends: Arc<Sends>, links: watch::Receiver<Links>) {
    let lane = link.serial;
    let mut pause = PAUSE_MIN;
    loop {
        let (epoch, wake) = sends.begin(lane);
        if let Ok(replies) = link.open_sends(outgoing(sends.clone(), lane, epoch, wake)).await {
            pause = PAUSE_MIN;
            sends.open(lane);
            match carry(&link, &sends, links.clone(), replies).await {
                End::Drained => break,
                End::Broken => give(sends.fail(lane)),
            }
            if link.is_leaving() {
                break;
            }
            if link.is_usable() && is_listed(&link, &links.borrow()) {
                continue;
            }
        }
        // Until the process can be reached, its chats are others'.
        give(sends.pass_on(lane));
        select! {
            () = unlisted(&link, links.clone()) => break,
            () = admitted(&link, pause) => pause = (pause * 2).min(PAUSE_MAX),
        }
    }
    give(sends.pass_on(lane));
    sends.remove(lane);
}

/// Carries sends and answers until the stream ends.
async fn carry(
    link: &Link,
    sends: &Sends,
    links: watch::Receiver<Links>,
    mut replies: Streaming<proto::SendReply>,
) -> End {
    let lane = link.serial;
    let mut ticks = time::interval(TICK);
    let mut is_draining = false;
    let (opened, unlisted) = (link.opened(), unlisted(link, links));
    pin!(opened, unlisted);
    loop {
        select! {
            reply = replies.message() => match reply {
                Ok(Some(proto::SendReply { kind: Some(Kind::Outcome(outcome)) })) => settle(link, sends, outcome),
                Ok(Some(proto::SendReply { kind: Some(Kind::Leaving(_)) })) => {
                    link.handle_leaving();
                    sends.drain(lane);
                    is_draining = true;
                }
                // A newer process may say what we do not know yet.
                Ok(Some(proto::SendReply { kind: None })) => {}
                Ok(None) if is_draining && !sends.is_waiting(lane) => return End::Drained,
                Ok(None) => {
                    link.handle_failure(&link.failure(Status::unavailable("the stream of sends has ended")));
                    return End::Broken;
                }
                Err(status) => {
                    link.handle_failure(&link.failure(status));
                    return End::Broken;
                }
            },
            _ = ticks.tick() => {
                let (handed_over, answers) = sends.expire(lane);
                give(answers);
                (0..handed_over).for_each(|_| link.handle_failure(&link.too_late()));
            }
            () = &mut opened => return End::Broken,
            () = &mut unlisted, if !is_draining => {
                sends.drain(lane);
                is_draining = true;
            }
        }
    }
}

/// The sends of a lane as its stream wants them.
fn outgoing(
    sends: Arc<Sends>,
    lane: u64,
    epoch: u64,
    wake: Arc<Notify>,
) -> impl Stream<Item = proto::SendRequest> + Send + 'static {
    stream::unfold((sends, wake), move |(sends, wake)| async move {
        loop {
            match sends.next(lane, epoch) {
                Next::Send(send) => return Some((*send, (sends, wake))),
                Next::Wait => wake.notified().await,
                Next::End => return None,
            }
        }
    })
}

fn settle(link: &Link, sends: &Sends, outcome: proto::SendOutcome) {
    let number = outcome.number;
    let outcome = wire::read_outcome(outcome.kind).unwrap_or_else(|malformed| {
        let error = &CallError::from(malformed) as &dyn std::error::Error;
        error!(process = &*link.peer.id, error, "the outcome of a send is unknown");
        Err(unavailable())
    });
    give(sends.settle(link.serial, number, outcome));
}

fn give(answers: impl IntoIterator<Item = Answer>) {
    answers.into_iter().for_each(Answer::give);
}

/// Waits for a while, and then for the breaker. If its pause is over, the next try to connect is the probe.
async fn admitted(link: &Link, pause: Duration) {
    time::sleep(pause).await;
    while !link.admit() {
        time::sleep_until(link.admits_at()).await;
    }
}

/// Waits until the process is not listed any more.
async fn unlisted(link: &Link, mut links: watch::Receiver<Links>) {
    // An error means that the directory is gone, and with it everybody.
    drop(links.wait_for(|links| !is_listed(link, links)).await);
}

fn is_listed(link: &Link, links: &Links) -> bool {
    links.iter().any(|listed| listed.serial == link.serial)
}
