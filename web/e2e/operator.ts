import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";

import { foreign } from "./server.js";

/** A server process with a known admin listener, for tests of the console. */
export interface Operated {
  /** The public listener. */
  readonly url: string;
  /** The admin listener. */
  readonly adminUrl: string;
  readonly token: string;
  /** Stops it and removes its directory. */
  remove(): Promise<void>;
}

/** Starts the binary of `TIDINGS_BIN`. */
export async function operated(): Promise<Operated> {
  const binary = process.env["TIDINGS_BIN"];
  if (!binary) throw new Error("TIDINGS_BIN is not set: give the path of the `tidings` binary to test");
  const directory = mkdtempSync(join(tmpdir(), "tidings-console-"));
  const flags = ["--data-dir", directory, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
  const limits = [
    "OTP_REQUEST_PER_IP",
    "REST_READ",
    "REST_WRITE",
    "SEND_PER_CHAT",
    "SEND_PER_USER",
    "GROUPS_CREATED",
    "MEMBERS_ADDED",
    "CONNECTIONS_NEW",
    "FRAMES_PER_CONNECTION",
    "UNAUTHENTICATED_PER_IP",
  ];
  const env = { ...foreign(process.env), ...Object.fromEntries(limits.map((name) => [`TIDINGS_LIMITS__${name}`, "0"])) };
  const child = spawn(binary, ["serve", "--dev", ...flags], { env, stdio: ["ignore", "pipe", "pipe"] });
  const [url, admin] = await Promise.all([found(child, child.stdout, /listening on (http:\S+)/), adminAddress(child)]);
  const { token } = JSON.parse(readFileSync(join(directory, "admin.json"), "utf8")) as { token: string };
  const remove = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    if (child.kill("SIGKILL")) await gone;
    rmSync(directory, { recursive: true, force: true });
  };
  return { url, adminUrl: `http://${admin}`, token, remove };
}

/** The address of the admin listener, from the log. The log stays visible. */
function adminAddress(child: ChildProcess): Promise<string> {
  child.stderr?.pipe(process.stderr);
  return found(child, child.stderr, /admin_address=(\S+)/);
}

/** Waits until the output of a process has a text, and returns its first group. */
function found(child: ChildProcess, stream: Readable | null, text: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    stream?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      // The rest of an unfinished line may belong to the text.
      const said = text.exec(output.slice(0, output.lastIndexOf("\n") + 1));
      if (said?.[1]) resolve(said[1]);
    });
    child.once("exit", (code) => reject(new Error(`the server has ended with ${code} before it listened`)));
  });
}
