/** An edit in the composer. */
export interface OpenEdit {
  /** The sequence of the edited message. */
  readonly sequence: number;
  readonly text: string;
}

/** The drafts by chat. Stored with every keystroke, so that none is lost. */
export const drafts = textsOf("tidings.draft.");

const editTexts = textsOf("tidings.edit.");

/** The open edits by chat, stored like drafts. */
export const openEdits = {
  read(chatId: string): OpenEdit | undefined {
    const kept = editTexts.read(chatId);
    return kept === "" ? undefined : (JSON.parse(kept) as OpenEdit);
  },

  write(chatId: string, edit: OpenEdit | undefined): void {
    editTexts.write(chatId, edit ? JSON.stringify(edit) : "");
  },

  clear: editTexts.clear,
};

function textsOf(prefix: string) {
  return {
    read(chatId: string): string {
      return localStorage.getItem(prefix + chatId) ?? "";
    },

    write(chatId: string, text: string): void {
      if (text === "") localStorage.removeItem(prefix + chatId);
      else localStorage.setItem(prefix + chatId, text);
    },

    clear(): void {
      Object.keys(localStorage)
        .filter((key) => key.startsWith(prefix))
        .forEach((key) => localStorage.removeItem(key));
    },
  };
}
