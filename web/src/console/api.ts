import { signal } from "@preact/signals";

const KEY = "tidings.admin-token";

/** The admin token of this tab, null while it is signed out. It is stored until the tab is closed, and nowhere else. */
export const token = signal<string | null>(sessionStorage.getItem(KEY));

/** An error of the admin API, with a text for operators. */
export class AdminError extends Error {
  override readonly name = "AdminError";

  constructor(
    /** The HTTP status; 0 if there was no response. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Checks a token and stores it if it is valid. */
export async function signIn(candidate: string): Promise<void> {
  await request("GET", "/nodes", candidate);
  sessionStorage.setItem(KEY, candidate);
  token.value = candidate;
}

/** Removes the token. */
export function signOut(): void {
  sessionStorage.removeItem(KEY);
  token.value = null;
}

/** Makes a GET request. */
export async function get<T>(path: string): Promise<T> {
  return (await call("GET", path)) as T;
}

/** Makes a request that changes state. */
export async function act(method: "POST" | "DELETE", path: string, body?: unknown): Promise<unknown> {
  return await call(method, path, body);
}

async function call(method: string, path: string, body?: unknown): Promise<unknown> {
  const current = token.value;
  if (current === null) throw new AdminError(401, "nobody is signed in");
  try {
    return await request(method, path, current, body);
  } catch (error) {
    // The token was rotated; an operator with the new one signs in again.
    if (error instanceof AdminError && error.status === 401) signOut();
    throw error;
  }
}

async function request(method: string, path: string, bearer: string, body?: unknown): Promise<unknown> {
  let response: Response;
  try {
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const headers = { authorization: `Bearer ${bearer}`, ...type };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    response = await fetch(`/admin/v1${path}`, { method, headers, ...content, cache: "no-store" });
  } catch {
    throw new AdminError(0, "the server does not answer; it may be restarting");
  }
  const text = await response.text();
  if (response.ok) return text === "" ? null : JSON.parse(text);
  throw new AdminError(response.status, messageOf(text) ?? `the server answered ${response.status}`);
}

function messageOf(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown } };
    return typeof body.error?.message === "string" ? body.error.message : undefined;
  } catch {
    return undefined;
  }
}
