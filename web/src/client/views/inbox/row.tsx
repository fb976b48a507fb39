import type { ChatSummary, Me } from "@tidings/client";

import { now } from "../../state/clock.js";
import { draftOf } from "../../state/composing.js";
import { go } from "../../state/navigation.js";
import { nameOf } from "../../state/names.js";
import { outbox } from "../../state/outbox.js";
import { presences, typing } from "../../state/people.js";
import { updates } from "../../state/updates.js";
import { badge, chatName } from "../../store/inbox.js";
import { routeHash } from "../../store/route.js";
import { previewAfter } from "../../store/updates.js";
import { shortTime, typingWords } from "../../store/words.js";
import { Avatar } from "../../ui/avatar.js";
import { Icon } from "../../ui/icon.js";

/** A chat in the list: name, last message with its time, and unread count. */
export function Row({ chat, me, isOpen }: { chat: ChatSummary; me: Me; isOpen: boolean }) {
  const to = { at: "chat", chatId: chat.chat_id, panel: "messages" } as const;
  const other = chat.type === "direct" ? chat.other_participants[0] : undefined;
  const isOnline = other !== undefined && presences.value.get(other.user_id)?.status === "online";
  const isMuted = Boolean(chat.my_membership.muted_until);
  const name = chatName(chat);
  const at = chat.last_message_at ?? chat.created_at;
  return (
    <a
      class={`row ${chat.unread_count > 0 ? "row-unread" : ""}`}
      data-row={chat.chat_id}
      href={routeHash(to)}
      aria-current={isOpen ? "page" : undefined}
      onClick={(event) => {
        event.preventDefault();
        go(to);
      }}
    >
      <Avatar
        id={other?.user_id ?? chat.chat_id}
        name={name}
        size={48}
        isGroup={chat.type === "group"}
        isOnline={isOnline}
      />
      <span class="row-lines">
        <span class="row-line">
          <span class="row-name" dir="auto">
            {name}
          </span>
          {isMuted && (
            <span class="row-muted" title="Muted">
              <Icon name="bellOff" size={14} />
              <span class="visually-hidden">Muted</span>
            </span>
          )}
          {isOnline && <span class="visually-hidden">Online</span>}
          <time class="row-time" dateTime={at}>
            {shortTime(Date.parse(at), now.value)}
          </time>
        </span>
        <span class="row-line">
          <Preview chat={chat} me={me} isOpen={isOpen} />
          {chat.unread_count > 0 && (
            <span class={`badge ${isMuted ? "badge-muted" : ""}`}>
              {badge(chat)}
              <span class="visually-hidden"> unread</span>
            </span>
          )}
        </span>
      </span>
    </a>
  );
}

/**
 * The most important state of a chat in one line: typing users, a failed send, a draft, or the last message.
 */
function Preview({ chat, me, isOpen }: { chat: ChatSummary; me: Me; isOpen: boolean }) {
  const typers = [...(typing.value.get(chat.chat_id) ?? [])].map(nameOf);
  if (typers.length > 0) return <span class="row-preview row-typing">{typingWords(typers)}…</span>;
  const waiting = outbox.value.filter((entry) => entry.chatId === chat.chat_id && entry.state !== "sent").at(-1);
  if (waiting) {
    const isFailed = waiting.state === "failed";
    return (
      <span class={`row-preview ${isFailed ? "row-failed" : ""}`}>
        <Icon name={isFailed ? "warning" : "clock"} size={14} /> {isFailed ? "Not sent: " : ""}
        <bdi>{waiting.content}</bdi>
      </span>
    );
  }
  const draft = isOpen ? "" : draftOf(chat.chat_id);
  if (draft !== "") {
    return (
      <span class="row-preview">
        <em class="row-draft">Draft:</em> <bdi>{draft}</bdi>
      </span>
    );
  }
  const last = chat.last_message;
  if (!last) return <span class="row-preview row-quiet">No messages yet</span>;
  const preview = previewAfter(updates.value, chat.chat_id, last);
  if (preview === undefined) return <span class="row-preview row-quiet">Deleting a message…</span>;
  const sender = last.sender_id === me.user_id ? "You: " : chat.type === "group" ? `${nameOf(last.sender_id)}: ` : "";
  return (
    <span class="row-preview">
      {sender}
      <bdi>{preview ?? "Encrypted message"}</bdi>
    </span>
  );
}
