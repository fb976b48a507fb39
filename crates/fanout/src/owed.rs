use std::collections::{BTreeMap, BTreeSet};

use domain::UserId;
use metrics::gauge;
use ports::{GatewayId, Push, StoreError};
use protocol::frame::Resync;
use tracing::warn;

use crate::Fanout;
use crate::fanout::Outgoing;

/// Users whom pushes have passed by and who do not know it, at the most. Beyond them no further event is processed.
const USERS_MAX: usize = 100_000;

/// Whom pushes did not reach, by the gateway that would not take them.
///
/// A client finds a hole when the next message of its chat comes, but nothing tells it of one that was the last. So it is
/// told to sync as soon as its gateway can be reached, unless the gateway is dead: its clients sync when they are back.
/// Until then the place in the log is not kept, so that the death of this process loses none of it either.
#[derive(Default)]
pub(crate) struct Owed {
    gateways: BTreeMap<GatewayId, BTreeSet<UserId>>,
}

impl Owed {
    pub(crate) fn is_empty(&self) -> bool {
        self.gateways.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.gateways.values().map(BTreeSet::len).sum::<usize>() >= USERS_MAX
    }

    /// Notes pushes that were not taken.
    pub(crate) fn note(&mut self, lost: Outgoing) {
        for (gateway, pushes) in lost {
            self.gateways.entry(gateway).or_default().extend(pushes.into_iter().flat_map(|push| push.recipients));
        }
    }
}

impl Fanout {
    /// Has everybody sync whom pushes have passed by, as far as their gateways can be reached.
    pub(crate) async fn make_up(&self, owed: &mut Owed) {
        let live = match self.routes.live_gateways().await {
            Ok(live) => BTreeSet::from_iter(live),
            Err(failure) => return report(&failure),
        };
        owed.gateways.retain(|gateway, _| live.contains(gateway));
        let resyncs = owed.gateways.iter().map(|(gateway, users)| {
            let recipients = users.iter().copied().collect();
            let push = Push { recipients, except: None, frame: Resync::missed_pushes(), trace: None };
            (gateway.clone(), vec![push])
        });
        let lost = self.deliver(resyncs.collect()).await;
        owed.gateways.retain(|gateway, _| lost.contains_key(gateway));
        gauge!("tidings_fanout_gateways_owed").set(owed.gateways.len() as f64);
    }
}

fn report(failure: &StoreError) {
    warn!(error = failure as &dyn std::error::Error, "who has missed pushes cannot be told yet");
}
