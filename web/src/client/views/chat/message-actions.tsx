import { signal } from "@preact/signals";
import type { MessageWithStatus } from "@tidings/client";
import { useEffect } from "preact/hooks";

import { now } from "../../state/clock.js";
import { writeEdit } from "../../state/composing.js";
import { nameOf } from "../../state/names.js";
import { remove, rulesOf, toggleReaction } from "../../state/updates.js";
import { attempt, tell } from "../../state/toasts.js";
import { canDelete, canEdit, QUICK_REACTIONS, toggleOf } from "../../store/updates.js";
import { moment } from "../../store/words.js";
import { Confirm } from "../../ui/dialog.js";
import { Icon } from "../../ui/icon.js";
import { Menu, MenuItem, type Point } from "../../ui/menu.js";
import { focusComposer } from "./composer.js";
import type { LogModel } from "./log-model.js";
import { ReactionPicker } from "./reaction-picker.js";
import { Reactors } from "./reactors.js";
import { reportedMessage } from "./reporting.js";

/** What is open above a message: its menu, or what an item of the menu has opened. */
type Asked =
  | { readonly is: "menu"; readonly sequence: number; readonly at: Point }
  | { readonly is: "picker" | "reactors" | "deletion"; readonly sequence: number };

const asked = signal<Asked | undefined>(undefined);

/** Opens the menu of a message. */
export function openMenu(sequence: number, at: Point): void {
  asked.value = { is: "menu", sequence, at };
}

/** The menu of a message, and the dialogs that it opens. They close if the message is removed. */
export function MessageActions({ model }: { model: LogModel }) {
  useEffect(() => () => void (asked.value = undefined), []);
  const open = asked.value;
  const message = open && model.messages.value.find(({ sequence }) => sequence === open.sequence);
  if (!open || !message) return null;
  const { sequence } = open;
  // The menu closes after its item was chosen, which may have opened something else.
  const close = () => {
    if (asked.peek() === open) asked.value = undefined;
  };
  switch (open.is) {
    case "menu":
      return (
        <MessageMenu message={message} at={open.at} onOpen={(is) => (asked.value = { is, sequence })} onClose={close} />
      );
    case "picker":
      return <ReactionPicker message={message} onClose={close} />;
    case "reactors":
      return <Reactors message={message} onClose={close} />;
    case "deletion":
      return <Deletion message={message} onClose={close} />;
  }
}

function MessageMenu(props: {
  message: MessageWithStatus;
  at: Point;
  onOpen: (what: "picker" | "reactors" | "deletion") => void;
  onClose: () => void;
}) {
  const { message, at, onOpen, onClose } = props;
  const rules = rulesOf(message.chat_id);
  const isMine = message.sender_id === rules.myUserId;
  const { message_id: messageId, content, content_type: contentType, state } = message;
  return (
    <Menu label="Message actions" at={at} onClose={onClose}>
      <div class="menu-reactions" role="group" aria-label="React">
        {QUICK_REACTIONS.map((reaction) => (
          <button
            key={reaction}
            type="button"
            role="menuitemcheckbox"
            aria-checked={toggleOf(message, reaction) === "unreact"}
            aria-label={`React with ${reaction}`}
            class="menu-reaction"
            tabIndex={-1}
            data-line="reactions"
            onClick={() => toggleReaction(message, reaction)}
          >
            {reaction}
          </button>
        ))}
        <button
          type="button"
          role="menuitem"
          aria-label="More reactions"
          title="More reactions"
          class="menu-reaction"
          tabIndex={-1}
          data-line="reactions"
          onClick={() => onOpen("picker")}
        >
          <Icon name="plus" size={18} />
        </button>
      </div>
      {canEdit(message, rules) && (
        <MenuItem icon="compose" onChoose={() => beginEdit(message)}>
          Edit
        </MenuItem>
      )}
      {contentType !== "application/vnd.tidings.encrypted" && (
        <MenuItem icon="copy" onChoose={() => void attempt(() => copy(content))}>
          Copy text
        </MenuItem>
      )}
      {state?.reactions && state.reactions.length > 0 && (
        <MenuItem icon="smile" onChoose={() => onOpen("reactors")}>
          Who reacted
        </MenuItem>
      )}
      {!isMine && (
        <MenuItem
          icon="warning"
          onChoose={() => (reportedMessage.value = { messageId, author: nameOf(message.sender_id) })}
        >
          Report this message
        </MenuItem>
      )}
      {canDelete(message, rules) && (
        <MenuItem icon="trash" kind="danger" onChoose={() => onOpen("deletion")}>
          Delete for everyone
        </MenuItem>
      )}
      {state?.edited_at && <p class="menu-note">Edited {moment(Date.parse(state.edited_at), now.value)}</p>}
    </Menu>
  );
}

/** Opens the edit of a message in the composer. */
export function beginEdit({ chat_id, sequence, content }: MessageWithStatus): void {
  writeEdit(chat_id, { sequence, text: content });
  focusComposer();
}

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  tell("Copied.");
}

function Deletion({ message, onClose }: { message: MessageWithStatus; onClose: () => void }) {
  const isMine = message.sender_id === rulesOf(message.chat_id).myUserId;
  return (
    <Confirm
      title={isMine ? "Delete your message for everyone?" : `Delete the message of ${nameOf(message.sender_id)}?`}
      text="It disappears from all devices of all members, and its text is erased. This cannot be undone."
      action="Delete for everyone"
      onConfirm={() => {
        onClose();
        remove(message);
        // After the dialog: everything outside of it is inert.
        requestAnimationFrame(focusComposer);
      }}
      onClose={onClose}
    />
  );
}
