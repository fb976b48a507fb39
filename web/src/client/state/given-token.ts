import { site } from "../site.js";
import { isFresh, tokenInFragment, tokenInMessage } from "../store/given-token.js";

/** Where a token of the fragment survives a reload. It ends with the tab. */
const KEY = "tidings.given-token";
/** How long the page around this one may take for an answer. */
const ANSWER_MS = 3000;

/**
 * The tokens that another application gives to this page, if it does: in the fragment of the address, or by messages of
 * the page around this one.
 */
export async function givenTokens(): Promise<(() => Promise<string>) | undefined> {
  const given = tokenInFragment(location.hash);
  if (given !== undefined) {
    // Neither the history nor a copied address contains the token.
    history.replaceState(null, "", location.pathname + location.search);
    sessionStorage.setItem(KEY, given);
  }
  const kept = sessionStorage.getItem(KEY);
  if (kept !== null) return () => Promise.resolve(kept);
  if (window.parent === window) return undefined;
  const { frame_ancestors: origins } = await site();
  if (origins.length === 0) return undefined;
  let token = await ask(origins).catch(() => undefined);
  if (token === undefined) return undefined;
  return async () => {
    if (token === undefined || !isFresh(token, Date.now())) token = await ask(origins);
    return token;
  };
}

/** Forgets a token of the fragment. */
export function forgetGivenToken(): void {
  sessionStorage.removeItem(KEY);
}

/** Asks the page around this one for a token. */
function ask(origins: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("message", hear);
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error("the page around this one gave no token"));
    }, ANSWER_MS);
    const hear = (event: MessageEvent) => {
      // Any page can send messages to this one.
      if (event.source !== window.parent || !origins.includes(event.origin)) return;
      const token = tokenInMessage(event.data);
      if (token === undefined) return;
      end();
      resolve(token);
    };
    window.addEventListener("message", hear);
    // Only the origin that is named receives a message.
    for (const origin of origins) window.parent.postMessage({ type: "tidings.token-request" }, origin);
  });
}
