use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use domain::limits::SYNC_PAGE_MAX;
use domain::{ChatId, Sequence};

use super::backoff::{Random, pause, retry_after};
use crate::frame::{ClientFrame, Inbound, RequestId, Sync};
use crate::{ErrorBody, Retry};

/// Which chats ask for what they have missed: one question per chat and a few in all are under way.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Chats that wait for an answer or for their turn; the others are up to date.
    chats: BTreeMap<ChatId, Progress>,
    /// The turns. A chat that was forgotten meanwhile may still be in here.
    turns: VecDeque<ChatId>,
    in_flight: BTreeMap<u64, Question>,
    next_id: u64,
    /// Nothing is asked before, because the server said so.
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct Progress {
    phase: Phase,
    failures: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// If `again`, something may have been missed after the question went out.
    Asked {
        again: bool,
    },
}

/// A question under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) chat_id: ChatId,
    pub(super) after: Sequence,
    sent_at: Instant,
}

/// What an answer has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The chat is up to date.
    Complete,
    /// There is more to ask for.
    More,
    /// There is more to ask for, but asking has brought nothing.
    Stuck,
}

/// What a refusal of a sync leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is asked again after a pause.
    Paused,
    /// It is not asked again until there is a new reason to.
    GivenUp,
    /// It is asked again with a new token.
    NeedsRefresh,
    /// It is asked again on a new connection.
    NeedsReconnect,
}

impl Syncs {
    /// Questions under way, at the most.
    const IN_FLIGHT_MAX: usize = 4;
    /// Answers without progress, or failures of a kind that may be a defect, before a chat is given up.
    const FAILURES_MAX: u32 = 3;

    /// The chat has a hole. An answer under way may fill it, and is judged when it comes.
    pub(super) fn want(&mut self, chat_id: ChatId) {
        self.chats.entry(chat_id).or_insert_with(|| {
            self.turns.push_back(chat_id);
            Progress { phase: Phase::Waiting, failures: 0 }
        });
    }

    /// The chat may lack something that an answer under way does not bring.
    pub(super) fn want_anew(&mut self, chat_id: ChatId) {
        self.want(chat_id);
        if let Some(Progress { phase: Phase::Asked { again }, .. }) = self.chats.get_mut(&chat_id) {
            *again = true;
        }
    }

    /// The chat is no longer of interest.
    pub(super) fn forget(&mut self, chat_id: ChatId) {
        self.chats.remove(&chat_id);
        self.in_flight.retain(|_, question| question.chat_id != chat_id);
    }

    /// The text of the next question to go out, if one may.
    pub(super) fn next(&mut self, now: Instant, watermark: impl Fn(ChatId) -> Option<Sequence>) -> Option<String> {
        if self.paused_until.is_some_and(|until| now < until) || self.in_flight.len() >= Self::IN_FLIGHT_MAX {
            return None;
        }
        self.paused_until = None;
        while let Some(chat_id) = self.turns.pop_front() {
            let waiting = self.chats.get_mut(&chat_id).filter(|progress| progress.phase == Phase::Waiting);
            let (Some(progress), Some(after)) = (waiting, watermark(chat_id)) else { continue };
            progress.phase = Phase::Asked { again: false };
            let id = self.next_id;
            self.next_id += 1;
            self.in_flight.insert(id, Question { chat_id, after, sent_at: now });
            let frame = ClientFrame::SyncRequest(Sync { chat_id, after, limit: SYNC_PAGE_MAX });
            return Some(Inbound { request_id: RequestId::new(format!("y{id}")), frame }.encode());
        }
        None
    }

    /// The question that an answer belongs to. It is followed by [`finish`](Self::finish) or [`refused`](Self::refused).
    pub(super) fn answered(&mut self, id: u64) -> Option<Question> {
        self.in_flight.remove(&id)
    }

    pub(super) fn finish(&mut self, now: Instant, chat_id: ChatId, outcome: Outcome, random: &mut Random) {
        let Some(progress) = self.chats.get_mut(&chat_id) else { return };
        let again = progress.phase == Phase::Asked { again: true };
        match outcome {
            Outcome::Complete if !again => {
                self.chats.remove(&chat_id);
                return;
            }
            Outcome::Complete | Outcome::More => progress.failures = 0,
            Outcome::Stuck if progress.failures >= Self::FAILURES_MAX => {
                self.chats.remove(&chat_id);
                return;
            }
            Outcome::Stuck => {
                progress.failures += 1;
                self.paused_until = Some(now + pause(progress.failures, random));
            }
        }
        progress.phase = Phase::Waiting;
        self.turns.push_back(chat_id);
    }

