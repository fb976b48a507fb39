use std::time::Duration;

use crate::limits::{REACTION_FIELDS_BYTES, REACTION_KINDS_MAX, REACTIONS_PER_USER_MAX, STATE_FIELDS_BYTES};
use crate::message::escaped_size;
use crate::{Body, ChatId, ClientMessageId, Message, MessageId, Reaction, Role, Sequence, Timestamp, UserId};

/// An action of a member on a message that is already committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateAction {
    /// Replaces the body.
    Edit(Body),
    /// Deletes the message for everyone.
    Delete,
    /// Adds a reaction of the member.
    React(Reaction),
    /// Removes a reaction of the member.
    Unreact(Reaction),
}

impl UpdateAction {
    /// What the entry of the chat says about the action. The new body of an edit is in the message alone.
    pub fn kind(&self) -> UpdateKind {
        match self {
            Self::Edit(_) => UpdateKind::Edited,
            Self::Delete => UpdateKind::Deleted,
            Self::React(reaction) => UpdateKind::Reacted(reaction.clone()),
            Self::Unreact(reaction) => UpdateKind::Unreacted(reaction.clone()),
        }
    }

    /// Whether the message has another content afterwards, or none.
    pub fn replaces_content(&self) -> bool {
        match self {
            Self::Edit(_) | Self::Delete => true,
            Self::React(_) | Self::Unreact(_) => false,
        }
    }

    /// The kibibytes that the action counts as, as [`Body::stored_kib`] for a message.
    pub fn stored_kib(&self) -> u32 {
        match self {
            Self::Edit(body) => body.stored_kib(),
            Self::Delete | Self::React(_) | Self::Unreact(_) => 1,
        }
    }
}

/// What an update did to its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    Edited,
    Deleted,
    Reacted(Reaction),
    Unreacted(Reaction),
}

impl UpdateKind {
    /// The name on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Deleted => "deleted",
            Self::Reacted(_) => "reacted",
            Self::Unreacted(_) => "unreacted",
        }
    }

    /// The reaction that was added or removed.
    pub fn reaction(&self) -> Option<&Reaction> {
        match self {
            Self::Reacted(reaction) | Self::Unreacted(reaction) => Some(reaction),
            Self::Edited | Self::Deleted => None,
        }
    }

    /// The kind with this name and this reaction; `None` if they do not fit.
    pub fn from_parts(name: &str, reaction: Option<Reaction>) -> Option<Self> {
        match (name, reaction) {
            ("edited", None) => Some(Self::Edited),
            ("deleted", None) => Some(Self::Deleted),
            ("reacted", Some(reaction)) => Some(Self::Reacted(reaction)),
            ("unreacted", Some(reaction)) => Some(Self::Unreacted(reaction)),
            _ => None,
        }
    }
}

/// A committed update of a message: an entry of the chat's one sequence, beside its messages.
///
/// It says which message changed and how. The content is in the row of the message alone, so that a deletion erases it
/// everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageUpdate {
    /// From the same space as the ids of messages.
    pub update_id: MessageId,
    pub chat_id: ChatId,
    pub sequence: Sequence,
    pub user_id: UserId,
    pub client_message_id: ClientMessageId,
    /// The sequence of the message.
    pub target: Sequence,
    pub kind: UpdateKind,
    pub created_at: Timestamp,
    /// Fixed at the commit: an earlier expiry of the message, or its deletion, does not change it.
    pub expires_at: Option<Timestamp>,
}

impl MessageUpdate {
    /// Whether the update has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The part of a message that updates change, besides its body and its expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageState {
    /// The sequence of the last update; 0 if there is none. Of two copies of a message, the one with the higher
    /// revision is newer.
    pub revision: Sequence,
    pub edited: Option<Edited>,
    /// The reactions, in the order of their first use.
    pub reactions: Vec<ReactionCount>,
}

impl MessageState {
    /// The number of bytes that the state has as JSON at most, in a frame or an answer.
    pub(crate) fn json_size(&self) -> usize {
        if self.revision == Sequence::ZERO {
            return 0;
        }
        let size = |known: &ReactionCount| REACTION_FIELDS_BYTES + escaped_size(known.reaction.as_str());
        STATE_FIELDS_BYTES + self.reactions.iter().map(size).sum::<usize>()
    }
}

/// The edits of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The time of the last edit.
    pub at: Timestamp,
    /// The number of edits.
    pub count: u32,
}

/// A reaction, and the number of members that have it on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionCount {
    pub reaction: Reaction,
    pub count: u32,
}

/// The author of an update, and the circumstances of its commit.
#[derive(Clone, Copy, Debug)]
pub struct Updater {
    pub user_id: UserId,
    /// The role in the chat at the time of the commit.
    pub role: Role,
    /// The age up to which authors edit and delete their messages; unlimited if absent.
    pub window: Option<Duration>,
    /// The sequence of the update.
    pub sequence: Sequence,
    pub now: Timestamp,
}

