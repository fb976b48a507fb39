import { signal } from "@preact/signals";
import type { Me } from "@tidings/client";

/** The phase of the page. */
export type Phase =
  | { readonly is: "starting" }
  /** Another tab of this browser is active. */
  | { readonly is: "elsewhere" }
  /** The user is not signed in; `why` explains a sign-out to a user who was signed in until now. */
  | { readonly is: "signedOut"; readonly why?: string }
  /** The user is not known on this device, and the server cannot be reached. */
  | { readonly is: "unreachable" }
  /** The browser's storage does not work, so not even the signed-in user is known. */
  | { readonly is: "forgetful" }
  /** A new user has to choose a name. */
  | { readonly is: "naming" }
  | { readonly is: "ready" };

/** The current phase. */
export const phase = signal<Phase>({ is: "starting" });

/** The signed-in user. */
export const me = signal<Me | undefined>(undefined);

/** The state of the connection to the server. */
export const connection = signal<"connecting" | "online" | "offline">("connecting");
