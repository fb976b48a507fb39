import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import {
  hasStatus,
  newPhone,
  openDirect,
  openRow,
  PATIENCE_MS,
  picture,
  said,
  say,
  sees,
  signIn,
  test,
  world,
} from "./world.js";

const { server, device } = await world();
const COUNT = 300;

/** Longest time to scroll through all of them, with the loads on the way. */
const WALK_MS = 3 * PATIENCE_MS;

/** Sends over REST: the page shows messages independently of their sender. */
async function fill(phone: string, chatId: string): Promise<void> {
  const post = async (path: string, body: unknown, token?: string) => {
    const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(`${server.url}/api/v1${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    assert.ok(response.ok, `${path}: ${response.status}`);
    return (await response.json()) as { data: { tokens: { access_token: string } } };
  };
  await post("/auth/request-otp", { phone_number: phone });
  const signedIn = await post("/auth/verify-otp", {
    phone_number: phone,
    otp: "000000",
    device_id: crypto.randomUUID(),
  });
  for (let number = 1; number <= COUNT; number += 1) {
    const content = number % 7 === 0 ? `${number}: ${"a longer line of text ".repeat(12)}` : `${number}: short`;
    await post(
      `/chats/${chatId}/messages`,
      { client_message_id: crypto.randomUUID(), content },
      signedIn.data.tokens.access_token,
    );
  }
}

/** The numbers on the page. */
async function numbers(page: Page): Promise<number[]> {
  return (await said(page)).map((text) => Number(text.split(":")[0]));
}

/** The position of a message on the screen. */
function topOf(page: Page, number: number): Promise<number> {
  return page
    .locator(".bubble", { hasText: new RegExp(`^\\w+: ${number}:`) })
    .evaluate((bubble) => bubble.getBoundingClientRect().top);
}

test("history scrolls in both directions without jumps and without doubles", async () => {
  const [adasPhone, bobsPhone] = [newPhone(), newPhone()];
  const { page: ada } = await device();
  const { page: bob } = await device();
  await signIn(ada, adasPhone, "Ada");
  await signIn(bob, bobsPhone, "Bob");
  await openDirect(ada, bobsPhone);
  const chatId = new URL(ada.url()).hash.split("/")[2] ?? "";
  await fill(adasPhone, chatId);

  // Bob has read nothing: the chat opens at the first unread message.
  await bob.locator("[data-row] .badge", { hasText: `${COUNT} unread` }).waitFor();
  await openRow(bob, "Ada");
  await bob.locator(".unread-divider").waitFor();
  await sees(bob, "1: short");
  const divider = await bob.locator(".unread-divider").boundingBox();
  assert.ok(divider && divider.y > 0 && divider.y < 900, "the divider is on the screen");
  await picture(bob, "history-unread");

  const log = bob.locator(".log");
  const seen = new Set<number>();
  const look = async () => {
    const shown = await numbers(bob);
    assert.deepEqual(
      shown,
      shown.toSorted((a, b) => a - b),
      "in order",
    );
    assert.equal(new Set(shown).size, shown.length, "once each");
    shown.forEach((number) => seen.add(number));
    return shown;
  };

  // Down to the newest, a screen at a time, watching one message in each step.
  for (const until = Date.now() + WALK_MS; !(await look()).includes(COUNT) && Date.now() < until; ) {
    const before = await log.evaluate((element) => element.scrollTop);
    await bob.mouse.move(800, 450);
    await bob.mouse.wheel(0, 600);
    await bob.waitForFunction(
      ([top]) => {
        const element = document.querySelector(".log");
        return (
          element !== null &&
          (element.scrollTop !== top || element.scrollHeight - element.scrollTop - element.clientHeight < 2)
        );
      },
      [before] as const,
    );
  }
  assert.equal(seen.size, COUNT);
  await bob.getByRole("button", { name: "Jump to the newest message" }).click();
  await bob.locator("[data-row] .badge").waitFor({ state: "detached" });

  // Up again: the observed message stays in place while older ones are loaded above.
  seen.clear();
  for (const until = Date.now() + WALK_MS; !(await look()).includes(1) && Date.now() < until; ) {
    const moved = await log.evaluate(async (element) => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const bubbles = () => [...element.querySelectorAll<HTMLElement>("[data-key]")];
      const middle = bubbles().find((bubble) => bubble.getBoundingClientRect().top > 300) ?? bubbles()[0];
      const key = middle?.dataset["key"] ?? "";
      const place = () => element.querySelector(`[data-key="${key}"]`)?.getBoundingClientRect().top ?? NaN;
      const before = place();
      const step = Math.min(300, element.scrollTop);
      element.scrollTop -= step;
      await frame();
      await frame();
      await frame();
      return Math.abs(place() - before - step);
    });
    assert.ok(moved < 2, `a message has jumped by ${moved} px`);
  }
  assert.equal(seen.size, COUNT);

  // New messages do not move the page; one click scrolls to the newest.
  const stays = (await numbers(bob))[2] ?? 1;
  const before = await topOf(bob, stays);
  await say(ada, "301: new");
  await bob.locator(".row-preview", { hasText: "301: new" }).waitFor();
  assert.equal(await topOf(bob, stays), before);
  await bob.getByRole("button", { name: "Jump to the newest message" }).click();
  await sees(bob, "301: new");

  // Sending a message scrolls to the end.
  await log.evaluate((element) => (element.scrollTop -= 700));
  await bob.getByRole("button", { name: "Jump to the newest message" }).waitFor();
  await say(bob, "302: mine");
  await hasStatus(bob, "302: mine", "read");
  await bob.getByRole("button", { name: "Jump to the newest message" }).waitFor({ state: "detached" });
  assert.ok(await bob.locator(".bubble", { hasText: "302: mine" }).isVisible());
});
