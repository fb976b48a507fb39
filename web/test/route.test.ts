import assert from "node:assert/strict";
import { test } from "node:test";

import { parseRoute, routeHash, type Route } from "../src/client/store/route.js";

test("every place has an address that leads back to it", () => {
  const places: Route[] = [
    { at: "inbox" },
    { at: "chat", chatId: "chat_01M7", panel: "messages" },
    { at: "chat", chatId: "chat_01M7", panel: "details" },
    { at: "settings", section: undefined },
    { at: "settings", section: "devices" },
  ];
  for (const place of places) assert.deepEqual(parseRoute(routeHash(place)), place);
});

test("an address that nobody gave out leads to the inbox", () => {
  for (const hash of ["", "#", "#/nowhere", "#/chats/", "#/chats/user_1", "#/chats/chat_<b>"]) {
    assert.deepEqual(parseRoute(hash), { at: "inbox" }, hash);
  }
  assert.deepEqual(parseRoute("#/settings/nonsense"), { at: "settings", section: undefined });
});
