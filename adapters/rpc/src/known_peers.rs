use std::time::Duration;

use ports::PeerProcess;
use tokio::time::Instant;

/// Grace period after an empty list. It equals the lifetime of a registration, so each live process has registered
/// again by then.
const GRACE: Duration = Duration::from_secs(15);

/// The known processes of one role, derived from the lists that were read.
///
/// A process that is missing from the next list has left or died, and is removed. An empty list, however, more likely
/// means that Redis lost the registrations: all processes of a role rarely end within a second, and if they did, calls
/// to them fail quickly. So after an empty list, no process is removed during a grace period, however slowly the list
/// fills again.
///
/// Reads no clock.
#[derive(Debug, Default)]
pub(crate) struct KnownPeers {
    peers: Vec<PeerProcess>,
    keeps_until: Option<Instant>,
}

impl KnownPeers {
    pub(crate) fn peers(&self) -> &[PeerProcess] {
        &self.peers
    }

    /// Applies a list that was read.
    pub(crate) fn handle_list(&mut self, now: Instant, listed: Vec<PeerProcess>) {
        if listed.is_empty() && !self.peers.is_empty() && self.keeps_until.is_none() {
            self.keeps_until = Some(now + GRACE);
        }
        if self.keeps_until.is_some_and(|until| now < until) {
            self.peers.extend(listed);
        } else {
            self.keeps_until = None;
            self.peers = listed;
        }
        self.peers.sort();
        self.peers.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(ids: &str) -> Vec<PeerProcess> {
        ids.chars().map(|id| PeerProcess { id: id.to_string().into(), address: "localhost:1".into() }).collect()
    }

    /// Applies lists at the given seconds, and compares the known processes after each.
    fn check(lists: &[(u64, &str)], expected: &[&str]) {
        let (mut known, begin) = (KnownPeers::default(), Instant::now());
        let mut seen = vec![];
        for (second, ids) in lists {
            known.handle_list(begin + Duration::from_secs(*second), peers(ids));
            seen.push(known.peers().iter().map(|peer| &*peer.id).collect::<String>());
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_process_missing_from_a_list_is_removed() {
        check(&[(0, "abc"), (1, "ac"), (2, "cd")], &["abc", "ac", "cd"]);
    }

    #[test]
    fn a_wiped_list_loses_no_gateway_while_it_is_rebuilt() {
        check(&[(0, "abc"), (1, ""), (2, ""), (3, "b"), (6, "bd")], &["abc", "abc", "abc", "abc", "abcd"]);
    }

    #[test]
    fn a_user_without_a_reconnect_in_fifteen_seconds_is_offline() {
        check(&[(0, "abc"), (1, ""), (15, "b"), (16, "bd"), (17, "d")], &["abc", "abc", "abc", "bd", "d"]);
        check(&[(0, "a"), (1, ""), (15, ""), (16, ""), (17, "b")], &["a", "a", "a", "", "b"]);
    }
}
