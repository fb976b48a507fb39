import type { Me } from "@tidings/client";
import { useState } from "preact/hooks";

import { chats, isInboxKnown } from "../../state/inbox.js";
import { go, openChatId, overlay } from "../../state/navigation.js";
import { matching } from "../../store/inbox.js";
import { Avatar } from "../../ui/avatar.js";
import { Button, IconButton } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { ConnectionBanner } from "./connection-banner.js";
import { Invitations } from "./invitations.js";
import { Row } from "./row.js";

/** The chats of the user, newest first, with a search by name. */
export function Inbox({ me }: { me: Me }) {
  const [query, setQuery] = useState("");
  const shown = query.trim() === "" ? chats.value : matching(chats.value, query);
  return (
    <section class="sidebar" aria-label="Inbox">
      <header class="sidebar-header">
        <button type="button" class="self" title="Settings" onClick={() => go({ at: "settings", section: undefined })}>
          <span class="visually-hidden">Settings of {me.display_name}</span>
          <Avatar id={me.user_id} name={me.display_name} size={32} />
        </button>
        <h1>Chats</h1>
        <IconButton icon="compose" label="New chat" onClick={() => (overlay.value = "newChat")} />
      </header>
      <div class="search">
        <Icon name="search" size={18} />
        <input
          type="search"
          aria-label="Search chats by name"
          placeholder="Search"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setQuery("");
            if (event.key === "ArrowDown") document.querySelector<HTMLElement>("[data-row]")?.focus();
          }}
        />
      </div>
      <ConnectionBanner />
      <Invitations />
      <nav class="rows" aria-label="Chats" onKeyDown={moveFocus}>
        {!isInboxKnown.value && <Skeletons />}
        <ul>
          {shown.map((chat) => (
            <li key={chat.chat_id}>
              <Row chat={chat} me={me} isOpen={chat.chat_id === openChatId()} />
            </li>
          ))}
        </ul>
        {isInboxKnown.value && shown.length === 0 && <Nothing query={query} />}
      </nav>
    </section>
  );
}

function Nothing({ query }: { query: string }) {
  if (query.trim() !== "") return <p class="rows-empty">No chat is called “{query}”.</p>;
  return (
    <div class="rows-empty">
      <p>No chats yet.</p>
      <Button icon="plus" onClick={() => (overlay.value = "newChat")}>
        New chat
      </Button>
    </div>
  );
}

function Skeletons() {
  return (
    <div role="status" aria-label="Loading chats">
      {[70, 45, 60, 52].map((width) => (
        <div class="row skeleton" key={width} aria-hidden="true">
          <span class="bone bone-round" />
          <span class="skeleton-lines">
            <span class="bone" style={{ width: `${width}%` }} />
            <span class="bone" style={{ width: "85%" }} />
          </span>
        </div>
      ))}
    </div>
  );
}

/** The arrow keys move between rows. */
function moveFocus(event: KeyboardEvent): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const place = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[place + (event.key === "ArrowDown" ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
