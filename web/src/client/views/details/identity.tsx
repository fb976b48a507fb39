import type { ChatSummary, User } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { rename } from "../../state/chats.js";
import { now } from "../../state/clock.js";
import { addContact, contacts, loadContacts, removeContact } from "../../state/contacts.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { presences } from "../../state/people.js";
import { attempt } from "../../state/toasts.js";
import { chatName } from "../../store/inbox.js";
import { ago } from "../../store/words.js";
import { Avatar } from "../../ui/avatar.js";
import { Button, IconButton } from "../../ui/button.js";
import { Field } from "../../ui/field.js";

/** The avatar and name of a chat. A group can be renamed, a user added to the contacts. */
export function Identity({ chat, canRename }: { chat: ChatSummary; canRename: boolean }) {
  const [isRenaming, setRenaming] = useState(false);
  const other = chat.type === "direct" ? chat.other_participants[0] : undefined;
  const name = chatName(chat);
  return (
    <section class="identity">
      <Avatar id={other?.user_id ?? chat.chat_id} name={name} size={88} isGroup={chat.type === "group"} />
      {isRenaming ? (
        <Rename chat={chat} onDone={() => setRenaming(false)} />
      ) : (
        <h3>
          <bdi>{name}</bdi>
          {canRename && (
            <IconButton icon="compose" size={18} label="Rename the group" onClick={() => setRenaming(true)} />
          )}
        </h3>
      )}
      {other ? <Person user={other} /> : <p class="identity-note">{chat.member_count} members</p>}
    </section>
  );
}

function Person({ user }: { user: User }) {
  useEffect(() => void unlessUnreachable(loadContacts), []);
  const presence = presences.value.get(user.user_id);
  const isListed = contacts.value?.some((contact) => contact.user_id === user.user_id);
  const seen = presence?.last_seen ? `Last seen ${ago(Date.parse(presence.last_seen), now.value)}` : "Direct chat";
  return (
    <>
      <p class="identity-note">{presence?.status === "online" ? "Online" : seen}</p>
      {isListed === false && (
        <Button icon="plus" onClick={() => void attempt(() => addContact(user.user_id))}>
          Add to contacts
        </Button>
      )}
      {isListed === true && (
        <Button onClick={() => void attempt(() => removeContact(user.user_id))}>Remove from contacts</Button>
      )}
    </>
  );
}

function Rename({ chat, onDone }: { chat: ChatSummary; onDone: () => void }) {
  const [name, setName] = useState(chat.name ?? "");
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await attempt(() => rename(chat.chat_id, name.trim()))) onDone();
  };
  return (
    <form class="rename" onSubmit={submit}>
      <Field
        label="Name of the group"
        maxLength={128}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        autofocus
        required
      />
      <div class="rename-actions">
        <Button onClick={onDone}>Cancel</Button>
        <Button kind="primary" type="submit" disabled={name.trim() === ""}>
          Save
        </Button>
      </div>
    </form>
  );
}
