import { signal } from "@preact/signals";
import type { Me } from "@tidings/client";

/** What the page is for at this moment. */
export type Phase =
  | { readonly is: "starting" }
  /** Another tab of this browser acts. */
  | { readonly is: "elsewhere" }
  /** Nobody is signed in; `why` is for somebody who was until now. */
  | { readonly is: "signedOut"; readonly why?: string }
  /** Nothing is known of the user here, and the server cannot be asked. */
  | { readonly is: "unreachable" }
  /** The browser keeps nothing for this page, not even who is signed in. */
  | { readonly is: "forgetful" }
  /** A user who is new and has to say how they are called. */
  | { readonly is: "naming" }
  | { readonly is: "ready" };

/** What the page is for. */
export const phase = signal<Phase>({ is: "starting" });

/** The user who is signed in. */
export const me = signal<Me | undefined>(undefined);

/** How it stands with the server. */
export const connection = signal<"connecting" | "online" | "offline">("connecting");
