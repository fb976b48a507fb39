use domain::{ChatId, Message, Sequence, UserId, Watermarks};
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
    let reached = if any_own { reached_by_all_others(api, chat_id, reader).await? } else { Watermarks::default() };
    let body = |message: &'a Message| rest::Message {
        message: MessageBody::new(message, Some(reader)),
        status: (message.sender_id == reader).then(|| status(message.sequence, reached)),
    };
    Ok(messages.iter().map(body).collect())
}

/// The watermarks that every other current member has reached; zero if there are no others.
async fn reached_by_all_others(api: &Api, chat_id: ChatId, reader: UserId) -> Result<Watermarks, RestError> {
    let members = api.chats.members(chat_id).await?;
    let others: Vec<_> =
        members.iter().filter(|member| member.user_id != reader).map(|member| (member.user_id, chat_id)).collect();
    let watermarks = api.watermarks.watermarks(&others).await?;
    let lowest =
        |a: Watermarks, b: Watermarks| Watermarks { delivered: a.delivered.min(b.delivered), read: a.read.min(b.read) };
    Ok(watermarks.into_iter().reduce(lowest).unwrap_or_default())
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
