import type { ChatSummary } from "@tidings/client";

import { now } from "../../state/clock.js";
import { go } from "../../state/navigation.js";
import { nameOf } from "../../state/names.js";
import { presences, typing } from "../../state/people.js";
import { chatName } from "../../store/inbox.js";
import { ago, duration, typingWords } from "../../store/words.js";
import { Avatar } from "../../ui/avatar.js";
import { IconButton } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";

/** The title of a chat, and the presence of its members. */
export function ChatHeader({ chat }: { chat: ChatSummary }) {
  const other = chat.type === "direct" ? chat.other_participants[0] : undefined;
  const isOnline = other !== undefined && presences.value.get(other.user_id)?.status === "online";
  const name = chatName(chat);
  const toDetails = () => go({ at: "chat", chatId: chat.chat_id, panel: "details" });
  return (
    <header class="chat-header">
      <h1 class="visually-hidden">{name}</h1>
      <IconButton class="only-phone" icon="back" label="Back to chats" onClick={() => go({ at: "inbox" })} />
      <button type="button" class="chat-title" onClick={toDetails}>
        <Avatar
          id={other?.user_id ?? chat.chat_id}
          name={name}
          size={40}
          isGroup={chat.type === "group"}
          isOnline={isOnline}
        />
        <span class="chat-title-lines">
          <span class="chat-name">
            <bdi>{name}</bdi>
            {chat.my_membership.muted_until && <Icon name="bellOff" size={14} />}
          </span>
          <span class="chat-subtitle">
            <Subtitle chat={chat} />
          </span>
        </span>
      </button>
      {chat.message_ttl_seconds && (
        <span class="chat-ttl" title={`New messages disappear after ${duration(chat.message_ttl_seconds)}`}>
          <Icon name="timer" size={16} />
          {duration(chat.message_ttl_seconds)}
        </span>
      )}
      <IconButton icon="info" label="Details" onClick={toDetails} />
    </header>
  );
}

function Subtitle({ chat }: { chat: ChatSummary }) {
  const typers = [...(typing.value.get(chat.chat_id) ?? [])].map(nameOf);
  if (typers.length > 0)
    return <span class="is-typing">{chat.type === "direct" ? "typing…" : `${typingWords(typers)}…`}</span>;
  if (chat.type === "group") return <>{chat.member_count === 1 ? "1 member" : `${chat.member_count} members`}</>;
  const presence = presences.value.get(chat.other_participants[0]?.user_id ?? "");
  if (presence?.status === "online") return <span class="is-online">Online</span>;
  if (presence?.last_seen) return <>Last seen {ago(Date.parse(presence.last_seen), now.value)}</>;
  return <>Direct chat</>;
}
