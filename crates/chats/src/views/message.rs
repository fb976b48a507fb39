use std::collections::HashMap;

use domain::limits::DIRECT_MEMBERS_MAX;
use domain::{ChatId, DeliveryState, Member, Message, Reaction, Sequence, UserId, Watermarks};
use ports::MessageKey;
use protocol::frame::MessageBody;
use protocol::rest::{self, MessageStatus};

use crate::Api;
use crate::http::RestError;

/// Messages of one chat as one of its members sees them.
pub(crate) async fn message_bodies<'a>(
    api: &Api,
    chat_id: ChatId,
    reader: UserId,
    messages: &'a [Message],
) -> Result<Vec<rest::Message<'a>>, RestError> {
    let any_own = messages.iter().any(|message| message.sender_id == reader);
    let reached =
        async { if any_own { reached_by_all_others(api, chat_id, reader).await } else { Ok(Watermarks::default()) } };
    let (reached, reactions) = tokio::try_join!(reached, reactions_of(api, reader, messages))?;
    let body = |message: &'a Message| rest::Message {
        message: with_own(MessageBody::new(message, Some(reader)), reactions.get(&message.sequence)),
        status: (message.sender_id == reader).then(|| status(message.sequence, reached)),
    };
    Ok(messages.iter().map(body).collect())
}

/// The reactions of a member on those of these messages that have reactions, by sequence.
async fn reactions_of(
    api: &Api,
    reader: UserId,
    messages: &[Message],
) -> Result<HashMap<Sequence, Vec<Reaction>>, RestError> {
    let reacted = messages.iter().filter(|message| !message.state.reactions.is_empty());
    let keys: Vec<_> = reacted.map(MessageKey::from).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let own = api.messages.own_reactions(&keys, reader).await?;
    Ok(keys.iter().map(|key| key.sequence).zip(own).collect())
}

/// The message with `mine` at its reactions.
fn with_own<'a>(mut body: MessageBody<'a>, own: Option<&Vec<Reaction>>) -> MessageBody<'a> {
    if let Some(own) = own {
        body.state = body.state.map(|state| state.with_own(own));
    }
    body
}

/// The watermarks that every other current member has reached; zero if there are no others, or if they are hidden.
async fn reached_by_all_others(api: &Api, chat_id: ChatId, reader: UserId) -> Result<Watermarks, RestError> {
    let members = api.chats.members(chat_id).await?;
    let visible = visible_delivery_states(api, chat_id, reader, &members).await?;
    let others = visible.into_iter().filter(|(user_id, _)| *user_id != reader).map(|(_, state)| state.watermarks);
    let lowest =
        |a: Watermarks, b: Watermarks| Watermarks { delivered: a.delivered.min(b.delivered), read: a.read.min(b.read) };
    Ok(others.reduce(lowest).unwrap_or_default())
}

/// The watermarks of the members of a chat that `reader` may see. In a direct chat with a block these are only the
/// reader's own, as for pushed receipts.
pub(crate) async fn visible_delivery_states(
    api: &Api,
    chat_id: ChatId,
    reader: UserId,
    members: &[Member],
) -> Result<Vec<(UserId, DeliveryState)>, RestError> {
    let asked: Vec<_> = members.iter().map(|member| (member.user_id, chat_id)).collect();
    let states = api.watermarks.delivery_states(&asked).await?;
    // Blocks are read after the watermarks, so that a block during which a watermark moved is seen.
    let may_be_direct = members.len() <= DIRECT_MEMBERS_MAX;
    let is_blocked = may_be_direct && api.chats.blocked_chats(&[(chat_id, reader)]).await?.contains(&true);
    let all = members.iter().map(|member| member.user_id).zip(states);
    Ok(all.filter(|(user_id, _)| !is_blocked || *user_id == reader).collect())
}

fn status(sequence: Sequence, reached: Watermarks) -> MessageStatus {
    if sequence <= reached.read {
        MessageStatus::Read
    } else if sequence <= reached.delivered {
        MessageStatus::Delivered
    } else {
        MessageStatus::Sent
    }
}
