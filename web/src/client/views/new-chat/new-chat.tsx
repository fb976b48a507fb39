import type { User } from "@tidings/client";
import { useState } from "preact/hooks";

import { attemptToReach } from "../../state/blocks.js";
import { createGroup, openDirectChat } from "../../state/chats.js";
import { go, overlay } from "../../state/navigation.js";
import { nameOf } from "../../state/names.js";
import { tell } from "../../state/toasts.js";
import { inWords, listed, notReachable } from "../../store/failures.js";
import { RequestKeys } from "../../store/request-keys.js";
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
            onPick={({ user_id: userId }) =>
              void attemptToReach(userId, async () => opened(await openDirectChat(userId)))
            }
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
  const [refused, setRefused] = useState<readonly User[]>([]);
  const [keys] = useState(() => new RequestKeys());

  const create = async (people: readonly User[]) => {
    setBusy(true);
    setRefused([]);
    setChosen(people);
    const group = { name: name.trim(), memberIds: people.map((user) => user.user_id) };
    try {
      onOpened(await createGroup(group.name, group.memberIds, keys.of(group)));
    } catch (failure) {
      const userIds = notReachable(failure);
      if (userIds.length > 0) setRefused(people.filter((user) => userIds.includes(user.user_id)));
      else tell(inWords(failure, nameOf), true);
    }
    setBusy(false);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void create(chosen);
  };
  const refusedNames = listed(refused.map((user) => user.display_name));

  return (
    <form onSubmit={submit}>
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
      {refused.length > 0 && (
        <p class="field-error" role="alert">
          You cannot add {refusedNames}.{" "}
          <button
            type="button"
            class="link"
            onClick={() => void create(chosen.filter((user) => !refused.includes(user)))}
          >
            Create the group without {refused.length === 1 ? refusedNames : "them"}
          </button>
        </p>
      )}
      <div class="dialog-actions">
        <Button kind="primary" type="submit" disabled={isBusy || name.trim() === ""}>
          Create group
        </Button>
      </div>
    </form>
  );
}
