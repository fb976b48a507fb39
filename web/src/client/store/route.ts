/** A section of the settings. */
export type SettingsSection = "profile" | "privacy" | "notifications" | "devices" | "passkeys" | "appearance" | "account";

/** A location in the application. It is the fragment of the address, so that back and reload work. */
export type Route =
  | { readonly at: "inbox" }
  | { readonly at: "chat"; readonly chatId: string; readonly panel: "messages" | "details" }
  | { readonly at: "settings"; readonly section: SettingsSection | undefined };

const SECTIONS: readonly SettingsSection[] = [
  "profile",
  "privacy",
  "notifications",
  "devices",
  "passkeys",
  "appearance",
  "account",
];

/** Parses an address; an unknown one leads to the inbox. */
export function parseRoute(hash: string): Route {
  const [first, second, third] = hash.replace(/^#?\/?/, "").split("/");
  if (first === "chats" && second && /^chat_[0-9A-Z]+$/.test(second)) {
    return { at: "chat", chatId: second, panel: third === "details" ? "details" : "messages" };
  }
  if (first === "settings") return { at: "settings", section: SECTIONS.find((section) => section === second) };
  return { at: "inbox" };
}

/** The address of a route. */
export function routeHash(route: Route): string {
  switch (route.at) {
    case "inbox":
      return "#/";
    case "chat":
      return `#/chats/${route.chatId}${route.panel === "details" ? "/details" : ""}`;
    case "settings":
      return `#/settings${route.section ? `/${route.section}` : ""}`;
  }
}
