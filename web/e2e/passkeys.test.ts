import assert from "node:assert/strict";

import type { CDPSession, Page } from "playwright-core";

import { barriers } from "./barriers.js";
import { newPhone, picture, signIn, test, world, type Device } from "./world.js";

const { device, server } = await world();

/** A device on the page that passkeys are bound to, with an authenticator in its browser. */
async function withAuthenticator(): Promise<Device & { cdp: CDPSession; authenticatorId: string }> {
  const { context, page } = await device();
  const cdp = await context.newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  await page.goto(server.localhostUrl);
  return { context, page, cdp, authenticatorId };
}

async function openPasskeys(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: `Settings of ${name}` }).click();
  await page.getByRole("link", { name: "Passkeys" }).click();
  await page.getByRole("heading", { name: "Passkeys" }).waitFor();
}

async function signOut(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("dialog").getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Phone number").waitFor();
}

test("a user adds a passkey, signs in with it alone, and removes it, without a mouse", async () => {
  const { page, cdp, authenticatorId } = await withAuthenticator();
  await signIn(page, newPhone(), "Ada");
  await openPasskeys(page, "Ada");
  const name = page.getByLabel("Name of a new passkey");
  await name.fill("Laptop");
  await name.press("Enter");
  await page.getByText("not used yet").waitFor();
  assert.deepEqual(await barriers(page), []);
  await picture(page, "passkeys");
  const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId });
  assert.equal(credentials.length, 1);
  assert.equal(credentials[0]?.isResidentCredential, true);

  // The same authenticator is not registered twice.
  await page.getByRole("button", { name: "Add a passkey" }).press("Enter");
  await page.getByText("There is a passkey of yours on this device already.").waitFor();

  await signOut(page);
  const button = page.getByRole("button", { name: "Sign in with a passkey" });
  await button.waitFor();
  assert.deepEqual(await barriers(page), []);
  await picture(page, "passkey-sign-in");
  await button.press("Enter");
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
  await openPasskeys(page, "Ada");
  await page.getByText(", used ").waitFor();
  await page.getByRole("button", { name: "Remove Laptop" }).press("Enter");
  await page.locator("dialog").getByRole("button", { name: "Remove", exact: true }).press("Enter");
  await page.getByText("Laptop").waitFor({ state: "detached" });

  // The authenticator still has it, the server does not.
  await signOut(page);
  await button.press("Enter");
  await page.getByText("This passkey is not known here. Sign in with your phone number.").waitFor();
});

test("a user who is not verified, or has no passkey, stays signed out and can use a code", async () => {
  const { page, cdp, authenticatorId } = await withAuthenticator();
  const button = page.getByRole("button", { name: "Sign in with a passkey" });
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await button.click();
  await page.getByText("No passkey was used. Please try again.").waitFor();
  await signIn(page, newPhone(), "Bob");
});
