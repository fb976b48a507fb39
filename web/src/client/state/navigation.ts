import { signal } from "@preact/signals";

import { parseRoute, routeHash, type Route } from "../store/route.js";

/** The current route. The address is the source of truth, and this signal follows it. */
export const route = signal<Route>(parseRoute(location.hash));

/** The open overlay, if any. */
export const overlay = signal<"finder" | "newChat" | undefined>(undefined);

window.addEventListener("hashchange", () => {
  route.value = parseRoute(location.hash);
});

navigator.serviceWorker?.addEventListener("message", (event: MessageEvent<{ open?: string }>) => {
  if (event.data.open) location.hash = new URL(event.data.open, location.origin).hash;
});

/** Navigates to a route. Back returns to the previous one. */
export function go(to: Route): void {
  const hash = routeHash(to);
  if (location.hash === hash) return;
  history.pushState(null, "", hash);
  route.value = to;
}

/** Replaces the current route, so that back does not return to it. */
export function goInstead(to: Route): void {
  history.replaceState(null, "", routeHash(to));
  route.value = to;
}

/** The open chat. */
export function openChatId(): string | undefined {
  return route.value.at === "chat" ? route.value.chatId : undefined;
}
