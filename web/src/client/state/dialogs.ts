import { signal } from "@preact/signals";

/** The open dialogs, topmost last. Everything outside of the topmost one is inert. */
export const dialogs = signal<readonly symbol[]>([]);

/** Adds a dialog on top; the returned function removes it. */
export function noteDialog(): { readonly id: symbol; readonly close: () => void } {
  const id = Symbol("dialog");
  dialogs.value = [...dialogs.peek(), id];
  return { id, close: () => (dialogs.value = dialogs.peek().filter((one) => one !== id)) };
}
