import type { Note } from "../store/notes.js";

const PREFIX = "tidings.notes.";

/** The changes of chats that this device has seen. The server has no history of changes. */
export const noteStorage = {
  read(chatId: string): readonly Note[] {
    return JSON.parse(localStorage.getItem(PREFIX + chatId) ?? "[]") as Note[];
  },

  /** Stores the notes of a chat. Without space they last until the page is closed. */
  write(chatId: string, notes: readonly Note[]): void {
    try {
      localStorage.setItem(PREFIX + chatId, JSON.stringify(notes));
    } catch {
      localStorage.removeItem(PREFIX + chatId);
    }
  },

  remove(chatId: string): void {
    localStorage.removeItem(PREFIX + chatId);
  },

  clear(): void {
    Object.keys(localStorage)
      .filter((key) => key.startsWith(PREFIX))
      .forEach((key) => localStorage.removeItem(key));
  },
};
