use std::time::Duration;

use client::{ClientEvent, StopReason};
use domain::{ChatId, ClientMessageId, Timestamp};
use protocol::frame::{ChatUpdated, MessageBody, MessageUpdated, ReceiptBody, SendMessageAck, TypingIndicator};
use protocol::rest::{ChatDetails, ChatSummary, MemberWatermarks};

use super::chat::{Freshness, InboxChat};
use super::effect::{ApiRequest, ApiResult, ConnectionState, Effect, ExitReason};
use super::{ChatApp, PAGE_PAUSE};

/// Maximum number of presence subscriptions; the server allows 1000 per connection.
const WATCHED_MAX: usize = 500;
/// A message older than this on arrival was missed while offline, and does not ring the bell.
const FRESH: Duration = Duration::from_secs(60);

/// Events of the session.
impl ChatApp {
    pub(crate) fn handle_event(&mut self, now: Timestamp, event: ClientEvent) {
        match event {
            ClientEvent::Connected { .. } => {
                self.link = ConnectionState::Connected;
                self.ask(ApiRequest::Inbox);
                if let Some(chat_id) = self.open {
                    self.ask(ApiRequest::Chat(chat_id));
                }
            }
            ClientEvent::Disconnected { retry_in } => self.link = ConnectionState::Lost { retry_at: now + retry_in },
            ClientEvent::Message(message) => self.take_message(now, &message),
            ClientEvent::Updated(updated) => self.take_update(&updated),
            ClientEvent::Receipt(receipt) => self.take_receipt(&receipt),
            ClientEvent::Expired(expired) => {
                if let Some(chat) = self.chats.get_mut(&expired.chat_id) {
                    chat.expire(&expired.sequences);
                    self.ask(ApiRequest::Chat(expired.chat_id));
                }
            }
            ClientEvent::ChatUpdated(ChatUpdated { chat_id, .. }) => self.ask(ApiRequest::Chat(chat_id)),
            ClientEvent::ChatGone { chat_id } => self.forget(chat_id),
            ClientEvent::Typing(TypingIndicator { chat_id, user_id, is_typing }) => {
                if let Some(chat) = self.chats.get_mut(&chat_id).filter(|_| user_id != self.me) {
                    chat.take_typing(now, user_id, is_typing);
                }
            }
            ClientEvent::Presence(presences) => {
                self.presences.extend(presences.into_iter().map(|presence| (presence.user_id, presence.status)));
            }
            ClientEvent::WatermarkReset { chat_id, head_sequence } => {
                if let Some(chat) = self.chats.get_mut(&chat_id) {
                    chat.reset(head_sequence);
                    self.ask(ApiRequest::Chat(chat_id));
                }
                self.say(now, "the server has gone back to an earlier time; some messages may be gone");
            }
            ClientEvent::Refused(error) => self.say(now, format!("the server refused something: {}", error.message)),
            ClientEvent::Stopped(StopReason::Closed) => self.quit(),
            ClientEvent::Stopped(StopReason::SignedOut) => self.ended = Some(ExitReason::SignedOut),
            ClientEvent::Stopped(StopReason::DuplicateConnection) => self.ended = Some(ExitReason::TakenOver),
            // `handle_sent` and `handle_updated` handle the results of sends and updates.
            ClientEvent::Sent(_) | ClientEvent::SendFailed { .. } => {}
        }
    }

    /// Applies the result of a send: acknowledged, or permanently refused.
    pub(crate) fn handle_sent(
        &mut self,
        now: Timestamp,
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        outcome: Result<SendMessageAck, String>,
    ) {
        self.unplaced.retain(|(send, _)| send.client_message_id != client_message_id);
        let Some(chat) = self.chats.get_mut(&chat_id) else { return };
        match outcome {
            Ok(ack) => chat.acknowledge(self.me, &ack),
            Err(why) => {
                if let Some(text) = chat.log.refuse(client_message_id, why.clone()) {
                    self.line.remember(text);
                    self.say(now, format!("not sent: {why}; the up key brings it back"));
                }
            }
        }
    }

    /// Applies the result of an update: acknowledged, or permanently refused.
    pub(crate) fn handle_updated(
        &mut self,
        now: Timestamp,
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        outcome: Result<SendMessageAck, String>,
    ) {
        let is_settled = match &outcome {
            // The new state of the message comes as an event. Of a repeated update it may have come before.
            Ok(ack) => ack.deduplicated,
            Err(why) => {
                self.say(now, format!("not changed: {why}"));
                true
            }
        };
        if let Some(chat) = self.chats.get_mut(&chat_id).filter(|_| is_settled) {
            chat.log.settle_update(client_message_id);
        }
    }

