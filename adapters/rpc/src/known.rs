use std::time::Duration;

use ports::Peer;
use tokio::time::Instant;

/// How long processes are believed to be there when the whole list is gone. By then each has announced itself again, or is
/// away: an announcement lives as long.
const GRACE: Duration = Duration::from_secs(15);

/// The processes of one role, as far as the lists tell.
///
/// A process that leaves or dies is missing from the next list, and is believed to be gone. A list without anybody is
/// more likely one that was wiped: all processes of a role do not go within a second, and if they have, calling them
/// fails soon enough. So from an empty list on nobody is forgotten for a while, however slowly the list fills again.
///
/// Reads no clock.
#[derive(Debug, Default)]
pub(crate) struct Known {
    peers: Vec<Peer>,
    keeps_until: Option<Instant>,
}

impl Known {
    pub(crate) fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Takes note of a list that was read.
    pub(crate) fn handle_list(&mut self, now: Instant, listed: Vec<Peer>) {
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

    fn peers(ids: &str) -> Vec<Peer> {
        ids.chars().map(|id| Peer { id: id.to_string().into(), address: "localhost:1".into() }).collect()
    }

    /// Gives lists at seconds, and says who is known after each.
    fn check(lists: &[(u64, &str)], expected: &[&str]) {
        let (mut known, begin) = (Known::default(), Instant::now());
        let mut seen = vec![];
        for (second, ids) in lists {
            known.handle_list(begin + Duration::from_secs(*second), peers(ids));
            seen.push(known.peers().iter().map(|peer| &*peer.id).collect::<String>());
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_process_that_is_missing_from_a_list_is_gone() {
        check(&[(0, "abc"), (1, "ac"), (2, "cd")], &["abc", "ac", "cd"]);
    }

    #[test]
    fn a_wiped_list_forgets_nobody_while_it_fills_again() {
        check(&[(0, "abc"), (1, ""), (2, ""), (3, "b"), (6, "bd")], &["abc", "abc", "abc", "abc", "abcd"]);
    }

    #[test]
    fn who_is_not_back_after_fifteen_seconds_is_gone() {
        check(&[(0, "abc"), (1, ""), (15, "b"), (16, "bd"), (17, "d")], &["abc", "abc", "abc", "bd", "d"]);
        check(&[(0, "a"), (1, ""), (15, ""), (16, ""), (17, "b")], &["a", "a", "a", "", "b"]);
    }
}
