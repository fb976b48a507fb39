use std::sync::Arc;
use std::time::Duration;

use domain::Backoff;
use futures_util::{Stream, stream};
use ports::error_chain;
use tokio::sync::{Notify, watch};
use tokio::{pin, select, time};
use tonic::{Status, Streaming};
use tracing::error;

use crate::directory::Links;
use crate::link::{PeerCallError, PeerLink};
use crate::proto::send_reply::Kind;
use crate::sends::{PendingReply, SendRouter, StreamAction, unavailable};
use crate::{proto, wire};

/// Interval at which a stream checks for expired sends.
const TICK: Duration = Duration::from_millis(100);
/// Delays between reconnects.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(2) };

/// How a stream ended.
enum StreamEnd {
    /// All sends are answered, and no further ones will be sent.
    Drained,
    /// The stream broke; its unanswered sends have failed.
    Broken,
}

/// Carries the sends of one lane to their process and the replies back, until the process is no longer listed or
/// announces its shutdown.
pub(crate) async fn run(link: Arc<PeerLink>, sends: Arc<SendRouter>, links: watch::Receiver<Links>) {
    let lane = link.serial;
    let mut failures = 0;
    loop {
        let (epoch, wake) = sends.begin(lane);
        if let Ok(replies) = link.open_sends(outgoing(sends.clone(), lane, epoch, wake)).await {
            failures = 0;
            sends.open(lane);
            match carry(&link, &sends, links.clone(), replies).await {
                StreamEnd::Drained => break,
                StreamEnd::Broken => give(sends.fail(lane)),
            }
            if link.is_leaving() {
                break;
            }
            if link.is_usable() && is_listed(&link, &links.borrow()) {
                continue;
            }
        }
        // Until the process is reachable, other processes own its chats.
        give(sends.hand_over(lane));
        failures += 1;
        select! {
            () = unlisted(&link, links.clone()) => break,
            () = admitted(&link, BACKOFF.delay(failures)) => {}
        }
    }
    give(sends.hand_over(lane));
    sends.remove(lane);
}

/// Transfers sends and replies until the stream ends.
async fn carry(
    link: &PeerLink,
    sends: &SendRouter,
    links: watch::Receiver<Links>,
    mut replies: Streaming<proto::SendReply>,
) -> StreamEnd {
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
                // A newer version may send kinds of replies that this version does not know.
                Ok(Some(proto::SendReply { kind: None })) => {}
                Ok(None) if is_draining && !sends.is_waiting(lane) => return StreamEnd::Drained,
                Ok(None) => {
                    link.handle_failure(&link.failure(Status::unavailable("the stream of sends has ended")));
                    return StreamEnd::Broken;
                }
                Err(status) => {
                    link.handle_failure(&link.failure(status));
                    return StreamEnd::Broken;
                }
            },
            _ = ticks.tick() => {
                let (handed_over, answers) = sends.expire(lane);
                give(answers);
                (0..handed_over).for_each(|_| link.handle_failure(&link.too_late()));
            }
            () = &mut opened => return StreamEnd::Broken,
            () = &mut unlisted, if !is_draining => {
                sends.drain(lane);
                is_draining = true;
            }
        }
    }
}

/// The request stream of a lane.
fn outgoing(
    sends: Arc<SendRouter>,
    lane: u64,
    epoch: u64,
    wake: Arc<Notify>,
) -> impl Stream<Item = proto::SendRequest> + Send + 'static {
    stream::unfold((sends, wake), move |(sends, wake)| async move {
        loop {
            match sends.next(lane, epoch) {
                StreamAction::Send(send) => return Some((*send, (sends, wake))),
                StreamAction::Wait => wake.notified().await,
                StreamAction::End => return None,
            }
        }
    })
}

fn settle(link: &PeerLink, sends: &SendRouter, outcome: proto::SendOutcome) {
    let number = outcome.number;
    if let Some(proto::send_outcome::Kind::Unasserted(reason)) = outcome.kind {
        error!(process = &*link.peer.id, reason, "a send was refused; reporting it as unavailable");
        return give(sends.refuse(link.serial, number));
    }
    let outcome = wire::read_outcome(outcome.kind).unwrap_or_else(|malformed| {
        let error = PeerCallError::from(malformed);
        let error = error_chain(&error);
        error!(process = &*link.peer.id, %error, "unreadable send outcome; reporting the send as unavailable");
        Err(unavailable())
    });
    give(sends.settle(link.serial, number, outcome));
}

fn give(answers: impl IntoIterator<Item = PendingReply>) {
    answers.into_iter().for_each(PendingReply::give);
}

/// Waits for the backoff, then for the breaker. After the breaker's pause, the next connection attempt is the probe.
async fn admitted(link: &PeerLink, pause: Duration) {
    time::sleep(pause).await;
    while !link.admit() {
        time::sleep_until(link.admits_at()).await;
    }
}

/// Waits until the process is no longer listed.
async fn unlisted(link: &PeerLink, mut links: watch::Receiver<Links>) {
    // An error means that the directory was dropped, and all its links with it.
    drop(links.wait_for(|links| !is_listed(link, links)).await);
}

fn is_listed(link: &PeerLink, links: &Links) -> bool {
    links.iter().any(|listed| listed.serial == link.serial)
}
