use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use domain::limits::SYNC_PAGE_MAX;
use domain::{ChatId, Sequence};

use super::backoff::{Random, pause, retry_after};
use crate::frame::{ClientFrame, Inbound, RequestId, Sync};
use crate::{ErrorBody, Retry};

/// Schedules sync requests: at most one per chat and a few in total are in flight.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Chats with a sync in flight or queued; all others are up to date.
    chats: BTreeMap<ChatId, SyncProgress>,
    /// The queue of chats to sync. It may still contain a forgotten chat.
    turns: VecDeque<ChatId>,
    in_flight: BTreeMap<u64, Question>,
    /// Chats whose sync was given up because of a failure of the server, and when it is tried again.
    given_up: BTreeMap<ChatId, Instant>,
    next_id: u64,
    /// No sync is sent before this time, because the server asked for a delay or a sync made no progress.
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct SyncProgress {
    phase: SyncPhase,
    failures: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum SyncPhase {
    PendingChange,
    /// If `again`, messages may have been missed after the request was sent.
    Asked {
        again: bool,
    },
}

/// A sync request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) chat_id: ChatId,
    pub(super) after: Sequence,
    sent_at: Instant,
}

/// The result of a sync response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    /// The chat is up to date.
    Complete,
    /// More messages are missing.
    More,
    /// More messages are missing, but the response brought no progress.
    Stuck,
}

/// The consequence of a refused sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncRefused {
    /// The sync is retried after a delay.
    Paused,
    /// The sync is abandoned until there is a new reason for one, or, after failures of the server, for half a minute.
    GivenUp,
    /// The sync is retried with a new token.
    NeedsRefresh,
    /// The sync is retried on a new connection.
    NeedsReconnect,
}

impl Syncs {
    /// Most sync requests in flight.
    const IN_FLIGHT_MAX: usize = 4;
    /// Responses without progress before a chat is abandoned.
    const FAILURES_MAX: u32 = 3;
    /// Shortest time for which a chat is abandoned. Without a new attempt, a chat in which nobody writes would stay behind
    /// until the next connection; with an earlier one, its failures would delay the syncs of all other chats.
    const GIVEN_UP_FOR: Duration = Duration::from_secs(30);

    /// Requests a sync because the chat has a gap. A response in flight may fill it; the gap is checked again when that
    /// arrives.
    pub(super) fn want(&mut self, chat_id: ChatId) {
        self.given_up.remove(&chat_id);
        self.chats.entry(chat_id).or_insert_with(|| {
            self.turns.push_back(chat_id);
            SyncProgress { phase: SyncPhase::PendingChange, failures: 0 }
        });
    }

    /// Requests a sync that a response already in flight cannot replace.
    pub(super) fn want_again(&mut self, chat_id: ChatId) {
        self.want(chat_id);
        if let Some(SyncProgress { phase: SyncPhase::Asked { again }, .. }) = self.chats.get_mut(&chat_id) {
            *again = true;
        }
    }

    /// Drops the pending syncs of a chat.
    pub(super) fn forget(&mut self, chat_id: ChatId) {
        self.chats.remove(&chat_id);
        self.given_up.remove(&chat_id);
        self.in_flight.retain(|_, question| question.chat_id != chat_id);
    }

    /// The text of the next sync request, if one may be sent.
    pub(super) fn next(&mut self, now: Instant, watermark: impl Fn(ChatId) -> Option<Sequence>) -> Option<String> {
        while let Some((&chat_id, _)) = self.given_up.iter().find(|(_, until)| **until <= now) {
            self.want(chat_id);
        }
        if self.paused_until.is_some_and(|until| now < until) || self.in_flight.len() >= Self::IN_FLIGHT_MAX {
            return None;
        }
        self.paused_until = None;
        while let Some(chat_id) = self.turns.pop_front() {
            let waiting = self.chats.get_mut(&chat_id).filter(|progress| progress.phase == SyncPhase::PendingChange);
            let (Some(progress), Some(after)) = (waiting, watermark(chat_id)) else { continue };
            progress.phase = SyncPhase::Asked { again: false };
            let id = self.next_id;
            self.next_id += 1;
            self.in_flight.insert(id, Question { chat_id, after, sent_at: now });
            let frame = ClientFrame::SyncRequest(Sync { chat_id, after, limit: SYNC_PAGE_MAX });
            return Some(Inbound { request_id: RequestId::new(format!("y{id}")), frame }.encode());
        }
        None
    }

    /// Takes the request that a response belongs to. [`finish`](Self::finish) or [`refused`](Self::refused) must
    /// follow.
    pub(super) fn answered(&mut self, id: u64) -> Option<Question> {
        self.in_flight.remove(&id)
    }

