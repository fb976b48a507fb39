import type { ChatSummary, Me, MessageWithStatus } from "@tidings/client";

import type { Intervals } from "../store/intervals.js";
import { EMPTY, type Timeline } from "../store/timeline.js";

/** Most cached messages of one chat; older ones are only on the server. */
const MESSAGES_PER_CHAT_MAX = 500;
const VERSION = 1;

let opening: Promise<IDBDatabase> | undefined;

/** A cache of the page's state, so that it opens at once, and offline too. */
export const cache = {
  /** The signed-in user. */
  me: () => read<Me | undefined>("self", (store) => store.get("me")),
  keepMe: (me: Me) => change(["self"], (store) => void store("self").put(me, "me")),

  chats: () => read<ChatSummary[]>("chats", (store) => store.getAll()),
  keepChats: (chats: readonly ChatSummary[]) =>
    change(["chats"], (store) => chats.forEach((chat) => store("chats").put(chat))),

  /** The cached timeline of a chat. */
  async timeline(chatId: string): Promise<Timeline> {
    const covered = await read<Intervals | undefined>("covered", (store) => store.get(chatId));
    if (!covered) return EMPTY;
    const messages = await read<MessageWithStatus[]>("messages", (store) => store.getAll(inChat(chatId)));
    return { ...EMPTY, messages, covered };
  },

  /** Stores messages, deletes those of the removed sequences, and stores the covered intervals, in one transaction. */
  keepMessages: (
    chatId: string,
    messages: readonly MessageWithStatus[],
    removed: readonly number[],
    covered: Intervals,
  ) =>
    change(["messages", "covered"], (store) => {
      messages.forEach((message) => store("messages").put(message));
      removed.forEach((sequence) => store("messages").delete([chatId, sequence]));
      store("covered").put(covered, chatId);
    }),
  removeMessages: (chatId: string, sequences: readonly number[]) =>
    change(["messages"], (store) => sequences.forEach((sequence) => store("messages").delete([chatId, sequence]))),

  /** Removes the oldest messages of a chat, if there are too many. */
  async trim(chatId: string): Promise<void> {
    const { messages, covered } = await cache.timeline(chatId);
    const first = messages.at(-MESSAGES_PER_CHAT_MAX);
    if (!first || messages.length <= MESSAGES_PER_CHAT_MAX) return;
    const kept = covered
      .filter((interval) => interval.to >= first.sequence)
      .map((interval) => ({ ...interval, from: Math.max(interval.from, first.sequence) }));
    await change(["messages", "covered"], (store) => {
      store("messages").delete(IDBKeyRange.bound([chatId, 0], [chatId, first.sequence], false, true));
      store("covered").put(kept, chatId);
    });
  },

  forgetChat: (chatId: string) =>
    change(["chats", "messages", "covered"], (store) => {
      store("chats").delete(chatId);
      store("messages").delete(inChat(chatId));
      store("covered").delete(chatId);
    }),
  forgetMessages: (chatId: string) =>
    change(["messages", "covered"], (store) => {
      store("messages").delete(inChat(chatId));
      store("covered").delete(chatId);
    }),
  clear: () => change(STORES, (store) => STORES.forEach((name) => store(name).clear())),
};

type Store = "self" | "chats" | "messages" | "covered";
const STORES: Store[] = ["self", "chats", "messages", "covered"];

function inChat(chatId: string): IDBKeyRange {
  return IDBKeyRange.bound([chatId, 0], [chatId, Number.MAX_SAFE_INTEGER]);
}

/**
 * Resolves when the change is stored, or dropped for lack of space: the server has everything, so a smaller cache only
 * means that the page opens with less.
 */
async function change(stores: Store[], act: (store: (name: Store) => IDBObjectStore) => void): Promise<void> {
  const transaction = (await database()).transaction(stores, "readwrite");
  act((name) => transaction.objectStore(name));
  await new Promise<void>((resolve) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => resolve();
  });
}

async function read<T>(name: Store, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const request = ask((await database()).transaction(name).objectStore(name));
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function database(): Promise<IDBDatabase> {
  opening ??= open();
  return opening;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("tidings-page", VERSION);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("self");
      request.result.createObjectStore("chats", { keyPath: "chat_id" });
      request.result.createObjectStore("messages", { keyPath: ["chat_id", "sequence"] });
      request.result.createObjectStore("covered");
    };
    request.onsuccess = () => {
      const database = request.result;
      // Another tab upgrades or deletes the database and must not wait for this page, which reopens it when needed.
      database.onversionchange = () => {
        database.close();
        opening = undefined;
      };
      database.onclose = () => (opening = undefined);
      resolve(database);
    };
    request.onerror = () => {
      // The next call retries: a database may be unavailable only briefly.
      opening = undefined;
      reject(request.error);
    };
  });
}
