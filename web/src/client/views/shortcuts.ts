import { useEffect } from "preact/hooks";

import { go, overlay, route } from "../state/navigation.js";

/** Global shortcuts: Ctrl K or ⌘K finds a chat, Escape goes one level up. */
export function useShortcuts(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        overlay.value = overlay.value === "finder" ? undefined : "finder";
      } else if (event.key === "Escape" && overlay.value === undefined && !document.querySelector("dialog[open]")) {
        stepOut();
      }
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

function stepOut(): void {
  const at = route.value;
  if (at.at === "chat" && at.panel === "details") go({ ...at, panel: "messages" });
  else if (at.at === "chat") focusRow(at.chatId);
  else if (at.at === "settings") go({ at: "inbox" });
}

/** Escape in a chat focuses its row, so that the arrow keys continue from there. */
function focusRow(chatId: string): void {
  const row = document.querySelector<HTMLElement>(`[data-row="${chatId}"]`);
  // On a phone the list is hidden while a chat is open.
  if (row && row.offsetParent !== null) row.focus();
  else go({ at: "inbox" });
}
