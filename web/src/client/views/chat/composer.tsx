import type { ChatSummary } from "@tidings/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { drafts } from "../../local/drafts.js";
import { send } from "../../state/outbox.js";
import { duration } from "../../store/words.js";
import { IconButton } from "../../ui/button.js";
import { useTyping } from "./use-typing.js";

const BYTES_MAX = 4096;
const LINES_MAX_PX = 160;
const encoder = new TextEncoder();

/** The input for messages. Every keystroke is stored; Enter sends, Shift Enter inserts a line break. */
export function Composer({ chat, onSend }: { chat: ChatSummary; onSend: () => void }) {
  const chatId = chat.chat_id;
  const [text, setText] = useState(() => drafts.read(chatId));
  const input = useRef<HTMLTextAreaElement>(null);
  const typing = useTyping(chatId);
  const excess = encoder.encode(text.trim()).length - BYTES_MAX;
  const canSend = text.trim() !== "" && excess <= 0;

  useEffect(() => {
    // On a phone the on-screen keyboard would cover the messages.
    if (matchMedia("(pointer: fine)").matches) input.current?.focus();
  }, []);
  useLayoutEffect(() => {
    const area = input.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, LINES_MAX_PX)}px`;
  }, [text]);

  const change = (next: string) => {
    drafts.write(chatId, next);
    setText(next);
    typing.typed(next);
  };
  const submit = () => {
    if (!canSend) return;
    // The send is in the journal before the draft is removed.
    send(chatId, text.trim());
    typing.sent();
    drafts.write(chatId, "");
    setText("");
    onSend();
    input.current?.focus();
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div class="composer-box">
        <textarea
          ref={input}
          rows={1}
          aria-label="Message"
          dir="auto"
          placeholder={
            chat.message_ttl_seconds ? `Message, disappears after ${duration(chat.message_ttl_seconds)}` : "Message"
          }
          value={text}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            // On-screen keyboards have no Shift Enter.
            if (!matchMedia("(pointer: fine)").matches) return;
            event.preventDefault();
            submit();
          }}
        />
        <IconButton icon="send" label="Send" type="submit" class="send" disabled={!canSend} />
      </div>
      {excess > 0 && (
        <p class="composer-error" role="alert">
          Too long by {excess === 1 ? "1 byte" : `${excess} bytes`}: one message has at most 4,096. A letter with an accent
          counts as 2 or more, an emoji as 4 or more.
        </p>
      )}
    </form>
  );
}
