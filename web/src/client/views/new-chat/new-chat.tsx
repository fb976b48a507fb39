import type { User } from "@tidings/client";
import { useState } from "preact/hooks";

import { createGroup, openDirectChat } from "../../state/chats.js";
import { go, overlay } from "../../state/navigation.js";
import { attempt } from "../../state/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import { PeoplePicker } from "./people-picker.js";

/** Starts a chat with one user, or a group with several. */
export function NewChat() {
  const [isGroup, setGroup] = useState(false);
  const close = () => (overlay.value = undefined);
  const opened = (chatId: string) => {
    close();
    go({ at: "chat", chatId, panel: "messages" });
  };
  return (
    <Dialog title={isGroup ? "New group" : "New chat"} onClose={close}>
      {isGroup ? (
        <NewGroup onOpened={opened} />
      ) : (
        <>
          <button type="button" class="choice" onClick={() => setGroup(true)}>
            <span class="choice-picture">
              <Icon name="group" />
            </span>
            New group
          </button>
          <PeoplePicker
            autofocus
            label="Name or phone number"
            exclude={[]}
            onPick={(user) => void attempt(async () => opened(await openDirectChat(user.user_id)))}
          />
        </>
      )}
    </Dialog>
  );
}

function NewGroup({ onOpened }: { onOpened: (chatId: string) => void }) {
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState<readonly User[]>([]);
  const [isBusy, setBusy] = useState(false);
  // One key per dialog: a retry after a lost response creates no second group.
  const [idempotencyKey] = useState(() => crypto.randomUUID());

  const create = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const memberIds = chosen.map((user) => user.user_id);
    await attempt(async () => onOpened(await createGroup(name.trim(), memberIds, idempotencyKey)));
    setBusy(false);
  };

  return (
    <form onSubmit={create}>
      <Field
        label="Name of the group"
        maxLength={128}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        autofocus
        required
      />
      <ul class="chips" aria-label="Members of the new group">
        {chosen.map((user) => (
          <li key={user.user_id}>
            <button
              type="button"
              class="chip"
              aria-label={`Remove ${user.display_name}`}
              onClick={() => setChosen(chosen.filter((one) => one !== user))}
            >
              {user.display_name}
              <Icon name="close" size={14} />
            </button>
          </li>
        ))}
      </ul>
      <PeoplePicker
        label="Add members"
        exclude={chosen.map((user) => user.user_id)}
        onPick={(user) => setChosen([...chosen, user])}
      />
      <div class="dialog-actions">
        <Button kind="primary" type="submit" disabled={isBusy || name.trim() === ""}>
          Create group
        </Button>
      </div>
    </form>
  );
}
