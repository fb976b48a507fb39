//! A client's copies of messages that are updated: which of two is newer, the copy after an update, and the copy as it
//! will be after the user's own queued updates.

use std::borrow::Cow;

use domain::{Body, Reaction, Timestamp, UpdateAction, UserId};

use crate::frame::{MessageBody, MessageUpdated, ReactionBody, StateBody, UpdateBody, UpdateMessage, UpdateName};

/// Of two copies of a message, the one in the later state: so copies from pushes, syncs and history converge in any
/// order. Only history says which reactions are the reader's own, so that is kept from the other copy.
#[must_use]
pub fn newer(known: Option<&MessageBody<'static>>, received: MessageBody<'static>) -> MessageBody<'static> {
    let Some(known) = known else { return received };
    let (mut later, earlier) =
        if received.revision() >= known.revision() { (received, known) } else { (known.clone(), &received) };
    for one in reactions_mut(&mut later) {
        if one.mine.is_none() {
            // A reaction that nobody had is not the reader's, until an update says so.
            one.mine = reaction_of(earlier, &one.reaction).map_or(Some(false), |before| before.mine);
        }
    }
    later
}

/// The message after an [`Updated`](super::ClientEvent::Updated) event, from the copy that the application of the user
/// `me` holds; `None` if the message was deleted or has expired. Updates have to be applied in the order of their events.
#[must_use]
pub fn with_updated(
    known: Option<&MessageBody<'static>>,
    updated: &MessageUpdated<'static>,
    me: UserId,
) -> Option<MessageBody<'static>> {
    let UpdateBody { user_id, kind, reaction, .. } = &updated.update;
    let mut message = newer(known, updated.message.clone()?);
    let is_reaction = matches!(kind, UpdateName::Reacted | UpdateName::Unreacted);
    if is_reaction && *user_id == me {
        for one in reactions_mut(&mut message).iter_mut().filter(|one| Some(&one.reaction) == reaction.as_ref()) {
            one.mine = Some(*kind == UpdateName::Reacted);
        }
    }
    Some(message)
}

/// The message as it will be after those of the user's queued `updates` that are about it, oldest first; `None` if one
/// deletes it. A queued edit is shown as made at `queued_at`.
///
/// The copy itself stays as it is. An application keeps an update in its queue until the update is an event or is
/// refused, so a refused update is undone by its removal from the queue. A reaction that the copy contains already is not
/// counted again.
#[must_use]
pub fn with_queued<'u>(
    message: &MessageBody<'static>,
    updates: impl IntoIterator<Item = &'u UpdateMessage>,
    queued_at: Timestamp,
) -> Option<MessageBody<'static>> {
    let mut shown = message.clone();
    let of_message = |update: &&UpdateMessage| (update.chat_id, update.target) == (message.chat_id, message.sequence);
    for update in updates.into_iter().filter(of_message) {
        match &update.action {
            UpdateAction::Edit(body) => edit(&mut shown, body, queued_at),
            UpdateAction::Delete => return None,
            UpdateAction::React(reaction) => react(&mut shown, reaction),
            UpdateAction::Unreact(reaction) => unreact(&mut shown, reaction),
        }
    }
    Some(shown)
}

fn edit(message: &mut MessageBody<'static>, body: &Body, queued_at: Timestamp) {
    message.content = Cow::Owned(body.content.as_str().to_owned());
    message.content_type = body.content_type;
    message.metadata = body.metadata.clone().map(Cow::Owned);
    let state = state_mut(message);
    state.edited_at = Some(queued_at);
    state.edit_count = Some(state.edit_count.unwrap_or(0).saturating_add(1));
}

fn react(message: &mut MessageBody<'static>, reaction: &Reaction) {
    let reactions = &mut state_mut(message).reactions;
    match reactions.iter_mut().find(|one| one.reaction == *reaction) {
        Some(one) if one.mine == Some(true) => {}
        Some(one) => (one.count, one.mine) = (one.count.saturating_add(1), Some(true)),
        None => reactions.push(ReactionBody { reaction: reaction.clone(), count: 1, mine: Some(true) }),
    }
}

fn unreact(message: &mut MessageBody<'static>, reaction: &Reaction) {
    let Some(state) = &mut message.state else { return };
    for one in state.reactions.iter_mut().filter(|one| one.reaction == *reaction && one.mine == Some(true)) {
        (one.count, one.mine) = (one.count.saturating_sub(1), Some(false));
    }
    state.reactions.retain(|one| one.count > 0);
}

