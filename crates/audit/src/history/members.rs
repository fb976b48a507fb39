use std::collections::{BTreeMap, BTreeSet};

use domain::{MessageId, UserId};

/// Who is in a chat, as far as calls and their answers tell.
#[derive(Debug, Default)]
pub(super) struct Members {
    members: BTreeMap<UserId, Member>,
}

/// Where a user stands, for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Never a member. In a chat whose members are not in the history at all this is everybody.
    #[default]
    Never,
    /// A member since the answer in this entry.
    In { since: u64 },
    /// No member since the answer in this entry.
    Out { since: u64 },
    /// A change is under way, or its outcome is unknown, or two of them overlapped.
    Between,
}

#[derive(Debug, Default)]
struct Member {
    standing: Standing,
    joining: u32,
    leaving: u32,
    /// Whether a joining and a leaving were under way at once: their answers do not tell which one came last.
    is_contended: bool,
    /// What reached the user though it was sent after the last removal.
    leaked: BTreeSet<MessageId>,
}

impl Members {
    /// Whether the history tells who is in this chat.
    pub(super) fn are_told(&self) -> bool {
        !self.members.is_empty()
    }

    pub(super) fn standing(&self, user_id: UserId) -> Standing {
        self.members.get(&user_id).map_or(Standing::Never, |member| member.standing)
    }

    /// From which entry on sends are owed to a user; `None` if none is, or if that is unknown.
    pub(super) fn owed_since(&self, user_id: UserId) -> Option<u64> {
        match self.standing(user_id) {
            Standing::In { since } => Some(since),
            Standing::Never if !self.are_told() => Some(0),
            Standing::Never | Standing::Out { .. } | Standing::Between => None,
        }
    }

    pub(super) fn joining(&mut self, user_id: UserId) {
        let member = self.members.entry(user_id).or_default();
        member.joining += 1;
        member.begin();
    }

    pub(super) fn leaving(&mut self, user_id: UserId) {
        let member = self.members.entry(user_id).or_default();
        member.leaving += 1;
        member.begin();
    }

    pub(super) fn joined(&mut self, user_id: UserId, entry: u64) {
        let member = self.members.entry(user_id).or_default();
        member.joining = member.joining.saturating_sub(1);
        member.end(Standing::In { since: entry });
    }

    pub(super) fn left(&mut self, user_id: UserId, entry: u64) {
        let member = self.members.entry(user_id).or_default();
        member.leaving = member.leaving.saturating_sub(1);
        member.end(Standing::Out { since: entry });
    }

    /// Notes a message that reached a user after the removal, and tells how many different ones did.
    pub(super) fn leak(&mut self, user_id: UserId, message_id: MessageId) -> usize {
        let member = self.members.entry(user_id).or_default();
        member.leaked.insert(message_id);
        member.leaked.len()
    }
}

impl Member {
    fn begin(&mut self) {
        self.standing = Standing::Between;
        self.is_contended |= self.joining > 0 && self.leaving > 0;
    }

    fn end(&mut self, standing: Standing) {
        self.leaked.clear();
        self.standing = if self.is_contended { Standing::Between } else { standing };
        if self.joining == 0 && self.leaving == 0 {
            self.is_contended = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_is_certain_between_an_answer_and_the_next_call() {
        let (mut members, ann) = (Members::default(), UserId::from_bytes([1; 16]));
        assert_eq!((members.are_told(), members.owed_since(ann)), (false, Some(0)));
        members.joining(ann);
        assert_eq!((members.standing(ann), members.owed_since(ann)), (Standing::Between, None));
        members.joined(ann, 2);
        assert_eq!((members.standing(ann), members.owed_since(ann)), (Standing::In { since: 2 }, Some(2)));
        members.leaving(ann);
        assert_eq!(members.standing(ann), Standing::Between);
        members.left(ann, 4);
        assert_eq!((members.standing(ann), members.owed_since(ann)), (Standing::Out { since: 4 }, None));
    }

    #[test]
    fn changes_that_overlap_leave_it_open_until_the_next_one() {
        let (mut members, ann) = (Members::default(), UserId::from_bytes([1; 16]));
        members.joining(ann);
        members.leaving(ann);
        members.left(ann, 3);
        members.joined(ann, 4);
        assert_eq!(members.standing(ann), Standing::Between);
        members.leaving(ann);
        members.left(ann, 6);
        assert_eq!(members.standing(ann), Standing::Out { since: 6 });
    }

    #[test]
    fn a_removal_of_unknown_outcome_is_settled_by_its_retry_and_not_by_a_joining() {
        let (mut members, ann) = (Members::default(), UserId::from_bytes([1; 16]));
        members.leaving(ann);
        members.leaving(ann);
        members.left(ann, 3);
        assert_eq!(members.standing(ann), Standing::Out { since: 3 });
        members.joining(ann);
        members.joined(ann, 5);
        assert_eq!(members.standing(ann), Standing::Between, "the first removal may still come");
    }
}
