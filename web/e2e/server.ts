import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A server process for one test, on a directory and port that it keeps across restarts. */
export class Server {
  private process: ChildProcess | undefined;
  private port = 0;
  private readonly directory = mkdtempSync(join(tmpdir(), "tidings-e2e-"));

  private constructor(private readonly settings: Record<string, string>) {}

  /** Starts the binary of `TIDINGS_BIN` with limits that no test can reach, and with these settings. */
  static async start(settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(settings);
    await server.start();
    return server;
  }

  /** Its address. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Its address under the name that passkeys are bound to. */
  get localhostUrl(): string {
    return `http://localhost:${this.port}`;
  }

  /** Starts it again on the same port and directory. Resolves when it is ready. */
  async start(): Promise<void> {
    const binary = process.env["TIDINGS_BIN"];
    if (!binary) throw new Error("TIDINGS_BIN is not set: give the path of the `tidings` binary to test");
    const flags = ["--data-dir", this.directory, "--listen", `127.0.0.1:${this.port}`, "--admin-listen", "127.0.0.1:0"];
    const child = spawn(binary, ["serve", "--dev", ...flags], {
      env: { ...foreign(process.env), ...NO_LIMITS, ...this.settings },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.process = child;
    const address = await listening(child);
    this.port = Number(new URL(address).port);
  }

  /** Kills it, like a power cut. */
  async kill(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** Stops it and removes its directory. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const NO_LIMITS = Object.fromEntries(
  [
    "OTP_REQUEST_PER_PHONE",
    "OTP_REQUEST_PER_IP",
    "OTP_REQUEST_PER_COUNTRY",
    "OTP_REQUEST_TOTAL",
    "PASSKEY_CHALLENGE_PER_IP",
    "PASSKEY_VERIFY_PER_IP",
    "PASSKEY_REGISTRATION",
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
  ].map((name) => [`TIDINGS_LIMITS__${name}`, "0"]),
);

/** The environment without variables that the server would read as its configuration. */
export function foreign(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith("TIDINGS_")));
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