fn state_mut<'m>(message: &'m mut MessageBody<'static>) -> &'m mut StateBody {
    let none = StateBody { revision: message.revision(), edited_at: None, edit_count: None, reactions: vec![] };
    message.state.get_or_insert(none)
}

fn reactions_mut<'m>(message: &'m mut MessageBody<'static>) -> &'m mut [ReactionBody] {
    message.state.as_mut().map(|state| state.reactions.as_mut_slice()).unwrap_or_default()
}

fn reaction_of<'m>(message: &'m MessageBody<'_>, reaction: &Reaction) -> Option<&'m ReactionBody> {
    message.state.as_ref()?.reactions.iter().find(|one| one.reaction == *reaction)
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, ClientMessageId, ContentType, MessageId, Sequence};

    use super::*;

    fn me() -> UserId {
        UserId::from_bytes([1; 16])
    }

    fn other() -> UserId {
        UserId::from_bytes([2; 16])
    }

    fn message() -> MessageBody<'static> {
        MessageBody {
            message_id: MessageId::from_bytes([3; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            sequence: Sequence(1),
            sender_id: me(),
            content: "first".into(),
            content_type: ContentType::Text,
            metadata: None,
            created_at: Timestamp::default(),
            expires_at: None,
            client_message_id: None,
            state: None,
        }
    }

    /// The message at a revision, with these reactions.
    fn reacted_to(revision: u64, reactions: &[(&str, u32, Option<bool>)]) -> MessageBody<'static> {
        let body = |(reaction, count, mine): &(&str, u32, Option<bool>)| ReactionBody {
            reaction: reaction.parse().unwrap(),
            count: *count,
            mine: *mine,
        };
        let reactions = reactions.iter().map(body).collect();
        let state = StateBody { revision: Sequence(revision), edited_at: None, edit_count: None, reactions };
        MessageBody { state: Some(state), ..message() }
    }

    fn edited(revision: u64, content: &'static str) -> MessageBody<'static> {
        MessageBody { content: content.into(), ..reacted_to(revision, &[]) }
    }

    /// An update, with the message in its new state.
    fn updated(
        kind: UpdateName,
        reaction: Option<&str>,
        user_id: UserId,
        message: Option<MessageBody<'static>>,
    ) -> MessageUpdated<'static> {
        let update = UpdateBody {
            chat_id: ChatId::from_bytes([4; 16]),
            sequence: message.as_ref().map_or(Sequence(9), MessageBody::revision),
            target_sequence: Sequence(1),
            user_id,
            kind,
            reaction: reaction.map(|reaction| reaction.parse().unwrap()),
            created_at: Timestamp::default(),
            client_message_id: None,
        };
        MessageUpdated { update, message }
    }

    fn queued(action: UpdateAction) -> UpdateMessage {
        UpdateMessage {
            client_message_id: ClientMessageId::from_bytes([5; 16]),
            chat_id: ChatId::from_bytes([4; 16]),
            target: Sequence(1),
            action,
        }
    }

    fn text(text: &str) -> Body {
        Body::new(text.to_owned().try_into().unwrap(), ContentType::Text)
    }

    /// The reactions: with `*` those of the reader, with `?` those of which that is unknown.
    fn reactions(shown: &MessageBody<'_>) -> Vec<String> {
        let mark = |mine| match mine {
            None => "?",
            Some(true) => "*",
            Some(false) => "",
        };
        let all = shown.state.iter().flat_map(|state| &state.reactions);
        all.map(|one| format!("{}{}{}", one.reaction, one.count, mark(one.mine))).collect()
    }

    #[track_caller]
    fn check_queued(message: &MessageBody<'static>, actions: &[&UpdateAction], expected: &[&str]) {
        let updates: Vec<UpdateMessage> = actions.iter().map(|action| queued((*action).clone())).collect();
        let shown = with_queued(message, &updates, Timestamp::default()).unwrap();
        assert_eq!(reactions(&shown), expected, "{actions:?}");
    }

    #[test]
    fn the_copy_with_the_higher_revision_stays_in_either_order() {
        let (first, second) = (message(), edited(5, "second"));
        assert_eq!(newer(Some(&first), second.clone()).content, "second");
        assert_eq!(newer(Some(&second), first.clone()).content, "second");
        assert_eq!(newer(None, first.clone()), first);
    }

    #[test]
    fn a_push_keeps_the_own_reactions_that_history_has_told() {
        let known = reacted_to(4, &[("👍", 2, Some(true))]);
        let pushed = reacted_to(5, &[("👍", 3, None), ("🎉", 1, None)]);
        assert_eq!(reactions(&newer(Some(&known), pushed.clone())), ["👍3*", "🎉1"], "nobody had the second one");
        assert_eq!(reactions(&newer(Some(&pushed), known)), ["👍3*", "🎉1"]);
        assert_eq!(reactions(&newer(None, pushed)), ["👍3?", "🎉1?"]);
    }

    #[test]
    fn updates_name_the_user_so_own_reactions_are_known_without_history() {
        use UpdateName::{Reacted, Unreacted};
        let mut held = message();
        for (kind, user_id, count, expected) in [
            (Reacted, me(), 1, "👍1*"),
            (Reacted, other(), 2, "👍2*"),
            (Unreacted, other(), 1, "👍1*"),
            (Reacted, other(), 2, "👍2*"),
            (Unreacted, me(), 1, "👍1"),
        ] {
            let after = reacted_to(held.revision().0 + 1, &[("👍", count, None)]);
            held = with_updated(Some(&held), &updated(kind, Some("👍"), user_id, Some(after)), me()).unwrap();
            assert_eq!(reactions(&held), [expected]);
        }
    }

    #[test]
    fn an_update_brings_a_message_that_is_not_held_and_does_not_undo_a_later_state() {
        let edit = updated(UpdateName::Edited, None, other(), Some(edited(5, "second")));
        assert_eq!(with_updated(None, &edit, me()).unwrap().content, "second");
        assert_eq!(with_updated(Some(&edited(9, "third")), &edit, me()).unwrap().content, "third");
        assert_eq!(with_updated(Some(&message()), &updated(UpdateName::Deleted, None, other(), None), me()), None);
        assert_eq!(with_updated(Some(&message()), &updated(UpdateName::Edited, None, other(), None), me()), None);
    }

    #[test]
    fn a_queued_edit_replaces_content_type_and_metadata() {
        let metadata = || Some(Cow::Owned(r#"{"a":1}"#.to_owned().try_into().unwrap()));
        let known = MessageBody { content_type: ContentType::Markdown, metadata: metadata(), ..edited(7, "first") };
        let at = Timestamp::from_millis(5);
        let edits = ["second", "third"].map(|content| queued(UpdateAction::Edit(text(content))));
        let shown = with_queued(&known, &edits, at).unwrap();
        assert_eq!((&*shown.content, shown.content_type, shown.metadata), ("third", ContentType::Text, None));
        let state = shown.state.unwrap();
        assert_eq!((state.revision, state.edited_at, state.edit_count), (Sequence(7), Some(at), Some(2)));
        assert_eq!(with_queued(&known, &[], at), Some(known), "a refused edit is no longer queued, and undone");
    }

    #[test]
    fn a_queued_deletion_hides_its_message_alone() {
        let deletion = queued(UpdateAction::Delete);
        let of_other = UpdateMessage { target: Sequence(2), ..deletion.clone() };
        let elsewhere = UpdateMessage { chat_id: ChatId::from_bytes([9; 16]), ..deletion.clone() };
        let shown = |updates: &[UpdateMessage]| with_queued(&message(), updates, Timestamp::default());
        assert_eq!(shown(&[deletion, queued(UpdateAction::Edit(text("late")))]), None);
        assert_eq!(shown(&[of_other, elsewhere]), Some(message()));
    }

    #[test]
    fn queued_reactions_count_once() {
        let thumb = || "👍".parse().unwrap();
        let (react, unreact) = (UpdateAction::React(thumb()), UpdateAction::Unreact(thumb()));
        check_queued(&message(), &[&react], &["👍1*"]);
        check_queued(&message(), &[&react, &unreact], &[]);
        check_queued(&message(), &[&unreact], &[]);
        let of_other = reacted_to(3, &[("👍", 1, Some(false))]);
        check_queued(&of_other, &[&react], &["👍2*"]);
        check_queued(&of_other, &[&unreact], &["👍1"]);
        let contained = reacted_to(4, &[("👍", 2, Some(true))]);
        check_queued(&contained, &[&react], &["👍2*"]);
        check_queued(&contained, &[&unreact], &["👍1"]);
    }
}
