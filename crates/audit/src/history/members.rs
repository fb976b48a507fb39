use std::collections::{BTreeMap, BTreeSet};

use domain::{MessageId, UserId};

/// Members of a chat, as known from calls and their responses.
#[derive(Debug, Default)]
pub(super) struct Members {
    members: BTreeMap<UserId, MemberHistory>,
}

/// The certain membership state of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MembershipState {
    /// Never a member. Without membership changes in the history, all users of the chat have this state.
    #[default]
    Never,
    /// A member since the response in this entry.
    In { since: u64 },
    /// Not a member since the response in this entry.
    Out { since: u64 },
    /// A change is in progress, has an unknown outcome, or overlapped with another.
    Between,
}

#[derive(Debug, Default)]
struct MemberHistory {
    standing: MembershipState,
    joining: u32,
    leaving: u32,
    /// Whether adding and removing overlapped, so that their responses do not show which came last.
    is_contended: bool,
    /// Messages that reached the user although they were sent after the last removal.
    leaked: BTreeSet<MessageId>,
}

impl Members {
    /// Whether the history contains memberships of this chat.
    pub(super) fn are_told(&self) -> bool {
        !self.members.is_empty()
    }

    pub(super) fn standing(&self, user_id: UserId) -> MembershipState {
        self.members.get(&user_id).map_or(MembershipState::Never, |member| member.standing)
    }

    /// The entry after which sends must reach a user; `None` if no send must, or if it is unknown.
    pub(super) fn owed_since(&self, user_id: UserId) -> Option<u64> {
        match self.standing(user_id) {
            MembershipState::In { since } => Some(since),
            MembershipState::Never if !self.are_told() => Some(0),
            MembershipState::Never | MembershipState::Out { .. } | MembershipState::Between => None,
        }
    }

    /// Whether the chat may have no members once this one leaves.
    pub(super) fn may_be_last(&self, user_id: UserId) -> bool {
        let mut others = self.members.iter().filter(|(other, _)| **other != user_id);
        !others.any(|(_, other)| matches!(other.standing, MembershipState::In { .. }))
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
        member.end(MembershipState::In { since: entry });
    }

    pub(super) fn left(&mut self, user_id: UserId, entry: u64) {
        let member = self.members.entry(user_id).or_default();
        member.leaving = member.leaving.saturating_sub(1);
        member.end(MembershipState::Out { since: entry });
    }

    /// Records a message that reached a user after the removal. Returns the number of distinct ones.
    pub(super) fn leak(&mut self, user_id: UserId, message_id: MessageId) -> usize {
        let member = self.members.entry(user_id).or_default();
        member.leaked.insert(message_id);
        member.leaked.len()
    }
}

impl MemberHistory {
    fn begin(&mut self) {
        self.standing = MembershipState::Between;
        self.is_contended |= self.joining > 0 && self.leaving > 0;
    }

    fn end(&mut self, standing: MembershipState) {
        self.leaked.clear();
        self.standing = if self.is_contended { MembershipState::Between } else { standing };
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
        assert_eq!((members.standing(ann), members.owed_since(ann)), (MembershipState::Between, None));
        members.joined(ann, 2);
        assert_eq!((members.standing(ann), members.owed_since(ann)), (MembershipState::In { since: 2 }, Some(2)));
        members.leaving(ann);
        assert_eq!(members.standing(ann), MembershipState::Between);
        members.left(ann, 4);
        assert_eq!((members.standing(ann), members.owed_since(ann)), (MembershipState::Out { since: 4 }, None));
    }

    #[test]
    fn a_member_may_be_the_last_unless_another_one_certainly_stays() {
        let (mut members, [ann, bob]) = (Members::default(), [1, 2].map(|n| UserId::from_bytes([n; 16])));
        members.joining(ann);
        members.joined(ann, 2);
        assert!(members.may_be_last(ann));
        members.joining(bob);
        assert!(members.may_be_last(ann), "bob may never join");
        members.joined(bob, 4);
        assert!(!members.may_be_last(ann));
        members.leaving(bob);
        assert!(members.may_be_last(ann), "bob may have left already");
    }

    #[test]
    fn changes_that_overlap_leave_it_open_until_the_next_one() {
        let (mut members, ann) = (Members::default(), UserId::from_bytes([1; 16]));
        members.joining(ann);
        members.leaving(ann);
        members.left(ann, 3);
        members.joined(ann, 4);
        assert_eq!(members.standing(ann), MembershipState::Between);
        members.leaving(ann);
        members.left(ann, 6);
        assert_eq!(members.standing(ann), MembershipState::Out { since: 6 });
    }

    #[test]
    fn a_removal_of_unknown_outcome_is_settled_by_its_retry_and_not_by_a_joining() {
        let (mut members, ann) = (Members::default(), UserId::from_bytes([1; 16]));
        members.leaving(ann);
        members.leaving(ann);
        members.left(ann, 3);
        assert_eq!(members.standing(ann), MembershipState::Out { since: 3 });
        members.joining(ann);
        members.joined(ann, 5);
        assert_eq!(members.standing(ann), MembershipState::Between, "the first removal may still take effect");
    }
}