/// Why an update was refused. It has changed nothing and used no sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateRefusal {
    /// No message has the sequence, or it has expired or was deleted.
    #[error("no such message: it has expired, was deleted, or its sequence is not one of a message")]
    MessageNotFound,
    #[error("only its author edits a message")]
    NotTheAuthor,
    #[error("only its author and the admins of a group delete a message")]
    MayNotDelete,
    /// The author may no longer do it.
    #[error("the message is older than {0} seconds, the limit for this change")]
    TooOld(u64),
    #[error("you have this reaction on the message already")]
    AlreadyReacted,
    #[error("you do not have this reaction on the message")]
    NotReacted,
    #[error("the message has {REACTION_KINDS_MAX} kinds of reactions, which is the limit")]
    TooManyKinds,
    #[error("you have {REACTIONS_PER_USER_MAX} reactions on the message, which is the limit")]
    TooManyReactions,
}

/// Applies an action to a message, and to the reactions that its author has on the message. On a refusal the caller
/// discards both.
///
/// Every store decides updates by this function, inside of the commit.
pub fn apply_update(
    message: &mut Message,
    own: &mut Vec<Reaction>,
    action: UpdateAction,
    updater: Updater,
) -> Result<(), UpdateRefusal> {
    let Updater { user_id, role, window, sequence, now } = updater;
    if message.is_expired(now) {
        return Err(UpdateRefusal::MessageNotFound);
    }
    let is_author = message.sender_id == user_id;
    let in_window = || match window {
        Some(window) if now.since(message.created_at) > window => Err(UpdateRefusal::TooOld(window.as_secs())),
        _ => Ok(()),
    };
    match action {
        UpdateAction::Edit(_) if !is_author => return Err(UpdateRefusal::NotTheAuthor),
        UpdateAction::Edit(body) => {
            in_window()?;
            message.body = body;
            let count = message.state.edited.map_or(0, |edited| edited.count).saturating_add(1);
            message.state.edited = Some(Edited { at: now, count });
        }
        UpdateAction::Delete => {
            match role {
                Role::Owner | Role::Admin => {}
                Role::Member if is_author => in_window()?,
                Role::Member => return Err(UpdateRefusal::MayNotDelete),
            }
            message.expires_at = Some(now);
        }
        UpdateAction::React(reaction) => react(message, own, reaction)?,
        UpdateAction::Unreact(reaction) => {
            let before = own.len();
            own.retain(|known| *known != reaction);
            if own.len() == before {
                return Err(UpdateRefusal::NotReacted);
            }
            for known in message.state.reactions.iter_mut().filter(|known| known.reaction == reaction) {
                known.count = known.count.saturating_sub(1);
            }
            message.state.reactions.retain(|known| known.count > 0);
        }
    }
    message.state.revision = sequence;
    Ok(())
}

