use std::collections::{BTreeMap, BTreeSet};

use domain::UserId;
use metrics::gauge;
use ports::{GatewayId, Push, StoreError, error_chain};
use protocol::frame::Resync;
use tracing::warn;

use crate::Fanout;
use crate::pushes::GatewayPushes;

/// Most users with missed pushes. Beyond it, fanout processes no further event.
const USERS_MAX: usize = 100_000;

/// Recipients of failed pushes, by the gateway that did not accept them.
///
/// A client detects a gap with the next message of the chat, but it cannot detect a missed last message. Fanout therefore
/// asks it to resync as soon as its gateway is reachable. A dead gateway is dropped: its clients sync when they reconnect.
/// Until then fanout commits no offset, so a crash of this process loses no resync either.
#[derive(Default)]
pub(crate) struct MissedPushes {
    gateways: BTreeMap<GatewayId, BTreeSet<UserId>>,
}

impl MissedPushes {
    pub(crate) fn is_empty(&self) -> bool {
        self.gateways.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.gateways.values().map(BTreeSet::len).sum::<usize>() >= USERS_MAX
    }

    /// Records pushes that were not delivered.
    pub(crate) fn note(&mut self, lost: GatewayPushes) {
        for (gateway, pushes) in lost {
            self.gateways.entry(gateway).or_default().extend(pushes.into_iter().flat_map(|push| push.recipients));
        }
    }
}

impl Fanout {
    /// Asks all recipients of missed pushes to resync, as far as their gateways are reachable.
    pub(crate) async fn request_resyncs(&self, missed: &mut MissedPushes) {
        let live = match self.routes.live_gateways().await {
            Ok(live) => BTreeSet::from_iter(live),
            Err(failure) => return report(&failure),
        };
        missed.gateways.retain(|gateway, _| live.contains(gateway));
        let resyncs = missed.gateways.iter().map(|(gateway, users)| {
            let recipients = users.iter().copied().collect();
            let push = Push { recipients, except: None, frame: Resync::missed_pushes(), trace: None };
            (gateway.clone(), vec![push])
        });
        let lost = self.deliver(resyncs.collect()).await;
        missed.gateways.retain(|gateway, _| lost.contains_key(gateway));
        gauge!("tidings_fanout_gateways_owed").set(missed.gateways.len() as f64);
    }
}

fn report(failure: &StoreError) {
    warn!(
        error = %error_chain(failure),
        "lookup of live gateways failed; clients with missed pushes resync later"
    );
}