    pub(super) fn finish(&mut self, now: Instant, chat_id: ChatId, outcome: SyncOutcome, random: &mut Random) {
        let Some(progress) = self.chats.get_mut(&chat_id) else { return };
        let again = progress.phase == SyncPhase::Asked { again: true };
        match outcome {
            SyncOutcome::Complete if !again => {
                self.chats.remove(&chat_id);
                return;
            }
            SyncOutcome::Complete | SyncOutcome::More => progress.failures = 0,
            SyncOutcome::Stuck if progress.failures >= Self::FAILURES_MAX => {
                let until = now + Self::GIVEN_UP_FOR + pause(progress.failures, random);
                self.chats.remove(&chat_id);
                self.given_up.insert(chat_id, until);
                return;
            }
            SyncOutcome::Stuck => {
                progress.failures += 1;
                self.paused_until = Some(now + pause(progress.failures, random));
            }
        }
        progress.phase = SyncPhase::PendingChange;
        self.turns.push_back(chat_id);
    }

    pub(super) fn refused(
        &mut self,
        now: Instant,
        chat_id: ChatId,
        error: &ErrorBody,
        random: &mut Random,
    ) -> SyncRefused {
        let Some(progress) = self.chats.get_mut(&chat_id) else { return SyncRefused::GivenUp };
        progress.failures = progress.failures.saturating_add(1);
        let delay = match error.code.retry() {
            Retry::AfterRefresh => return SyncRefused::NeedsRefresh,
            Retry::Reconnect => return SyncRefused::NeedsReconnect,
            Retry::No => {
                self.chats.remove(&chat_id);
                return SyncRefused::GivenUp;
            }
            Retry::UpTo(tries) if progress.failures > tries => {
                let until = now + Self::GIVEN_UP_FOR + pause(progress.failures, random);
                self.chats.remove(&chat_id);
                self.given_up.insert(chat_id, until);
                return SyncRefused::GivenUp;
            }
            Retry::AfterDelay => retry_after(error).unwrap_or_else(|| pause(progress.failures, random)),
            Retry::Backoff | Retry::UpTo(_) => {
                pause(progress.failures, random).max(retry_after(error).unwrap_or_default())
            }
        };
        self.paused_until = self.paused_until.max(Some(now + delay));
        progress.phase = SyncPhase::PendingChange;
        // A refused chat goes back to the front of the queue, so it does not lose its turn.
        self.turns.push_front(chat_id);
        SyncRefused::Paused
    }

    /// Drops all syncs of a lost connection. The next connection begins with a sync of every chat.
    pub(super) fn disconnected(&mut self) {
        self.chats.clear();
        self.turns.clear();
        self.given_up.clear();
        self.in_flight.clear();
    }

    /// When the oldest request in flight was sent.
    pub(super) fn oldest_in_flight(&self) -> Option<Instant> {
        self.in_flight.values().map(|question| question.sent_at).min()
    }

    /// When the delay is over, if a chat is queued, or a chat that was given up is tried again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let paused_until = self.paused_until.filter(|_| !self.turns.is_empty());
        self.given_up.values().copied().chain(paused_until).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ErrorCode;

    fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n; 16])
    }

    /// Ids and chats of the requests that are sent now.
    fn out(syncs: &mut Syncs, now: Instant) -> Vec<(String, u8)> {
        std::iter::from_fn(|| syncs.next(now, |_| Some(Sequence(5))))
            .map(|text| {
                let Inbound { request_id, frame } = Inbound::parse(&text).unwrap();
                let ClientFrame::SyncRequest(sync) = frame else { panic!("{frame:?}") };
                assert_eq!((sync.after, sync.limit), (Sequence(5), 500));
                (request_id.unwrap().as_str().to_owned(), sync.chat_id.to_bytes()[0])
            })
            .collect()
    }

    fn asked(ids: &[(&str, u8)]) -> Vec<(String, u8)> {
        ids.iter().map(|(id, chat)| ((*id).to_owned(), *chat)).collect()
    }

    #[test]
    fn one_sync_per_chat_and_four_in_total() {
        let (mut syncs, now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        for n in [1, 1, 2, 3, 4, 5, 1] {
            syncs.want(chat(n));
        }
        assert_eq!(out(&mut syncs, now), asked(&[("y0", 1), ("y1", 2), ("y2", 3), ("y3", 4)]));
        assert_eq!(syncs.answered(1).unwrap().chat_id, chat(2));
        assert_eq!(syncs.answered(1), None);
        syncs.finish(now, chat(2), SyncOutcome::More, &mut random);
        assert_eq!(out(&mut syncs, now), asked(&[("y4", 5)]), "chats take turns");
        syncs.answered(0);
        syncs.finish(now, chat(1), SyncOutcome::Complete, &mut random);
        assert_eq!(out(&mut syncs, now), asked(&[("y5", 2)]));
    }

    #[test]
    fn a_resync_during_a_sync_repeats_it_and_a_hole_does_not() {
        for (again, expected) in [(false, asked(&[])), (true, asked(&[("y1", 1)]))] {
            let (mut syncs, now) = (Syncs::default(), Instant::now());
            syncs.want(chat(1));
            out(&mut syncs, now);
            if again {
                syncs.want_again(chat(1))
            } else {
                syncs.want(chat(1))
            }
            syncs.answered(0);
            syncs.finish(now, chat(1), SyncOutcome::Complete, &mut Random::new(1));
            assert_eq!(out(&mut syncs, now), expected);
        }
    }

    #[test]
    fn a_rate_limit_pauses_every_sync_for_the_time_asked() {
        let (mut syncs, now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        syncs.want(chat(1));
        out(&mut syncs, now);
        syncs.want(chat(2));
        syncs.answered(0);
        let error = ErrorBody::new(ErrorCode::RateLimited, "later")
            .with_details(serde_json::json!({ "retry_after_seconds": 2 }));
        assert_eq!(syncs.refused(now, chat(1), &error, &mut random), SyncRefused::Paused);
        assert_eq!(out(&mut syncs, now + Duration::from_millis(1999)), asked(&[]));
        assert_eq!(syncs.poll_timeout(), Some(now + Duration::from_secs(2)));
        assert_eq!(out(&mut syncs, now + Duration::from_secs(2)), asked(&[("y1", 1), ("y2", 2)]));
        assert_eq!(syncs.poll_timeout(), None);
    }

    #[test]
    fn a_sync_without_progress_is_given_up_after_three_pauses_and_tried_again_half_a_minute_later() {
        let (mut syncs, mut now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        syncs.want(chat(1));
        for id in 0..4 {
            assert_eq!(out(&mut syncs, now).len(), 1, "question {id}");
            syncs.answered(id);
            syncs.finish(now, chat(1), SyncOutcome::Stuck, &mut random);
            assert_eq!(out(&mut syncs, now), asked(&[]));
            now += Duration::from_secs(25);
        }
        assert_eq!(out(&mut syncs, now), asked(&[]));
        let again = syncs.poll_timeout().unwrap();
        assert!(again > now && again < now + Duration::from_secs(60));
        assert_eq!(out(&mut syncs, again), asked(&[("y4", 1)]));
        assert_eq!(syncs.poll_timeout(), None);
    }

    #[test]
    fn a_sync_that_failed_in_the_server_is_given_up_after_three_retries_and_tried_again_later() {
        let (mut syncs, mut now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        let error = ErrorBody::new(ErrorCode::InternalError, "a stored row is damaged");
        let fail = |syncs: &mut Syncs, now: &mut Instant, random: &mut Random| {
            let [(id, 1)] = &out(syncs, *now)[..] else { panic!("one request for the chat") };
            syncs.answered(id[1..].parse().unwrap());
            let refused = syncs.refused(*now, chat(1), &error, random);
            *now = syncs.poll_timeout().unwrap();
            refused
        };
        for _ in 0..2 {
            syncs.want(chat(1));
            for _ in 0..3 {
                assert_eq!(fail(&mut syncs, &mut now, &mut random), SyncRefused::Paused);
            }
            let before = now;
            assert_eq!(fail(&mut syncs, &mut now, &mut random), SyncRefused::GivenUp);
            assert!(now >= before + Duration::from_secs(30));
        }
        syncs.want(chat(2));
        assert_eq!(out(&mut syncs, now - Duration::from_secs(20)).len(), 1, "other chats are not delayed");
        syncs.forget(chat(1));
        assert_eq!(syncs.poll_timeout(), None, "a chat that is gone is not tried again");
    }

    #[test]
    fn a_removed_chat_is_synced_once_when_it_returns() {
        let (mut syncs, now) = (Syncs::default(), Instant::now());
        syncs.want(chat(1));
        syncs.forget(chat(1));
        assert_eq!(out(&mut syncs, now), asked(&[]));
        syncs.want(chat(1));
        syncs.forget(chat(1));
        syncs.want(chat(1));
        assert_eq!(out(&mut syncs, now), asked(&[("y0", 1)]));
        syncs.forget(chat(1));
        assert_eq!(syncs.answered(0), None, "its response is ignored");
    }
}
