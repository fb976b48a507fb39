import { signal } from "@preact/signals";

import { inWords } from "../sdk.js";

/** A message that belongs to no other part of the page. */
export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isFailure: boolean;
}

const SHOWN_MS = 6000;
let nextId = 0;

/** The visible toasts, oldest first. */
export const toasts = signal<readonly Toast[]>([]);

/** Shows a toast for a few seconds. */
export function tell(text: string, isFailure = false): void {
  const id = nextId++;
  toasts.value = [...toasts.value.slice(-2), { id, text, isFailure }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Removes a toast. */
export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Runs an action, and shows a toast if it fails. Resolves to whether it succeeded. */
export async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (failure) {
    tell(inWords(failure), true);
    return false;
  }
}
