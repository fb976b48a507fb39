import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const LIMITS = [
  "OTP_REQUEST_PER_PHONE",
  "OTP_REQUEST_PER_IP",
  "OTP_REQUEST_PER_COUNTRY",
  "OTP_REQUEST_TOTAL",
  "OTP_VERIFY",
  "REFRESH",
  "REST_READ",
  "REST_WRITE",
  "CONNECTIONS_LIVE",
  "CONNECTIONS_NEW",
  "SEND_PER_CHAT",
  "SEND_PER_USER",
  "SYNC",
  "TYPING",
  "FRAMES_PER_CONNECTION",
  "GROUPS_CREATED",
  "MEMBERS_ADDED",
  "CHATS_PER_USER",
  "MESSAGE_MIB",
  "UNAUTHENTICATED_PER_IP",
];

/** The real server on a directory of its own, without limits. */
export class Server {
  private child: ChildProcess | undefined;
  private address = "127.0.0.1:0";
  private readonly directory = mkdtempSync(join(tmpdir(), "tidings-"));

  private constructor(private readonly settings: Record<string, string>) {}

  /** Starts a server with these settings in addition to the defaults. */
  static async run(settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(settings);
    await server.start();
    return server;
  }

  get baseUrl(): string {
    return `http://${this.address}`;
  }

  get port(): number {
    return Number(this.address.split(":").at(-1));
  }

  /** Starts it, on the same directory and port as before. */
  async start(): Promise<void> {
    const binary = process.env["TIDINGS_BIN"];
    assert.ok(binary, "TIDINGS_BIN names no binary: build one with `cargo build` and name target/debug/tidings");
    const limits = Object.fromEntries(LIMITS.map((name) => [`TIDINGS_LIMITS__${name}`, "0"]));
    const args = ["serve", "--dev", "--data-dir", this.directory, "--listen", this.address];
    const child = spawn(binary, [...args, "--admin-listen", "127.0.0.1:0"], {
      // The server treats every variable with this prefix as a setting, and `TIDINGS_BIN` is not one.
      env: { PATH: process.env["PATH"], TIDINGS_LOG__LEVEL: "error", ...limits, ...this.settings },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.child = child;
    for await (const line of createInterface({ input: child.stdout })) {
      const address = /listening on http:\/\/(\S+)/.exec(line)?.[1];
      if (address !== undefined) {
        this.address = address;
        return;
      }
    }
    assert.fail("the server ended before it listened");
  }

  /** Ends it with a signal, and returns its exit code. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return null;
    }
    const exit = once(child, "exit");
    child.kill(signal);
    const [code] = (await exit) as [number | null];
    return code;
  }

  /** Ends it and removes its directory. */
  async remove(): Promise<void> {
    await this.end("SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }
}
