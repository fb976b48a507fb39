const PREFIX = "tidings.draft.";

/** The drafts by chat. Stored with every keystroke, so that none is lost. */
export const drafts = {
  read(chatId: string): string {
    return localStorage.getItem(PREFIX + chatId) ?? "";
  },

  write(chatId: string, text: string): void {
    if (text === "") localStorage.removeItem(PREFIX + chatId);
    else localStorage.setItem(PREFIX + chatId, text);
  },

  clear(): void {
    Object.keys(localStorage)
      .filter((key) => key.startsWith(PREFIX))
      .forEach((key) => localStorage.removeItem(key));
  },
};
