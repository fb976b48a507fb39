import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { drafts, openEdits } from "../src/client/local/drafts.js";
import { journal, updateJournal } from "../src/client/local/journal.js";

/** A minimal `localStorage`: its entries are its own properties. */
class Kept {
  getItem(key: string): string | null {
    return Object.getOwnPropertyDescriptor(this, key)?.value ?? null;
  }
  setItem(key: string, value: string): void {
    Object.defineProperty(this, key, { value, configurable: true, enumerable: true });
  }
  removeItem(key: string): void {
    Reflect.deleteProperty(this, key);
  }
}

beforeEach(() => {
  Object.defineProperty(globalThis, "localStorage", { value: new Kept(), configurable: true });
});

const entry = (clientMessageId: string, queuedAt: number) =>
  ({ clientMessageId, chatId: "chat_1", content: "hello", queuedAt, state: "queued" }) as const;

test("a draft is there until it is emptied, each chat with its own", () => {
  drafts.write("chat_1", "hel");
  drafts.write("chat_2", "other");
  assert.deepEqual([drafts.read("chat_1"), drafts.read("chat_2"), drafts.read("chat_3")], ["hel", "other", ""]);
  drafts.write("chat_1", "");
  assert.equal(drafts.read("chat_1"), "");
  drafts.clear();
  assert.equal(drafts.read("chat_2"), "");
});

test("sends are written down at once, and come back oldest first", () => {
  journal.write(entry("b", 2));
  journal.write(entry("a", 1));
  assert.deepEqual(journal.entries(), [entry("a", 1), entry("b", 2)]);
  journal.remove("a");
  assert.deepEqual(journal.entries(), [entry("b", 2)]);
});

test("an edit is there until it ends, apart from the draft of its chat", () => {
  drafts.write("chat_1", "hel");
  openEdits.write("chat_1", { sequence: 3, text: "" });
  assert.deepEqual(openEdits.read("chat_1"), { sequence: 3, text: "" });
  assert.equal(openEdits.read("chat_2"), undefined);
  openEdits.write("chat_1", undefined);
  assert.equal(openEdits.read("chat_1"), undefined);
  openEdits.write("chat_1", { sequence: 3, text: "better" });
  openEdits.clear();
  assert.deepEqual([openEdits.read("chat_1"), drafts.read("chat_1")], [undefined, "hel"]);
});

test("updates are written down apart from sends", () => {
  const edit = {
    action: "edit",
    content: "better",
    clientMessageId: "u",
    chatId: "chat_1",
    sequence: 3,
    queuedAt: 2,
  } as const;
  updateJournal.write(edit);
  journal.write(entry("a", 1));
  assert.deepEqual(updateJournal.entries(), [edit]);
  updateJournal.clear();
  assert.deepEqual([updateJournal.entries(), journal.entries()], [[], [entry("a", 1)]]);
});

test("forgetting sends leaves drafts alone, and the other way round", () => {
  drafts.write("chat_1", "hel");
  journal.write(entry("a", 1));
  journal.clear();
  assert.equal(drafts.read("chat_1"), "hel");
  journal.write(entry("a", 1));
  drafts.clear();
  assert.equal(journal.entries().length, 1);
});
