use domain::{
    ChatId, Edited, MessageId, MessageState, MessageUpdate, Reaction, ReactionCount, ReactionError, Sequence,
    Timestamp, UpdateAction, UpdateKind, UpdateRefusal, UserId,
};
use ports::SendContent;

use super::ingest::{read_body, to_body};
use super::{Malformed, read_client_message_id, read_id};
use crate::proto::{self, Nothing};

pub(super) fn to_action(target: Sequence, action: &UpdateAction) -> proto::UpdateAction {
    use proto::update_action::Kind;
    let kind = match action {
        UpdateAction::Edit(body) => Kind::Edit(to_body(body)),
        UpdateAction::Delete => Kind::Delete(Nothing {}),
        UpdateAction::React(reaction) => Kind::React(reaction.to_string()),
        UpdateAction::Unreact(reaction) => Kind::Unreact(reaction.to_string()),
    };
    proto::UpdateAction { target: target.0, kind: Some(kind) }
}

pub(super) fn read_action(update: proto::UpdateAction) -> Result<SendContent, Malformed> {
    use proto::update_action::Kind;
    let action = match update.kind {
        Some(Kind::Edit(body)) => UpdateAction::Edit(read_body(body.content, &body.content_type, body.metadata)?),
        Some(Kind::Delete(_)) => UpdateAction::Delete,
        Some(Kind::React(reaction)) => UpdateAction::React(read_reaction(&reaction)?),
        Some(Kind::Unreact(reaction)) => UpdateAction::Unreact(read_reaction(&reaction)?),
        None => return Err(Malformed::Missing { field: "update.kind" }),
    };
    Ok(SendContent::Update { target: Sequence(update.target), action })
}

pub(super) fn to_message_update(update: &MessageUpdate) -> proto::MessageUpdate {
    use proto::message_update::Kind;
    let kind = match &update.kind {
        UpdateKind::Edited => Kind::Edited(Nothing {}),
        UpdateKind::Deleted => Kind::Deleted(Nothing {}),
        UpdateKind::Reacted(reaction) => Kind::Reacted(reaction.to_string()),
        UpdateKind::Unreacted(reaction) => Kind::Unreacted(reaction.to_string()),
    };
    proto::MessageUpdate {
        update_id: update.update_id.to_bytes().into(),
        sequence: update.sequence.0,
        user_id: update.user_id.to_bytes().into(),
        client_message_id: update.client_message_id.to_bytes().into(),
        client_message_id_spelling: update.client_message_id.spelling().to_bits(),
        target: update.target.0,
        kind: Some(kind),
        created_at_ms: update.created_at.as_millis(),
        expires_at_ms: update.expires_at.map(Timestamp::as_millis),
    }
}

pub(super) fn read_message_update(chat_id: ChatId, update: proto::MessageUpdate) -> Result<MessageUpdate, Malformed> {
    use proto::message_update::Kind;
    let kind = match update.kind {
        Some(Kind::Edited(_)) => UpdateKind::Edited,
        Some(Kind::Deleted(_)) => UpdateKind::Deleted,
        Some(Kind::Reacted(reaction)) => UpdateKind::Reacted(read_reaction(&reaction)?),
        Some(Kind::Unreacted(reaction)) => UpdateKind::Unreacted(read_reaction(&reaction)?),
        None => return Err(Malformed::Missing { field: "kind" }),
    };
    Ok(MessageUpdate {
        update_id: read_id("update_id", &update.update_id, MessageId::from_bytes)?,
        chat_id,
        sequence: Sequence(update.sequence),
        user_id: read_id("user_id", &update.user_id, UserId::from_bytes)?,
        client_message_id: read_client_message_id(&update.client_message_id, update.client_message_id_spelling)?,
        target: Sequence(update.target),
        kind,
        created_at: Timestamp::from_millis(update.created_at_ms),
        expires_at: update.expires_at_ms.map(Timestamp::from_millis),
    })
}

/// The state of a message; `None` if it has no updates.
pub(super) fn to_state(state: &MessageState) -> Option<proto::MessageState> {
    let MessageState { revision, edited, reactions } = state;
    let count =
        |known: &ReactionCount| proto::ReactionCount { reaction: known.reaction.to_string(), count: known.count };
    (*state != MessageState::default()).then(|| proto::MessageState {
        revision: revision.0,
        edited_at_ms: edited.map(|edited| edited.at.as_millis()),
        edit_count: edited.map_or(0, |edited| edited.count),
        reactions: reactions.iter().map(count).collect(),
    })
}

pub(super) fn read_state(state: proto::MessageState) -> Result<MessageState, Malformed> {
    let proto::MessageState { revision, edited_at_ms, edit_count, reactions } = state;
    let count = |known: proto::ReactionCount| {
        Ok(ReactionCount { reaction: read_reaction(&known.reaction)?, count: known.count })
    };
    Ok(MessageState {
        revision: Sequence(revision),
        edited: edited_at_ms.map(|at| Edited { at: Timestamp::from_millis(at), count: edit_count }),
        reactions: reactions.into_iter().map(count).collect::<Result<_, Malformed>>()?,
    })
}

pub(super) fn to_refusal(refusal: UpdateRefusal) -> proto::UpdateRefusal {
    use proto::update_refusal::Kind;
    let kind = match refusal {
        UpdateRefusal::MessageNotFound => Kind::MessageNotFound(Nothing {}),
        UpdateRefusal::NotTheAuthor => Kind::NotTheAuthor(Nothing {}),
        UpdateRefusal::MayNotDelete => Kind::MayNotDelete(Nothing {}),
        UpdateRefusal::TooOld(seconds) => Kind::TooOldSeconds(seconds),
        UpdateRefusal::AlreadyReacted => Kind::AlreadyReacted(Nothing {}),
        UpdateRefusal::NotReacted => Kind::NotReacted(Nothing {}),
        UpdateRefusal::TooManyKinds => Kind::TooManyKinds(Nothing {}),
        UpdateRefusal::TooManyReactions => Kind::TooManyReactions(Nothing {}),
    };
    proto::UpdateRefusal { kind: Some(kind) }
}

pub(super) fn read_refusal(refusal: proto::UpdateRefusal) -> Result<UpdateRefusal, Malformed> {
    use proto::update_refusal::Kind;
    Ok(match refusal.kind {
        Some(Kind::MessageNotFound(_)) => UpdateRefusal::MessageNotFound,
        Some(Kind::NotTheAuthor(_)) => UpdateRefusal::NotTheAuthor,
        Some(Kind::MayNotDelete(_)) => UpdateRefusal::MayNotDelete,
        Some(Kind::TooOldSeconds(seconds)) => UpdateRefusal::TooOld(seconds),
        Some(Kind::AlreadyReacted(_)) => UpdateRefusal::AlreadyReacted,
        Some(Kind::NotReacted(_)) => UpdateRefusal::NotReacted,
        Some(Kind::TooManyKinds(_)) => UpdateRefusal::TooManyKinds,
        Some(Kind::TooManyReactions(_)) => UpdateRefusal::TooManyReactions,
        None => return Err(Malformed::Missing { field: "update.kind" }),
    })
}

fn read_reaction(text: &str) -> Result<Reaction, Malformed> {
    text.parse().map_err(|error: ReactionError| Malformed::value("reaction", error))
}
