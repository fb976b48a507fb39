import assert from "node:assert/strict";

import { Person } from "./person.js";
import { newPhone, openRow, picture, sees, signIn, test, world } from "./world.js";

const { device, server } = await world();

/** Two people with a direct chat: Bob over REST, Ada with a page. */
async function pair() {
  const [ada, bob] = await Promise.all(["Ada", "Bob"].map((name) => Person.signUp(server.url, newPhone(), name)));
  assert.ok(ada && bob);
  const chatId = await bob.directChat(ada);
  const { page } = await device();
  await signIn(page, ada.phone);
  return { ada, bob, chatId, page };
}

test("Markdown is rendered, and a hostile message is only text", async () => {
  const { bob, chatId, page } = await pair();
  const alerts: string[] = [];
  page.on("dialog", (dialog) => {
    alerts.push(dialog.message());
    void dialog.dismiss();
  });
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  const kind = "**Kind** words:\n\n- *one*\n- `two`\n\n[the site](https://example.org/a?b=c)";
  const hostile = [
    "<img src=x onerror=alert(1)> <script>alert(2)</script>",
    "[click](javascript:alert(3)) <javascript:alert(4)> [data](data:text/html,<script>alert(5)</script>)",
    '![pixel](https://tracker.example/p.png) [q](https://a.example/"onmouseover="alert(6))',
    "</div></body><iframe src=https://a.example></iframe>",
  ].join("\n\n");
  await bob.send(chatId, kind, "text/markdown");
  await bob.send(chatId, hostile, "text/markdown");
  await openRow(page, "Bob");
  await sees(page, "Kind");
  const [first, second] = [page.locator(".bubble").nth(0), page.locator(".bubble").nth(1)];
  assert.equal(await first.locator("strong", { hasText: "Kind" }).count(), 1);
  assert.deepEqual(await first.locator("li").allTextContents(), ["one", "two"]);
  const link = first.getByRole("link", { name: "the site" });
  assert.deepEqual(
    await Promise.all(["href", "rel", "target"].map((name) => link.getAttribute(name))),
    ["https://example.org/a?b=c", "noopener noreferrer", "_blank"],
  );

  await second.getByText("<img src=x onerror=alert(1)>").waitFor();
  for (const element of ["img", "script", "iframe", "[onmouseover]", "[onerror]"]) {
    assert.equal(await page.locator(".log").locator(element).count(), 0, element);
  }
  const hrefs = await second.locator("a").evaluateAll((links) => links.map((one) => (one as HTMLAnchorElement).href));
  for (const href of hrefs) assert.match(href, /^https:/);
  for (const one of await second.getByRole("link").all()) await one.hover();
  assert.deepEqual(alerts, []);
  assert.deepEqual(
    requests.filter((url) => !url.startsWith(server.url) && !url.startsWith("ws")),
    [],
    "a message loads nothing",
  );
  await picture(page, "markdown");
});

test("a text from right to left reads from right to left", async () => {
  const { bob, chatId, page } = await pair();
  await bob.send(chatId, "مرحبا، كيف حالك؟");
  await bob.send(chatId, "from left to right");
  await openRow(page, "Bob");
  await sees(page, "from left to right");
  const direction = (text: string) =>
    page.locator(".bubble", { hasText: text }).evaluate((bubble) => getComputedStyle(bubble).direction);
  assert.equal(await direction("مرحبا"), "rtl");
  assert.equal(await direction("from left to right"), "ltr");
  const input = page.getByLabel("Message", { exact: true });
  await input.fill("שלום");
  assert.equal(await input.evaluate((area) => getComputedStyle(area).direction), "rtl");
});

test("a message that is too long says by how many bytes", async () => {
  const { page } = await pair();
  await openRow(page, "Bob");
  const input = page.getByLabel("Message", { exact: true });
  await input.fill("é".repeat(2048));
  assert.equal(await page.getByRole("button", { name: "Send" }).isEnabled(), true);
  await input.fill("é".repeat(2100));
  await page.getByText("Too long by 104 bytes: one message has at most 4,096.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Send" }).isEnabled(), false);
});
