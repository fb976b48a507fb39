import { signal } from "@preact/signals";

import { parseRoute, routeHash, type Route } from "../store/route.js";

/** Where the user is. The address is the truth, and this follows it. */
export const route = signal<Route>(parseRoute(location.hash));

/** What lies above the page, if anything does. */
export const overlay = signal<"finder" | "newChat" | undefined>(undefined);

window.addEventListener("hashchange", () => {
  route.value = parseRoute(location.hash);
});

navigator.serviceWorker?.addEventListener("message", (event: MessageEvent<{ open?: string }>) => {
  if (event.data.open) location.hash = new URL(event.data.open, location.origin).hash;
});

/** Goes somewhere. Back leads to where the user was. */
export function go(to: Route): void {
  const hash = routeHash(to);
  if (location.hash === hash) return;
  history.pushState(null, "", hash);
  route.value = to;
}

/** Goes somewhere in place of where the user is, for what back must not lead to again. */
export function goInstead(to: Route): void {
  history.replaceState(null, "", routeHash(to));
  route.value = to;
}

/** The chat that is open. */
export function openChatId(): string | undefined {
  return route.value.at === "chat" ? route.value.chatId : undefined;
}
