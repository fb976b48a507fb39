import type { ChatSummary, Me } from "@tidings/client";
import { useEffect, useRef } from "preact/hooks";

import { members } from "../../state/chats.js";
import { inbox } from "../../state/inbox.js";
import { go } from "../../state/navigation.js";
import { IconButton } from "../../ui/button.js";
import { Identity } from "./identity.js";
import { Leaving } from "./leaving.js";
import { Members } from "./members.js";
import { Options } from "./options.js";
import { Safety } from "./safety.js";

/** The details of a chat: its members and its options. */
export function Details({ chatId, me }: { chatId: string; me: Me }) {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => panel.current?.focus(), []);
  const chat = inbox.value.get(chatId);
  if (!chat) return null;
  const close = () => go({ at: "chat", chatId, panel: "messages" });
  return (
    <>
      <div class="scrim" aria-hidden="true" onPointerDown={close} />
      <aside class="panel" aria-label="Details of the chat" tabIndex={-1} ref={panel}>
        <header class="panel-header">
          <IconButton icon="close" label="Close details" onClick={close} />
          <h2>{chat.type === "group" ? "Group" : "Contact"}</h2>
        </header>
        <div class="panel-body">
          <Identity chat={chat} canRename={chat.type === "group" && canManage(chat)} />
          <Options chat={chat} canChangeTtl={chat.type === "direct" || canManage(chat)} />
          {chat.type === "group" && (
            <Members chat={chat} me={me} members={members.value.get(chatId) ?? []} canAdd={canManage(chat)} />
          )}
          <Safety chat={chat} />
          {chat.type === "group" && <Leaving chat={chat} />}
        </div>
      </aside>
    </>
  );
}

/** Owners and admins rename, add members and set the lifetime of messages. */
function canManage(chat: ChatSummary): boolean {
  return chat.my_membership.role !== "member";
}
