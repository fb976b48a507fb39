import type { ChatSummary } from "@tidings/client";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { draftOf, editOf, writeDraft, writeEdit } from "../../state/composing.js";
import { send } from "../../state/outbox.js";
import { lastEditableIn, saveEdit, shownMessage } from "../../state/updates.js";
import { duration } from "../../store/words.js";
import { IconButton } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { useTyping } from "./use-typing.js";

const BYTES_MAX = 4096;
const LINES_MAX_PX = 160;
const encoder = new TextEncoder();

/**
 * The input for messages and edits. Every keystroke is stored; Enter sends, Shift Enter inserts a line break. The arrow
 * up in an empty input edits the last message of the user, Escape ends an edit.
 */
export function Composer({ chat, onSend }: { chat: ChatSummary; onSend: () => void }) {
  const chatId = chat.chat_id;
  const edit = editOf(chatId);
  const text = edit ? edit.text : draftOf(chatId);
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
    if (edit) return writeEdit(chatId, { ...edit, text: next });
    writeDraft(chatId, next);
    typing.typed(next);
  };
  const editLast = () => {
    const last = lastEditableIn(chatId);
    if (last) writeEdit(chatId, { sequence: last.sequence, text: last.content });
    return last !== undefined;
  };
  const submit = () => {
    if (!canSend) return;
    // The send or the edit is in the journal before its text is removed.
    if (edit) {
      saveEdit(chatId, edit);
    } else {
      send(chatId, text.trim());
      typing.sent();
      writeDraft(chatId, "");
      onSend();
    }
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
      {edit && (
        <div class="composer-edit">
          <Icon name="compose" size={16} />
          <span class="composer-edit-text">
            <strong>Editing</strong> <bdi>{shownMessage(chatId, edit.sequence)?.content}</bdi>
          </span>
          <IconButton icon="close" label="Cancel the edit" size={16} onClick={() => writeEdit(chatId, undefined)} />
        </div>
      )}
      <div class="composer-box">
        <textarea
          ref={input}
          rows={1}
          aria-label={edit ? "Edited message" : "Message"}
          dir="auto"
          placeholder={
            chat.message_ttl_seconds ? `Message, disappears after ${duration(chat.message_ttl_seconds)}` : "Message"
          }
          value={text}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" && edit) {
              // Escape leaves the chat otherwise.
              event.stopPropagation();
              writeEdit(chatId, undefined);
            }
            if (event.key === "ArrowUp" && text === "" && !edit && editLast()) event.preventDefault();
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            // On-screen keyboards have no Shift Enter.
            if (!matchMedia("(pointer: fine)").matches) return;
            event.preventDefault();
            submit();
          }}
        />
        <IconButton
          icon={edit ? "check" : "send"}
          label={edit ? "Save the edit" : "Send"}
          type="submit"
          class="send"
          disabled={!canSend}
        />
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

/** Moves the focus to the composer of the open chat. */
export function focusComposer(): void {
  document.querySelector<HTMLElement>(".composer textarea")?.focus();
}
