import { signal } from "@preact/signals";

/** A route of the console. */
export type Route =
  | { view: "overview" }
  | { view: "nodes" }
  | { view: "search" }
  | { view: "user"; id: string }
  | { view: "chat"; id: string }
  | { view: "message"; id: string }
  | { view: "deliveries" }
  | { view: "audit" };

/** The route of an address; the overview if it is unknown. */
export function parseRoute(hash: string): Route {
  const [view = "", id = ""] = hash.replace(/^#\/?/, "").split("/").map(decode);
  switch (view) {
    case "nodes":
    case "search":
    case "deliveries":
    case "audit":
      return { view };
    case "users":
      return id === "" ? { view: "search" } : { view: "user", id };
    case "chats":
      return id === "" ? { view: "search" } : { view: "chat", id };
    case "messages":
      return id === "" ? { view: "search" } : { view: "message", id };
    default:
      return { view: "overview" };
  }
}

/** The address of a route. */
export function href(route: Route): string {
  switch (route.view) {
    case "user":
    case "chat":
    case "message":
      return `#/${route.view}s/${encodeURIComponent(route.id)}`;
    default:
      return `#/${route.view}`;
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** The current route. */
export const route = signal<Route>({ view: "overview" });

/** Follows the address bar. */
export function followAddress(): void {
  const follow = () => (route.value = parseRoute(location.hash));
  addEventListener("hashchange", follow);
  follow();
}

/** Navigates to a route. */
export function go(to: Route): void {
  location.hash = href(to);
}
