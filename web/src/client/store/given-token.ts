/** Shortest remaining lifetime with which a token is used again. */
const EARLY_MS = 60_000;

/** The token in the fragment of an address, `#token=…`. */
export function tokenInFragment(hash: string): string | undefined {
  return /^#token=([\w.~-]+)$/.exec(hash)?.[1];
}

/** The token in a message of the page around this one, `{ type: "tidings.token", token }`. */
export function tokenInMessage(data: unknown): string | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  const { type, token } = data as { type?: unknown; token?: unknown };
  return type === "tidings.token" && typeof token === "string" && token !== "" ? token : undefined;
}

/** Whether a JWT is usable for a while. One without a readable expiry is not. */
export function isFresh(token: string, now: number): boolean {
  try {
    const payload = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const { exp } = JSON.parse(atob(payload)) as { exp?: unknown };
    return typeof exp === "number" && exp * 1000 - EARLY_MS > now;
  } catch {
    return false;
  }
}