fn react(message: &mut Message, own: &mut Vec<Reaction>, reaction: Reaction) -> Result<(), UpdateRefusal> {
    if own.contains(&reaction) {
        return Err(UpdateRefusal::AlreadyReacted);
    }
    if own.len() >= REACTIONS_PER_USER_MAX {
        return Err(UpdateRefusal::TooManyReactions);
    }
    let reactions = &mut message.state.reactions;
    let kinds = reactions.len();
    match reactions.iter_mut().find(|known| known.reaction == reaction) {
        Some(known) => known.count = known.count.saturating_add(1),
        None if kinds >= REACTION_KINDS_MAX => return Err(UpdateRefusal::TooManyKinds),
        None => reactions.push(ReactionCount { reaction: reaction.clone(), count: 1 }),
    }
    own.push(reaction);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContentType;

    const AUTHOR: u8 = 1;
    const OTHER: u8 = 2;

    fn text(text: &str) -> Body {
        Body::new(text.to_owned().try_into().unwrap(), ContentType::Text)
    }

    fn message() -> Message {
        Message {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(3),
            sender_id: UserId::from_bytes([AUTHOR; 16]),
            client_message_id: ClientMessageId::from_bytes([4; 16]),
            body: text("first"),
            created_at: Timestamp::from_millis(1_000),
            expires_at: None,
            state: MessageState::default(),
        }
    }

    fn updater(user: u8, role: Role, at: u64) -> Updater {
        Updater {
            user_id: UserId::from_bytes([user; 16]),
            role,
            window: Some(Duration::from_secs(60)),
            sequence: Sequence(9),
            now: Timestamp::from_millis(at),
        }
    }

    #[track_caller]
    fn check(action: UpdateAction, updater: Updater, expected: Result<(), UpdateRefusal>) -> Message {
        let mut message = message();
        assert_eq!(apply_update(&mut message, &mut vec![], action, updater), expected);
        message
    }

    #[test]
    fn an_edit_replaces_the_body_and_counts() {
        let edited = check(UpdateAction::Edit(text("second")), updater(AUTHOR, Role::Member, 61_000), Ok(()));
        assert_eq!(edited.body, text("second"));
        assert_eq!(edited.state.edited, Some(Edited { at: Timestamp::from_millis(61_000), count: 1 }));
        assert_eq!(edited.state.revision, Sequence(9));
    }

    #[test]
    fn only_the_author_edits_and_only_in_the_window() {
        let edit = || UpdateAction::Edit(text("second"));
        check(edit(), updater(OTHER, Role::Owner, 2_000), Err(UpdateRefusal::NotTheAuthor));
        check(edit(), updater(AUTHOR, Role::Member, 61_001), Err(UpdateRefusal::TooOld(60)));
        let unlimited = Updater { window: None, ..updater(AUTHOR, Role::Member, 1_000_000_000) };
        check(edit(), unlimited, Ok(()));
    }

    #[test]
    fn the_author_deletes_in_the_window_and_an_admin_at_any_time() {
        check(UpdateAction::Delete, updater(AUTHOR, Role::Member, 61_001), Err(UpdateRefusal::TooOld(60)));
        check(UpdateAction::Delete, updater(OTHER, Role::Member, 2_000), Err(UpdateRefusal::MayNotDelete));
        for (user, role, at) in
            [(AUTHOR, Role::Member, 2_000), (OTHER, Role::Admin, 1_000_000), (AUTHOR, Role::Owner, 1_000_000)]
        {
            let deleted = check(UpdateAction::Delete, updater(user, role, at), Ok(()));
            assert!(deleted.is_expired(Timestamp::from_millis(at)));
        }
    }

    #[test]
    fn an_expired_message_is_not_found() {
        let mut gone = message();
        gone.expires_at = Some(Timestamp::from_millis(2_000));
        let outcome = apply_update(&mut gone, &mut vec![], UpdateAction::Delete, updater(AUTHOR, Role::Member, 2_000));
        assert_eq!(outcome, Err(UpdateRefusal::MessageNotFound));
    }

    #[test]
    fn reactions_are_counted_once_per_member() {
        let (thumb, heart): (Reaction, Reaction) = ("👍".parse().unwrap(), "❤️".parse().unwrap());
        let mut message = message();
        let (mut of_one, mut of_other) = (vec![], vec![]);
        let by = updater(OTHER, Role::Member, 2_000);
        let mut act = |own: &mut Vec<Reaction>, action| apply_update(&mut message, own, action, by);
        act(&mut of_one, UpdateAction::React(thumb.clone())).unwrap();
        act(&mut of_other, UpdateAction::React(thumb.clone())).unwrap();
        act(&mut of_other, UpdateAction::React(heart.clone())).unwrap();
        assert_eq!(act(&mut of_one, UpdateAction::React(thumb.clone())), Err(UpdateRefusal::AlreadyReacted));
        assert_eq!(act(&mut of_one, UpdateAction::Unreact(heart.clone())), Err(UpdateRefusal::NotReacted));
        act(&mut of_one, UpdateAction::Unreact(thumb.clone())).unwrap();
        let expected = [thumb, heart].map(|reaction| ReactionCount { reaction, count: 1 });
        assert_eq!(message.state.reactions, expected);
        assert_eq!((of_one.len(), of_other.len()), (0, 2));
    }

    #[test]
    fn kinds_of_reactions_and_reactions_of_a_member_are_bounded() {
        let reaction = |n: usize| UpdateAction::React(format!("r{n}").parse().unwrap());
        let by = updater(OTHER, Role::Member, 2_000);
        let mut message = message();
        let mut own = vec![];
        for n in 0..REACTIONS_PER_USER_MAX {
            apply_update(&mut message, &mut own, reaction(n), by).unwrap();
        }
        let too_many = apply_update(&mut message, &mut own, reaction(99), by);
        assert_eq!(too_many, Err(UpdateRefusal::TooManyReactions));
        for n in REACTIONS_PER_USER_MAX..REACTION_KINDS_MAX {
            apply_update(&mut message, &mut vec![], reaction(n), by).unwrap();
        }
        assert_eq!(apply_update(&mut message, &mut vec![], reaction(99), by), Err(UpdateRefusal::TooManyKinds));
        assert_eq!(apply_update(&mut message, &mut vec![], reaction(0), by), Ok(()));
    }

    #[test]
    fn kinds_have_the_names_of_the_wire() {
        let thumb: Reaction = "👍".parse().unwrap();
        for kind in [
            UpdateKind::Edited,
            UpdateKind::Deleted,
            UpdateKind::Reacted(thumb.clone()),
            UpdateKind::Unreacted(thumb.clone()),
        ] {
            assert_eq!(UpdateKind::from_parts(kind.as_str(), kind.reaction().cloned()), Some(kind));
        }
        assert_eq!(UpdateKind::from_parts("edited", Some(thumb)), None);
        assert_eq!(UpdateKind::from_parts("reacted", None), None);
    }
}
