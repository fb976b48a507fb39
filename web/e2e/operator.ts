import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Page } from "playwright-core";

/** A server process with an admin listener that is known, for whoever tests the console. */
export interface Operated {
  /** The public listener. */
  readonly url: string;
  /** The admin listener. */
  readonly adminUrl: string;
  readonly token: string;
  /** Ends it and removes what it wrote. */
  remove(): Promise<void>;
}

/** Starts the binary of `TIDINGS_BIN`. */
export async function operated(): Promise<Operated> {
  const binary = process.env["TIDINGS_BIN"];
  if (!binary) throw new Error("TIDINGS_BIN is not set: give the path of the `tidings` binary to test");
  const directory = mkdtempSync(join(tmpdir(), "tidings-console-"));
  const admin = `127.0.0.1:${await freePort()}`;
  const flags = ["--data-dir", directory, "--listen", "127.0.0.1:0", "--admin-listen", admin];
  const limits = ["OTP_REQUEST_PER_IP", "REST_READ", "REST_WRITE", "SEND_PER_CHAT", "SEND_PER_USER", "CONNECTIONS_NEW"];
  const env = { ...process.env, ...Object.fromEntries(limits.map((name) => [`TIDINGS_LIMITS__${name}`, "0"])) };
  delete env["TIDINGS_BIN"];
  const child = spawn(binary, ["serve", "--dev", ...flags], { env, stdio: ["ignore", "pipe", "inherit"] });
  const url = await listening(child);
  const { token } = JSON.parse(readFileSync(join(directory, "admin.json"), "utf8")) as { token: string };
  const remove = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    if (child.kill("SIGKILL")) await gone;
    rmSync(directory, { recursive: true, force: true });
  };
  return { url, adminUrl: `http://${admin}`, token, remove };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const said = /listening on (http:\S+)/.exec(output);
      if (said?.[1]) resolve(said[1]);
    });
    child.once("exit", (code) => reject(new Error(`the server has ended with ${code} before it listened`)));
  });
}

/** Somebody who is signed in, over REST alone. */
export class Person {
  private constructor(
    private readonly url: string,
    private readonly token: string,
    readonly userId: string,
    readonly sessionId: string,
    readonly phone: string,
  ) {}

  static async signUp(url: string, phone: string, name: string): Promise<Person> {
    await post(url, "/auth/request-otp", { phone_number: phone });
    const device = { device_id: crypto.randomUUID(), display_name: name };
    const signedIn = await post(url, "/auth/verify-otp", { phone_number: phone, otp: "000000", ...device });
    const { user, session, tokens } = signedIn as {
      user: { user_id: string };
      session: { session_id: string };
      tokens: { access_token: string };
    };
    return new Person(url, tokens.access_token, user.user_id, session.session_id, phone);
  }

  async directChat(other: Person): Promise<string> {
    const chat = await post(this.url, "/chats", { type: "direct", member_ids: [other.userId] }, this.token);
    return (chat as { chat_id: string }).chat_id;
  }

  /** Sends a message and returns its id. */
  async send(chatId: string, content: string): Promise<string> {
    const message = { client_message_id: crypto.randomUUID(), content };
    const sent = await post(this.url, `/chats/${chatId}/messages`, message, this.token);
    return (sent as { message_id: string }).message_id;
  }

  /** Whether the session is good. */
  async isSignedIn(): Promise<boolean> {
    const headers = { authorization: `Bearer ${this.token}` };
    return (await fetch(`${this.url}/api/v1/users/me`, { headers })).ok;
  }
}

async function post(url: string, path: string, body: unknown, token?: string): Promise<unknown> {
  const credential = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const headers = { "content-type": "application/json", ...credential };
  const response = await fetch(`${url}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = (await response.json()) as { data: unknown };
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer.data;
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What a page does wrong by those who cannot see it or use no mouse, one line each. */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  type Violation = { id: string; nodes: { html: string }[] };
  const violations = await page.evaluate<Violation[]>("axe.run().then((found) => found.violations)");
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}
