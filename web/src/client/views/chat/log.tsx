import type { ChatSummary, Me } from "@tidings/client";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { now } from "../../state/clock.js";
import { nameOf } from "../../state/names.js";
import { notesOf } from "../../state/notes.js";
import { outbox } from "../../state/outbox.js";
import { typing } from "../../state/people.js";
import { watermarksOf } from "../../state/receipts.js";
import { connection } from "../../state/session-state.js";
import { timelineOf } from "../../state/timelines.js";
import { logItems, type LogItem } from "../../store/grouping.js";
import { badge } from "../../store/inbox.js";
import { pending } from "../../store/outbox.js";
import { commonWatermarks, type Watermarks } from "../../store/receipts.js";
import { dayName, typingWords } from "../../store/words.js";
import { Avatar } from "../../ui/avatar.js";
import { IconButton } from "../../ui/button.js";
import { BubbleView } from "./bubble.js";
import type { LogModel } from "./log-model.js";
import { useMessageMenu } from "./use-message-menu.js";
import { useScroll } from "./use-scroll.js";

/** The messages of a chat, scrollable in both directions. */
export function Log(props: { model: LogModel; chat: ChatSummary; me: Me; others: readonly string[] }) {
  const { model, chat, me, others } = props;
  const element = useRef<HTMLDivElement>(null);
  const messages = model.messages.value;
  const sends = model.isCut.value ? [] : pending(outbox.value, chat.chat_id, timelineOf(chat.chat_id).value);
  const notes = notesOf(chat.chat_id);
  const [above, below] = [model.hasOlder.value, model.hasNewer.value];
  const items = useMemo(
    () =>
      logItems({
        messages,
        sends,
        notes,
        isCut: { above, below },
        myUserId: me.user_id,
        unreadAbove: model.unreadAbove.value,
      }),
    [
      messages,
      sends.map((send) => send.clientMessageId + send.state).join(),
      notes.at(-1)?.key,
      above,
      below,
      me.user_id,
      model.unreadAbove.value,
    ],
  );
  const isAtEnd = useScroll(element, model, chat);
  const menu = useMessageMenu();
  const common = commonWatermarks(watermarksOf(chat.chat_id), others);
  const typers = [...(typing.value.get(chat.chat_id) ?? [])].map(nameOf);

  // Loads that failed offline are retried.
  const isOnline = connection.value === "online";
  useEffect(() => {
    if (isOnline) void model.retry();
  }, [isOnline, model]);

  return (
    <div class="log-frame">
      <p id="log-hint" hidden>
        The arrow keys move between messages, Enter opens the actions of one.
      </p>
      <div
        class="log"
        ref={element}
        role="log"
        aria-label="Messages"
        aria-describedby="log-hint"
        tabIndex={0}
        aria-busy={!model.isOpen.value}
        {...menu}
      >
        <div class="log-content">
          <Beginning model={model} chat={chat} isEmpty={items.every((item) => item.kind === "note")} />
          {items.map((item) => (
            <Item key={item.key} item={item} me={me} common={common} isGroup={chat.type === "group"} />
          ))}
          {typers.length > 0 && (
            <p class="typing">
              <span class="typing-dots" aria-hidden="true">
                <i />
                <i />
                <i />
              </span>
              {typingWords(typers)}
            </p>
          )}
        </div>
      </div>
      {!isAtEnd && (
        <div class="to-newest">
          <IconButton icon="down" label="Jump to the newest message" onClick={() => void model.toNewest()} />
          {chat.unread_count > 0 && <span class="badge">{badge(chat)}</span>}
        </div>
      )}
    </div>
  );
}

/** The top of the log: loading, failed, or the start of the chat. */
function Beginning({ model, chat, isEmpty }: { model: LogModel; chat: ChatSummary; isEmpty: boolean }) {
  if (!model.isOpen.value) return <Bones />;
  if (model.isStuck.value) return <p class="log-note">Older messages come with the connection.</p>;
  if (model.hasOlder.value && !isEmpty) return <Bones />;
  if (!isEmpty) return <p class="log-note">This is the beginning of the chat.</p>;
  return (
    <div class="log-empty">
      <p>No messages yet.</p>
      <p>{chat.type === "group" ? "Write the first one." : "Say hello."}</p>
    </div>
  );
}

function Bones() {
  return (
    <div class="log-bones" aria-hidden="true">
      <span class="bone" />
      <span class="bone" />
      <span class="bone" />
    </div>
  );
}

function Item({ item, me, common, isGroup }: { item: LogItem; me: Me; common: Watermarks; isGroup: boolean }) {
  switch (item.kind) {
    case "day":
      return (
        <h2 class="day">
          <span>{dayName(item.at, now.value)}</span>
        </h2>
      );
    case "unread":
      return (
        <p class="unread-divider" data-unread>
          <span>New messages</span>
        </p>
      );
    case "note":
      return (
        <p class="log-change" dir="auto">
          {item.text}
        </p>
      );
    case "group": {
      const isMine = item.senderId === me.user_id;
      const name = nameOf(item.senderId);
      return (
        <div class={`group ${isMine ? "group-mine" : "group-theirs"}`}>
          {isGroup && !isMine && <Avatar id={item.senderId} name={name} size={32} />}
          <div class="group-bubbles">
            {item.bubbles.map((bubble, place) => (
              <BubbleView
                key={bubble.key}
                bubble={bubble}
                isMine={isMine}
                common={common}
                author={isMine ? "You" : name}
                senderId={item.senderId}
                isFirst={place === 0}
                isGroup={isGroup}
              />
            ))}
          </div>
        </div>
      );
    }
  }
}
