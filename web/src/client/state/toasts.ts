import { signal } from "@preact/signals";

import { inWords } from "../sdk.js";

/** Something to tell that belongs to no place on the page. */
export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isFailure: boolean;
}

const SHOWN_MS = 6000;
let nextId = 0;

/** What is told now, oldest first. */
export const toasts = signal<readonly Toast[]>([]);

/** Tells something for a few seconds. */
export function tell(text: string, isFailure = false): void {
  const id = nextId++;
  toasts.value = [...toasts.value.slice(-2), { id, text, isFailure }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Takes it away. */
export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Does something, and tells if it fails. Resolves to whether it was done. */
export async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (failure) {
    tell(inWords(failure), true);
    return false;
  }
}
