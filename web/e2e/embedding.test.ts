import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

import type { Page } from "playwright-core";

import { test, world } from "./world.js";

/** Another application: it signs its own tokens, and shows the chat in a frame of its page. */
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const [issuer, audience] = ["https://app.example", "chat"];
const directory = mkdtempSync(join(tmpdir(), "tidings-issuer-"));
const jwksFile = join(directory, "jwks.json");
writeFileSync(jwksFile, JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "ES256" }] }));

function token(subject: string, lifetime = 3600): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, aud: audience, sub: subject, name: subject, iat: now - 7200, exp: now + lifetime };
  const signed = `${part({ alg: "ES256", kid: "1", typ: "JWT" })}.${part(claims)}`;
  const signature = sign("sha256", Buffer.from(signed), { key: privateKey, dsaEncoding: "ieee-p1363" });
  return `${signed}.${signature.toString("base64url")}`;
}

let framed = "";
const application = createServer((_, response) => {
  response.setHeader("content-type", "text/html");
  response.end(`<!doctype html><title>Application</title><iframe src="${framed}" width="1200" height="800"></iframe>
    <script>
      addEventListener("message", ({ data, origin, source }) => {
        if (data.type === "tidings.token-request" && origin === "${framed}")
          source.postMessage({ type: "tidings.token", token: "${token("Ada")}" }, origin);
      });
    </script>`);
});
application.listen(0, "127.0.0.1");
await once(application, "listening");
const { port } = application.address() as AddressInfo;
after(() => {
  application.close();
  rmSync(directory, { recursive: true });
});

const { server, browser, device } = await world({
  TIDINGS_AUTH__PHONE__ENABLED: "false",
  TIDINGS_AUTH__EXTERNAL__JWKS_FILE: jwksFile,
  TIDINGS_AUTH__EXTERNAL__ISSUER: issuer,
  TIDINGS_AUTH__EXTERNAL__AUDIENCE: audience,
  TIDINGS_AUTH__EXTERNAL__NAME_CLAIM: "name",
  TIDINGS_FRAME_ANCESTORS: `http://127.0.0.1:${port}`,
});
framed = server.url;

test("a token in the address signs in, and the address forgets it", async () => {
  const { page, context } = await device();
  await page.getByText("You sign in with your application.").waitFor();
  assert.equal(await page.getByLabel("Phone number").count(), 0);

  const opened = async (subject: string, lifetime?: number) => {
    for (const earlier of context.pages()) await earlier.close();
    const page = await context.newPage();
    await page.goto(`${server.url}/#token=${token(subject, lifetime)}`);
    return page;
  };
  const inbox = (page: Page) => page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
  const ada = await opened("Ada");
  await inbox(ada);
  assert.doesNotMatch(ada.url(), /token/);
  await ada.reload();
  await inbox(ada);
  await ada.goto(`${server.url}/#/settings/profile`);
  assert.equal(await ada.getByLabel("Your name").inputValue(), "Ada");

  // The next user of this browser sees nothing of the last one.
  const bob = await opened("Bob");
  await inbox(bob);
  await bob.goto(`${server.url}/#/settings/profile`);
  assert.equal(await bob.getByLabel("Your name").inputValue(), "Bob");

  const late = await opened("Ada", -3600);
  await late.getByText("Your sign-in has ended.").waitFor();
});

test("a page of a listed origin shows the chat in a frame and gives it tokens", async () => {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.frameLocator("iframe").getByRole("heading", { name: "Chats", exact: true }).waitFor();

  // The same page under another name is another origin.
  await page.goto(`http://localhost:${port}/`);
  await page.waitForFunction("document.querySelector('iframe').contentDocument === null");
  const frame = page.frames().find((frame) => frame !== page.mainFrame());
  assert.match(frame?.url() ?? "", /^chrome-error:/);
  await page.close();
});
