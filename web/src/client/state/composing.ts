import { signal } from "@preact/signals";

import { drafts, openEdits, type OpenEdit } from "../local/drafts.js";
import { tell } from "./toasts.js";

/** The drafts that this page has changed, by chat id. */
const texts = signal<ReadonlyMap<string, string>>(new Map());

/** The edits that this page has opened, changed or closed, by chat id. */
const edits = signal<ReadonlyMap<string, OpenEdit | undefined>>(new Map());

/** The draft of a chat. */
export function draftOf(chatId: string): string {
  return texts.value.get(chatId) ?? drafts.read(chatId);
}

/** Changes the draft of a chat. It is stored before this returns. */
export function writeDraft(chatId: string, text: string): void {
  drafts.write(chatId, text);
  texts.value = new Map(texts.peek()).set(chatId, text);
}

/** Adds the text of a refused edit to the draft, so that it is not lost. */
export function appendToDraft(chatId: string, text: string): void {
  writeDraft(chatId, [draftOf(chatId), text].filter(Boolean).join("\n"));
}

/** The open edit of a chat, if there is one. The draft waits until it is over. */
export function editOf(chatId: string): OpenEdit | undefined {
  return edits.value.has(chatId) ? edits.value.get(chatId) : openEdits.read(chatId);
}

/** Opens or changes the edit of a chat, or ends it. It is stored before this returns. */
export function writeEdit(chatId: string, edit: OpenEdit | undefined): void {
  openEdits.write(chatId, edit);
  edits.value = new Map(edits.peek()).set(chatId, edit);
}

/** Ends the edit of a chat if its message is removed: the text of a deleted message does not stay on this device. */
export function endEditOf(chatId: string, removed: readonly number[]): void {
  const edit = openEdits.read(chatId);
  if (!edit || !removed.includes(edit.sequence)) return;
  writeEdit(chatId, undefined);
  tell("The message that you were editing was deleted or has expired.");
}

/** Forgets all drafts and edits. */
export function forgetComposing(): void {
  drafts.clear();
  openEdits.clear();
  texts.value = new Map();
  edits.value = new Map();
}