    pub(crate) fn handle_answer(&mut self, now: Timestamp, answer: ApiResult) {
        match answer {
            ApiResult::Inbox(summaries) => {
                for summary in summaries {
                    self.take_summary(summary);
                }
                self.watch();
            }
            ApiResult::Chat { details, watermarks } => self.take_details(*details, watermarks),
            ApiResult::Page { chat_id, before, page } => {
                if let Some(chat) = self.chats.get_mut(&chat_id) {
                    chat.log.take_page(before, page);
                }
            }
            ApiResult::Made(details) => {
                let chat_id = details.summary.chat_id;
                self.take_details(*details, Vec::new());
                self.open(now, chat_id);
                self.watch();
            }
            ApiResult::Done { details, said } => {
                self.take_details(*details, Vec::new());
                self.say(now, said);
            }
            ApiResult::Left(chat_id) => self.forget(chat_id),
            ApiResult::Failed { request, why } => self.take_failure(now, request, &why),
        }
    }

    fn take_failure(&mut self, now: Timestamp, request: ApiRequest, why: &str) {
        if let ApiRequest::Page { chat_id, .. } = request {
            self.pages_held_until = now + PAGE_PAUSE;
            if let Some(chat) = self.chats.get_mut(&chat_id) {
                chat.log.give_up();
            }
        }
        // Background requests are repeated after reconnecting, and the status line already shows the lost connection.
        let is_background = matches!(request, ApiRequest::Inbox | ApiRequest::Chat(_) | ApiRequest::Page { .. });
        if !is_background || self.link == ConnectionState::Connected {
            self.say(now, why);
        }
    }

    fn take_message(&mut self, now: Timestamp, message: &MessageBody<'static>) {
        let chat_id = message.chat_id;
        let Some(chat) = self.chats.get_mut(&chat_id) else { return self.ask(ApiRequest::Chat(chat_id)) };
        let is_change = chat.arrive(self.me, message);
        let is_known = message.sender_id == self.me || chat.name_of(message.sender_id).is_some();
        let is_open = self.open == Some(chat_id);
        if is_open && self.scroll > 0 {
            self.below += 1;
        }
        if is_open && !is_known {
            self.ask(ApiRequest::Chat(chat_id));
        }
        let is_quiet = self.chats.get(&chat_id).is_none_or(|chat| chat.is_muted(now)) || (is_open && self.is_focused);
        if is_change && !is_quiet && now.since(message.created_at) < FRESH {
            self.effects.push_back(Effect::Ring);
        }
    }

    fn take_update(&mut self, updated: &MessageUpdated<'static>) {
        let chat_id = updated.update.chat_id;
        match self.chats.get_mut(&chat_id) {
            Some(chat) => chat.update_message(self.me, updated),
            None => self.ask(ApiRequest::Chat(chat_id)),
        }
    }

    fn take_receipt(&mut self, receipt: &ReceiptBody) {
        let Some(chat) = self.chats.get_mut(&receipt.chat_id) else { return };
        if receipt.user_id != self.me {
            return chat.take_receipt(receipt);
        }
        let is_change = receipt.read_sequence > chat.read();
        let is_all = chat.mark_read(receipt.read_sequence);
        if is_change && !is_all && chat.summary.unread_count > 0 {
            // Another device has read some of it; the server has the new unread count.
            self.ask(ApiRequest::Chat(receipt.chat_id));
        }
    }

    fn take_summary(&mut self, summary: ChatSummary) {
        let chat_id = summary.chat_id;
        let chat = self.chats.entry(chat_id).or_insert_with(|| InboxChat::new(summary.clone()));
        let freshness = chat.update(summary);
        self.settle(chat_id, freshness);
    }

    fn take_details(&mut self, details: ChatDetails, watermarks: Vec<MemberWatermarks>) {
        let chat_id = details.summary.chat_id;
        let chat = self.chats.entry(chat_id).or_insert_with(|| InboxChat::new(details.summary.clone()));
        let freshness = chat.update_details(details, watermarks);
        self.settle(chat_id, freshness);
    }

    /// Continues work that waited for the details of a chat.
    fn settle(&mut self, chat_id: ChatId, freshness: Freshness) {
        self.place();
        if freshness == Freshness::Stale {
            self.ask(ApiRequest::Chat(chat_id));
        }
    }

    fn forget(&mut self, chat_id: ChatId) {
        if self.chats.remove(&chat_id).is_some() && self.open == Some(chat_id) {
            self.open = None;
            self.typing_told = None;
        }
    }

    fn watch(&mut self) {
        let others: Vec<_> = self.inbox().iter().filter_map(|chat| chat.other()).take(WATCHED_MAX).collect();
        if !others.is_empty() {
            self.effects.push_back(Effect::Watch(others));
        }
    }
}
