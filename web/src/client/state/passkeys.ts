import { ApiError, supportsPasskeys } from "@tidings/client";
import { signal } from "@preact/signals";

import { client } from "../sdk.js";
import { inWords } from "../store/failures.js";

/** Passkeys are bound to a name; browsers refuse them on pages of an address. */
const IP_ADDRESS = /^\d+\.\d+\.\d+\.\d+$|^\[/;

/** Whether the server and this browser can use passkeys on this page; `undefined` before the server has answered. */
export const arePasskeysOffered = signal<boolean | undefined>(undefined);

/** Asks the server once whether it offers passkeys. Without an answer the page offers none. */
export async function askForPasskeys(): Promise<void> {
  if (arePasskeysOffered.peek() !== undefined) return;
  if (!supportsPasskeys() || IP_ADDRESS.test(location.hostname)) {
    arePasskeysOffered.value = false;
    return;
  }
  try {
    arePasskeysOffered.value = (await client.api.service()).passkeys;
  } catch {
    // The next visit asks again.
  }
}

/** A failure of a passkey as a text for users. */
export function passkeyInWords(failure: unknown): string {
  if (failure instanceof DOMException) {
    return failure.name === "InvalidStateError"
      ? "There is a passkey of yours on this device already."
      : "No passkey was used. Please try again.";
  }
  if (failure instanceof ApiError && failure.code === "UNAUTHORIZED") {
    return "This passkey is not known here. Sign in with your phone number.";
  }
  return inWords(failure);
}
