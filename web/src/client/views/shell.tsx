import { effect } from "@preact/signals";
import type { Me } from "@tidings/client";
import { useEffect } from "preact/hooks";

import { unreadTotal } from "../state/inbox.js";
import { overlay, route } from "../state/navigation.js";
import { Chat } from "./chat/chat.js";
import { Details } from "./details/details.js";
import { EmptyMain } from "./empty-main.js";
import { Finder } from "./finder.js";
import { Inbox } from "./inbox/inbox.js";
import { useShortcuts } from "./shortcuts.js";
import { NewChat } from "./new-chat/new-chat.js";
import { SettingsMenu } from "./settings/menu.js";
import { SettingsSection } from "./settings/section.js";

/** The application of a signed-in user: the list on one side, the selection on the other. */
export function Shell({ me }: { me: Me }) {
  useShortcuts();
  useTitle();
  const at = route.value;
  const isDeep = at.at === "chat" || (at.at === "settings" && at.section !== undefined);
  return (
    <div class="shell" data-depth={isDeep ? "main" : "list"} data-panel={at.at === "chat" ? at.panel : "none"}>
      {at.at === "settings" ? <SettingsMenu section={at.section} /> : <Inbox me={me} />}
      {at.at === "inbox" && <EmptyMain />}
      {at.at === "chat" && <Chat key={at.chatId} chatId={at.chatId} me={me} />}
      {at.at === "chat" && at.panel === "details" && <Details key={at.chatId} chatId={at.chatId} me={me} />}
      {at.at === "settings" && <SettingsSection section={at.section ?? "profile"} me={me} />}
      {overlay.value === "finder" && <Finder />}
      {overlay.value === "newChat" && <NewChat />}
    </div>
  );
}

/** Shows the unread count in the title of the tab. */
function useTitle(): void {
  useEffect(
    () =>
      effect(() => {
        document.title = unreadTotal.value > 0 ? `(${unreadTotal.value}) Tidings` : "Tidings";
      }),
    [],
  );
}
