import { useState } from "preact/hooks";

import { chats } from "../state/inbox.js";
import { go, overlay } from "../state/navigation.js";
import { chatName, matching } from "../store/inbox.js";
import { Avatar } from "../ui/avatar.js";
import { Dialog } from "../ui/dialog.js";
import { Icon } from "../ui/icon.js";

const SHOWN_MAX = 8;

/** Finds a chat by name from the keyboard: type, choose with the arrows, Enter. */
export function Finder() {
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState(0);
  const found = matching(chats.value, query).slice(0, SHOWN_MAX);
  const close = () => (overlay.value = undefined);
  const open = (chatId: string | undefined) => {
    if (!chatId) return;
    close();
    go({ at: "chat", chatId, panel: "messages" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setChosen((chosen + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[chosen]?.chat_id);
    }
  };
  return (
    <Dialog title="Find a chat" kind="finder" onClose={close}>
      <div class="finder-input">
        <Icon name="search" />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="finder-list"
          aria-activedescendant={found[chosen] ? `finder-${chosen}` : undefined}
          aria-label="Find a chat by name"
          placeholder="Find a chat"
          value={query}
          autofocus
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setChosen(0);
          }}
          onKeyDown={onKeyDown}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id="finder-list" role="listbox" aria-label="Chats">
        {found.map((chat, place) => (
          <li
            key={chat.chat_id}
            id={`finder-${place}`}
            role="option"
            aria-selected={place === chosen}
            class="finder-row"
            onClick={() => open(chat.chat_id)}
            onPointerMove={() => setChosen(place)}
          >
            <Avatar
              id={chat.other_participants[0]?.user_id ?? chat.chat_id}
              name={chatName(chat)}
              size={32}
              isGroup={chat.type === "group"}
            />
            <span dir="auto">{chatName(chat)}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="finder-empty">No chat is called that.</p>}
    </Dialog>
  );
}
