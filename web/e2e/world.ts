import { existsSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { after, test as testOfNode } from "node:test";

import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";

import { Server } from "./server.js";

/** Timeout of an expectation. Generous, because a machine under load is slow; a wrong page never fulfils it. */
export const PATIENCE_MS = 30_000;

/** Longer than any test takes. A hanging test fails and does not block the others. */
const TEST_TIMEOUT_MS = 300_000;

const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A server and a browser for one test file. */
export interface World {
  readonly server: Server;
  readonly browser: Browser;
  /** A separate browser profile, which is a separate device. */
  device(options?: BrowserContextOptions): Promise<Device>;
}

/** One device of a user. */
export interface Device {
  readonly context: BrowserContext;
  readonly page: Page;
}

/** One test of a file. */
export function test(name: string, body: () => Promise<void>): void {
  void testOfNode(name, { timeout: TEST_TIMEOUT_MS }, body);
}

/** Starts a browser, and ends it after the last test. */
export async function browse(): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ARGS });
  after(() => browser.close());
  return browser;
}

/** Starts the server and the browser of a test file, and stops them after the last test. */
export async function world(settings: Record<string, string> = {}): Promise<World> {
  const server = await Server.start(settings);
  after(() => server.remove());
  const browser = await browse();
  return {
    server,
    browser,
    device: async (options = {}) => {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB", ...options });
      context.setDefaultTimeout(PATIENCE_MS);
      await useAssets(context);
      const page = await context.newPage();
      page.on("pageerror", (error) => {
        throw new Error(`the page has failed: ${error.message}`, { cause: error });
      });
      await page.goto(server.url);
      return { context, page };
    },
  };
}

/**
 * Replaces the assets of the binary by those of the directory `TIDINGS_ASSETS`, if it is set: a change of the pages is
 * then tested without a new binary. Tests of the service worker need the binary, because its requests are not replaced.
 */
export async function useAssets(context: BrowserContext): Promise<void> {
  const directory = process.env["TIDINGS_ASSETS"];
  if (!directory) return;
  await context.route("**/assets/*", (route) => {
    const path = join(directory, basename(new URL(route.request().url()).pathname));
    return existsSync(path) ? route.fulfill({ path }) : route.continue();
  });
}

let lastPhone = 100;

/** An unused phone number. */
export function newPhone(): string {
  lastPhone += 1;
  return `+1415555${String(lastPhone).padStart(4, "0")}`;
}

/** Signs in; with a name if the user is new. */
export async function signIn(page: Page, phone: string, name?: string): Promise<void> {
  await page.getByLabel("Phone number").fill(phone);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Code").fill("000000");
  if (name) {
    await page.getByLabel("Your name").fill(name);
    await page.getByRole("button", { name: "Start" }).click();
  }
  await page.getByRole("heading", { name: "Chats", exact: true }).waitFor();
}

/** Opens the direct chat with the user of a phone number. */
export async function openDirect(page: Page, phone: string): Promise<void> {
  await page.getByRole("button", { name: "New chat" }).first().click();
  await page.getByLabel("Name or phone number").fill(phone);
  await page.getByRole("button", { name: `Find ${phone}` }).click();
  await page.locator(".person").click();
  await page.getByLabel("Message", { exact: true }).waitFor();
}

/** Chooses the user of a phone number in a dialog. */
export async function pick(page: Page, phone: string): Promise<void> {
  await page.locator(".picker input").fill(phone);
  await page.locator(".picker input").press("Enter");
  await page.locator(".person").click();
}

/** Opens a chat from the inbox. */
export async function openRow(page: Page, name: string): Promise<void> {
  await page.locator("[data-row]").filter({ hasText: name }).click();
  await page.getByLabel("Message", { exact: true }).waitFor();
}

/** Writes a message and sends it. */
export async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

/** The texts of the open chat, from top to bottom. */
export function said(page: Page): Promise<string[]> {
  return page.locator(".bubble .text").allTextContents();
}

/** Waits until the open chat shows a text. */
export async function sees(page: Page, text: string): Promise<void> {
  await page.locator(".bubble .text", { hasText: text }).first().waitFor();
}

/** Waits until the bubble of a text has a status. */
export async function hasStatus(page: Page, text: string, status: string): Promise<void> {
  await page.locator(`.bubble[data-status="${status}"]`, { hasText: text }).first().waitFor();
}

/** Saves a screenshot for manual review. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync("screenshots", { recursive: true });
  await page.screenshot({ path: `screenshots/${name}.png` });
}
