import { Client, indexedDbStorage, type Me } from "@tidings/client";

/** The SDK client of this browser. */
export let client = new Client({ baseUrl: location.origin, storage: indexedDbStorage("tidings") });

/** Whether another application gives its tokens to this page. */
export let isGiven = false;

/**
 * Uses the tokens of another application from now on. Each of its users has a storage of their own; nothing of another
 * user is sent in their name.
 */
export async function useTokens(token: () => Promise<string>): Promise<Me> {
  isGiven = true;
  const me = await new Client({ baseUrl: location.origin, token }).api.me();
  client = new Client({ baseUrl: location.origin, storage: indexedDbStorage(`tidings-${me.user_id}`), token });
  return me;
}
