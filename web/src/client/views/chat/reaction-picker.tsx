import type { MessageWithStatus } from "@tidings/client";
import { useState } from "preact/hooks";

import { toggleReaction } from "../../state/updates.js";
import { reactionProblem, REACTIONS, toggleOf } from "../../store/updates.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";

const COLUMNS = 8;
const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS };

/** Chooses a reaction: a common emoji, or what the user types. */
export function ReactionPicker({ message, onClose }: { message: MessageWithStatus; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const reaction = typed.trim();
  const problem = reactionProblem(reaction);
  const choose = (chosen: string) => {
    onClose();
    toggleReaction(message, chosen);
  };
  return (
    <Dialog title="React" onClose={onClose}>
      <div class="reaction-grid" role="group" aria-label="Common reactions" onKeyDown={moveFocus}>
        {REACTIONS.map((one, place) => (
          <button
            key={one}
            type="button"
            class="menu-reaction"
            aria-label={`React with ${one}`}
            aria-pressed={toggleOf(message, one) === "unreact"}
            // One stop of the Tab key; the arrow keys move inside.
            tabIndex={place === 0 ? 0 : -1}
            onClick={() => choose(one)}
          >
            {one}
          </button>
        ))}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (reaction !== "" && !problem) choose(reaction);
        }}
      >
        <Field
          label="Another emoji or a short word"
          autocomplete="off"
          value={typed}
          error={problem}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={reaction === "" || problem !== undefined}>
            React
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function moveFocus(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = STEPS[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("button")];
  all[all.indexOf(document.activeElement as HTMLElement) + step]?.focus();
}