    pub(super) fn refused(&mut self, now: Instant, chat_id: ChatId, error: &ErrorBody, random: &mut Random) -> Refused {
        let Some(progress) = self.chats.get_mut(&chat_id) else { return Refused::GivenUp };
        progress.failures = progress.failures.saturating_add(1);
        let delay = match error.code.retry() {
            Retry::AfterRefresh => return Refused::NeedsRefresh,
            Retry::Reconnect => return Refused::NeedsReconnect,
            Retry::No => {
                self.chats.remove(&chat_id);
                return Refused::GivenUp;
            }
            Retry::UpTo(tries) if progress.failures > tries => {
                self.chats.remove(&chat_id);
                return Refused::GivenUp;
            }
            Retry::AfterDelay => retry_after(error).unwrap_or_else(|| pause(progress.failures, random)),
            Retry::Backoff | Retry::UpTo(_) => {
                pause(progress.failures, random).max(retry_after(error).unwrap_or_default())
            }
        };
        self.paused_until = self.paused_until.max(Some(now + delay));
        progress.phase = Phase::Waiting;
        // It keeps its place: who is refused does not also lose their turn.
        self.turns.push_front(chat_id);
        Refused::Paused
    }

    /// The connection is gone. The next one begins with a sync of every chat.
    pub(super) fn disconnected(&mut self) {
        self.chats.clear();
        self.turns.clear();
        self.in_flight.clear();
    }

    /// When the question that has waited longest for its answer went out.
    pub(super) fn oldest_in_flight(&self) -> Option<Instant> {
        self.in_flight.values().map(|question| question.sent_at).min()
    }

    /// When the pause is over, if somebody waits for that.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.paused_until.filter(|_| !self.turns.is_empty())
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

    /// Ids and chats of the questions that go out now.
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
    fn one_question_per_chat_and_four_in_all() {
        let (mut syncs, now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        for n in [1, 1, 2, 3, 4, 5, 1] {
            syncs.want(chat(n));
        }
        assert_eq!(out(&mut syncs, now), asked(&[("y0", 1), ("y1", 2), ("y2", 3), ("y3", 4)]));
        assert_eq!(syncs.answered(1).unwrap().chat_id, chat(2));
        assert_eq!(syncs.answered(1), None);
        syncs.finish(now, chat(2), Outcome::More, &mut random);
        assert_eq!(out(&mut syncs, now), asked(&[("y4", 5)]), "everybody in turn");
        syncs.answered(0);
        syncs.finish(now, chat(1), Outcome::Complete, &mut random);
        assert_eq!(out(&mut syncs, now), asked(&[("y5", 2)]));
    }

    #[test]
    fn a_resync_during_a_question_asks_again_and_a_hole_does_not() {
        for (anew, expected) in [(false, asked(&[])), (true, asked(&[("y1", 1)]))] {
            let (mut syncs, now) = (Syncs::default(), Instant::now());
            syncs.want(chat(1));
            out(&mut syncs, now);
            if anew {
                syncs.want_anew(chat(1))
            } else {
                syncs.want(chat(1))
            }
            syncs.answered(0);
            syncs.finish(now, chat(1), Outcome::Complete, &mut Random::new(1));
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
        assert_eq!(syncs.refused(now, chat(1), &error, &mut random), Refused::Paused);
        assert_eq!(out(&mut syncs, now + Duration::from_millis(1999)), asked(&[]));
        assert_eq!(syncs.poll_timeout(), Some(now + Duration::from_secs(2)));
        assert_eq!(out(&mut syncs, now + Duration::from_secs(2)), asked(&[("y1", 1), ("y2", 2)]));
        assert_eq!(syncs.poll_timeout(), None);
    }

    #[test]
    fn a_chat_that_brings_nothing_is_given_up_after_three_pauses() {
        let (mut syncs, mut now, mut random) = (Syncs::default(), Instant::now(), Random::new(1));
        syncs.want(chat(1));
        for id in 0..4 {
            assert_eq!(out(&mut syncs, now).len(), 1, "question {id}");
            syncs.answered(id);
            syncs.finish(now, chat(1), Outcome::Stuck, &mut random);
            assert_eq!(out(&mut syncs, now), asked(&[]));
            now += Duration::from_secs(60);
        }
        assert_eq!(out(&mut syncs, now), asked(&[]));
        syncs.want(chat(1));
        assert_eq!(out(&mut syncs, now).len(), 1, "a new reason asks again");
    }

    #[test]
    fn a_forgotten_chat_is_asked_for_once_when_it_comes_back() {
        let (mut syncs, now) = (Syncs::default(), Instant::now());
        syncs.want(chat(1));
        syncs.forget(chat(1));
        assert_eq!(out(&mut syncs, now), asked(&[]));
        syncs.want(chat(1));
        syncs.forget(chat(1));
        syncs.want(chat(1));
        assert_eq!(out(&mut syncs, now), asked(&[("y0", 1)]));
        syncs.forget(chat(1));
        assert_eq!(syncs.answered(0), None, "its answer is nobody's");
    }
}
