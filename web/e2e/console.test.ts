import assert from "node:assert/strict";
import { after } from "node:test";

import { chromium, type Page } from "playwright-core";

import { barriers } from "./barriers.js";
import { operated } from "./operator.js";
import { Person } from "./person.js";
import { newPhone, PATIENCE_MS, picture, test, useAssets } from "./world.js";

const server = await operated();
const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
after(async () => {
  await browser.close();
  await server.remove();
});

/** The console in a browser of its own. */
async function opened(colorScheme: "light" | "dark" = "light", width = 1280): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  context.setDefaultTimeout(PATIENCE_MS);
  await useAssets(context);
  const page = await context.newPage();
  page.on("pageerror", (error) => {
    throw new Error(`the page has failed: ${error.message}`, { cause: error });
  });
  await page.goto(`${server.adminUrl}/console`);
  return page;
}

async function signIn(page: Page, token = server.token): Promise<void> {
  await page.getByLabel("Admin token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

async function lookFor(page: Page, text: string): Promise<void> {
  await page.getByRole("searchbox").fill(text);
  await page.getByRole("searchbox").press("Enter");
}

/** The full text of a view. */
async function read(page: Page): Promise<string> {
  return (await page.locator("main").innerText()).replaceAll(/\s+/g, " ");
}

test("only the token of an operator opens the console, and the tab alone keeps it", async () => {
  const page = await opened();
  assert.deepEqual(await barriers(page), []);
  await signIn(page, "not the token");
  await page.getByText("This is no token of an operator here.").waitFor();
  await signIn(page);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(await page.evaluate("localStorage.getItem('tidings.admin-token')"), null);
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Admin token").waitFor();
  assert.equal(await page.evaluate("sessionStorage.length"), 0);
});

test("plots show the sends that are made, in both themes", async () => {
  const ann = await Person.signUp(server.url, newPhone(), "Ann");
  const chatId = await ann.directChat(await Person.signUp(server.url, newPhone(), "Bob"));
  for (const theme of ["light", "dark"] as const) {
    const page = await opened(theme);
    await signIn(page);
    const plotted = page.getByRole("img", { name: /^Messages: sends (?!0,)[\d.]+, acknowledged (?!0,)[\d.]+, / });
    let isSeen = false;
    const seen = plotted.waitFor().then(() => (isSeen = true));
    while (!isSeen) await ann.send(chatId, "for the plot");
    await seen;
    await page.getByRole("img", { name: /^Time to the answer: p50 [\d.]+ m?s, p99 [\d.]+ m?s/ }).waitFor();
    await page.getByRole("img", { name: /^Disk: used [\d.]+ ([KMG]i)?B, free [\d.]+ [MG]iB/ }).waitFor();
    await page.getByText(/B used by the store/).waitFor();
    await page.getByText("No invariant was violated").waitFor();
    await page.getByRole("radio", { name: "30 min" }).check({ force: true });
    assert.deepEqual(await barriers(page), [], theme);
    await picture(page, `console-overview-${theme}`);
  }
});

test("where is my message? is answered in plain words, without its content", async () => {
  const ann = await Person.signUp(server.url, newPhone(), "Ada Lovelace");
  const bob = await Person.signUp(server.url, newPhone(), "Bob Noyce");
  const chatId = await ann.directChat(bob);
  const messageId = await ann.send(chatId, "a secret of two");
  const page = await opened();
  await signIn(page);
  await lookFor(page, messageId);
  await page.getByText("Bob Noyce: has never been connected, and no device is registered for notifications.").waitFor();
  const answer = await read(page);
  assert.match(answer, /It was committed at .* as message 1 of its chat, and is in the log\./);
  assert.match(answer, /It has reached none of 1 other member\./);
  assert.match(answer, /Received by 0 of 1 Read by 0 of 1/);
  assert.doesNotMatch(answer, /secret/);
  assert.deepEqual(await barriers(page), []);
  await picture(page, "console-message");

  await page.getByRole("link", { name: chatId }).click();
  await page.getByRole("heading", { name: "Ada Lovelace and Bob Noyce" }).waitFor();
  await page.getByRole("link", { name: "Where is message 1?" }).waitFor();
  await page.getByRole("img", { name: "Bob Noyce, away: received up to 0, read up to 0 of 1" }).waitFor();
  assert.doesNotMatch(await read(page), /secret/);
  assert.deepEqual(await barriers(page), []);
  await picture(page, "console-chat");
});

test("a session is revoked after its effect was named, and the audit says so", async () => {
  const ann = await Person.signUp(server.url, newPhone(), "Grace Hopper");
  const page = await opened("dark", 820);
  await signIn(page);
  await lookFor(page, ann.phone);
  await page.getByText(`•••${ann.phone.slice(-3)}`).waitFor();
  await page.getByRole("link", { name: "Grace Hopper" }).click();
  await page.getByRole("button", { name: "Revoke" }).click();
  const dialog = page.getByRole("dialog", { name: "Revoke session?" });
  await dialog.getByText("its sockets close within a second").waitFor();
  assert.deepEqual(await barriers(page), []);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await ann.isSignedIn(), true);

  await page.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByRole("button", { name: "Revoke session" }).click();
  await page.getByText("Signed in nowhere here.").waitFor();
  assert.equal(await ann.isSignedIn(), false);
  assert.deepEqual(await barriers(page), []);

  await page.getByRole("link", { name: "Audit" }).click();
  const row = page.getByRole("row").filter({ hasText: ann.sessionId });
  assert.match((await row.innerText()).replaceAll(/\s+/g, " "), /Revoke session .* done 200/);
  assert.equal(await row.count(), 1);
  assert.deepEqual(await barriers(page), []);
  await picture(page, "console-audit");
});

test("a user is suspended and can come back, after the effect was named", async () => {
  const ann = await Person.signUp(server.url, newPhone(), "Ann Suspended");
  const page = await opened();
  await signIn(page);
  await lookFor(page, ann.phone);
  await page.getByRole("link", { name: "Ann Suspended" }).click();
  await page.getByRole("button", { name: "Suspend", exact: true }).click();
  await page.getByRole("dialog").getByText("every token is refused").waitFor();
  await page.getByRole("button", { name: "Suspend user" }).click();
  await page.getByText("suspended", { exact: true }).waitFor();
  assert.equal(await ann.isSignedIn(), false);
  assert.deepEqual(await barriers(page), []);
  await page.getByRole("button", { name: "End suspension" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End suspension" }).click();
  await page.getByText("suspended", { exact: true }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Audit" }).click();
  await page.getByRole("row").filter({ hasText: ann.userId }).filter({ hasText: "Suspend user" }).waitFor();
});

test("deliveries show the webhook and the dead letters", async () => {
  const page = await opened();
  // The server of this test has no webhook; the answers are those of the admin API.
  await page.route("**/admin/v1/webhook", (route) =>
    route.fulfill({
      json: { lag_events: 7, failing_since: new Date().toISOString(), last_error: "503", delivered: 5, failed: 2 },
    }),
  );
  const letter = { id: "dead_1", kind: "event", chat_id: "chat_1", event_id: "e", position: 9, attempts: 12 };
  let letters = [{ ...letter, reason: "answered 500", dead_at: new Date().toISOString() }];
  await page.route("**/admin/v1/dead-letters", (route) => route.fulfill({ json: { dead_letters: letters, next: null } }));
  const deeds: string[] = [];
  await page.route("**/admin/v1/dead-letters/*/redeliver", (route) => {
    deeds.push(`${route.request().method()} ${new URL(route.request().url()).pathname}`);
    letters = [];
    return route.fulfill({ json: {} });
  });
  await signIn(page);
  await page.getByRole("link", { name: "Deliveries" }).click();
  await page.getByText("answered 500").waitFor();
  await page.getByText("failing").waitFor();
  assert.match(await read(page), /Events behind 7 .*Delivered 5 .*Failed attempts 2 .*Last error 503/);
  assert.deepEqual(await barriers(page), []);
  await picture(page, "console-deliveries");
  await page.getByRole("button", { name: "Redeliver" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Redeliver" }).click();
  await page.getByText("Everything was delivered, or waits for its next attempt.").waitFor();
  assert.deepEqual(deeds, ["POST /admin/v1/dead-letters/dead_1/redeliver"]);

  await page.unrouteAll();
  await page.reload();
  await page.getByText("This service has no webhook.").waitFor();
});

test("a gateway is drained and resumed, by keyboard alone", async () => {
  const page = await opened();
  await signIn(page);
  await page.getByRole("link", { name: "Nodes" }).press("Enter");
  await page.getByRole("button", { name: "Drain" }).press("Enter");
  await page.getByText("It is the only gateway: nobody can connect until it is resumed.").waitFor();
  await page.getByRole("button", { name: "Drain gateway" }).press("Enter");
  await page.getByText("drained, safe to remove").waitFor();
  assert.equal((await fetch(`${server.url}/readyz`)).status, 503);
  assert.deepEqual(await barriers(page), []);
  await picture(page, "console-nodes");
  await page.getByRole("button", { name: "Resume" }).press("Enter");
  await page.getByRole("button", { name: "Resume gateway" }).press("Enter");
  await page.getByText("serving").waitFor();
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
});

test("what there is not is said in words", async () => {
  const page = await opened();
  await signIn(page);
  await lookFor(page, "Ada");
  await page.getByRole("alert").filter({ hasText: "is none of: the id of a user, chat, message, session" }).waitFor();
  await lookFor(page, "user_01ARZ3NDEKTSV4RRFFQ69G5FAV");
  await page.getByText("There is nothing by that name").waitFor();
  assert.deepEqual(await barriers(page), []);
  await page.goto(`${server.adminUrl}/console#/messages/msg_01ARZ3NDEKTSV4RRFFQ69G5FAV`);
  await page.getByRole("alert").filter({ hasText: "it has expired, or none was ever committed" }).waitFor();
  assert.deepEqual(await barriers(page), []);
});
