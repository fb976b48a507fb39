import { signal } from "@preact/signals";

import { inWords } from "../store/failures.js";
import { nameOf } from "./names.js";

/** A message that belongs to no other part of the page. */
export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isFailure: boolean;
  /** The way out, if there is one. */
  readonly action?: ToastAction;
}

/** An action that a toast offers. */
export interface ToastAction {
  readonly label: string;
  readonly act: () => void;
}

const NOTICE_SHOWN_MS = 6000;
/** Failures are longer than notices, and ask for a decision. */
const FAILURE_SHOWN_MS = 15_000;
let nextId = 0;

/** The visible toasts, oldest first. */
export const toasts = signal<readonly Toast[]>([]);

/** Shows a toast for a few seconds. */
export function tell(text: string, isFailure = false, action?: ToastAction): void {
  const id = nextId++;
  toasts.value = [...toasts.value.slice(-2), { id, text, isFailure, ...(action ? { action } : {}) }];
  setTimeout(() => dismiss(id), isFailure ? FAILURE_SHOWN_MS : NOTICE_SHOWN_MS);
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
    tell(inWords(failure, nameOf), true);
    return false;
  }
}
